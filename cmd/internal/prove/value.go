package prove

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/solve"
)

// A value is the value of an expression for all objects at once: the conditions under which it is an error, true, false
// or one of the alternatives. The conditions exclude each other, and one of them is always true.
type value struct {
	err    solve.Formula
	isBool solve.Formula
	truth  solve.Formula // within isBool
	alts   []alternative
	sized  []*node // the lists and maps with the value as their size
}

// An alternative is a value that is not a bool, and its condition.
type alternative struct {
	when solve.Formula
	leaf leaf
}

// A leaf is a single value. Leaves are comparable: equal leaves are equal values.
type leaf any

type (
	boolLeaf struct{ truth solve.Formula } // within an alternative of parts

	// intLeaf is factor*x + more; x is zero for a constant.
	intLeaf struct {
		x            solve.Int
		factor, more int64
	}
	doubleLeaf float64

	// textLeaf is before + x in another case + after; a constant has only before.
	textLeaf struct {
		x             solve.Text
		isVar         bool
		before, after string
		letters       letterCase
	}
	lengthLeaf struct{ of textLeaf } // the number of runes of a text
	parsedLeaf struct{ of textLeaf } // the number that a text is the numeral of
	digitsLeaf struct{ of intLeaf }  // the numeral of a number

	// quotientLeaf is of / by, rounded towards zero; by is positive.
	quotientLeaf struct {
		of intLeaf
		by int64
	}
	nullLeaf   struct{}
	noneLeaf   struct{}
	someLeaf   struct{ *value }
	opaqueLeaf struct{ *opaque }
)

type letterCase uint8

const (
	asIs letterCase = iota
	lower
	upper
)

// A list is a list or a part of one: its items are conditional.
type list struct {
	items   []*item
	sources []*node // of the items
	name    string  // of the list of a node: its identity

	unordered bool // the items are in an unknown order
}

// An item is in its list if present is true.
type item struct {
	present solve.Formula
	value   *value
}

// A dict is a map literal with constant keys.
type dict struct {
	keys   []string
	values map[string]*value
}

func textOf(s string) textLeaf   { return textLeaf{before: s} }
func numberOf(n int64) intLeaf   { return intLeaf{more: n} }
func (l intLeaf) isConst() bool  { return l.x == 0 }
func (l textLeaf) isConst() bool { return !l.isVar }
func newLeaf(l leaf) *value      { return where(solve.True, l) }
func newBool(f solve.Formula) *value {
	return &value{err: solve.False, isBool: solve.True, truth: f}
}

func failure() *value { return &value{err: solve.True, isBool: solve.False, truth: solve.False} }

// where returns a leaf under a condition, and no value otherwise.
func where(when solve.Formula, l leaf) *value {
	if b, ok := l.(boolLeaf); ok {
		return &value{err: solve.False, isBool: when, truth: b.truth}
	}
	return &value{err: solve.False, isBool: solve.False, truth: solve.False, alts: []alternative{{when, l}}}
}

// parts returns the alternatives, including the bool.
func (v *value) parts() []alternative {
	if v.isBool == solve.False {
		return v.alts
	}
	return append([]alternative{{v.isBool, boolLeaf{v.truth}}}, v.alts...)
}

// A merger merges values that exclude each other into one.
type merger struct {
	*machine
	out value
}

func (m *machine) newMerger() *merger {
	return &merger{m, value{err: solve.False, isBool: solve.False, truth: solve.False}}
}

// add adds a value under a condition.
func (g *merger) add(when solve.Formula, v *value) {
	if when == solve.False {
		return
	}
	s, out := g.store, &g.out
	out.err = s.Disjoin(out.err, s.Conjoin(when, v.err))
	out.isBool = s.Disjoin(out.isBool, s.Conjoin(when, v.isBool))
	out.truth = s.Disjoin(out.truth, s.Conjoin(when, v.truth))
	for _, n := range v.sized {
		out.sized = addNode(out.sized, n)
	}
	for _, a := range v.alts {
		g.addLeaf(s.Conjoin(when, a.when), a.leaf)
	}
}

func (g *merger) addLeaf(when solve.Formula, l leaf) {
	if when == solve.False {
		return
	}
	if n, ok := l.(*node); ok && n.isList() {
		l = n.list()
	}
	for i := range g.out.alts {
		a := &g.out.alts[i]
		if a.leaf == l {
			a.when = g.store.Disjoin(a.when, when)
			return
		}
		had, isList := a.leaf.(*list)
		if added, ok := l.(*list); ok && isList {
			a.leaf = g.mergeLists(a.when, had, when, added)
			a.when = g.store.Disjoin(a.when, when)
			return
		}
	}
	g.out.alts = append(g.out.alts, alternative{when, l})
}

// mergeLists merges two lists, each under its condition: their common start, then the rest of each.
func (m *machine) mergeLists(when solve.Formula, a *list, other solve.Formula, b *list) *list {
	out := &list{unordered: a.unordered || b.unordered}
	shared := 0
	for shared < len(a.items) && shared < len(b.items) && a.items[shared] == b.items[shared] {
		shared++
	}
	out.items = append(out.items, a.items[:shared]...)
	for _, i := range a.items[shared:] {
		out.items = append(out.items, &item{m.store.Conjoin(when, i.present), i.value})
	}
	for _, i := range b.items[shared:] {
		out.items = append(out.items, &item{m.store.Conjoin(other, i.present), i.value})
	}
	out.sources = append(out.sources, a.sources...)
	for _, n := range b.sources {
		out.sources = addNode(out.sources, n)
	}
	return out
}

func addNode(all []*node, n *node) []*node {
	for _, had := range all {
		if had == n {
			return all
		}
	}
	return append(all, n)
}

func (g *merger) value() *value { return &g.out }

// choose returns a if c is true, and b otherwise.
func (m *machine) choose(c solve.Formula, a, b *value) *value {
	switch {
	case c == solve.True || a == b:
		return a
	case c == solve.False:
		return b
	}
	g := m.newMerger()
	g.add(c, a)
	g.add(c.Negate(), b)
	return g.value()
}

// lift applies a function of leaves to values, unless one is an error.
func (m *machine) lift(args []*value, apply func(leaves []leaf) *value) *value {
	g := m.newMerger()
	leaves := make([]leaf, len(args))
	var each func(i int, when solve.Formula)
	each = func(i int, when solve.Formula) {
		if when == solve.False {
			return
		}
		if i == len(args) {
			g.add(when, apply(leaves))
			return
		}
		g.out.err = m.store.Disjoin(g.out.err, m.store.Conjoin(when, args[i].err))
		for _, p := range args[i].parts() {
			leaves[i] = p.leaf
			each(i+1, m.store.Conjoin(when, p.when))
		}
	}
	each(0, solve.True)
	return g.value()
}

// writeKey writes a text that is the same for equal values only.
func (v *value) writeKey(b *strings.Builder) {
	fmt.Fprintf(b, "<%d,%d,%d", v.err, v.isBool, v.truth)
	for _, a := range v.alts {
		fmt.Fprintf(b, ";%d:", a.when)
		writeLeafKey(b, a.leaf)
	}
	b.WriteByte('>')
}

func writeLeafKey(b *strings.Builder, l leaf) {
	switch l := l.(type) {
	case *node:
		b.WriteString("node " + strconv.Itoa(l.id))
	case *list:
		if l.name != "" {
			b.WriteString(l.name)
			return
		}
		if l.unordered {
			b.WriteString("sorted ")
		}
		b.WriteString("list(")
		for _, i := range l.items {
			fmt.Fprintf(b, "%d", i.present)
			i.value.writeKey(b)
		}
		b.WriteByte(')')
	case *dict:
		b.WriteString("dict(")
		for _, k := range l.keys {
			b.WriteString(strconv.Quote(k))
			l.values[k].writeKey(b)
		}
		b.WriteByte(')')
	case *record:
		b.WriteString("record " + strconv.Itoa(l.id))
	case *draft:
		b.WriteString("draft " + l.name + "(")
		for _, field := range l.fields {
			fmt.Fprintf(b, "%q%d", field.name, field.present)
			field.value.writeKey(b)
		}
		b.WriteByte(')')
	case someLeaf:
		b.WriteString("some")
		l.writeKey(b)
	case opaqueLeaf:
		b.WriteString("opaque " + strconv.Quote(l.key))
	default:
		fmt.Fprintf(b, "%T%#v", l, l)
	}
}
