package layout

import (
	"encoding/json"
	"strings"

	"github.com/celgate/celgate/internal/yamlscan"
)

// JSON finds the extents of all values of a JSON text. If the text is not JSON, JSON returns an error, and the root
// contains the values in front of the mistake.
func JSON(text string) (root *Node, err error) {
	w := jsonWalker{text: text}
	root = w.value(0)
	if w.space(); w.failed || w.pos != len(text) {
		err = ErrUnusual
	}
	return root, err
}

type jsonWalker struct {
	text   string
	pos    int
	failed bool
}

func (w *jsonWalker) space() {
	for w.pos < len(w.text) && strings.IndexByte(" \t\r\n", w.text[w.pos]) >= 0 {
		w.pos++
	}
}

// take skips space, and the byte c if it is next.
func (w *jsonWalker) take(c byte) bool {
	w.space()
	if w.pos < len(w.text) && w.text[w.pos] == c {
		w.pos++
		return true
	}
	return false
}

func (w *jsonWalker) value(depth int) *Node {
	w.space()
	v := &Node{Flow: true, From: w.pos, Start: w.pos}
	defer func() { v.End = w.pos }()
	if depth > yamlscan.MaxDepth || w.pos == len(w.text) {
		w.failed = true
		return v
	}
	switch w.text[w.pos] {
	case '{':
		v.Form = Mapping
		w.entries(v, '}', depth)
	case '[':
		v.Form = Sequence
		w.entries(v, ']', depth)
	case '"':
		v.Form = Double
		v.Text = w.string()
	default:
		for w.pos < len(w.text) && strings.IndexByte(",]} \t\r\n", w.text[w.pos]) < 0 {
			w.pos++
		}
		v.Text = w.text[v.Start:w.pos]
		w.failed = w.failed || v.Text == ""
	}
	return v
}

// entries reads a collection, up to its end or the first unexpected byte.
func (w *jsonWalker) entries(v *Node, closing byte, depth int) {
	for w.pos++; !w.take(closing); {
		if len(v.Entries) > 0 && !w.take(',') {
			w.failed = true
			return
		}
		w.space()
		e := &Entry{Start: w.pos, Colon: w.pos, Quote: Double, member: v.Form == Mapping}
		if e.member {
			if w.pos == len(w.text) || w.text[w.pos] != '"' {
				w.failed = true
				return
			}
			e.Name = w.string()
			w.failed = !w.take(':') || w.failed
			e.Colon = w.pos
		}
		e.Value = w.value(depth + 1)
		e.Value.Parent = v
		v.Entries = append(v.Entries, e)
		if w.failed {
			return
		}
	}
}

// string decodes the string at pos.
func (w *jsonWalker) string() (s string) {
	start := w.pos
	for w.pos++; w.pos < len(w.text) && w.text[w.pos] != '"'; w.pos++ {
		if w.text[w.pos] == '\\' {
			w.pos++
		}
	}
	w.pos = min(w.pos+1, len(w.text))
	w.failed = json.Unmarshal([]byte(w.text[start:w.pos]), &s) != nil || w.failed
	return s
}
