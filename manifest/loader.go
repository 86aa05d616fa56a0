package manifest

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/celgate/celgate/policy"
)

// NoDocument is the message of a Problem with a file that does not contain a document.
const NoDocument = "the file does not contain a document"

// A Loader reads manifests. The zero value is ready for use.
type Loader struct {
	Stdin io.Reader // the input for the path "-"; nil: os.Stdin
	FS    fs.FS     // the file system of paths; nil: the system's

	// MaxInput is the number of bytes that one call reads in all; 0: 256 MiB. Longer input is a problem, and is not
	// read further.
	MaxInput int64
}

const maxInput = 256 << 20

// A bounded reader ends with an error when the limit is reached.
type bounded struct {
	io.Reader
	left *int64
}

var errTooMuch = errors.New("the input is longer than may be read at once")

func (b bounded) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		if n, err := b.Reader.Read(p[:min(len(p), 1)]); n == 0 {
			return 0, err
		}
		return 0, errTooMuch
	}
	n, err := b.Reader.Read(p[:min(int64(len(p)), *b.left)])
	*b.left -= int64(n)
	return n, err
}

// Load reads all documents of files, directories and, for "-", standard input, in the order of Documents. The
// problems are in the order of the input too.
func (l Loader) Load(paths ...string) ([]*Document, []Problem) { return collect(l.Documents(paths...)) }

// Load reads files, directories and, for "-", standard input. It is Loader{}.Load.
func Load(paths ...string) ([]*Document, []Problem) { return Loader{}.Load(paths...) }

// Read reads all documents of r. The name of the file is used in positions only.
func Read(r io.Reader, file string) ([]*Document, []Problem) { return collect(Documents(r, file)) }

func collect(sequence iter.Seq2[*Document, *Problem]) (documents []*Document, problems []Problem) {
	for d, p := range sequence {
		if d != nil {
			documents = append(documents, d)
		} else {
			problems = append(problems, *p)
		}
	}
	return documents, problems
}

// Documents yields the documents and problems of r one by one, in the order of the text; exactly one of the two is
// not nil. Decoding runs a few batches ahead on all cores; r is only read from while the sequence is iterated over.
func Documents(r io.Reader, file string) iter.Seq2[*Document, *Problem] {
	return func(yield func(*Document, *Problem) bool) {
		p := pipeline{yield: yield}
		p.read(r, file, true)
		p.end()
	}
}

// Documents yields the documents and problems of files, directories and, for "-", standard input. Paths come in the
// order given, directories recursively in lexical order: files with the extensions .yaml, .yml and .json, without
// hidden ones (".name") and without directories behind symbolic links.
func (l Loader) Documents(paths ...string) iter.Seq2[*Document, *Problem] {
	return func(yield func(*Document, *Problem) bool) {
		left := cmp.Or(l.MaxInput, maxInput)
		p := pipeline{yield: yield, left: &left, files: l.FS}
		if p.files == nil {
			p.files = systemFiles{}
		}
		for _, path := range paths {
			if p.stopped {
				return
			}
			if path == "-" {
				in := l.Stdin
				if in == nil {
					in = os.Stdin
				}
				p.read(bounded{in, &left}, "stdin", true)
				continue
			}
			if info, err := fs.Stat(p.files, path); err == nil && info.IsDir() {
				p.directory(path)
			} else {
				p.file(path, true)
			}
		}
		p.end()
	}
}

// A pipeline decodes batches of chunks in the background and yields their results in order.
type pipeline struct {
	yield   func(*Document, *Problem) bool
	batches []*batch // decoding, oldest first
	seen    int      // documents and problems of the current file so far
	stopped bool     // the consumer has stopped
	left    *int64   // bytes that may still be read of files
	files   fs.FS
}

// systemFiles are the files of the operating system, by its own paths.
type systemFiles struct{}

func (systemFiles) Open(path string) (fs.File, error)     { return os.Open(path) }
func (systemFiles) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// A batch is a part of one file.
type batch struct {
	file   string
	named  bool
	last   bool // of the file
	chunks []chunk
	done   chan struct{}
	values int
	out    []result
}

func (b *batch) decode() {
	d := decoder{named: b.named}
	for _, c := range b.chunks {
		d.chunk(c)
	}
	b.out, b.values, b.chunks = d.out, d.values, nil
	close(b.done)
}

// add starts decoding a batch, after waiting for the oldest one if enough are in progress.
func (p *pipeline) add(b *batch) {
	b.done = make(chan struct{})
	go b.decode()
	p.batches = append(p.batches, b)
	for len(p.batches) > 2*runtime.GOMAXPROCS(0) && !p.stopped {
		p.take()
	}
}

// end yields the results of all batches.
func (p *pipeline) end() {
	for len(p.batches) > 0 && !p.stopped {
		p.take()
	}
}

// take yields the results of the oldest batch.
func (p *pipeline) take() {
	b := p.batches[0]
	p.batches = p.batches[1:]
	<-b.done
	p.seen += len(b.out) + b.values
	if b.last {
		if p.seen == 0 {
			b.out = append(b.out, result{problem: &Problem{
				Position: policy.Position{File: b.file},
				Message:  NoDocument,
				Warning:  !b.named,
			}})
		}
		p.seen = 0
	}
	for _, r := range b.out {
		if !p.yield(r.document, r.problem) {
			p.stopped = true
			return
		}
	}
}

// read splits r into batches.
func (p *pipeline) read(r io.Reader, file string, named bool) {
	s := splitter{file: file, r: r}
	b, size := &batch{file: file, named: named}, 0
	for !p.stopped {
		c, ok := s.next()
		if !ok {
			break
		}
		b.chunks = append(b.chunks, c)
		if size += len(c.text); size >= batchSize {
			p.add(b)
			b, size = &batch{file: file, named: named}, 0
		}
	}
	b.last = true
	p.add(b)
}

// file reads one file.
func (p *pipeline) file(path string, named bool) {
	if message := p.unfitReason(path, named); message != "" {
		p.problem(path, message)
		return
	}
	f, err := p.files.Open(path)
	if err != nil {
		p.problem(path, reason(err))
		return
	}
	defer func() { _ = f.Close() }()
	p.read(bounded{f, p.left}, path, named)
}

// unfitReason returns the reason why a path is not read as a file. A pipe without a writer would block, and a device
// may not end; but a pipe that the user names, as with <(command) in a shell, is intended.
func (p *pipeline) unfitReason(path string, named bool) string {
	info, err := fs.Stat(p.files, path)
	if err != nil {
		return "" // opening it gives the error
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return ""
	case mode&fs.ModeNamedPipe != 0 && named:
		return ""
	case mode&fs.ModeNamedPipe != 0:
		return "this is a pipe, not a file: it is read only if it is named itself"
	case mode&fs.ModeDevice != 0 && named && (path == "/dev/stdin" || strings.HasPrefix(path, "/dev/fd/") ||
		path == os.DevNull):
		return ""
	}
	return "this is not a file"
}

// problem adds a problem with a file or directory as a whole.
func (p *pipeline) problem(path, message string) {
	trouble := &Problem{Position: policy.Position{File: path}, Message: message}
	p.add(&batch{file: path, last: true, chunks: []chunk{{problem: trouble}}})
}

// directory reads the manifests below root.
func (p *pipeline) directory(root string) {
	found := false
	walk := func(root string, do fs.WalkDirFunc) error { return fs.WalkDir(p.files, root, do) }
	if _, system := p.files.(systemFiles); system {
		walk = filepath.WalkDir
	}
	err := walk(root, func(path string, entry fs.DirEntry, err error) error {
		switch hidden := path != root && strings.HasPrefix(entry.Name(), "."); {
		case p.stopped:
			return fs.SkipAll
		case err != nil:
			p.problem(path, reason(err))
			return nil
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case entry.IsDir() || hidden:
			return nil
		}
		switch strings.ToLower(filepath.Ext(path)) {
		case ".yaml", ".yml", ".json":
		default:
			return nil
		}
		if info, err := fs.Stat(p.files, path); err == nil && info.IsDir() {
			return nil // behind a symbolic link
		}
		found = true
		p.file(path, false)
		return nil
	})
	if err != nil {
		p.problem(root, reason(err))
	} else if !found && !p.stopped {
		p.problem(root, "the directory does not contain *.yaml, *.yml or *.json files")
	}
}

// reason returns the text of an error without the path, which is part of the position.
func reason(err error) string {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}
