package plan

import (
	"reflect"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/bound"
)

// Tree evaluates a plan whose expression is an Object literal. The result is the JSON tree to which dynamic.ObjectVal
// of k8s.io/apiserver/pkg/cel/mutation v0.37.2 converts it, without intermediate values. Trees of several evaluations
// may share parts, and must not be changed. ok is false if the plan gives up, or if a type name does not match its
// place.
func (p *Plan) Tree(vars Variables, done <-chan struct{}) (tree map[string]any, cost uint64, ok bool) {
	if p.tree == nil {
		return nil, 0, false
	}
	_, cost, ok = p.run(vars, done, nil, func(m *machine) ref.Val {
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

// treeOf makes the tree of a node in an Object literal: the value of field in the type at.
func treeOf(n node, at, field string) treeNode {
	switch n := n.(type) {
	case *structure:
		return structureTree(n, at+"."+field)
	case *listing:
		if l := listingTree(n, at, field); l != nil {
			return l
		}
	case *collection:
		if c := collectionTreeOf(n, at, field); c != nil {
			return c
		}
	case constant:
		if v, ok := convert(n.value, at, field); ok {
			return constantTree{v, 0}
		}
	}
	return converter{n, at, field}
}

// structureTree returns nil if the name of the type, or of one inside, does not match its place.
func structureTree(s *structure, at string) treeNode {
	if s.typeName != at {
		return nil
	}
	fields := make([]treeNode, len(s.fields))
	fixed := true
	cost := uint64(common.StructCreateBaseCost)
	for i, name := range s.fields {
		if s.values[i].optional { // converted once it is known to be present
			fixed = false
			continue
		}
		if fields[i] = treeOf(s.values[i].node, at, name); fields[i] == nil {
			return nil
		}
		c, ok := fields[i].(constantTree)
		fixed = fixed && ok
		cost += c.cost
	}
	t := &objectTree{s, fields}
	if !fixed {
		return t
	}
	v, ok := t.tree(&machine{limit: ^uint64(0)})
	if !ok {
		return t
	}
	return constantTree{v, cost}
}

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
	members []treeNode // nil: optional
}

func (o *objectTree) tree(m *machine) (any, bool) {
	members := make(map[string]any, len(o.fields))
	for i, name := range o.fields {
		if o.members[i] == nil {
			v, present, ok := o.values[i].evaluate(m)
			if !ok {
				return nil, false
			}
			if !present {
				delete(members, name)
				continue
			}
			if members[name], ok = m.convert(v, o.typeName, name); !ok {
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
	p := partOf(c.node, m)
	if p.shows != nil {
		switch p.content.(type) {
		case string, int64, bool, float64: // the results of conversion
			return p.content, true
		}
	}
	v := p.val()
	if v == nil {
		return nil, false
	}
	return m.convert(v, c.at, c.field)
}

func (m *machine) convert(v ref.Val, at, field string) (any, bool) {
	if bound.ChargeTree(m.meter(), v) != nil {
		return nil, false
	}
	return convert(v, at, field)
}

// convert converts a value with the code of the literal around it.
func convert(v ref.Val, at, field string) (any, bool) {
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
	elements := make([]treeNode, len(l.items))
	fixed := true
	cost := uint64(common.ListCreateBaseCost)
	for i, item := range l.items {
		if item.optional {
			return nil
		}
		s, ok := item.node.(*structure)
		if !ok {
			if fixed = false; !isScalar(item.node) {
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

// collectionTree is the macro map over an Object literal.
type collectionTree struct {
	*collection
	element treeNode
}

func collectionTreeOf(c *collection, at, field string) treeNode {
	if s, ok := c.element.(*structure); ok {
		if element := structureTree(s, at+"."+field); element != nil {
			return &collectionTree{c, element}
		}
	}
	return nil
}

func (t *collectionTree) tree(m *machine) (any, bool) {
	over := partOf(t.over, m)
	var list []any // nil until an item is added, as on the server
	ok := t.each(m, over, func(m *machine) bool {
		v, ok := t.element.tree(m)
		if list == nil {
			list = make([]any, 0, over.capacityHint())
		}
		list = append(list, v)
		return ok
	})
	return list, ok
}
