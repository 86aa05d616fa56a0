package prove

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// A scope maps names to values.
type scope struct {
	name  string
	value *value
	outer *scope
}

func (s *scope) find(name string) *value {
	for ; s != nil; s = s.outer {
		if s.name == name {
			return s.value
		}
	}
	return nil
}

// bind returns a scope with one more name.
func (s *scope) bind(name string, v *value) *scope { return &scope{name, v, s} }

// A frame is the context of the expressions of one invocation.
type frame struct {
	*machine
	roots     map[string]*value
	variables func(name string) *value
}

// evaluate returns the value of an expression.
func (f *frame) evaluate(e ast.Expr, in *scope) *value {
	before := f.at.id
	f.at.id = e.ID()
	defer func() { f.at.id = before }()
	switch e.Kind() {
	case ast.LiteralKind:
		return f.literal(e)
	case ast.IdentKind:
		return f.ident(e, in)
	case ast.SelectKind:
		return f.selection(e, in)
	case ast.CallKind:
		return f.call(e, in)
	case ast.ListKind:
		return f.listLiteral(e.AsList(), in)
	case ast.MapKind:
		if v := f.mapLiteral(e.AsMap(), in); v != nil {
			return v
		}
	case ast.ComprehensionKind:
		return f.comprehension(e, in)
	case ast.StructKind:
		return f.structLiteral(e.AsStruct(), in)
	}
	return f.opaqueExpression(e, in)
}

func (f *frame) literal(e ast.Expr) *value {
	switch v := e.AsLiteral().(type) {
	case types.Bool:
		if v {
			return newBool(solve.True)
		}
		return newBool(solve.False)
	case types.Int:
		return newLeaf(numberOf(int64(v)))
	case types.Double:
		return newLeaf(doubleLeaf(v))
	case types.String:
		return newLeaf(textOf(string(v)))
	case types.Null:
		return newLeaf(nullLeaf{})
	}
	return f.opaqueCall(fmt.Sprintf("%T %v", e.AsLiteral(), e.AsLiteral()))
}

func (f *frame) ident(e ast.Expr, in *scope) *value {
	name := e.AsIdent()
	if v := in.find(name); v != nil {
		return v
	}
	if v := f.roots[name]; v != nil {
		return v
	}
	return f.opaqueCall(name)
}

func (f *frame) selection(e ast.Expr, in *scope) *value {
	s := e.AsSelect()
	if ref, ok := f.at.ast.ReferenceMap()[e.ID()]; ok && ref.Name != "" && s.Operand().Kind() == ast.IdentKind &&
		in.find(s.Operand().AsIdent()) == nil {
		if v := f.roots[ref.Name]; v != nil {
			return v
		}
		return f.opaqueCall(ref.Name)
	}
	if o := s.Operand(); o.Kind() == ast.IdentKind && o.AsIdent() == "variables" && in.find("variables") == nil {
		if v := f.variables(s.FieldName()); v != nil && !s.IsTestOnly() {
			return v
		}
	}
	operand := f.evaluate(s.Operand(), in)
	return f.lift([]*value{operand}, func(l []leaf) *value {
		if s.IsTestOnly() {
			return f.has(l[0], s.FieldName())
		}
		return f.get(l[0], s.FieldName())
	})
}

// part returns the conditions under which a value has a member, and the value of the member. Not ok: it does not have
// members.
func (m *machine) part(l leaf, name string) (present solve.Formula, v *value, ok bool) {
	switch l := l.(type) {
	case *node:
		switch l.typ.Kind {
		case shape.Struct:
			p := l.member(name)
			if p == nil {
				if l.typ.PreserveUnknown || !l.builtin && l.typ.Embedded {
					return 0, nil, false
				}
				return solve.False, nil, true
			}
			return p.present, p.value(), true
		case shape.Map:
			e := l.entry(name)
			return e.present, e.value(), true
		}
	case *dict:
		if v := l.values[name]; v != nil {
			return solve.True, v, true
		}
		return solve.False, nil, true
	case *record:
		if l.typ.Field(name) == nil && !l.isMap() && l.typ.PreserveUnknown {
			return 0, nil, false
		}
		h := l.member(name)
		return h.present, h.value, true
	case *draft:
		if d := l.field(name); d != nil {
			return d.present, d.value, true
		}
		return solve.False, nil, true
	}
	return 0, nil, false
}

func (f *frame) get(l leaf, name string) *value {
	if present, v, ok := f.part(l, name); ok {
		if v == nil {
			return failure()
		}
		return f.choose(present, v, failure())
	}
	switch l := l.(type) {
	case opaqueLeaf, *node, *record:
		return f.opaqueOf("."+name, l)
	case someLeaf, noneLeaf:
		return f.optionalMember(l, name)
	}
	return failure()
}

func (f *frame) has(l leaf, name string) *value {
	if present, _, ok := f.part(l, name); ok {
		return newBool(present)
	}
	switch l := l.(type) {
	case opaqueLeaf, *node, *record:
		return f.opaqueOf("has ."+name, l)
	case *list:
		return failure()
	case noneLeaf:
		return newBool(solve.False)
	case someLeaf:
		return f.lift([]*value{l.value}, func(l []leaf) *value { return f.has(l[0], name) })
	}
	return newBool(solve.False) // as interpreter/attributes.go of cel-go tests values without members
}

// optionalMember is a.?name.
func (f *frame) optionalMember(l leaf, name string) *value {
	if present, v, ok := f.part(l, name); ok {
		if v == nil {
			return newLeaf(noneLeaf{})
		}
		return f.choose(present, f.some(v), newLeaf(noneLeaf{}))
	}
	switch l := l.(type) {
	case opaqueLeaf, *node, *record:
		return f.opaqueOf(".?"+name, l)
	case noneLeaf:
		return newLeaf(l)
	case someLeaf:
		return f.lift([]*value{l.value}, func(l []leaf) *value { return f.optionalMember(l[0], name) })
	case *list:
		return failure()
	}
	return newLeaf(noneLeaf{})
}

// some returns an optional with a value, or an error if the value is an error.
func (f *frame) some(v *value) *value {
	g := f.newMerger()
	g.add(v.err, failure())
	g.addLeaf(v.err.Negate(), someLeaf{v})
	return g.value()
}

func (f *frame) listLiteral(e ast.ListExpr, in *scope) *value {
	out := &list{}
	failing := solve.False
	for i, x := range e.Elements() {
		v := f.evaluate(x, in)
		failing = f.store.Disjoin(failing, v.err)
		if !e.IsOptional(int32(i)) {
			out.items = append(out.items, &item{solve.True, v})
			continue
		}
		for _, a := range v.parts() {
			switch l := a.leaf.(type) {
			case someLeaf:
				out.items = append(out.items, &item{a.when, l.value})
			case noneLeaf:
			default:
				return f.opaqueCall("[?]", v)
			}
		}
	}
	g := f.newMerger()
	g.add(failing, failure())
	g.addLeaf(failing.Negate(), out)
	return g.value()
}

// mapLiteral returns nil for a map with a non-constant key. A map with optional entries is a draft.
func (f *frame) mapLiteral(e ast.MapExpr, in *scope) *value {
	out := &dict{values: map[string]*value{}}
	open := &draft{}
	failing, optional := solve.False, false
	for _, x := range e.Entries() {
		entry := x.AsMapEntry()
		if entry.Key().Kind() != ast.LiteralKind {
			return nil
		}
		key, ok := entry.Key().AsLiteral().(types.String)
		if !ok || open.field(string(key)) != nil {
			return nil
		}
		v := f.evaluate(entry.Value(), in)
		h, err, ok := f.optionalPart(v, entry.IsOptional())
		if !ok {
			return nil
		}
		optional = optional || entry.IsOptional()
		failing = f.store.Disjoin(failing, err)
		open.fields = append(open.fields, draftField{string(key), h.present, h.value})
		out.keys, out.values[string(key)] = append(out.keys, string(key)), v
	}
	g := f.newMerger()
	g.add(failing, failure())
	if optional {
		g.addLeaf(failing.Negate(), open)
	} else {
		g.addLeaf(failing.Negate(), out)
	}
	return g.value()
}

// opaqueExpression returns an opaque value for an expression, identified by its text and the values of its names.
func (f *frame) opaqueExpression(e ast.Expr, in *scope) *value {
	text, free := describe(e)
	var args []*value
	for _, name := range free {
		if name != "variables" {
			args = append(args, f.identValue(name, in))
		}
	}
	for _, name := range variablesIn(e) {
		if v := f.variables(name); v != nil {
			args = append(args, v)
		}
	}
	what := "an expression of this kind"
	if e.Kind() == ast.ComprehensionKind {
		what = "a macro over a value of this kind"
	}
	return f.opaqueValue(keyOf(text, args...), f.typeHere(), what)
}

func (f *frame) identValue(name string, in *scope) *value {
	if v := in.find(name); v != nil {
		return v
	}
	if v := f.roots[name]; v != nil {
		return v
	}
	return newLeaf(nullLeaf{}) // the text contains the name
}

// describe writes an expression as a unique text, and lists its free names.
func describe(e ast.Expr) (text string, free []string) {
	var b strings.Builder
	bound := map[string]int{}
	var write func(e ast.Expr)
	list := func(all []ast.Expr) {
		b.WriteByte('(')
		for _, x := range all {
			write(x)
			b.WriteByte(' ')
		}
		b.WriteByte(')')
	}
	write = func(e ast.Expr) {
		switch e.Kind() {
		case ast.LiteralKind:
			fmt.Fprintf(&b, "%T:%q", e.AsLiteral(), fmt.Sprint(e.AsLiteral().Value()))
		case ast.IdentKind:
			name := e.AsIdent()
			b.WriteString(name)
			if bound[name] == 0 && !slices.Contains(free, name) {
				free = append(free, name)
			}
		case ast.SelectKind:
			s := e.AsSelect()
			write(s.Operand())
			fmt.Fprintf(&b, ".%v%s", s.IsTestOnly(), s.FieldName())
		case ast.CallKind:
			c := e.AsCall()
			b.WriteString(c.FunctionName())
			if c.IsMemberFunction() {
				write(c.Target())
			}
			list(c.Args())
		case ast.ListKind:
			fmt.Fprint(&b, e.AsList().OptionalIndices())
			list(e.AsList().Elements())
		case ast.MapKind:
			b.WriteByte('{')
			for _, x := range e.AsMap().Entries() {
				write(x.AsMapEntry().Key())
				fmt.Fprint(&b, ":", x.AsMapEntry().IsOptional())
				write(x.AsMapEntry().Value())
			}
			b.WriteByte('}')
		case ast.StructKind:
			b.WriteString(e.AsStruct().TypeName() + "{")
			for _, x := range e.AsStruct().Fields() {
				fmt.Fprint(&b, x.AsStructField().Name(), ":", x.AsStructField().IsOptional())
				write(x.AsStructField().Value())
			}
			b.WriteByte('}')
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			fmt.Fprintf(&b, "fold %s %s %s", c.IterVar(), c.IterVar2(), c.AccuVar())
			write(c.IterRange())
			write(c.AccuInit())
			names := []string{c.IterVar(), c.IterVar2(), c.AccuVar()}
			for _, n := range names {
				bound[n]++
			}
			write(c.LoopCondition())
			write(c.LoopStep())
			write(c.Result())
			for _, n := range names {
				bound[n]--
			}
		}
	}
	write(e)
	return b.String(), free
}

// variablesIn lists the variables of an expression.
func variablesIn(e ast.Expr) (names []string) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() == ast.SelectKind {
			s := x.AsSelect()
			if o := s.Operand(); o.Kind() == ast.IdentKind && o.AsIdent() == "variables" &&
				!slices.Contains(names, s.FieldName()) {
				names = append(names, s.FieldName())
			}
		}
	}))
	return names
}

// A loop is a comprehension, classified by the macro it comes from.
type loop struct {
	ast.ComprehensionExpr
	absorbs  bool // a step keeps the value that ends the loop: all and exists
	counts   bool // exists_one
	collects bool // map and filter
}

func (f *frame) comprehension(e ast.Expr, in *scope) *value {
	c := loop{ComprehensionExpr: e.AsComprehension()}
	c.classify()
	init := f.evaluate(c.AccuInit(), in)
	ranged := f.evaluate(c.IterRange(), in)
	known := true
	for _, a := range ranged.alts {
		switch l := a.leaf.(type) {
		case *list, nullLeaf, *dict:
		case *node, *record:
			known = known && isMapLeaf(l)
		case *draft:
			known = false
		default:
			known = known && !isOpaque(l)
		}
	}
	if !known || !c.absorbs && !c.counts && !c.collects && !isEmptyList(ranged) {
		return f.opaqueExpression(e, in)
	}
	return f.lift([]*value{ranged}, func(l []leaf) *value { return f.foldOver(c, l[0], init, in) })
}

func isOpaque(l leaf) bool {
	switch l.(type) {
	case opaqueLeaf:
		return true
	}
	return false
}

func isEmptyList(v *value) bool {
	if len(v.alts) != 1 {
		return false
	}
	l, ok := v.alts[0].leaf.(*list)
	return ok && len(l.items) == 0
}

func (c *loop) classify() {
	step, cond := c.LoopStep(), c.LoopCondition()
	isAccu := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == c.AccuVar() }
	function := func(e ast.Expr) (string, []ast.Expr) {
		if e.Kind() != ast.CallKind {
			return "", nil
		}
		return e.AsCall().FunctionName(), e.AsCall().Args()
	}
	name, args := function(step)
	if name == operators.Conditional {
		if _, branch := function(args[1]); len(branch) == 2 && isAccu(args[2]) {
			name, args = function(args[1])
		} else {
			name = ""
		}
	} else if name == operators.LogicalAnd || name == operators.LogicalOr {
		loops, _ := function(cond)
		c.absorbs = isAccu(args[0]) && loops == operators.NotStrictlyFalse
		return
	}
	always := cond.Kind() == ast.LiteralKind && cond.AsLiteral() == types.True
	if name != operators.Add || len(args) != 2 || !isAccu(args[0]) || !always {
		return
	}
	switch init := c.AccuInit(); init.Kind() {
	case ast.LiteralKind:
		c.counts = args[1].Kind() == ast.LiteralKind
	case ast.ListKind:
		c.collects = isAccu(c.Result()) && args[1].Kind() == ast.ListKind
	}
}

// foldOver evaluates a comprehension over one list or map.
func (f *frame) foldOver(c loop, over leaf, init *value, in *scope) *value {
	type turn struct {
		present  solve.Formula
		one, two *value
	}
	var all []turn
	var sources []*node
	switch l := over.(type) {
	case *list:
		sources = l.sources
		for i, it := range l.items {
			if c.IterVar2() == "" {
				all = append(all, turn{it.present, it.value, nil})
				continue
			}
			f.leaveUnbounded(sources, "the index of an item")
			if it.present != solve.True && l.name == "" || l.unordered {
				return f.opaqueOf("fold", l)
			}
			all = append(all, turn{it.present, newLeaf(numberOf(int64(i))), it.value})
		}
	case *node, *record:
		sources = rootsOf(l)
		for _, e := range f.entriesOf(l) {
			all = append(all, turn{e.present, newLeaf(e.key), e.value})
		}
	case *dict:
		for _, k := range l.keys {
			all = append(all, turn{solve.True, newLeaf(textOf(k)), l.values[k]})
		}
	default:
		return failure()
	}
	need := 1
	if c.counts {
		need = 2
	}
	for _, n := range sources {
		n.require(need)
	}
	accu := init
	for _, x := range all {
		inner := in.bind(c.AccuVar(), accu).bind(c.IterVar(), x.one)
		if c.IterVar2() != "" {
			inner = inner.bind(c.IterVar2(), x.two)
		}
		accu = f.choose(x.present, f.evaluate(c.LoopStep(), inner), accu)
	}
	if c.collects {
		over, isList := over.(*list)
		accu = collect(accu, sources, isList && over.unordered)
	}
	return f.evaluate(c.Result(), in.bind(c.AccuVar(), accu))
}

// collect adds to a list that a macro made the nodes of its items, and that their order is not known.
func collect(v *value, sources []*node, unordered bool) *value {
	out := *v
	out.alts = slices.Clone(v.alts)
	for i, a := range out.alts {
		if l, ok := a.leaf.(*list); ok {
			made := &list{items: l.items, sources: slices.Clone(l.sources), unordered: l.unordered || unordered}
			for _, n := range sources {
				made.sources = addNode(made.sources, n)
			}
			out.alts[i].leaf = made
		}
	}
	return &out
}
