package prove

import (
	"slices"
	"strconv"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/storable"
)

// A node is a value in an object that represents all objects of a kind. Its members are created on demand.
type node struct {
	m       *machine
	id      int
	path    string // for messages, such as object.spec.containers[0].image
	class   string // the path without indexes: nodes of one class have the same size
	typ     *shape.Type
	builtin bool      // of a built-in kind: the server encodes it from a Go type
	sourced bool      // a volume that is assumed to have a source
	fixed   *textLeaf // the known value of a fixed node
	filled  bool      // never empty if present, because it is a list or map with omitempty

	null  solve.Formula // it is null
	val   *value        // nil until the first use
	truth solve.Formula // of a boolean
	num   solve.Int
	text  solve.Text
	isInt solve.Formula // of an int or string

	members map[string]*part // of a struct
	shared  *node            // a struct with the same members, but for those that are apart; nil: none
	apart   []string
	order   []string
	items   []part  // of a list
	slots   []*slot // of a map; those with constant keys first
	listed  *list
	demand  int
}

// A part is a value in another one, which is present if the formula is true.
type part struct {
	present solve.Formula
	*node
}

// A slot is an entry of a map, which is present if the formula is true.
type slot struct {
	part
	key textLeaf
}

func (m *machine) newNode(path, class string, t *shape.Type, builtin bool) *node {
	n := &node{m: m, id: len(m.nodes), path: path, class: class, typ: t, builtin: builtin, null: solve.False}
	m.nodes = append(m.nodes, n)
	return n
}

func (n *node) isList() bool { return n.typ.Kind == shape.List }

// value returns the node as a CEL value, for the case that it is present.
func (n *node) value() *value {
	if n.val == nil {
		g := n.m.newMerger()
		g.addLeaf(n.null, nullLeaf{})
		g.add(n.null.Negate(), n.makeValue())
		n.val = g.value()
	}
	return n.val
}

func (n *node) makeValue() *value {
	m := n.m
	switch n.typ.Kind {
	case shape.Boolean:
		n.truth = m.store.NewBool()
		if n.filled {
			m.store.Assume(n.truth)
		}
		return newBool(n.truth)
	case shape.Integer:
		return newLeaf(n.makeInt(int(n.typ.Bits)))
	case shape.String, shape.Bytes, shape.Quantity, shape.Time, shape.MicroTime, shape.Duration:
		return newLeaf(n.makeText())
	case shape.IntOrString:
		n.isInt = m.store.NewBool()
		g := m.newMerger()
		g.addLeaf(n.isInt, n.makeInt(32))
		g.addLeaf(n.isInt.Negate(), n.makeText())
		return g.value()
	case shape.Struct, shape.Map, shape.List:
		return newLeaf(n)
	}
	return m.opaqueValue("node "+strconv.Itoa(n.id), nil, n.path)
}

func (n *node) makeInt(bits int) leaf {
	least, most := solve.Range(bits)
	n.num = n.m.store.NewInt(least, most, 1)
	if n.filled {
		zero := n.m.store.Conjoin(n.m.store.Difference(n.num, 0, 0), n.m.store.Difference(0, n.num, 0))
		n.m.store.Assume(zero.Negate())
	}
	return intLeaf{x: n.num, factor: 1}
}

func (n *node) makeText() leaf {
	n.text = n.m.store.NewText("a")
	if n.filled {
		n.m.store.Assume(n.m.store.Member(n.text, n.m.store.Word("")).Negate())
	}
	if n.builtin && n.typ.Kind == shape.Quantity {
		n.m.store.Assume(n.m.isMatch(textLeaf{x: n.text, isVar: true}, encodedQuantity))
	}
	return textLeaf{x: n.text, isVar: true}
}

// member returns a declared member of a struct, nil if it does not exist.
func (n *node) member(name string) *part {
	if p := n.members[name]; p != nil {
		return p
	}
	f := n.typ.Field(name)
	if f == nil {
		return nil
	}
	if n.shared != nil && !slices.Contains(n.apart, name) {
		p := n.shared.member(name)
		n.addMember(name, p)
		return p
	}
	made := n.m.newNode(n.path+"."+name, n.class+"."+name, f.Type, n.builtin)
	p := &part{n.m.presenceOf(f, n.builtin), made}
	if n.builtin && isDefaulted(n.typ, name) {
		p.present = solve.True
	}
	made.null = n.m.nullness(f, n.builtin)
	made.filled = n.builtin && !f.Pointer && f.OmitEmpty && f.Default == nil && (!n.m.zeros || isContainer(f.Type))
	if n.builtin && n.m.isRegistered(n.typ, name) {
		p.present, made.null, made.filled = solve.True, solve.False, f.Type.Kind != shape.Struct
	}
	n.addMember(name, p)
	if n.builtin && storable.Holds(storable.Sourced, n.typ.Name, "") && !n.sourced {
		n.sourced = true
		n.assumeSource()
	}
	return p
}

// share gives a struct the members of another one of its type, but for those that are apart.
func (n *node) share(with *node, apart []string) {
	n.shared, n.apart = with, apart
	for name := range n.members {
		if !slices.Contains(apart, name) {
			n.members[name] = with.member(name)
		}
	}
}

func isContainer(t *shape.Type) bool { return t.Kind == shape.List || t.Kind == shape.Map }

func (n *node) addMember(name string, p *part) {
	if n.members == nil {
		n.members = map[string]*part{}
	}
	n.members[name] = p
	n.order = append(n.order, name)
}

// presenceOf returns the condition that a member of a struct is present. Facts for built-in kinds: Go always encodes
// structs that are not pointers, and members without omitempty.
func (m *machine) presenceOf(f *shape.Field, builtin bool) solve.Formula {
	if builtin && !f.OmitZero && (!f.OmitEmpty || f.Type.Kind == shape.Struct && !f.Pointer) {
		return solve.True
	}
	return m.store.NewBool()
}

// nullness returns the condition that a present member is null: Go encodes a nil list, map or pointer without omitempty
// as null, and also a zero time.
func (m *machine) nullness(f *shape.Field, builtin bool) solve.Formula {
	if !builtin {
		if f.Type.Nullable {
			return m.store.NewBool()
		}
		return solve.False
	}
	switch f.Type.Kind {
	case shape.List, shape.Map, shape.Bytes:
		if !f.OmitEmpty {
			return m.store.NewBool()
		}
	case shape.Time, shape.MicroTime, shape.Any, shape.Union:
		if !f.Pointer || !f.OmitEmpty {
			return m.store.NewBool()
		}
	default:
		if f.Pointer && !f.OmitEmpty {
			return m.store.NewBool()
		}
	}
	return solve.False
}

// list returns the list of a node, with as many items as its class has.
func (n *node) list() *list {
	if n.listed == nil {
		n.listed = &list{sources: []*node{n}, name: "node " + strconv.Itoa(n.id)}
		n.listed.items = n.makeItems()
	}
	return n.listed
}

func (n *node) makeItems() []*item {
	s := n.m.store
	var all []*item
	for i := range n.m.size(n.class) {
		index := "[" + strconv.Itoa(i) + "]"
		p := part{s.NewBool(), n.m.newNode(n.path+index, n.class+"[]", n.typ.Elem, n.builtin)}
		switch {
		case i > 0:
			s.Assume(s.Disjoin(n.items[i-1].present, p.present.Negate()))
		case n.filled:
			s.Assume(p.present)
		}
		n.items = append(n.items, p)
		all = append(all, &item{p.present, p.value()})
	}
	return all
}

// require records the number of items of a list, or entries of a map, that a smaller object must keep.
func (n *node) require(items int) { n.demand += items }

// entries returns the slots of a map: one for each requested constant key, and some for others.
func (n *node) entries() []*slot {
	if n.slots != nil {
		return n.slots
	}
	s := n.m.store
	keys := n.m.keys[n.class]
	for _, key := range keys {
		n.slots = append(n.slots, &slot{part{s.NewBool(),
			n.m.newNode(n.path+"["+strconv.Quote(key)+"]", n.class+"{}", n.typ.Elem, n.builtin)}, textOf(key)})
	}
	var any []solve.Formula
	for i := range n.m.size(n.class) {
		wish := "k" + strconv.Itoa(i)
		made := &slot{part{s.NewBool(),
			n.m.newNode(n.path+"{"+strconv.Itoa(i)+"}", n.class+"{}", n.typ.Elem, n.builtin)},
			textLeaf{x: s.NewText(wish), isVar: true}}
		for j, other := range n.slots {
			apart := s.All(made.present, n.m.sameText(other.key, made.key)).Negate()
			if other.key.isVar {
				apart = s.Disjoin(other.present.Negate(), apart)
			}
			s.Assume(apart)
			if j == len(n.slots)-1 && j >= len(keys) { // the other slots are interchangeable
				s.Assume(s.Disjoin(other.present, made.present.Negate()))
			}
		}
		n.slots = append(n.slots, made)
	}
	for _, e := range n.slots {
		any = append(any, e.present)
	}
	if n.filled {
		s.Assume(s.Any(any...))
	}
	return n.slots
}

// entry returns the slot of a map with a constant key.
func (n *node) entry(key string) *slot {
	if !slices.Contains(n.m.keys[n.class], key) {
		n.m.keys[n.class] = append(n.m.keys[n.class], key)
		n.m.grown = true // the slots are recreated
		return &slot{part{n.m.store.NewBool(),
			n.m.newNode(n.path+"["+strconv.Quote(key)+"]", n.class+"{}", n.typ.Elem, n.builtin)}, textOf(key)}
	}
	for _, e := range n.entries() {
		if e.key == textOf(key) {
			return e
		}
	}
	n.m.grown = true // a key that was found after the slots were created
	return &slot{part{n.m.store.NewBool(),
		n.m.newNode(n.path+"["+strconv.Quote(key)+"]", n.class+"{}", n.typ.Elem, n.builtin)}, textOf(key)}
}
