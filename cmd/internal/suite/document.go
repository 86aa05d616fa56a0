package suite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// A Problem is a mistake in a suite, or a reason why it cannot run.
type Problem struct {
	Position policy.Position
	Message  string
	Hint     string // empty: none
}

// Error returns "file:line:column: message".
func (p *Problem) Error() string {
	if place := p.Position.String(); place != "" {
		return place + ": " + p.Message
	}
	return p.Message
}

// A node is a value of a suite file with its position. Reading it adds to the problems of the reader.
type node struct {
	*reader
	value any
	path  string
}

// A reader decodes one document strictly: unknown members and wrong types are problems with positions.
type reader struct {
	doc      *manifest.Document
	problems []*Problem
}

func (r *reader) root() node { return node{r, r.doc.Object, ""} }

func (n node) place() policy.Position { return n.doc.Place(n.path).Locate(0) }

// add adds a problem.
func (r *reader) add(p *Problem) { r.problems = append(r.problems, p) }

// sortedProblems returns the problems ordered by position.
func (r *reader) sortedProblems() []*Problem {
	slices.SortStableFunc(r.problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	return r.problems
}

func (n node) name() string {
	if n.path == "" {
		return "the document"
	}
	return n.path
}

func (n node) isGiven() bool { return n.value != nil }

// member returns a member of a mapping; without a value if it is missing.
func (n node) member(name string) node {
	m, _ := n.value.(map[string]any)
	path := name
	if strings.ContainsAny(name, `./[]"`) || name == "" {
		path = "[" + strconv.Quote(name) + "]"
	}
	if n.path != "" && path[0] != '[' {
		path = n.path + "." + path
	} else {
		path = n.path + path
	}
	return node{n.reader, m[name], path}
}

// mapping checks that the value is a mapping with known members only.
func (n node) mapping(known fields) bool {
	m, ok := n.value.(map[string]any)
	if !ok {
		n.add(&Problem{n.place(), fmt.Sprintf("%s is a mapping, not %s", n.name(), typeOf(n.value)), known.sample()})
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !known.has(name) {
			at := n.member(name)
			p := &Problem{Position: at.place(), Message: fmt.Sprintf("unknown field %q", name)}
			if similar := known.similarName(name); similar != "" {
				p.Hint = "did you mean " + similar + "?"
			} else {
				p.Hint = "known here: " + strings.Join(known.names(), ", ")
			}
			n.add(p)
		}
	}
	return true
}

// lacks reports whether a member is missing, and no similar name is present.
func (n node) lacks(name string, known fields) bool {
	m, _ := n.value.(map[string]any)
	for written := range m {
		if written == name || !known.has(written) && known.similarName(written) == name {
			return false
		}
	}
	return true
}

// text returns a string.
func (n node) text() string {
	if n.value == nil {
		return ""
	}
	s, ok := n.value.(string)
	if !ok {
		n.add(&Problem{n.place(), fmt.Sprintf("%s is a string, not %s", n.name(), typeOf(n.value)), "put it in quotes"})
	}
	return s
}

func (n node) boolean() bool {
	if n.value == nil {
		return false
	}
	b, ok := n.value.(bool)
	if !ok {
		n.add(&Problem{n.place(), fmt.Sprintf("%s is true or false, not %s", n.name(), typeOf(n.value)), ""})
	}
	return b
}

func (n node) integer() (int, bool) {
	if n.value == nil {
		return 0, false
	}
	i, ok := n.value.(int64)
	if !ok || i < 0 {
		n.add(&Problem{n.place(), fmt.Sprintf("%s is a number from 0, not %s", n.name(), typeOf(n.value)), ""})
		return 0, false
	}
	return int(i), true
}

// list returns the items; a single value that is not a list stands for a list of one.
func (n node) list() []node {
	switch v := n.value.(type) {
	case nil:
		return nil
	case []any:
		items := make([]node, len(v))
		for i := range v {
			items[i] = node{n.reader, v[i], fmt.Sprintf("%s[%d]", n.path, i)}
		}
		return items
	}
	return []node{n}
}

func (n node) texts() []string {
	var all []string
	for _, item := range n.list() {
		all = append(all, item.text())
	}
	return all
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return "the text " + strconv.Quote(v)
	case bool:
		return strconv.FormatBool(v)
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return fmt.Sprintf("%T", v)
}

// A field is a member of a mapping, with its text in the reference.
type field struct{ name, doc string }

type fields []field

func (f fields) has(name string) bool {
	return slices.ContainsFunc(f, func(x field) bool { return x.name == name })
}

func (f fields) names() []string {
	var all []string
	for _, x := range f {
		all = append(all, x.name)
	}
	return all
}

func (f fields) sample() string { return "it has the members " + strings.Join(f.names(), ", ") }

// similarName returns the known name that is similar to a given one.
func (f fields) similarName(name string) string {
	best, least := "", 3
	for _, x := range f {
		d := spell.Distance(name, x.name)
		if strings.HasPrefix(strings.ToLower(x.name), strings.ToLower(name)) ||
			strings.HasPrefix(strings.ToLower(name), strings.ToLower(x.name)) {
			d = min(d, 1)
		}
		if d < least {
			best, least = x.name, d
		}
	}
	return best
}
