package manifest

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"

	"github.com/celgate/celgate/policy"
)

// A style is how a value is written.
type style uint8

const (
	plainStyle style = iota
	singleQuoted
	doubleQuoted
	jsonString
	literalBlock
	foldedBlock
	mappingStyle
	sequenceStyle
)

// A value is a value in a text, with its place.
type value struct {
	start   int // offset of the first byte, behind anchors and tags
	style   style
	text    string  // scalars: the decoded text
	tag     string  // scalars: an explicit tag such as "!!str"
	entries []entry // mappings and sequences
}

// An entry is a member of a mapping or an item of a sequence.
type entry struct {
	name  string // mappings: the key as JSON has it
	at    int    // offset of the key or the item
	merge bool   // the key is "<<"
	alias bool   // value belongs to another place
	bad   bool   // the key is a collection or null
	value *value
}

// places returns the values of s.Text. The text is parsed on the first call.
func (s *Source) places() *value {
	s.parse.Do(func() { s.tree = parsePlaces(s.Text, s.json) })
	return s.tree
}

// parsePlaces parses text. If that fails, because the library that knows positions does not understand something
// that kubectl's library does, the result has no entries.
func parsePlaces(text string, json bool) (root *value) {
	defer func() {
		if r := recover(); r != nil { // the library panics on its own bugs
			root = &value{}
		}
	}()
	start := max(content(text), 0)
	if json {
		p := jsonPlaces{text: text, pos: start}
		return p.value()
	}
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil || len(node.Content) != 1 {
		return &value{start: start}
	}
	y := yamlPlaces{text: text, lines: lineStarts(text), known: make(map[*yaml.Node]*value)}
	return y.value(node.Content[0])
}

// yamlPlaces turns nodes of the YAML library into values.
type yamlPlaces struct {
	text  string
	lines []int
	known map[*yaml.Node]*value
}

// lineStarts returns the offsets of the lines as YAML 1.1 counts them.
func lineStarts(text string) []int {
	starts := []int{0}
	for i := 0; i < len(text); i++ {
		if n := breakAt(text, i); n > 0 {
			starts = append(starts, i+n)
			i += n - 1
		}
	}
	return starts
}

// breakAt returns the size of the line break at i, 0 if there is none.
func breakAt(text string, i int) int {
	switch text[i] {
	case '\n':
		return 1
	case '\r':
		if i+1 < len(text) && text[i+1] == '\n' {
			return 2
		}
		return 1
	case 0xc2:
		if strings.HasPrefix(text[i:], "\u0085") {
			return 2
		}
	case 0xe2:
		if strings.HasPrefix(text[i:], "\u2028") || strings.HasPrefix(text[i:], "\u2029") {
			return 3
		}
	}
	return 0
}

// offset returns the offset of a node, whose column counts characters.
func (y *yamlPlaces) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(y.lines) {
		return 0
	}
	at := y.lines[n.Line-1]
	for range n.Column - 1 {
		if at >= len(y.text) {
			break
		}
		_, size := utf8.DecodeRuneInString(y.text[at:])
		at += size
	}
	return min(at, len(y.text))
}

func (y *yamlPlaces) value(n *yaml.Node) *value {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if v := y.known[n]; v != nil {
		return v
	}
	v := &value{start: skipProperties(y.text, y.offset(n))}
	y.known[n] = v
	switch n.Kind {
	case yaml.MappingNode:
		v.style = mappingStyle
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			e := entry{at: y.offset(k), alias: n.Content[i+1].Kind == yaml.AliasNode}
			e.value = y.value(n.Content[i+1])
			if k.Kind == yaml.AliasNode {
				k = k.Alias
			}
			e.merge = k.Kind == yaml.ScalarNode && k.Value == "<<" && (k.Style == 0 || k.Tag == "!!merge")
			e.name = keyName(k)
			e.bad = k.Kind != yaml.ScalarNode || k.Style == 0 && plain(k.Value) == nil
			v.entries = append(v.entries, e)
		}
	case yaml.SequenceNode:
		v.style = sequenceStyle
		for _, item := range n.Content {
			v.entries = append(v.entries, entry{at: y.offset(item), alias: item.Kind == yaml.AliasNode,
				value: y.value(item)})
		}
	case yaml.ScalarNode:
		v.text = n.Value
		switch {
		case n.Style&yaml.DoubleQuotedStyle != 0:
			v.style = doubleQuoted
		case n.Style&yaml.SingleQuotedStyle != 0:
			v.style = singleQuoted
		case n.Style&yaml.LiteralStyle != 0:
			v.style = literalBlock
		case n.Style&yaml.FoldedStyle != 0:
			v.style = foldedBlock
		}
		if n.Style&yaml.TaggedStyle != 0 {
			v.tag = n.Tag
		}
	}
	return v
}

// keyName returns the key of a node as JSON has it; for keys that are not possible their text.
func keyName(k *yaml.Node) string {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle |
		yaml.FoldedStyle | yaml.TaggedStyle
	if k.Style&quoted != 0 {
		return k.Value
	}
	switch v := plain(k.Value).(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		s, _ := convertKey(v)
		return s
	}
	return k.Value
}

// skipProperties returns the offset behind anchors and tags at i.
func skipProperties(text string, i int) int {
	for i < len(text) && (text[i] == '&' || text[i] == '!') {
		n := strings.IndexAny(text[i:], " \t\r\n")
		if n < 0 {
			return i
		}
		i += n
		for i < len(text) && strings.IndexByte(" \t\r\n", text[i]) >= 0 {
			i++
		}
	}
	return i
}

// find returns the entry of the value at a field path, or of its nearest existing parent.
func (v *value) find(path string) (e entry, exact bool) {
	e = entry{at: v.start, value: v}
	for path != "" {
		next, rest, ok := e.value.step(path, 0)
		if !ok {
			return e, false
		}
		e, path = next, rest
	}
	return e, true
}

// step takes the first member off path. In a mapping the longest key that path starts with is the member, because
// paths do not always mark where a key ends: metadata.labels.app.kubernetes.io/name.
func (v *value) step(path string, depth int) (e entry, rest string, ok bool) {
	if v.style == sequenceStyle {
		digits, rest, found := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i := index(digits); found && i >= 0 && i < len(v.entries) {
			return v.entries[i], strings.TrimPrefix(rest, "."), true
		}
		return entry{}, "", false
	}
	if v.style != mappingStyle || depth > maxDepth {
		return entry{}, "", false
	}
	longest := -1
	take := func(candidate entry, after string, size int) {
		if size > longest {
			e, rest, ok, longest = candidate, strings.TrimPrefix(after, "."), true, size
		}
	}
	for i := len(v.entries) - 1; i >= 0; i-- { // the last definition counts
		switch member := v.entries[i]; {
		case !member.merge:
			if after, found := cutKey(path, member.name); found {
				take(member, after, len(path)-len(after))
			}
		case member.value.style == sequenceStyle:
			for _, merged := range member.value.entries {
				if inner, after, found := merged.value.step(path, depth+1); found {
					take(inner, after, len(path)-len(after))
				}
			}
		default:
			if inner, after, found := member.value.step(path, depth+1); found {
				take(inner, after, len(path)-len(after))
			}
		}
	}
	return e, rest, ok
}

// cutKey returns the path behind a leading key, written as name, [name] or ["name"].
func cutKey(path, name string) (after string, ok bool) {
	if inner, bracket := strings.CutPrefix(path, "["); bracket {
		if after, ok = strings.CutPrefix(inner, name+"]"); ok {
			return after, true
		}
		return strings.CutPrefix(inner, strconv.Quote(name)+"]")
	}
	after, ok = strings.CutPrefix(path, name)
	return after, ok && (after == "" || after[0] == '.' || after[0] == '[')
}

// index returns the number that s is, -1 if it is none.
func index(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// duplicate returns the second of two entries with one key in one mapping, and the offset of the first.
func (v *value) duplicate() (second entry, first int, found bool) {
	if v.style == mappingStyle {
		seen := make(map[string]int, len(v.entries))
		for _, e := range v.entries {
			if at, duplicate := seen[e.name]; duplicate && !e.merge {
				return e, at, true
			}
			seen[e.name] = e.at
		}
	}
	for _, e := range v.entries {
		if !e.alias {
			if second, first, found = e.value.duplicate(); found {
				return second, first, true
			}
		}
	}
	return entry{}, 0, false
}

// locator is the Locator of the value at path.
type locator struct {
	source *Source
	path   string

	find  sync.Once
	spans []span
	at    int
}

// Locate implements policy.Locator. Offsets beyond the text are taken as its end.
func (l *locator) Locate(offset int) policy.Position {
	if l.source == nil {
		return policy.Position{}
	}
	l.find.Do(func() {
		e, _ := l.source.places().find(l.path)
		l.at = e.at
		if e.value.style < mappingStyle {
			l.spans = e.value.spans(l.source.Text)
		}
	})
	at := l.at
	if len(l.spans) > 0 {
		at = locate(l.spans, max(offset, 0))
	}
	return l.source.at(at)
}
