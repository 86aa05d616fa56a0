package plan

import (
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// fold is a comprehension.
type fold struct {
	init, over, condition, step, result node
	accumulator, iterator, second       int
	entries                             bool // iterator is the index or key, second the value
	adapter                             types.Adapter
}

func (f *fold) eval(m *machine) ref.Val {
	m.locals[f.accumulator] = part{}
	if !f.iterate(m, partOf(f.over, m), f.evalItem) {
		return nil
	}
	v := f.result.eval(m)
	switch mutable := v.(type) {
	case traits.MutableLister:
		v = mutable.ToImmutableList()
	case traits.MutableMapper:
		v = mutable.ToImmutableMap()
	}
	return v
}

// evalItem evaluates condition and step for one item.
func (f *fold) evalItem(m *machine) (more, ok bool) {
	switch f.condition.eval(m) {
	case nil:
		return false, false
	case types.False:
		return false, true
	}
	v := f.step.eval(m)
	m.locals[f.accumulator] = part{content: v}
	return true, v != nil
}

// iterate calls one with each item as the iterator, while more is true. It returns false to give up.
func (f *fold) iterate(m *machine, over part, one func(*machine) (more, ok bool)) bool {
	if f.entries {
		return f.iterateEntries(m, over, one)
	}
	if items, ok := over.list(); ok {
		for _, item := range items {
			if more, ok := f.item(m, part{item, over.shows}, one); !more {
				return ok
			}
		}
		return true
	}
	if names, ok := over.names(); ok {
		for _, name := range names {
			if more, ok := f.item(m, part{name, over.shows}, one); !more {
				return ok
			}
		}
		return true
	}
	v := over.val()
	iterable, ok := v.(traits.Iterable)
	if !ok || !v.Type().HasTrait(traits.IterableType) {
		return false
	}
	for it := iterable.Iterator(); it.HasNext() == types.True; {
		if more, ok := f.item(m, part{content: value(it.Next())}, one); !more {
			return ok
		}
	}
	return true
}

// iterateEntries is iterate with the index or key of each item as the iterator, and the item as the second variable.
func (f *fold) iterateEntries(m *machine, over part, one func(*machine) (more, ok bool)) bool {
	entry := func(key, v ref.Val) (more, ok bool) {
		if v == nil {
			return false, false
		}
		m.locals[f.second] = part{content: v}
		return f.item(m, part{content: key}, one)
	}
	switch over := over.val().(type) {
	case traits.Mapper:
		for it := over.Iterator(); it.HasNext() == types.True; {
			key := value(it.Next())
			if key == nil {
				return false
			}
			if more, ok := entry(key, value(over.Get(key))); !more {
				return ok
			}
		}
	case traits.Lister:
		n, _ := over.Size().(types.Int)
		for i := range n {
			if more, ok := entry(i, value(over.Get(i))); !more {
				return ok
			}
		}
	default:
		return false
	}
	return true
}

// item calls one with an item, unless the item gives up.
func (f *fold) item(m *machine, item part, one func(*machine) (more, ok bool)) (more, ok bool) {
	if item.hasGivenUp() {
		return false, false
	}
	m.locals[f.iterator] = item
	if more, ok = one(m); !more || !ok {
		return false, ok
	}
	ok = m.next()
	return ok, ok
}

// accumulator is the present result of a comprehension. Its first value is made when it is first read.
type accumulator struct{ *fold }

func (a accumulator) eval(m *machine) ref.Val {
	if v := m.locals[a.fold.accumulator].val(); v != nil {
		return v
	}
	v := a.init.eval(m)
	if v == nil {
		return nil
	}
	if l, ok := v.(traits.Lister); ok && l.Size() == types.IntZero {
		v = types.NewMutableList(a.adapter)
	} else if l, ok := v.(traits.Mapper); ok && l.Size() == types.IntZero {
		v = types.NewMutableMap(a.adapter, map[ref.Val]ref.Val{})
	}
	m.locals[a.fold.accumulator] = part{content: v}
	return v
}

// isAccumulator reports whether n reads exactly the accumulator, at a cost of 1.
func (f *fold) isAccumulator(n node) bool {
	a, ok := n.(*attribute)
	if !ok || len(a.path) > 0 || a.cost != 1 {
		return false
	}
	accu, ok := a.root.(accumulator)
	return ok && accu.fold == f
}

// recognize returns the specialised node of a macro, or else the fold.
func recognize(f *fold) node {
	if q := recognizeQuantifier(f); q != nil {
		return q
	}
	if c := recognizeCollection(f); c != nil {
		return c
	}
	return f
}

// quantifier is the macro all or exists: a fold whose result the first item with the decisive value settles.
type quantifier struct {
	*fold
	test     node
	decisive types.Bool
	going    uint64 // the cost of testing whether it is settled
}

// recognizeQuantifier returns a quantifier, or nil for other folds.
func recognizeQuantifier(f *fold) *quantifier {
	init, ok := f.init.(constant)
	if !ok || !f.isAccumulator(f.result) {
		return nil
	}
	step, ok := f.step.(*logical)
	if !ok || init.value != !step.decisive || len(step.terms) != 2 || !f.isAccumulator(step.terms[0]) {
		return nil
	}
	q := &quantifier{
		fold:     f,
		test:     step.terms[1],
		decisive: step.decisive,
		going:    2,
	} // the accumulator, notStrictlyFalse
	condition, ok := f.condition.(notStrictlyFalse)
	if !ok {
		return nil
	}
	settled := condition.arg
	if q.decisive {
		not, ok := settled.(*unary)
		if !ok || not.name != operators.LogicalNot || not.cost != costUnit {
			return nil
		}
		settled, q.going = not.arg, 3
	}
	if !f.isAccumulator(settled) {
		return nil
	}
	return q
}

func (q *quantifier) eval(m *machine) ref.Val {
	result := !q.decisive
	ok := q.iterate(m, partOf(q.over, m), func(m *machine) (more, ok bool) {
		m.cost += q.going
		if result == q.decisive {
			return false, true
		}
		m.cost++ // the accumulator
		result, ok = q.test.eval(m).(types.Bool)
		return true, ok
	})
	if !ok {
		return nil
	}
	m.cost++ // the accumulator, as the result
	return result
}

// collection is the macro map or filter: a fold that appends items to a list.
type collection struct {
	*fold
	filter  node // nil: every item
	element node
}

// recognizeCollection returns a collection, or nil for other folds.
func recognizeCollection(f *fold) *collection {
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
	c := &collection{fold: f}
	step := f.step
	if choice, ok := step.(*conditional); ok {
		if no, ok := choice.no.(accumulator); !ok || no.fold != f {
			return nil
		}
		c.filter, step = choice.condition, choice.yes
	}
	add, ok := step.(*binary)
	if !ok || add.name != operators.Add || add.cost != costUnit || !f.isAccumulator(add.left) {
		return nil
	}
	l, ok := add.right.(*listing)
	if !ok || len(l.items) != 1 || l.items[0].optional {
		return nil
	}
	c.element = l.items[0].node
	return c
}

func (c *collection) eval(m *machine) ref.Val {
	over := partOf(c.over, m)
	list := make([]ref.Val, 0, over.capacityHint())
	ok := c.each(m, over, func(m *machine) bool {
		v := c.element.eval(m)
		list = append(list, v)
		return v != nil
	})
	if !ok {
		return nil
	}
	return m.chargeList(types.NewRefValList(c.adapter, list), list)
}

// each calls add for each item that passes the filter.
func (c *collection) each(m *machine, over part, add func(*machine) bool) bool {
	ok := c.iterate(m, over, func(m *machine) (more, ok bool) {
		if c.filter != nil {
			takes, isBool := c.filter.eval(m).(types.Bool)
			if !isBool || !bool(takes) {
				return true, isBool
			}
		}
		m.cost += 1 + common.ListCreateBaseCost + 1 // the accumulator, the new list, the addition
		return true, add(m)
	})
	m.cost++ // the accumulator, as the result
	return ok
}
