package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/static"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

const (
	fileTime    = 2 * time.Second        // a file that is not read by then is left to itself
	writingTime = 100 * time.Millisecond // files that are the same after it are taken to be written
	longestFile = 64 << 20
)

// A directory holds policies in files, and maybe objects beside them. Looking at it takes a bounded time whatever its
// files do: a file that cannot be read counts as it last was.
type directory struct {
	path              string
	allowEmpty        bool
	allowSecretParams bool
	alone             bool // nothing but the directory has policies and bindings
	static            bool // its policies are static ones of a server of the newest minor

	listing *pending[[]string]
	reading map[string]*pending[content]
	known   map[string]content // by path
	last    [sha256.Size]byte  // of what was read last
	unread  error              // files that count as they last were
}

// A content is what a file held at one time.
type content struct {
	text []byte
	info fs.FileInfo
}

// A folder is what a directory held at one time.
type folder struct {
	set     policy.Set
	docs    []*manifest.Document
	objects []*manifest.Document // everything else
	files   map[string]content
}

// A pending is something that is being done and may never be.
type pending[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func begin[T any](do func() (T, error)) *pending[T] {
	p := &pending[T]{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.value, p.err = do()
	}()
	return p
}

// wait waits until it is done or the context has ended, and says which.
func (p *pending[T]) wait(ctx context.Context) bool {
	select {
	case <-p.done:
		return true
	default:
	}
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// hasChanged reports whether the content of the files differs from what was read last and has been stable for a moment.
// Times and sizes say nothing: they can stay the same when content changes.
func (d *directory) hasChanged() bool {
	now := d.look()
	if now == d.last {
		return false
	}
	time.Sleep(writingTime)
	return d.look() == now
}

// look reads all files and returns a digest of what they hold, or of why that is not known.
func (d *directory) look() [sha256.Size]byte {
	ctx, cancel := context.WithTimeout(context.Background(), fileTime)
	defer cancel()
	d.unread = nil
	if d.listing == nil {
		list := manifests
		if d.static {
			list = static.Files
		}
		d.listing = begin(func() ([]string, error) { return list(d.path) })
	}
	if !d.listing.wait(ctx) {
		d.unread = fmt.Errorf("%s: cannot be listed within %s", d.path, fileTime)
		return d.last // its files count as they are
	}
	paths, err := d.listing.value, d.listing.err
	d.listing = nil
	if err != nil {
		d.known = nil
		d.unread = err
		return sha256.Sum256([]byte(err.Error()))
	}
	if d.reading == nil {
		d.reading = map[string]*pending[content]{}
	}
	waiting := map[string]bool{} // since an earlier look: nobody waits for those again
	for _, path := range paths {
		if waiting[path] = d.reading[path] != nil; !waiting[path] {
			d.reading[path] = begin(func() (content, error) { return readFile(path) })
		}
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	next := map[string]content{}
	var errs []error
	for _, path := range paths {
		until := ctx
		if waiting[path] {
			until = ended
		}
		err := fmt.Errorf("%s: cannot be read within %s", path, fileTime)
		if p := d.reading[path]; p.wait(until) {
			delete(d.reading, path)
			if err = p.err; err == nil {
				next[path] = p.value
				continue
			}
		}
		errs = append(errs, err)
		if before, ok := d.known[path]; ok {
			next[path] = before
		}
	}
	d.known, d.unread = next, errors.Join(errs...)
	hash := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(next)) {
		fmt.Fprintf(hash, "%s %d\n", path, len(next[path].text))
		hash.Write(next[path].text)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// manifests returns the files that manifest.Loader would read.
func manifests(root string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		switch strings.ToLower(filepath.Ext(path)) {
		case ".yaml", ".yml", ".json":
			if info, err := os.Stat(path); err != nil || !info.IsDir() { // not a directory behind a link
				paths = append(paths, path)
			}
		}
		return nil
	})
	return paths, err
}

// readFile reads a regular file. Nothing else is opened in a way that could wait.
func readFile(path string) (content, error) {
	info, err := os.Stat(path)
	if err != nil {
		return content{}, err
	}
	if !info.Mode().IsRegular() {
		return content{}, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return content{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, longestFile+1))
	if err == nil && len(text) > longestFile {
		err = fmt.Errorf("%s: longer than %d bytes", path, longestFile)
	}
	return content{text, info}, err
}

// read reads all files. An error names every document that cannot be used: half of a directory is not a set of
// policies.
func (d *directory) read() (*folder, error) {
	d.last = d.look() // also of what cannot be used: it is said once
	if d.known == nil {
		return nil, d.unread
	}
	if len(d.known) == 0 && d.unread == nil && !d.allowEmpty {
		return nil, fmt.Errorf("%s: no .yaml, .yml or .json file in this directory", d.path)
	}
	var errs []error
	var all []*manifest.Document
	var files []static.File
	f := &folder{files: d.known}
	for _, path := range slices.Sorted(maps.Keys(d.known)) {
		file := static.Parse(path, d.known[path].text)
		for _, p := range file.Problems {
			if !p.Warning && !(d.allowEmpty && p.Message == manifest.NoDocument) {
				errs = append(errs, &p)
			}
		}
		files = append(files, file)
		all = append(all, file.Documents...)
	}
	f.docs = all
	if d.static {
		set, _, err := static.Read(celgate.Newest, "", files)
		if err != nil {
			return nil, err
		}
		f.set = *set
		return f, nil
	}
	bundle := manifest.NewBundle(all...)
	errs = append(errs, bundle.Err())
	f.set, f.objects = bundle.Set, slices.Concat(bundle.Objects, bundle.Reviews, bundle.Suites)
	for _, p := range f.set.Policies {
		if !d.allowSecretParams && webhook.SecretParams(p.ParamKind) {
			errs = append(errs, fmt.Errorf("%s: %s %s: %s", p.Position, p.Kind, p.Name, webhook.SecretsRefused))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f, nil
}

// checkLost says what a folder had in files that were written in place since, and that the next one has not: such a
// file may be half written, whatever it begins with, and nothing says when it is whole. Who means it puts a new file in
// its place, or takes the file away.
func (d *directory) checkLost(before, next *folder) error {
	const meant = "its file was written in place and may not be all there: " +
		"put a new file in its place, or say --allow-empty"
	inPlace := func(path string) bool {
		now, still := next.files[path]
		was, known := before.files[path]
		return still && known && os.SameFile(now.info, was.info)
	}
	there := map[string]*manifest.Document{}
	ends := map[string]string{} // the last document of each file
	for _, doc := range next.docs {
		there[identity(doc)] = doc
		ends[doc.Source.File] = identity(doc)
	}
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(before.files)) {
		if inPlace(path) && yaml(path) && bytes.HasSuffix(before.files[path].text, []byte("\n")) &&
			!bytes.HasSuffix(next.files[path].text, []byte("\n")) {
			errs = append(errs, fmt.Errorf("%s: its last line has no end: %s", path, meant))
		}
	}
	for _, was := range before.docs {
		path, id := was.Source.File, identity(was)
		if !inPlace(path) {
			continue
		}
		switch now := there[id]; {
		case now == nil:
			errs = append(errs, fmt.Errorf("%s: %s is gone, but not its file: %s", path, id, meant))
		case ends[path] == id && shrinks(was.Object, now.Object):
			errs = append(errs, fmt.Errorf("%s: %s, at its end, has lost parts: %s", path, id, meant))
		}
	}
	return errors.Join(errs...)
}

func yaml(path string) bool { return strings.ToLower(filepath.Ext(path)) != ".json" }

// identity is what tells documents apart that are there once.
func identity(d *manifest.Document) string {
	metadata := tree.Object(d.Object).Metadata()
	var parts []string
	for _, part := range []any{d.Object["kind"], metadata["namespace"], metadata["name"]} {
		if text, _ := part.(string); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " ")
}

// shrinks reports that a tree has lost members, items, or the end of a text: of a block, which ends anywhere, or of
// what has no quotes.
func shrinks(before, now any) bool {
	switch before := before.(type) {
	case map[string]any:
		now, _ := now.(map[string]any)
		for name, was := range before {
			if is, ok := now[name]; !ok || shrinks(was, is) {
				return true
			}
		}
	case []any:
		now, _ := now.([]any)
		if len(now) < len(before) {
			return true
		}
		for i, was := range before {
			if shrinks(was, now[i]) {
				return true
			}
		}
	case string:
		now, _ := now.(string)
		before = strings.TrimRight(before, "\n")
		now = strings.TrimRight(now, "\n")
		return len(now) < len(before) && strings.HasPrefix(before, now)
	}
	return false
}

// opens says what would be enforced no more if a folder took the place of another one, which is nil at the start,
// though nobody is likely to have meant that: a policy goes with its bindings.
func (d *directory) opens(before, next *folder) error {
	if d.allowEmpty {
		return nil
	}
	const meant = "if that is meant, say --allow-empty"
	if before == nil {
		before = &folder{}
	}
	switch {
	case len(next.set.Policies) == 0 && (d.alone || len(before.set.Policies) > 0):
		return fmt.Errorf("%s: it holds no policies: %s", d.path, meant)
	case len(next.set.Bindings) == 0 && (d.alone || len(before.set.Bindings) > 0):
		return fmt.Errorf("%s: it holds no bindings, so that no policy is in force: %s", d.path, meant)
	}
	errs := []error{d.checkLost(before, next)}
	for _, p := range next.set.Policies {
		ref := p.Ref()
		if before.set.Policy(ref) != nil && before.set.Binds(ref) && !next.set.Binds(ref) {
			errs = append(errs, fmt.Errorf("%s: %s has no binding any more: %s", d.path, ref, meant))
		}
	}
	for _, b := range next.set.Bindings {
		for _, ref := range b.PolicyRefs() {
			if before.set.Policy(ref) != nil && next.set.Policy(ref) == nil {
				errs = append(errs, fmt.Errorf("%s: %s is gone, but not its binding %s: %s", d.path, ref, b.Name, meant))
			}
		}
	}
	return errors.Join(errs...)
}
