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
	fileTime    = 2 * time.Second        // the longest wait for one file
	writingTime = 100 * time.Millisecond // files that have not changed for this long are taken to be complete
	longestFile = 64 << 20
)

// A directory holds policies in files, and perhaps other objects. Reading it takes bounded time whatever its files do:
// a file that cannot be read keeps its last content.
type directory struct {
	path              string
	allowEmpty        bool
	allowSecretParams bool
	alone             bool // policies and bindings come from the directory only
	static            bool // they are static policies of a server of the newest minor

	listing *pending[[]string]
	reading map[string]*pending[content]
	known   map[string]content // by path
	last    [sha256.Size]byte  // of the last read
	unread  error              // the files that keep their last content
}

// A content is the content of a file at one time.
type content struct {
	text []byte
	info fs.FileInfo
}

// A folder is the content of a directory at one time.
type folder struct {
	set     policy.Set
	docs    []*manifest.Document
	objects []*manifest.Document // everything else
	files   map[string]content
}

// A pending is a computation that may never end.
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

// wait waits until it is done or the context ends, and reports whether it is done.
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

// hasChanged reports whether the content of the files differs from the last read and has been stable for a moment.
// Times and sizes are not compared: they can stay the same when content changes.
func (d *directory) hasChanged() bool {
	now := d.look()
	if now == d.last {
		return false
	}
	time.Sleep(writingTime)
	return d.look() == now
}

// look reads all files and returns a digest of their contents and errors.
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
		return d.last // its files keep their contents
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
	waiting := map[string]bool{} // still being read since an earlier look: not waited for again
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
			if info, err := os.Stat(path); err != nil || !info.IsDir() { // neither a directory nor a link to one
				paths = append(paths, path)
			}
		}
		return nil
	})
	return paths, err
}

// readFile reads a regular file. Opening anything else could block.
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

// read reads all files. The error names every unusable document: half of a directory is not a set of policies.
func (d *directory) read() (*folder, error) {
	d.last = d.look() // also if it fails: the error is logged once
	if d.known == nil {
		return nil, d.unread
	}
	if len(d.known) == 0 && d.unread == nil && !d.allowEmpty {
		return nil, fmt.Errorf("%s: the directory does not contain a .yaml, .yml or .json file", d.path)
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

// checkLost reports losses in files that were overwritten in place since the last read. Such a file may be half
// written, and nothing tells when it is complete. An author who means the loss replaces the file by a new one, or
// removes it.
func (d *directory) checkLost(before, next *folder) error {
	const meant = "the file was overwritten in place and may be incomplete: " +
		"replace it with a new file, or set --allow-empty"
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
			errs = append(errs, fmt.Errorf("%s: the last line does not end with a newline: %s", path, meant))
		}
	}
	for _, was := range before.docs {
		path, id := was.Source.File, identity(was)
		if !inPlace(path) {
			continue
		}
		switch now := there[id]; {
		case now == nil:
			errs = append(errs, fmt.Errorf("%s: %s is missing, but its file is not: %s", path, id, meant))
		case ends[path] == id && shrinks(was.Object, now.Object):
			errs = append(errs, fmt.Errorf("%s: %s, its last document, has lost fields: %s", path, id, meant))
		}
	}
	return errors.Join(errs...)
}

func yaml(path string) bool { return strings.ToLower(filepath.Ext(path)) != ".json" }

// identity returns the key of a document that may occur only once.
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

// shrinks reports whether a tree has lost members or items, or a text has lost its end: block scalars and plain scalars
// can be cut anywhere.
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

// opens reports enforcement that would end if a folder replaced another one (nil at the start) in a way that is
// probably a mistake, such as a policy that loses its bindings.
func (d *directory) opens(before, next *folder) error {
	if d.allowEmpty {
		return nil
	}
	const meant = "if this is intended, set --allow-empty"
	if before == nil {
		before = &folder{}
	}
	switch {
	case len(next.set.Policies) == 0 && (d.alone || len(before.set.Policies) > 0):
		return fmt.Errorf("%s: the directory does not contain policies: %s", d.path, meant)
	case len(next.set.Bindings) == 0 && (d.alone || len(before.set.Bindings) > 0):
		return fmt.Errorf("%s: the directory does not contain bindings, so its policies have no effect: %s", d.path, meant)
	}
	errs := []error{d.checkLost(before, next)}
	for _, p := range next.set.Policies {
		ref := p.Ref()
		if before.set.Policy(ref) != nil && before.set.Binds(ref) && !next.set.Binds(ref) {
			errs = append(errs, fmt.Errorf("%s: %s no longer has a binding: %s", d.path, ref, meant))
		}
	}
	for _, b := range next.set.Bindings {
		for _, ref := range b.PolicyRefs() {
			if before.set.Policy(ref) != nil && next.set.Policy(ref) == nil {
				errs = append(errs, fmt.Errorf("%s: %s is missing, but its binding %s is not: %s", d.path, ref, b.Name, meant))
			}
		}
	}
	return errors.Join(errs...)
}
