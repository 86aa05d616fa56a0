package rewrite

import (
	"errors"
	"strconv"
	"strings"

	yaml2 "go.yaml.in/yaml/v2"
	yaml "go.yaml.in/yaml/v3"
)

// A form is how a value is written.
type form uint8

const (
	plain form = iota
	single
	double
	block // a literal or folded block
	alias
	mapping
	sequence
)

// A node is a value of a text and its extent.
type node struct {
	form   form
	flow   bool // a collection in brackets
	from   int  // offset of the first byte, anchor and tag included
	start  int  // offset of the first byte of the value itself; of a block collection its first key or dash
	end    int  // offset behind the last byte
	column int  // of a block collection's keys or dashes
	anchor bool
	tag    bool
	target *node // of an alias
	parent *node

	entries []*entry
}

// An entry is a member of a mapping or an item of a sequence.
type entry struct {
	name  string // of a member, as JSON has it
	quote form   // of the key
	start int    // offset of the key, or of the item: its dash in block sequences
	colon int    // offset behind the colon or the dash
	merge bool   // the key is "<<"
	value *node
}

// errLayout says that the text is written in a way that is not edited in place.
var errLayout = errors.New("unusual layout")

// layoutYAML finds the extents of all values of a YAML document. The library says what is written; the text is walked
// beside it. Explicit keys ("? key") and single pairs in flow sequences are refused.
func layoutYAML(text string) (root *node, aliases bool, err error) {
	defer func() { // the library panics on its own bugs, and the walk must survive what it does not foresee
		if r := recover(); r != nil {
			root, err = nil, errLayout
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 {
		return nil, false, errLayout
	}
	w := walker{text: text, known: map[*yaml.Node]*node{}}
	root = w.node(doc.Content[0], -1, false)
	return root, w.aliases, w.err
}

// A walker goes through a text beside the nodes that the library found in it.
type walker struct {
	text    string
	pos     int
	known   map[*yaml.Node]*node
	aliases bool
	err     error
}

func (w *walker) fail() { w.err = errLayout }

// blanks goes behind spaces, line breaks and comments.
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

// lineEnd returns the offset of the line break that ends the line at i, or of the end.
func lineEnd(text string, i int) int {
	n := strings.IndexByte(text[i:], '\n')
	if n < 0 {
		return len(text)
	}
	if i+n > i && text[i+n-1] == '\r' {
		n--
	}
	return i + n
}

// lineStart returns the offset of the first byte of the line at i.
func lineStart(text string, i int) int { return strings.LastIndexByte(text[:i], '\n') + 1 }

func (w *walker) peek() byte {
	if w.pos < len(w.text) {
		return w.text[w.pos]
	}
	return 0
}

// expect goes behind blanks and the byte c.
func (w *walker) expect(c byte) {
	w.blanks()
	if w.peek() != c {
		w.fail()
		return
	}
	w.pos++
}

// node lays out one value. indent is the column of the block collection around it, -1 outside of any.
func (w *walker) node(n *yaml.Node, indent int, flow bool) *node {
	v := &node{}
	w.known[n] = v
	tagged := n.Style&yaml.TaggedStyle != 0
	if n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&^yaml.TaggedStyle == 0 && !tagged && n.Anchor == "" {
		v.from, v.start, v.end = w.pos, w.pos, w.pos // nothing is written
		return v
	}
	w.blanks()
	v.from, v.start, v.end = w.pos, w.pos, w.pos
	for w.err == nil && (w.peek() == '&' || w.peek() == '!') {
		if w.peek() == '&' {
			v.anchor = true
		} else {
			v.tag = true
		}
		for w.pos < len(w.text) && strings.IndexByte(" \t\r\n", w.text[w.pos]) < 0 &&
			!(flow && strings.IndexByte(",]}", w.text[w.pos]) >= 0) {
			w.pos++
		}
		v.start, v.end = w.pos, w.pos
		if n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&^yaml.TaggedStyle == 0 {
			continue // whether more properties follow does not matter: an empty value is replaced whole
		}
		w.blanks()
		v.start, v.end = w.pos, w.pos
	}
	if w.err != nil {
		return v
	}
	switch n.Kind {
	case yaml.AliasNode:
		w.aliases = true
		v.form = alias
		if v.target = w.known[n.Alias]; v.target == nil || !strings.HasPrefix(w.text[w.pos:], "*"+n.Value) {
			w.fail()
			return v
		}
		w.pos += 1 + len(n.Value)
		v.end = w.pos
	case yaml.ScalarNode:
		w.scalar(v, n, indent)
	case yaml.MappingNode:
		v.form = mapping
		w.mapping(v, n, flow)
	case yaml.SequenceNode:
		v.form = sequence
		w.sequence(v, n, flow)
	default:
		w.fail()
	}
	return v
}

func (w *walker) mapping(v *node, n *yaml.Node, flow bool) {
	v.flow = n.Style&yaml.FlowStyle != 0
	if v.flow {
		w.expect('{')
	} else {
		v.column = w.pos - lineStart(w.text, w.pos)
	}
	for i := 0; i+1 < len(n.Content) && w.err == nil; i += 2 {
		w.comma(v.flow)
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Value == "" || !v.flow && w.peek() == '?' {
			w.fail()
			return
		}
		e := &entry{start: w.pos}
		if e.name, e.merge = keyOf(k); !v.flow && w.pos-lineStart(w.text, w.pos) != v.column {
			w.fail()
			return
		}
		key := w.node(k, v.column, v.flow)
		if key.anchor || key.tag || key.form == block {
			w.fail()
			return
		}
		e.quote = key.form
		bare := false
		if v.flow {
			w.blanks()
			bare = w.peek() == ',' || w.peek() == '}'
		}
		if !bare {
			w.expect(':')
		}
		e.colon = w.pos
		e.value = w.node(n.Content[i+1], v.column, v.flow)
		e.value.parent = v
		v.entries = append(v.entries, e)
		v.end = max(v.end, e.value.end)
		if e.value.end == e.value.from {
			v.end = max(v.end, e.colon)
		}
	}
	w.close(v, '}')
}

func (w *walker) sequence(v *node, n *yaml.Node, flow bool) {
	v.flow = n.Style&yaml.FlowStyle != 0
	if v.flow {
		w.expect('[')
	} else {
		v.column = w.pos - lineStart(w.text, w.pos)
	}
	for _, item := range n.Content {
		if w.err != nil {
			return
		}
		w.comma(v.flow)
		e := &entry{start: w.pos}
		if v.flow {
			if item.Kind == yaml.MappingNode && w.peek() != '{' && item.Anchor == "" &&
				item.Style&yaml.TaggedStyle == 0 {
				w.fail() // a single pair
				return
			}
		} else {
			w.expect('-')
		}
		e.colon = w.pos
		e.value = w.node(item, v.column, v.flow)
		e.value.parent = v
		v.entries = append(v.entries, e)
		v.end = max(v.end, e.value.end, e.colon)
	}
	w.close(v, ']')
}

// comma goes to the start of the next entry.
func (w *walker) comma(flow bool) {
	w.blanks()
	if flow && w.peek() == ',' {
		w.pos++
		w.blanks()
	}
}

// close goes behind the end of a flow collection.
func (w *walker) close(v *node, bracket byte) {
	if !v.flow || w.err != nil {
		return
	}
	w.comma(true)
	w.expect(bracket)
	v.end = w.pos
}

// scalar finds the end of a scalar that starts at pos.
func (w *walker) scalar(v *node, n *yaml.Node, indent int) {
	defer func() { v.end = w.pos }()
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		v.form = block
		w.block(indent)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		v.form = double
		for w.pos++; w.pos < len(w.text) && w.text[w.pos] != '"'; w.pos++ {
			if w.text[w.pos] == '\\' {
				w.pos++
			}
		}
		w.pos = min(w.pos+1, len(w.text))
	case n.Style&yaml.SingleQuotedStyle != 0:
		v.form = single
		for w.pos++; w.pos < len(w.text); w.pos++ {
			if w.text[w.pos] != '\'' {
				continue
			}
			if !strings.HasPrefix(w.text[w.pos:], "''") {
				break
			}
			w.pos++
		}
		w.pos = min(w.pos+1, len(w.text))
	default:
		w.plain(n.Value)
	}
}

// plain goes along a plain scalar, whose line breaks are folded.
func (w *walker) plain(value string) {
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == ' ' || c == '\n' {
			rest := strings.TrimLeft(w.text[w.pos:], " \t")
			if c == '\n' || rest != "" && (rest[0] == '\n' || rest[0] == '\r') {
				for i+1 < len(value) && value[i+1] == '\n' {
					i++
				}
				w.pos = len(w.text) - len(strings.TrimLeft(w.text[w.pos:], " \t\r\n"))
				continue
			}
		}
		if w.peek() != c {
			w.fail()
			return
		}
		w.pos++
	}
}

// block goes to the end of a literal or folded block: behind its last line that is not blank, or with "+" its last
// line.
func (w *walker) block(indent int) {
	keep, digit := false, 0
	for w.pos++; w.pos < len(w.text) && strings.IndexByte("+-123456789", w.text[w.pos]) >= 0; w.pos++ {
		switch c := w.text[w.pos]; c {
		case '+':
			keep = true
		case '-':
		default:
			digit = int(c - '0')
		}
	}
	w.pos = lineEnd(w.text, w.pos)
	need := -1
	if digit > 0 {
		need = max(indent, 0) + digit
	}
	for next := w.pos; ; {
		at := nextLine(w.text, next)
		if at < 0 {
			break
		}
		end := lineEnd(w.text, at)
		line := w.text[at:end]
		spaces := len(line) - len(strings.TrimLeft(line, " "))
		blank := spaces == len(line)
		if !blank && need < 0 {
			if spaces <= indent {
				break
			}
			need = spaces
		}
		if !blank && spaces < need {
			break
		}
		if next = end; !blank || keep || need >= 0 && spaces > need {
			w.pos = end
		}
	}
}

// nextLine returns the offset of the line behind the one that ends at i, -1 if there is none.
func nextLine(text string, i int) int {
	if i < len(text) && text[i] == '\r' {
		i++
	}
	if i >= len(text) {
		return -1
	}
	return i + 1
}

// keyOf returns a key as JSON has it, and whether it merges another mapping.
func keyOf(k *yaml.Node) (name string, merge bool) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if k.Style&quoted != 0 {
		return k.Value, false
	}
	switch k.Value {
	case "":
		return "", false
	case "<<":
		return k.Value, true
	}
	if c := k.Value[0]; c >= 'A' && c != '~' && !isWord(k.Value) { // no number
		return k.Value, false
	}
	var v any
	if yaml2.Unmarshal([]byte(k.Value), &v) != nil {
		return k.Value, false
	}
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), false
	case int:
		return strconv.Itoa(v), false
	case int64:
		return strconv.FormatInt(v, 10), false
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 32), false
	}
	return k.Value, false
}
