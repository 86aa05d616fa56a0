package plan

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celgate/celgate/internal/bound"
)

// value gives up for an error or unknown value.
func value(v ref.Val) ref.Val {
	switch v.(type) {
	case *types.Err, *types.Unknown:
		return nil
	}
	return v
}

type constant struct{ value ref.Val }

func (c constant) eval(*machine) ref.Val { return c.value }

// paid is a constant with the cost of its computation.
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
	// The costs of variables are counted elsewhere; a variable that cel-go would not reach must not be evaluated.
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

// record is a variable of [Records]: request, of which expressions read few members, or the value of a scope.
type record struct{ global }

func (r record) members(m *machine) part {
	if m.records == nil {
		m.records, _ = m.vars.(Records)
	}
	if m.records == nil || m.cost > m.limit {
		return part{}
	}
	if of, shows := m.records.Record(string(r.global)); of != nil {
		return part{of, shows}
	}
	return part{}
}

// iterator is the variable of a comprehension, by its slot.
type iterator int

func (i iterator) eval(m *machine) ref.Val { return m.locals[i].val() }

// logical is && or ||; the value decisive settles it.
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
	l, r, ok := evalBoth(m, e.left, e.right)
	if !ok {
		return nil
	}
	if left, right, ok := texts(l, r); ok {
		m.cost += smallerText(left, right)
		return types.Bool(left == right)
	}
	left, right := l.val(), r.val()
	if left == nil || right == nil {
		return nil
	}
	if !m.chargeComparison(left, right) {
		return nil
	}
	v := value(types.Equal(left, right))
	m.cost += equalityCost(left, right, v)
	return v
}

type inequality struct{ left, right node }

func (e *inequality) eval(m *machine) ref.Val {
	l, r, ok := evalBoth(m, e.left, e.right)
	if !ok {
		return nil
	}
	if left, right, ok := texts(l, r); ok {
		m.cost += smallerText(left, right)
		return types.Bool(left != right)
	}
	left, right := l.val(), r.val()
	if left == nil || right == nil {
		return nil
	}
	if !m.chargeComparison(left, right) {
		return nil
	}
	m.cost += smallerCost(left, right)
	return types.Bool(types.Equal(left, right) != types.True)
}

// evalBoth evaluates two nodes; ok is false if one gives up.
func evalBoth(m *machine, left, right node) (l, r part, ok bool) {
	if l = partOf(left, m); l.hasGivenUp() {
		return l, r, false
	}
	r = partOf(right, m)
	return l, r, !r.hasGivenUp()
}

// texts returns two parts if both are strings.
func texts(l, r part) (left, right string, ok bool) {
	if left, ok = l.text(); !ok {
		return "", "", false
	}
	right, ok = r.text()
	return left, right, ok
}

type unary struct {
	name, overload string
	arg            node
	trait          int
	impl           functions.UnaryOp
	cost           costKind
	guard          bound.Guard // nil: none
}

func (u *unary) eval(m *machine) ref.Val {
	p := partOf(u.arg, m)
	if u.name == overloads.Size && u.cost == costUnit {
		if n, ok := p.size(); ok {
			m.cost++
			return n
		}
	}
	arg := p.val()
	if arg == nil {
		return nil
	}
	if u.guard != nil && !m.affords(u.guard, arg) {
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
	guard          bound.Guard // nil: none
	fast           shortcut    // may be nil
}

// A shortcut applies a function to parts of trees without making values of them, and returns its cost. It returns nil
// if it cannot tell.
type shortcut func(left, right part) (v ref.Val, cost uint64)

// shortcutOf returns the shortcut of a function with two arguments, the second of which is arg; nil if there is none.
func shortcutOf(name, overload string, cost costKind, arg node) shortcut {
	switch {
	case overload == overloads.StartsWithString:
		return textTest(strings.HasPrefix, endCost(cost, arg))
	case overload == overloads.EndsWithString:
		return textTest(strings.HasSuffix, endCost(cost, arg))
	case overload == overloads.ContainsString:
		return textTest(strings.Contains, func(s,
			part string) uint64 {
			return traversal(runes(s)) * traversal(runes(part))
		})
	case name == operators.In && (cost == costUnit || cost == costMembership):
		return func(left, right part) (ref.Val, uint64) { return isIn(left, right, cost) }
	}
	return nil
}

// endCost returns the cost of comparing one end of a text: by the length of that end, or with costText of the text.
func endCost(kind costKind, arg node) func(s, end string) uint64 {
	if kind == costText {
		return func(s, _ string) uint64 { return traversal(runes(s)) }
	}
	if c, ok := arg.(constant); ok {
		if end, ok := c.value.(types.String); ok {
			always := traversal(runes(string(end)))
			return func(_, _ string) uint64 { return always }
		}
	}
	return func(_, end string) uint64 { return traversal(runes(end)) }
}

func textTest(test func(s, arg string) bool, cost func(s, arg string) uint64) shortcut {
	return func(left, right part) (ref.Val, uint64) {
		s, arg, ok := texts(left, right)
		if !ok {
			return nil, 0
		}
		return types.Bool(test(s, arg)), cost(s, arg)
	}
}

// isIn finds a string in a map or in a list of strings.
func isIn(element, in part, kind costKind) (ref.Val, uint64) {
	text, isText := element.text()
	if !isText {
		return nil, 0
	}
	items, isList := in.list()
	if !isList {
		if _, found, ok := in.lookUp(text); ok {
			return types.Bool(found), 1
		}
		return nil, 0
	}
	cost := uint64(1)
	if kind == costMembership {
		cost = uint64(len(items))
	}
	for _, item := range items {
		s, isText := item.(string)
		if !isText {
			return nil, 0
		}
		if s == text {
			return types.True, cost
		}
	}
	return types.False, cost
}

func (b *binary) eval(m *machine) ref.Val {
	left, right, ok := evalBoth(m, b.left, b.right)
	if !ok {
		return nil
	}
	if b.fast != nil {
		if v, cost := b.fast(left, right); v != nil {
			m.cost += cost
			return v
		}
	}
	l, r := left.val(), right.val()
	if l == nil || r == nil {
		return nil
	}
	if b.guard != nil && !m.affords(b.guard, l, r) {
		return nil
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
	guard          bound.Guard // nil: none
}

func (c *variadic) eval(m *machine) ref.Val {
	args := make([]ref.Val, len(c.args))
	for i, a := range c.args {
		if args[i] = a.eval(m); args[i] == nil {
			return nil
		}
	}
	if c.guard != nil && c.guard(m.meter(), args) != nil {
		return nil
	}
	var v ref.Val
	switch {
	case len(args) == 0, c.impl.OperandTrait == 0, args[0].Type().HasTrait(c.impl.OperandTrait):
		v = value(c.impl.Function(args...))
	case args[0].Type().HasTrait(traits.ReceiverType):
		v = value(args[0].(traits.Receiver).Receive(c.name, c.overload, args[1:]))
	}
	if v != nil {
		m.cost += c.cost.cost(c.name, c.overload, args, v)
	}
	return v
}

// matches is a match with a constant pattern.
type matches struct {
	text      node
	re        *regexp.Regexp
	regexCost uint64
	takes     bound.Pattern
}

func (n *matches) eval(m *machine) ref.Val {
	text, ok := partOf(n.text, m).text()
	if !ok {
		return nil
	}
	if !n.takes.IsLight(text) && m.meter().ChargeMatch(n.takes, n.re, text) != nil {
		return nil
	}
	m.cost += textCost(runes(text)) * n.regexCost
	return types.Bool(n.re.MatchString(text))
}

// isSmall reports whether a constant pattern is compiled once. A large one is compiled and charged for each call.
func isSmall(pattern ref.Val) bool {
	text, isText := pattern.(types.String)
	return !isText || bound.PatternOf(string(text), bound.Served.Bytes).IsSmall()
}

// searchOverload returns find or findAll with a constant pattern; nil for an invalid one.
func searchOverload(impl *functions.Overload, pattern ref.Val) *functions.Overload {
	text, isText := pattern.(types.String)
	if !isText {
		return nil
	}
	re, err := regexp.Compile(string(text))
	if err != nil {
		return nil
	}
	all := func(in ref.Val, limit types.Int) ref.Val {
		s, isText := in.(types.String)
		if !isText {
			return nil
		}
		return types.DefaultTypeAdapter.NativeToValue(re.FindAllString(string(s), int(limit)))
	}
	found := *impl
	switch impl.Operator {
	case "string_find_string":
		found.Binary = func(in, _ ref.Val) ref.Val {
			s, isText := in.(types.String)
			if !isText {
				return nil
			}
			return types.String(re.FindString(string(s)))
		}
	case "string_find_all_string":
		found.Binary = func(in, _ ref.Val) ref.Val { return all(in, -1) }
	case "string_find_all_string_int":
		found.Function = func(args ...ref.Val) ref.Val {
			limit, ok := args[2].(types.Int)
			if !ok {
				return nil
			}
			return all(args[0], limit)
		}
	default:
		return nil
	}
	return &found
}

// set is membership in a constant list of scalars, which is free.
type set struct {
	arg    node
	values map[ref.Val]bool
}

func (s *set) eval(m *machine) ref.Val {
	p := partOf(s.arg, m)
	if text, isText := p.text(); isText {
		return types.Bool(s.values[types.String(text)])
	}
	v := p.val()
	if v == nil {
		return nil
	}
	return types.Bool(s.values[v]) // panics, as in cel-go, for a value that cannot be a key, such as bytes
}

// membership makes a set of a constant list, by the rules of maybeOptimizeSetMembership in interpreter/decorators.go
// v0.29.2; nil if they do not allow it.
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
			if _, isDouble := item.(types.Double); !types.IsError(converted) &&
				(!isDouble || converted.Equal(item) == types.True) {
				values[converted] = true
			}
		}
	}
	return &set{arg, values}
}

// An element is one element of a literal of a list, map or struct.
type element struct {
	node
	optional bool // the value is an optional; an empty one is left out
}

// evaluate returns the value, if it is present. It is not ok to give up.
func (e element) evaluate(m *machine) (v ref.Val, present, ok bool) {
	v = e.eval(m)
	if v == nil || !e.optional {
		return v, true, v != nil
	}
	opt, ok := v.(*types.Optional)
	if !ok || !opt.HasValue() {
		return nil, false, ok
	}
	return opt.GetValue(), true, true
}

type listing struct {
	items   []element
	adapter types.Adapter
}

func (l *listing) eval(m *machine) ref.Val {
	items := make([]ref.Val, 0, len(l.items))
	for _, item := range l.items {
		v, present, ok := item.evaluate(m)
		if !ok {
			return nil
		}
		if present {
			items = append(items, v)
		}
	}
	m.cost += common.ListCreateBaseCost
	return m.chargeList(types.NewRefValList(l.adapter, items), items)
}

type mapping struct {
	keys    []node
	values  []element
	adapter types.Adapter
}

func (l *mapping) eval(m *machine) ref.Val {
	entries := make(map[ref.Val]ref.Val, len(l.keys))
	heavy := false
	for i := range l.keys {
		k := l.keys[i].eval(m)
		if k == nil {
			return nil
		}
		v, present, ok := l.values[i].evaluate(m)
		if !ok {
			return nil
		}
		if present {
			entries[k] = v
			heavy = heavy || bound.IsMade(v)
		} else {
			delete(entries, k)
		}
	}
	m.cost += common.MapCreateBaseCost
	made := types.NewRefValMap(l.adapter, entries)
	if heavy && bound.ChargeMade(m.meter(), made) != nil {
		return nil
	}
	return made
}

type structure struct {
	typeName string
	fields   []string
	values   []element
	provider types.Provider
}

func (s *structure) eval(m *machine) ref.Val {
	fields := make(map[string]ref.Val, len(s.fields))
	for i, name := range s.fields {
		v, present, ok := s.values[i].evaluate(m)
		if !ok {
			return nil
		}
		if present {
			fields[name] = v
		} else {
			delete(fields, name)
		}
	}
	v := value(s.provider.NewValue(s.typeName, fields))
	m.cost += common.StructCreateBaseCost
	return v
}

// alternative is or and orValue, which are free.
type alternative struct {
	optional, otherwise node
	unwrap              bool
	lenient             bool // a value that is not an optional is returned unchanged
}

func (a *alternative) eval(m *machine) ref.Val {
	any := a.optional.eval(m)
	v, ok := any.(*types.Optional)
	switch {
	case !ok && a.lenient:
		return any
	case !ok:
		return nil
	case !v.HasValue():
		return a.otherwise.eval(m)
	case a.unwrap:
		return value(v.GetValue())
	}
	return v
}
