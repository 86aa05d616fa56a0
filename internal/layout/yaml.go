package layout

import (
	"slices"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"

	"github.com/celgate/celgate/internal/yamlscan"
)

// YAML finds the extents of all values of a YAML document. With an error, the root contains the values found so far:
// none if the library cannot parse the text, otherwise all values, some of them without an end. Explicit keys ("? key")
// and single pairs in flow sequences are such errors.
func YAML(text string) (root *Node, err error) {
	start := max(yamlscan.Content(text), 0)
	defer func() { // the library panics on its own bugs, and the walk must survive unexpected input
		if r := recover(); r != nil {
			root, err = &Node{From: start, Start: start, End: start}, ErrUnusual
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 {
		return &Node{From: start, Start: start, End: start}, ErrUnusual
	}
	w := walker{text: text, lines: LineStarts(text), known: map[*yaml.Node]*Node{}}
	root = w.node(doc.Content[0], -1, false)
	return root, w.err
}

// A walker reads a text in parallel with the nodes that the library found in it.
type walker struct {
	text  string
	pos   int
	known map[*yaml.Node]*Node
	err   error

	lines []int // offsets of their starts
	last  place // the target of the last search
}

// A place is a position of the library, counted from 1, and its offset. Columns count characters.
type place struct{ line, column, offset int }

func (w *walker) fail() { w.err = ErrUnusual }

// reach moves to the position of a node in the library. The walk should be there already.
func (w *walker) reach(n *yaml.Node) {
	if at := w.offset(n); at != w.pos {
		w.fail()
		w.pos = at
	}
}

// offset returns the offset of a node. Nodes arrive in the order of the text, so the characters of a line are counted
// once.
func (w *walker) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(w.lines) {
		return 0
	}
	if w.last.line != n.Line || w.last.column > n.Column {
		w.last = place{n.Line, 1, w.lines[n.Line-1]}
	}
	for ; w.last.column < n.Column && w.last.offset < len(w.text); w.last.column++ {
		_, size := utf8.DecodeRuneInString(w.text[w.last.offset:])
		w.last.offset += size
	}
	return w.last.offset
}

// column returns the number of bytes in front of pos in its line.
func (w *walker) column() int {
	line, exact := slices.BinarySearch(w.lines, w.pos)
	if !exact {
		line--
	}
	return w.pos - w.lines[line]
}

// blanks skips spaces, line breaks and comments.
func (w *walker) blanks() {
	for w.pos < len(w.text) {
		switch c := w.text[w.pos]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			w.pos++
		case c == '#' && (w.pos == 0 || strings.IndexByte(" \t\n\r", w.text[w.pos-1]) >= 0):
			w.pos = lineEnd(w.text, w.pos)
		default:
			return
		}
	}
}

func (w *walker) peek() byte {
	if w.pos < len(w.text) {
		return w.text[w.pos]
	}
	return 0
}

// expect skips blanks and the byte c.
func (w *walker) expect(c byte) {
	w.blanks()
	if w.peek() != c {
		w.fail()
		return
	}
	w.pos++
}

// node lays out one value. indent is the column of the block collection around it, -1 outside of any.
func (w *walker) node(n *yaml.Node, indent int, flow bool) *Node {
	v := &Node{}
	w.known[n] = v
	if isEmpty(n) && n.Style&yaml.TaggedStyle == 0 && n.Anchor == "" {
		if w.err != nil {
			w.pos = w.offset(n)
		}
		v.From, v.Start, v.End = w.pos, w.pos, w.pos // an empty value
		return v
	}
	w.blanks()
	w.reach(n)
	v.From = w.pos
	w.properties(v, n, flow)
	v.Start, v.End = w.pos, w.pos
	switch n.Kind {
	case yaml.AliasNode:
		w.alias(v, n)
	case yaml.ScalarNode:
		w.scalar(v, n, indent)
	case yaml.MappingNode:
		v.Form = Mapping
		w.mapping(v, n)
	case yaml.SequenceNode:
		v.Form = Sequence
		w.sequence(v, n)
	default:
		w.fail()
	}
	return v
}

// isEmpty reports a scalar with only an anchor and a tag.
func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&^yaml.TaggedStyle == 0
}

// properties skips the anchor and the tag of a value.
func (w *walker) properties(v *Node, n *yaml.Node, flow bool) {
	if n.Kind == yaml.MappingNode && n.Style&(yaml.FlowStyle|yaml.TaggedStyle) == 0 && n.Anchor == "" {
		return // those of its first key, if any
	}
	for w.peek() == '&' || w.peek() == '!' {
		if w.peek() == '&' {
			v.Anchor = true
			w.pos += 1 + len(n.Anchor)
		} else {
			v.Tag = true
			w.tag(flow)
		}
		if isEmpty(n) {
			return // whether more properties follow does not matter: an empty value is replaced whole
		}
		w.blanks()
	}
}

// tag skips a tag.
func (w *walker) tag(flow bool) {
	for w.pos < len(w.text) && strings.IndexByte(" \t\r\n", w.text[w.pos]) < 0 &&
		!(flow && strings.IndexByte(",]}", w.text[w.pos]) >= 0) {
		w.pos++
	}
}

func (w *walker) alias(v *Node, n *yaml.Node) {
	v.Form = Alias
	if v.Target = w.known[n.Alias]; v.Target == nil {
		v.Target = &Node{From: v.From, Start: v.Start, End: v.End}
		w.fail()
	}
	if !strings.HasPrefix(w.text[w.pos:], "*"+n.Value) {
		w.fail()
		return
	}
	w.pos += 1 + len(n.Value)
	v.End = w.pos
}

func (w *walker) mapping(v *Node, n *yaml.Node) {
	w.open(v, n, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		w.comma(v.Flow)
		e := w.key(v, n.Content[i])
		e.Value = w.node(n.Content[i+1], v.Column, v.Flow)
		e.Value.Parent = v
		v.Entries = append(v.Entries, e)
		v.End = max(v.End, e.Value.End)
		if e.Value.End == e.Value.From {
			v.End = max(v.End, e.Colon)
		}
	}
	w.close(v, '}')
}

// key skips a key and its colon.
func (w *walker) key(v *Node, k *yaml.Node) *Entry {
	if k.Kind != yaml.ScalarNode || k.Value == "" || !v.Flow && w.peek() == '?' {
		w.fail()
	}
	w.reach(k)
	if !v.Flow && w.column() != v.Column {
		w.fail()
	}
	e := &Entry{Start: w.pos, member: true}
	e.name(k)
	key := w.node(k, v.Column, v.Flow)
	if key.Anchor || key.Tag || key.Form == Literal || key.Form == Folded {
		w.fail()
	}
	e.Quote = key.Form
	if w.blanks(); !v.Flow || w.peek() != ',' && w.peek() != '}' { // a key alone is a member of a flow mapping
		w.expect(':')
	}
	e.Colon = w.pos
	return e
}

func (w *walker) sequence(v *Node, n *yaml.Node) {
	w.open(v, n, '[')
	for _, item := range n.Content {
		w.comma(v.Flow)
		e := &Entry{Start: w.pos}
		switch {
		case !v.Flow:
			w.expect('-')
		case item.Kind == yaml.MappingNode && w.peek() != '{' && item.Anchor == "" && item.Style&yaml.TaggedStyle == 0:
			w.fail() // a single pair
		}
		e.Colon = w.pos
		e.Value = w.node(item, v.Column, v.Flow)
		e.Value.Parent = v
		v.Entries = append(v.Entries, e)
		v.End = max(v.End, e.Value.End, e.Colon)
	}
	w.close(v, ']')
}

// open enters a collection.
func (w *walker) open(v *Node, n *yaml.Node, bracket byte) {
	if v.Flow = n.Style&yaml.FlowStyle != 0; v.Flow {
		w.expect(bracket)
		return
	}
	v.Column = w.column()
}

// comma moves to the start of the next entry.
func (w *walker) comma(flow bool) {
	w.blanks()
	if flow && w.peek() == ',' {
		w.pos++
		w.blanks()
	}
}

// close skips the end of a flow collection.
func (w *walker) close(v *Node, bracket byte) {
	if !v.Flow {
		return
	}
	w.comma(true)
	w.expect(bracket)
	v.End = w.pos
}
