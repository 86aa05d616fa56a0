package manifest

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate/internal/yamlscan"
	"github.com/celgate/celgate/policy"
)

// A chunk is the text between two separators of a stream, or a problem with it.
type chunk struct {
	file       string
	line       int  // of the first byte of text
	first      bool // without a separator before it
	lead, text string
	tail       string // of the last one: the text after it
	problem    *Problem
}

// A splitter splits a stream at the lines that start with "---", like kubectl (apimachinery v0.37.2
// pkg/util/yaml/decoder.go: YAMLReader). It keeps two documents in memory.
type splitter struct {
	file string
	r    io.Reader

	buf     []byte // read and not yet split
	scanned int    // separators do not start before this offset of buf
	eof     bool

	line  int  // of buf[0]; 0 before the first read
	cuts  int  // separators so far
	drop  bool // the document in buf is already a problem
	lead  []byte
	ready []chunk
}

// next returns the next chunk that has content, and false at the end.
func (s *splitter) next() (chunk, bool) {
	if s.line == 0 {
		s.line = 1
		s.start()
	}
	for len(s.ready) < 2 && !s.isAtEnd() {
		s.advance()
	}
	if len(s.ready) == 0 {
		return chunk{}, false
	}
	c := s.ready[0]
	if s.ready = s.ready[1:]; len(s.ready) == 0 {
		c.tail = string(s.lead)
	}
	return c, true
}

func (s *splitter) isAtEnd() bool { return s.eof && len(s.buf) == 0 }

// start reads the beginning of the stream, and ends it if that is not text.
func (s *splitter) start() {
	for len(s.buf) < binaryProbe && !s.eof {
		s.fill()
	}
	head := s.buf[:min(len(s.buf), binaryProbe)]
	at := bytes.IndexByte(head, 0)
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")):
		s.problem(policy.Position{Line: 1, Column: 1}, "UTF-16 text; save the file as UTF-8")
	case at >= 0:
		where := place("", 1, string(head[:at]), at)
		s.problem(where, "a NUL byte: this is a binary file, neither YAML nor JSON")
	default:
		return
	}
	s.eof, s.buf = true, nil
}

// problem makes a problem the next chunk.
func (s *splitter) problem(where policy.Position, message string) {
	where.File = s.file
	s.ready = append(s.ready, chunk{problem: &Problem{Position: where, Message: message}})
}

// fill reads more into buf.
func (s *splitter) fill() {
	const most = 64 << 10
	block := most
	if text, ok := s.r.(interface{ Len() int }); ok { // a strings.Reader or the like
		block = min(block, text.Len()+1)
	}
	if cap(s.buf)-len(s.buf) < block {
		larger := make([]byte, len(s.buf), max(2*cap(s.buf), min(4*most, len(s.buf)+block)))
		copy(larger, s.buf)
		s.buf = larger
	}
	for range 100 { // like bufio, for readers that return nothing
		free := s.buf[len(s.buf):cap(s.buf)]
		n, err := s.r.Read(free[:min(len(free), 16*most)])
		s.buf = s.buf[:len(s.buf)+n]
		if err != nil {
			if s.eof = true; err != io.EOF {
				s.problem(policy.Position{}, reason(err))
			}
			return
		}
		if n > 0 {
			return
		}
	}
	s.eof = true
	s.problem(policy.Position{}, reason(io.ErrNoProgress))
}

// advance splits off the next document, or reads more.
func (s *splitter) advance() {
	start, end := s.separator()
	switch {
	case start >= 0:
	case s.eof:
		start, end = len(s.buf), len(s.buf)
	case len(s.buf) > maxDocument:
		s.forget()
		return
	default:
		s.fill()
		return
	}
	if start > maxDocument && !s.drop {
		s.refuse()
	}
	text, line := string(s.buf[:start]), string(s.buf[start:end])
	switch {
	case s.drop:
		s.lead = nil
	case yamlscan.Content(text) < 0:
		s.lead = append(s.lead, text...)
	default:
		s.ready = append(s.ready, chunk{file: s.file, line: s.line, first: s.cuts == 0, lead: string(s.lead),
			text: text})
		s.lead = nil
	}
	s.lead = append(s.lead, line...)
	s.line += strings.Count(text, "\n")
	s.cuts++
	junk := strings.TrimSpace(strings.TrimPrefix(line, "---"))
	if s.drop = junk != "" && junk[0] != '#'; s.drop {
		message := `the separator "---" must stand alone on its line`
		s.problem(policy.Position{Line: s.line, Column: 1}, message)
	}
	s.line += strings.Count(line, "\n")
	s.buf, s.scanned = s.buf[end:], 0
}

// separator returns the extent of the first line of buf that starts with "---"; -1 if it has not been read yet.
func (s *splitter) separator() (start, end int) {
	start = -1
	if s.scanned == 0 && bytes.HasPrefix(s.buf, []byte("---")) {
		start = 0
	} else if i := bytes.Index(s.buf[s.scanned:], []byte("\n---")); i >= 0 {
		start = s.scanned + i + 1
	}
	if start < 0 {
		if len(s.buf) >= 3 {
			s.scanned = max(s.scanned, len(s.buf)-3)
		}
		return -1, -1
	}
	if i := bytes.IndexByte(s.buf[start:], '\n'); i >= 0 {
		return start, start + i + 1
	}
	if s.eof {
		return start, len(s.buf)
	}
	s.scanned = max(start-1, 0)
	return -1, -1
}

// refuse turns the document in buf into a problem because of its size.
func (s *splitter) refuse() {
	s.drop = true
	s.problem(policy.Position{Line: s.line, Column: 1},
		fmt.Sprintf("the document is larger than %d MiB", maxDocument>>20))
}

// forget drops the part read of a document that is too large.
func (s *splitter) forget() {
	if !s.drop {
		s.refuse()
	}
	keep := s.scanned // a separator may begin there
	if keep == 0 {
		keep = len(s.buf) - 1 // an endless separator
	}
	s.line += bytes.Count(s.buf[:keep], []byte("\n"))
	s.buf = append([]byte(nil), s.buf[keep:]...)
	s.scanned = 1 // the kept part does not start on a new line, unless it contains a line break
	if s.buf[0] == '\n' {
		s.scanned = 0
	}
}
