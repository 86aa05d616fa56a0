package manifest

import (
	"slices"
	"strings"
	"sync"

	"github.com/celgate/celgate/internal/layout"
	"github.com/celgate/celgate/internal/yamlscan"
	"github.com/celgate/celgate/policy"
)

// A Document is one API object with its position in the text.
type Document struct {
	// Object is the object as a JSON tree: map[string]any, []any, string, int64, float64, bool and nil. It belongs
	// to the caller. Its strings share memory with Source.Text.
	Object map[string]any
	// Source is the text that the object was read from. All items of a List have the same Source.
	Source *Source
	// Item is the path of the object inside its Source, such as "items[3]"; empty if it is the whole of it.
	Item string

	released bool // see Release
}

// A Source is the text of one document of a file.
type Source struct {
	File string
	// Line is the line of the first byte of Text.
	Line int
	// Lead is the text between the previous document and this one: the line of the separator "---", with its comment,
	// and parts of the file that contain only comments. The Leads and Texts in order and the last Tail form the file,
	// without documents that are null or problems.
	Lead string
	// Text is the text as written, without the separators.
	Text string
	// Tail is the text after the last document of a file: separators, and parts that contain only comments.
	Tail string

	json  bool // Text was read as JSON
	ahead int  // length of another value before Text on its first line
	items []position

	parse sync.Once
	tree  *layout.Node

	cut    sync.Once
	starts []int // of the lines of Text
}

// A position is a line and a column relative to a text, from zero.
type position struct{ line, column int }

// Position returns the place of the first byte of the object.
func (d *Document) Position() policy.Position {
	switch {
	case d.Source == nil:
		return policy.Position{}
	case d.Item == "":
		return d.Source.positionAt(max(yamlscan.Content(d.Source.Text), 0))
	}
	if i, ok := itemIndex(d.Item); ok && i < len(d.Source.items) {
		p := d.Source.items[i]
		return d.Source.position(p)
	}
	at, _ := d.Source.places().Find(d.Item)
	return d.Source.positionAt(at)
}

// itemIndex returns n if path is "items[n]".
func itemIndex(path string) (n int, ok bool) {
	digits, ok := strings.CutPrefix(path, "items[")
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, "]")
	n = layout.Index(digits)
	return n, ok && n >= 0
}

// Place returns a locator of the value at a field path in the API server's notation, such as
// spec.validations[0].expression, metadata.labels["a.b/c"] or metadata.labels[a.b/c]. Offsets are those of the decoded
// text if the value is text, number or boolean; other values are placed at their key or at the start of their list
// item. An absent value has the place of its nearest existing parent. Nothing is computed before Locate is called.
func (d *Document) Place(path string) policy.Locator {
	return &locator{source: d.Source, path: joinPath(d.Item, path)}
}

func joinPath(parent, path string) string {
	if parent == "" || path == "" || path[0] == '[' {
		return parent + path
	}
	return parent + "." + path
}

// positionAt returns the place of the byte at offset of s.Text.
func (s *Source) positionAt(offset int) policy.Position {
	s.cut.Do(func() {
		s.starts = append(s.starts, 0)
		for i := range len(s.Text) {
			if s.Text[i] == '\n' {
				s.starts = append(s.starts, i+1)
			}
		}
	})
	offset = min(max(offset, 0), len(s.Text))
	line, exact := slices.BinarySearch(s.starts, offset)
	if !exact {
		line--
	}
	return s.position(position{line, offset - s.starts[line]})
}

func (s *Source) position(p position) policy.Position {
	if p.line == 0 {
		p.column += s.ahead
	}
	return policy.Position{File: s.File, Line: s.Line + p.line, Column: p.column + 1}
}

// place returns the position of the byte at offset of text, whose first line is line of file.
func place(file string, line int, text string, offset int) policy.Position {
	before := text[:min(max(offset, 0), len(text))]
	return policy.Position{
		File:   file,
		Line:   line + strings.Count(before, "\n"),
		Column: len(before) - strings.LastIndexByte(before, '\n'),
	}
}
