package rewrite

import (
	"encoding/json"
	"strings"
)

// layoutJSON finds the extents of all values of a JSON text.
func layoutJSON(text string) (*node, error) {
	w := jsonWalker{text: text}
	root := w.value(0)
	if w.space(); w.failed || w.pos != len(text) {
		return nil, errLayout
	}
	return root, nil
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

// take goes behind space, and behind the byte c if it is next.
func (w *jsonWalker) take(c byte) bool {
	w.space()
	if w.pos < len(w.text) && w.text[w.pos] == c {
		w.pos++
		return true
	}
	return false
}

func (w *jsonWalker) value(depth int) *node {
	w.space()
	v := &node{flow: true, from: w.pos, start: w.pos}
	defer func() { v.end = w.pos }()
	if w.failed = w.failed || depth > maxDepth || w.pos == len(w.text); w.failed {
		return v
	}
	closing := byte('}')
	switch w.text[w.pos] {
	case '{':
		v.form = mapping
	case '[':
		v.form, closing = sequence, ']'
	case '"':
		v.form = double
		w.string()
		return v
	default:
		v.form = plain
		for w.pos < len(w.text) && strings.IndexByte(",]} \t\r\n", w.text[w.pos]) < 0 {
			w.pos++
		}
		return v
	}
	for w.pos++; !w.failed && !w.take(closing); {
		if len(v.entries) > 0 && !w.take(',') {
			w.failed = true
			break
		}
		w.space()
		e := &entry{start: w.pos, colon: w.pos, quote: double}
		if v.form == mapping {
			e.name = w.string()
			w.failed = w.failed || !w.take(':')
			e.colon = w.pos
		}
		e.value = w.value(depth + 1)
		e.value.parent = v
		v.entries = append(v.entries, e)
	}
	return v
}

// maxDepth is how deep values may be nested; package manifest reads none that are deeper.
const maxDepth = 10_000

func (w *jsonWalker) string() (s string) {
	start := w.pos
	if !w.take('"') {
		w.failed = true
		return ""
	}
	for w.pos < len(w.text) && w.text[w.pos] != '"' {
		if w.text[w.pos] == '\\' {
			w.pos++
		}
		w.pos++
	}
	w.pos = min(w.pos+1, len(w.text))
	w.failed = w.failed || json.Unmarshal([]byte(w.text[start:w.pos]), &s) != nil
	return s
}
