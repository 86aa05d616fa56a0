package plan

import (
	"reflect"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

// Tree evaluates a plan whose expression is an Object literal to the JSON tree that dynamic.ObjectVal of
// k8s.io/apiserver/pkg/cel/mutation v0.37.2 converts it to, without the values in between. The tree may share parts
// with those of other evaluations, but not its first level. ok is false if the plan gives up, or if a type name does
// not match its place.
func (p *Plan) Tree(vars Variables, done <-chan struct{}) (tree map[string]any, cost uint64, ok bool) {
	if p.tree == nil {
		return nil, 0, false
	}
	_, cost, ok = p.run(vars, done, func(m *machine) ref.Val {
		var v any
		if v, ok = p.tree.tree(m); !ok {
			return nil
		}
		tree = v.(map[string]any)
		return types.True
	})
	return tree, cost, ok
}

// A treeNode is a step whose value is a JSON tree.
type treeNode interface {
	tree(m *machine) (any, bool)
}

// treeOf makes the tree of a node that stands at a place in an Object literal: in field of the type at.
func treeOf(n node, at, field string) treeNode {
	switch n := n.(type) {
	case *structure:
		return structureTree(n, at+"."+field)
	case *listing:
		if l := listingTree(n, at, field); l != nil {
			return l
		}
	case *fold:
		if f := foldTree(n, at, field); f != nil {
			return f
		}
	case constant:
		if v, ok := converted(n.value, at, field); ok {
			return constantTree{v, 0}
		}
	}
	return converter{n, at, field}
}

// structureTree is nil if the name of the type, or of one in it, does not match its place.
func structureTree(s *structure, at string) treeNode {
	if s.typeName != at {
		return nil
	}
	fields := make([]treeNode, len(s.fields))
	fixed := true
	cost := uint64(common.StructCreateBaseCost)
	for i, name := range s.fields {
		if fields[i] = treeOf(s.values[i], at, name); fields[i] == nil || s.optional[i] && !isOptionalTree(fields[i]) {
			return nil
		}
		c, ok := fields[i].(constantTree)
		fixed = fixed && ok && !s.optional[i]
		cost += c.cost
	}
	t := &objectTree{s, fields}
	if !fixed || at == rootType {
		return t
	}
	v, ok := t.tree(&machine{limit: ^uint64(0)})
	if !ok {
		return t
	}
	return constantTree{v, cost}
}

// An optional field is converted when its value is known to exist.
func isOptionalTree(t treeNode) bool { _, ok := t.(converter); return ok }

const rootType = "Object"

type constantTree struct {
	value any
	cost  uint64
}

func (c constantTree) tree(m *machine) (any, bool) {
	m.cost += c.cost
	return c.value, true
}

type objectTree struct {
	*structure
	members []treeNode
}

func (o *objectTree) tree(m *machine) (any, bool) {
	members := make(map[string]any, len(o.fields))
	for i, name := range o.fields {
		if o.optional[i] {
			c := o.members[i].(converter)
			opt, ok := c.eval(m).(*types.Optional)
			if !ok {
				return nil, false
			}
			if !opt.HasValue() {
				delete(members, name)
				continue
			}
			if members[name], ok = converted(opt.GetValue(), c.at, c.field); !ok {
				return nil, false
			}
			continue
		}
		v, ok := o.members[i].tree(m)
		if !ok {
			return nil, false
		}
		members[name] = v
	}
	m.cost += common.StructCreateBaseCost
	return members, true
}

// converter converts the value of any node.
type converter struct {
	node
	at, field string
}

func (c converter) tree(m *machine) (any, bool) {
	v := c.eval(m)
	if v == nil {
		return nil, false
	}
	return converted(v, c.at, c.field)
}

// converted converts a value with the code of the literal that it is a field of.
func converted(v ref.Val, at, field string) (any, bool) {
	if native, ok := scalar(v); ok {
		return native, true
	}
	in := dynamic.NewObjectVal(types.NewObjectType(at), map[string]ref.Val{field: v})
	if in.CheckTypeNamesMatchFieldPathNames() != nil {
		return nil, false
	}
	native, err := in.ConvertToNative(reflect.TypeFor[map[string]any]())
	if err != nil {
		return nil, false
	}
	members, ok := native.(map[string]any)
	return members[field], ok
}

func scalar(v ref.Val) (any, bool) {
	switch v := v.(type) {
	case types.String:
		return string(v), true
	case types.Int:
		return int64(v), true
	case types.Bool:
		return bool(v), true
	case types.Double:
		return float64(v), true
	}
	return nil, false
}

// listTree is a list literal of Object literals and scalars.
type listTree struct {
	*listing
	elements []treeNode // nil: a scalar
}

func listingTree(l *listing, at, field string) treeNode {
	if l.optional != nil {
		return nil
	}
	elements := make([]treeNode, len(l.items))
	fixed := true
	cost := uint64(common.ListCreateBaseCost)
	for i, item := range l.items {
		s, ok := item.(*structure)
		if !ok {
			if fixed = false; !isScalar(item) {
				return nil
			}
			continue
		}
		if elements[i] = structureTree(s, at+"."+field); elements[i] == nil {
			return nil
		}
		c, ok := elements[i].(constantTree)
		fixed = fixed && ok
		cost += c.cost
	}
	t := &listTree{l, elements}
	if fixed {
		if v, ok := t.tree(&machine{limit: ^uint64(0)}); ok {
			return constantTree{v, cost}
		}
	}
	return t
}

func isScalar(n node) bool {
	c, ok := n.(constant)
	if !ok {
		return false
	}
	_, ok = scalar(c.value)
	return ok
}

func (l *listTree) tree(m *machine) (any, bool) {
	var list []any
	for i, e := range l.elements {
		if e == nil {
			v := l.items[i].eval(m)
			if v == nil {
				return nil, false
			}
			list = append(list, v.Value())
			continue
		}
		v, ok := e.tree(m)
		if !ok {
			return nil, false
		}
		list = append(list, v)
	}
	m.cost += common.ListCreateBaseCost
	return list, true
}

// mapTree is the macro map over an Object literal.
type mapTree struct {
	*fold
	filter  node // nil: every item
	element treeNode
}

func foldTree(f *fold, at, field string) treeNode {
	init, ok := f.init.(constant)
	if !ok {
		return nil
	}
	empty, ok := init.value.(traits.Lister)
	if !ok || empty.Size() != types.IntZero {
		return nil
	}
	if going, ok := f.condition.(constant); !ok || going.value != types.True || !f.isAccumulator(f.result) {
		return nil
	}
	t := &mapTree{fold: f}
	step := f.step
	if c, ok := step.(*conditional); ok {
		if no, ok := c.no.(accumulator); !ok || no.fold != f {
			return nil
		}
		t.filter, step = c.condition, c.yes
	}
	add, ok := step.(*binary)
	if !ok || add.name != "_+_" || add.cost != costUnit || !f.isAccumulator(add.left) {
		return nil
	}
	l, ok := add.right.(*listing)
	if !ok || len(l.items) != 1 || l.optional != nil {
		return nil
	}
	s, ok := l.items[0].(*structure)
	if !ok {
		return nil
	}
	if t.element = structureTree(s, at+"."+field); t.element == nil {
		return nil
	}
	return t
}

// isAccumulator reports that n reads the accumulator and nothing in it, for a cost of 1.
func (f *fold) isAccumulator(n node) bool {
	a, ok := n.(*attribute)
	if !ok || len(a.path) > 0 || a.cost != 1 {
		return false
	}
	accu, ok := a.root.(accumulator)
	return ok && accu.fold == f
}

func (t *mapTree) tree(m *machine) (any, bool) {
	over, ok := t.over.eval(m).(traits.Iterable)
	if !ok || !over.(ref.Val).Type().HasTrait(traits.IterableType) {
		return nil, false
	}
	var list []any
	for it := over.Iterator(); it.HasNext() == types.True; {
		item := value(it.Next())
		if item == nil {
			return nil, false
		}
		m.locals[t.iterator] = item
		takes := types.True
		if t.filter != nil {
			if takes, ok = t.filter.eval(m).(types.Bool); !ok {
				return nil, false
			}
		}
		if takes {
			v, ok := t.element.tree(m)
			if !ok {
				return nil, false
			}
			if list == nil { // until now, as it is on the server where nothing is added
				list = make([]any, 0, roomFor(over))
			}
			list = append(list, v)
			m.cost += 1 + common.ListCreateBaseCost + 1 // the accumulator, the list that is added to it, the addition
		}
		if !m.next() {
			return nil, false
		}
	}
	m.cost++ // the accumulator, as the result
	return list, true
}

// roomFor returns for how many items there should be room in a list made of another.
func roomFor(over traits.Iterable) int {
	if sized, ok := over.(traits.Sizer); ok {
		if n, ok := sized.Size().(types.Int); ok {
			return int(min(max(n, 1), 64))
		}
	}
	return 1
}
