package celgate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/policy"
)

// An Evaluation is one evaluation of one expression: a match condition, variable, validation, message, audit annotation
// or mutation. Variables are evaluated when they are first used.
type Evaluation struct {
	Policy *policy.Policy
	Expr   policy.Expr

	tree      *cel.Ast
	values    interpreter.EvalState
	variables interpreter.Activation
}

// NewTraced is [New] for an engine that tells how it comes to its decisions. It decides as any other engine, slowly.
func NewTraced(set *policy.Set, opts Options, trace Tracer) (*Engine, error) {
	e, err := New(set, opts)
	if err != nil {
		return nil, err
	}
	e.trace = trace
	for _, h := range e.index.hooks {
		p := h.Policy
		h.Program, err = compile.Traced(e.envs, p, func(x policy.Expr, tree *cel.Ast, values interpreter.EvalState, variables interpreter.Activation) {
			trace(Event{Op: OpEvaluate, Kind: p.Kind, Policy: p.Name, Evaluation: &Evaluation{p, x, tree, values, variables}})
		})
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Name, err)
		}
	}
	return e, nil
}

// A Step is a part of an expression that had a say in its value.
type Step struct {
	Text   string // of the part, as CEL writes it
	Offset int    // of the part, or of its operator, in the text of the expression
	Value  string // as CEL writes it, shortened; of an error, its message
	Error  bool
	Last   bool // in the body of a macro: the value is that of the last item that was looked at
}

// Result is the value that the expression came to, as CEL writes it; the error in place of it.
func (o Evaluation) Result() (value string, failed bool) {
	if o.tree == nil || o.values == nil {
		return "", false
	}
	v, ok := o.values.Value(o.tree.NativeRep().Expr().ID())
	if !ok {
		return "", false
	}
	return shown(v), types.IsError(v)
}

// Steps are the parts that decided, in the order of the text: of a conjunction that is false, the operands that are; of
// a comparison, its sides; of a macro, its range. Parts that were not evaluated are left out.
func (o Evaluation) Steps() []Step {
	if o.tree == nil || o.values == nil {
		return nil
	}
	s := steps{o: o, seen: map[string]bool{}}
	s.decide(o.tree.NativeRep().Expr(), false)
	return s.list
}

type steps struct {
	o    Evaluation
	list []Step
	seen map[string]bool
}

// mostSteps bounds an explanation.
const mostSteps = 24

func (s *steps) value(e ast.Expr) ref.Val {
	if v, ok := s.o.values.Value(e.ID()); ok {
		return v
	}
	if e.Kind() == ast.IdentKind && s.o.variables != nil { // the root of a path has no value of its own in the state
		switch name := e.AsIdent(); name {
		case "object", "oldObject", "params", "namespaceObject":
			if v, ok := s.o.variables.ResolveName(name); ok {
				root, _ := v.(ref.Val)
				return root
			}
		}
	}
	return nil
}

// decide adds the parts that made e what it is.
func (s *steps) decide(e ast.Expr, inMacro bool) {
	switch e.Kind() {
	case ast.LiteralKind:
	case ast.IdentKind, ast.SelectKind:
		s.add(e, inMacro)
		if v := s.value(e); v != nil && types.IsError(v) && e.Kind() == ast.SelectKind {
			s.holder(e.AsSelect().Operand(), inMacro)
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			s.decide(item, inMacro)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			s.decide(entry.AsMapEntry().Value(), inMacro)
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			s.decide(f.AsStructField().Value(), inMacro)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		s.decide(c.IterRange(), inMacro)
		s.decide(c.LoopStep(), true)
	case ast.CallKind:
		s.call(e, inMacro)
	}
}

// holder adds what does not have the member that was asked for: of a map its keys are enough.
func (s *steps) holder(e ast.Expr, inMacro bool) {
	for s.value(e) == nil && e.Kind() == ast.SelectKind && !e.AsSelect().IsTestOnly() {
		e = e.AsSelect().Operand() // what was never reached
	}
	m, ok := s.value(e).(traits.Mapper)
	before := len(s.list)
	s.decide(e, inMacro)
	if !ok || len(s.list) != before+1 {
		return
	}
	if keys := keysOf(m); len(keys) > 0 {
		s.list[before].Value = shortened("a map with " + strings.Join(keys, ", "))
	}
}

func (s *steps) call(e ast.Expr, inMacro bool) {
	c := e.AsCall()
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		decisive := types.Bool(c.FunctionName() == operators.LogicalOr)
		sure := slices.ContainsFunc(args, func(a ast.Expr) bool { return s.value(a) == decisive })
		failed := s.value(e) != nil && types.IsError(s.value(e))
		for _, a := range args {
			v := s.value(a)
			if v == nil || sure && v != decisive || failed && !types.IsError(v) {
				continue
			}
			if s.decide(a, inMacro); failed {
				break // the first error is the one that is reported
			}
		}
	case operators.Conditional:
		s.decide(args[0], inMacro)
		switch s.value(args[0]) {
		case types.True:
			s.decide(args[1], inMacro)
		case types.False:
			s.decide(args[2], inMacro)
		}
	case operators.Index, "_?._", "_[?_]":
		s.add(e, inMacro)
		if v := s.value(e); v != nil && types.IsError(v) {
			s.holder(args[0], inMacro)
		}
	default:
		_, operator := operators.FindReverse(c.FunctionName())
		if !operator && !strings.HasPrefix(c.FunctionName(), "@") {
			s.add(e, inMacro)
		}
		if c.IsMemberFunction() {
			s.decide(c.Target(), inMacro)
		}
		for _, a := range args {
			s.decide(a, inMacro)
		}
	}
}

func (s *steps) add(e ast.Expr, inMacro bool) {
	v := s.value(e)
	if v == nil || len(s.list) >= mostSteps {
		return
	}
	if _, ok := v.(traits.FieldTester); ok && v.Type().TypeName() == "kubernetes.variables" {
		return
	}
	if e.Kind() == ast.IdentKind && (strings.HasPrefix(e.AsIdent(), "@") || strings.HasPrefix(e.AsIdent(), "__")) {
		return // the accumulator of a macro
	}
	info := s.o.tree.NativeRep().SourceInfo()
	text, err := cel.ExprToString(e, info)
	if err != nil || s.seen[text] {
		return
	}
	s.seen[text] = true
	step := Step{Text: text, Value: shown(v), Error: types.IsError(v), Last: inMacro}
	if r, ok := info.GetOffsetRange(e.ID()); ok {
		step.Offset = compile.ByteOffset(s.o.Expr.Src, int(r.Start))
	}
	s.list = append(s.list, step)
}

// longestValue is the number of bytes of a value that is shown.
const longestValue = 80

// shown writes a value as CEL does, with the keys of maps sorted.
func shown(v ref.Val) string {
	var b strings.Builder
	writeValue(&b, v, 0)
	return shortened(b.String())
}

func shortened(text string) string {
	if len(text) > longestValue {
		cut := longestValue
		for cut > 0 && text[cut]&0xC0 == 0x80 {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}

func writeValue(b *strings.Builder, v ref.Val, depth int) {
	if b.Len() > longestValue || depth > 8 {
		b.WriteString("…")
		return
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case *types.Err:
		b.WriteString(v.Error())
	case types.Null:
		b.WriteString("null")
	case types.Bool:
		b.WriteString(strconv.FormatBool(bool(v)))
	case types.Int:
		b.WriteString(strconv.FormatInt(int64(v), 10))
	case types.Uint:
		b.WriteString(strconv.FormatUint(uint64(v), 10) + "u")
	case types.Double:
		b.WriteString(strconv.FormatFloat(float64(v), 'g', -1, 64))
	case types.String:
		writeText(b, string(v))
	case *types.Optional:
		if !v.HasValue() {
			b.WriteString("optional.none()")
			return
		}
		b.WriteString("optional.of(")
		writeValue(b, v.GetValue(), depth+1)
		b.WriteString(")")
	case traits.Mapper:
		writeMap(b, v, depth)
	case traits.Lister:
		b.WriteByte('[')
		for it, n := v.Iterator(), 0; it.HasNext() == types.True && b.Len() <= longestValue; n++ {
			if n > 0 {
				b.WriteString(", ")
			}
			writeValue(b, it.Next(), depth+1)
		}
		b.WriteByte(']')
	default:
		switch native := v.Value().(type) {
		case fmt.Stringer:
			b.WriteString(native.String())
		default:
			b.WriteString(v.Type().TypeName())
		}
	}
}

// keysOf returns the keys of a map as text, sorted.
func keysOf(m traits.Mapper) []string {
	var keys []string
	for it := m.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, fmt.Sprint(it.Next().Value()))
	}
	slices.Sort(keys)
	return keys
}

func writeMap(b *strings.Builder, m traits.Mapper, depth int) {
	var keys []string
	values := map[string]ref.Val{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		text, ok := key.Value().(string)
		if !ok {
			text = fmt.Sprint(key.Value())
		}
		keys = append(keys, text)
		values[text] = key
	}
	slices.Sort(keys)
	b.WriteByte('{')
	for i, key := range keys {
		if b.Len() > longestValue {
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		writeText(b, key)
		b.WriteString(": ")
		member, _ := m.Find(values[key])
		writeValue(b, member, depth+1)
	}
	b.WriteByte('}')
}

func writeText(b *strings.Builder, s string) {
	quoted := strconv.Quote(s)
	b.WriteString("'" + strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), "'", `\'`) + "'")
}

// Decisive returns the bytes of the part of the text that made the expression false or an error: the first operand of && that
// is, the branch of ?: that was taken. It is the whole text if no part is alone to blame.
func (o Evaluation) Decisive() (from, to int) {
	whole := len(o.Expr.Src)
	if o.tree == nil || o.values == nil {
		return 0, whole
	}
	s := steps{o: o}
	root := o.tree.NativeRep().Expr()
	e := root
	for e.Kind() == ast.CallKind {
		next := s.culprit(e)
		if next == nil {
			break
		}
		e = next
	}
	if e == root {
		return 0, whole
	}
	if from, to = compile.Extent(o.Expr.Src, o.tree.NativeRep(), e); from >= to {
		return 0, whole
	}
	return from, to
}

// culprit returns the operand of a call that made it false or an error; nil if it is the call itself.
func (s *steps) culprit(e ast.Expr) ast.Expr {
	args := e.AsCall().Args()
	bad := func(a ast.Expr) bool {
		v := s.value(a)
		return v == types.False || v != nil && types.IsError(v)
	}
	switch e.AsCall().FunctionName() {
	case operators.LogicalAnd:
		for _, a := range args {
			if bad(a) {
				return a
			}
		}
	case operators.LogicalOr:
		for _, a := range args {
			if v := s.value(a); v != nil && types.IsError(v) {
				return a
			}
		}
	case operators.Conditional:
		switch v := s.value(args[0]); {
		case v == types.True:
			return args[1]
		case v == types.False:
			return args[2]
		case v != nil:
			return args[0]
		}
	}
	return nil
}
