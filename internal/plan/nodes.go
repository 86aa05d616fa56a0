package plan

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// value makes an error or unknown value give up.
func value(v ref.Val) ref.Val {
	switch v.(type) {
	case *types.Err, *types.Unknown:
		return nil
	}
	return v
}

type constant struct{ value ref.Val }

func (c constant) eval(*machine) ref.Val { return c.value }

// paid is a constant that costs what its computation does.
type paid struct {
	value ref.Val
	cost  uint64
}

func (p *paid) eval(m *machine) ref.Val {
	m.cost += p.cost
	return p.value
}

// global is a variable of the environment.
type global string

func (g global) eval(m *machine) ref.Val {
	// What variables cost counts elsewhere, so that none may be evaluated that cel-go would not reach.
	if m.cost > m.limit {
		return nil
	}
	v, found := m.vars.ResolveName(string(g))
	if !found {
		return nil
	}
	cel, ok := v.(ref.Val)
	if !ok {
		return nil
	}
	return value(cel)
}

// iterator is the variable of a comprehension, by its slot.
type iterator int

func (i iterator) eval(m *machine) ref.Val { return m.locals[i] }

// accumulator is the result so far of a comprehension. Its first value is made when it is first read.
type accumulator struct{ *fold }

func (a accumulator) eval(m *machine) ref.Val {
	if v := m.locals[a.fold.accumulator]; v != nil {
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
	m.locals[a.fold.accumulator] = v
	return v
}

// An attribute is a value and the path that is selected in it.
type attribute struct {
	root     node
	path     []qualifier
	cost     uint64
	optional bool // something in path is
}

func (a *attribute) relative() bool {
	switch a.root.(type) {
	case global, iterator, accumulator:
		return false
	}
	return true
}

type qualifier struct {
	key      ref.Val
	dynamic  node // computes the key if it is not constant
	optional bool
}

func (a *attribute) eval(m *machine) ref.Val {
	v := a.root.eval(m)
	if v == nil {
		return nil
	}
	if opt, ok := v.(*types.Optional); ok || a.optional {
		v = a.optionally(m, v, opt)
	} else {
		for i := range a.path {
			q := &a.path[i]
			key := q.key
			if q.dynamic != nil {
				if key = q.dynamic.eval(m); key == nil || !isKey(key) {
					return nil
				}
			}
			if v = member(v, key); v == nil {
				return nil
			}
			m.cost++
		}
	}
	m.cost += a.cost
	return v
}

// optionally follows a path of which something may be absent.
func (a *attribute) optionally(m *machine, v ref.Val, opt *types.Optional) ref.Val {
	isOptional := opt != nil
	if isOptional {
		if !opt.HasValue() || len(a.path) == 0 {
			return opt
		}
		v = opt.GetValue()
	}
	for i := range a.path {
		q := &a.path[i]
		isOptional = isOptional || q.optional
		key := q.key
		if q.dynamic != nil {
			if key = q.dynamic.eval(m); key == nil || !isKey(key) {
				return nil
			}
		}
		if !isOptional {
			if v = member(v, key); v == nil {
				return nil
			}
			m.cost++
			continue
		}
		next, present, ok := find(v, key)
		if !ok {
			return nil
		}
		if !present {
			return types.OptionalNone
		}
		v = next
		m.cost++
	}
	return types.OptionalOf(v)
}

// isKey reports whether a value can select something.
func isKey(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Int, types.Uint, types.Bool, types.Double:
		return true
	}
	return false
}

// member selects one member or element; nil if there is none.
func member(v, key ref.Val) ref.Val {
	switch v := v.(type) {
	case traits.Mapper:
		found, ok := v.Find(key)
		if !ok || found == nil {
			return nil
		}
		return value(found)
	case traits.Lister:
		i, err := types.IndexOrError(key)
		if err != nil || i < 0 || types.Int(i) >= v.Size().(types.Int) {
			return nil
		}
		return value(v.Get(key))
	case traits.Indexer:
		return value(v.Get(key))
	}
	return nil
}

// find selects one member or element that may be absent. What it does not know about is not ok.
func find(v, key ref.Val) (found ref.Val, present, ok bool) {
	switch v := v.(type) {
	case traits.Mapper:
		found, present = v.Find(key)
		if found != nil && value(found) == nil {
			return nil, false, false
		}
		return found, present, true
	case traits.Lister:
		i, err := types.IndexOrError(key)
		if err != nil {
			return nil, false, false
		}
		if i < 0 || types.Int(i) >= v.Size().(types.Int) {
			return nil, false, true
		}
		found = value(v.Get(key))
		return found, true, found != nil
	case traits.Indexer, *types.Optional:
		return nil, false, false
	}
	return nil, false, true
}

// presence is has().
type presence struct {
	root node
	path []qualifier
	key  ref.Val
}

func (p *presence) eval(m *machine) ref.Val {
	v := p.root.eval(m)
	if v == nil {
		return nil
	}
	if _, ok := v.(*types.Optional); ok {
		return nil
	}
	for i := range p.path {
		q := &p.path[i]
		key := q.key
		if q.dynamic != nil {
			if key = q.dynamic.eval(m); key == nil || !isKey(key) {
				return nil
			}
		}
		if v = member(v, key); v == nil {
			return nil
		}
		m.cost++
	}
	if _, ok := v.(*types.Optional); ok {
		return nil
	}
	_, present, ok := find(v, p.key)
	if !ok {
		return nil
	}
	m.cost++
	return types.Bool(present)
}

// logical is && or ||: decisive is the value that settles it.
type logical struct {
	terms    []node
	decisive types.Bool
}

func (l *logical) eval(m *machine) ref.Val {
	for _, t := range l.terms {
		v, ok := t.eval(m).(types.Bool)
		if !ok {
			return nil
		}
		if v == l.decisive {
			return v
		}
	}
	return !l.decisive
}

type conditional struct{ condition, yes, no node }

func (c *conditional) eval(m *machine) ref.Val {
	v, ok := c.condition.eval(m).(types.Bool)
	if !ok {
		return nil
	}
	if v {
		return c.yes.eval(m)
	}
	return c.no.eval(m)
}

type notStrictlyFalse struct{ arg node }

func (n notStrictlyFalse) eval(m *machine) ref.Val {
	v, ok := n.arg.eval(m).(types.Bool)
	if !ok {
		return nil
	}
	m.cost++
	return v
}

type equality struct{ left, right node }

func (e *equality) eval(m *machine) ref.Val {
	l := e.left.eval(m)
	if l == nil {
		return nil
	}
	r := e.right.eval(m)
	if r == nil {
		return nil
	}
	v := value(types.Equal(l, r))
	m.cost += equalityCost(l, r, v)
	return v
}

type inequality struct{ left, right node }

func (e *inequality) eval(m *machine) ref.Val {
	l := e.left.eval(m)
	if l == nil {
		return nil
	}
	r := e.right.eval(m)
	if r == nil {
		return nil
	}
	m.cost += smallerCost(l, r)
	return types.Bool(types.Equal(l, r) != types.True)
}

type unary struct {
	name, overload string
	arg            node
	trait          int
	impl           functions.UnaryOp
	cost           costKind
}

func (u *unary) eval(m *machine) ref.Val {
	arg := u.arg.eval(m)
	if arg == nil {
		return nil
	}
	var v ref.Val
	switch {
	case u.trait == 0 || arg.Type().HasTrait(u.trait):
		v = value(u.impl(arg))
	case arg.Type().HasTrait(traits.ReceiverType):
		v = value(arg.(traits.Receiver).Receive(u.name, u.overload, []ref.Val{}))
	}
	if v != nil {
		m.cost += u.cost.of1(u.name, u.overload, arg, v)
	}
	return v
}

type binary struct {
	name, overload string
	left, right    node
	trait          int
	impl           functions.BinaryOp
	cost           costKind
}

func (b *binary) eval(m *machine) ref.Val {
	l := b.left.eval(m)
	if l == nil {
		return nil
	}
	r := b.right.eval(m)
	if r == nil {
		return nil
	}
	if b.cost == costPrefix {
		if l, ok := l.(types.String); ok {
			if r, ok := r.(types.String); ok {
				m.cost += traversal(size(r))
				if b.overload == "starts_with_string" {
					return types.Bool(strings.HasPrefix(string(l), string(r)))
				}
				return types.Bool(strings.HasSuffix(string(l), string(r)))
			}
		}
	}
	var v ref.Val
	switch {
	case b.trait == 0 || l.Type().HasTrait(b.trait):
		v = value(b.impl(l, r))
	case l.Type().HasTrait(traits.ReceiverType):
		v = value(l.(traits.Receiver).Receive(b.name, b.overload, []ref.Val{r}))
	}
	if v != nil {
		m.cost += b.cost.of2(b.name, b.overload, l, r, v)
	}
	return v
}

type variadic struct {
	name, overload string
	args           []node
	impl           *functions.Overload
	cost           costKind
}

func (c *variadic) eval(m *machine) ref.Val {
	args := make([]ref.Val, len(c.args))
	for i, a := range c.args {
		if args[i] = a.eval(m); args[i] == nil {
			return nil
		}
	}
	var v ref.Val
	switch {
	case len(args) == 0, c.impl.OperandTrait == 0, args[0].Type().HasTrait(c.impl.OperandTrait):
		v = value(c.impl.Function(args...))
	case args[0].Type().HasTrait(traits.ReceiverType):
		v = value(args[0].(traits.Receiver).Receive(c.name, c.overload, args[1:]))
	}
	if v != nil {
		m.cost += c.cost.of(c.name, c.overload, args, v)
	}
	return v
}

// matches is a match with a constant pattern.
type matches struct {
	text      node
	re        *regexp.Regexp
	regexCost uint64
}

func (n *matches) eval(m *machine) ref.Val {
	v := n.text.eval(m)
	if v == nil {
		return nil
	}
	text, ok := v.Value().(string)
	if !ok {
		return nil
	}
	m.cost += textCost(v) * n.regexCost
	return types.Bool(n.re.MatchString(text))
}

// set is membership in a constant list of scalars, which is free.
type set struct {
	arg    node
	values map[ref.Val]bool
}

func (s *set) eval(m *machine) ref.Val {
	v := s.arg.eval(m)
	if v == nil {
		return nil
	}
	if v.Type() != types.BytesType && !types.IsPrimitiveType(v) { // it is in no such list, and not every map or list can be a key
		return types.False
	}
	return types.Bool(s.values[v])
}

// membership makes a set of a constant list, by the rules of maybeOptimizeSetMembership in
// interpreter/decorators.go v0.29.2; nil if it is none.
func membership(arg node, v ref.Val) node {
	list, ok := v.(traits.Lister)
	if !ok {
		return nil
	}
	if list.Size() == types.IntZero {
		return constant{types.False}
	}
	values := map[ref.Val]bool{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		if !types.IsPrimitiveType(item) || item.Type() == types.BytesType {
			return nil
		}
		values[item] = true
		var others []ref.Type
		switch item.(type) {
		case types.Double:
			others = []ref.Type{types.IntType, types.UintType}
		case types.Int:
			others = []ref.Type{types.DoubleType, types.UintType}
		case types.Uint:
			others = []ref.Type{types.DoubleType, types.IntType}
		}
		for _, t := range others {
			converted := item.ConvertToType(t)
			if _, isDouble := item.(types.Double); !types.IsError(converted) && (!isDouble || converted.Equal(item) == types.True) {
				values[converted] = true
			}
		}
	}
	return &set{arg, values}
}

type listing struct {
	items    []node
	optional []bool
	adapter  types.Adapter
}

func (l *listing) eval(m *machine) ref.Val {
	items := make([]ref.Val, 0, len(l.items))
	for i, n := range l.items {
		v := n.eval(m)
		if v == nil {
			return nil
		}
		if l.optional != nil && l.optional[i] {
			opt, ok := v.(*types.Optional)
			if !ok {
				return nil
			}
			if !opt.HasValue() {
				continue
			}
			v = opt.GetValue()
		}
		items = append(items, v)
	}
	m.cost += common.ListCreateBaseCost
	return types.NewRefValList(l.adapter, items)
}

type mapping struct {
	keys, values []node
	optional     []bool
	adapter      types.Adapter
}

func (l *mapping) eval(m *machine) ref.Val {
	entries := make(map[ref.Val]ref.Val, len(l.keys))
	for i := range l.keys {
		k := l.keys[i].eval(m)
		if k == nil {
			return nil
		}
		v := l.values[i].eval(m)
		if v == nil {
			return nil
		}
		if l.optional[i] {
			opt, ok := v.(*types.Optional)
			if !ok {
				return nil
			}
			if !opt.HasValue() {
				delete(entries, k)
				continue
			}
			v = opt.GetValue()
		}
		entries[k] = v
	}
	m.cost += common.MapCreateBaseCost
	return types.NewRefValMap(l.adapter, entries)
}

type structure struct {
	typeName string
	fields   []string
	values   []node
	optional []bool
	provider types.Provider
}

func (s *structure) eval(m *machine) ref.Val {
	fields := make(map[string]ref.Val, len(s.fields))
	for i, name := range s.fields {
		v := s.values[i].eval(m)
		if v == nil {
			return nil
		}
		if s.optional[i] {
			opt, ok := v.(*types.Optional)
			if !ok {
				return nil
			}
			if !opt.HasValue() {
				delete(fields, name)
				continue
			}
			v = opt.GetValue()
		}
		fields[name] = v
	}
	v := value(s.provider.NewValue(s.typeName, fields))
	m.cost += common.StructCreateBaseCost
	return v
}

// fold is a comprehension.
type fold struct {
	init, over, condition, step, result node
	accumulator, iterator               int
	adapter                             types.Adapter
}

func (f *fold) eval(m *machine) ref.Val {
	m.locals[f.accumulator] = nil
	over := f.over.eval(m)
	if over == nil {
		return nil
	}
	iterable, ok := over.(traits.Iterable)
	if !ok || !over.Type().HasTrait(traits.IterableType) {
		return nil
	}
	for it := iterable.Iterator(); it.HasNext() == types.True; {
		v := value(it.Next())
		if v == nil {
			return nil
		}
		m.locals[f.iterator] = v
		going := f.condition.eval(m)
		if going == nil {
			return nil
		}
		if b, ok := going.(types.Bool); ok && !bool(b) {
			break
		}
		if v = f.step.eval(m); v == nil {
			return nil
		}
		m.locals[f.accumulator] = v
		if !m.next() {
			return nil
		}
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

// alternative is or and orValue, which are free.
type alternative struct {
	optional, otherwise node
	unwrap              bool
}

func (a *alternative) eval(m *machine) ref.Val {
	v, ok := a.optional.eval(m).(*types.Optional)
	switch {
	case !ok:
		return nil
	case !v.HasValue():
		return a.otherwise.eval(m)
	case a.unwrap:
		return value(v.GetValue())
	}
	return v
}
