// Package trace finds the parts of an expression that determined its value, and writes values in CEL syntax.
package trace

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/policy"
)

// An Evaluation is one evaluation of an expression of a traced program.
type Evaluation struct {
	Expr policy.Expr
	Seen compile.Seen
}

// A Step is a part of an expression that determined its value.
type Step struct {
	Text   string // of the part, in CEL syntax
	Offset int    // of the part, or of its operator, in the text of the expression
	Value  string // in CEL syntax, shortened; of an error, its message
	Error  bool
	Last   bool // in the body of a macro: the value is that of the last item evaluated
	// Item is that item, such as containers[1] "side"; empty outside of macros. It decided, unless Of is set: then the
	// macro evaluated that number of items, and no single one decided.
	Item string
	Of   int
	// Path is the path of the part in the object, such as spec.containers[1].image; in a variable it begins with
	// variables. It is empty for other parts.
	Path string
}

// Result returns the value of the expression in CEL syntax, or its error.
func (o Evaluation) Result() (value string, failed bool) {
	if o.Seen.Tree == nil || o.Seen.Values == nil {
		return "", false
	}
	v, ok := o.Seen.Values.Value(o.Seen.Tree.NativeRep().Expr().ID())
	if !ok {
		return "", false
	}
	return Value(v), types.IsError(v)
}

// Steps returns the parts that determined the result, in the order of the text: of a false conjunction the false
// operands; of a comparison its sides; of a macro its range. Parts that were not evaluated are left out.
func (o Evaluation) Steps() []Step {
	if o.Seen.Tree == nil || o.Seen.Values == nil {
		return nil
	}
	s := steps{o: o, seen: map[string]bool{}}
	s.decide(o.Seen.Tree.NativeRep().Expr())
	return s.list
}

type steps struct {
	o    Evaluation
	list []Step
	seen map[string]bool
	in   *loop // nil: outside of loops
}

// A loop is a macro whose body contains steps.
type loop struct {
	variable string // the name of the item
	value    ref.Val
	item     string
	of       int
	path     string // of the item
	outer    *loop
}

// loop describes the item at which a comprehension ended.
func (s *steps) loop(id int64, c ast.ComprehensionExpr) *loop {
	in := &loop{variable: c.IterVar(), outer: s.in}
	at := s.o.Seen.Loops[id]
	if at == nil {
		return in
	}
	in.value = at.Item
	if (c.LoopCondition().Kind() == ast.LiteralKind || c.AccuInit().Kind() == ast.LiteralKind &&
		at.After == c.AccuInit().AsLiteral()) &&
		!types.IsError(at.After) &&
		at.Index > 0 {
		in.of = at.Index + 1
	}
	name, plain := s.nameOf(c.IterRange())
	if m, ok := s.value(c.IterRange()).(traits.Mapper); ok {
		if at.Item != nil && m.Contains(at.Item) == types.True {
			name += "[" + Value(at.Item) + "]"
		}
	} else {
		if path := s.itemPath(c.IterRange(), at.Index); path != "" && !plain {
			name = path[strings.LastIndexByte(path, '.')+1:]
		} else if plain {
			name += "[" + strconv.Itoa(at.Index) + "]"
		} else {
			name = "item " + strconv.Itoa(at.Index+1) + " of " + name
		}
		if list, ok := s.value(c.IterRange()).(traits.Lister); ok && at.Index < int(list.Size().(types.Int)) {
			name += labelOf(list.Get(types.Int(at.Index)))
		}
	}
	if _, ok := s.value(c.IterRange()).(traits.Mapper); !ok {
		in.path = s.itemPath(c.IterRange(), at.Index)
	} else if key, ok := at.Item.(types.String); ok && s.path(c.IterRange()) != "" {
		in.path = s.path(c.IterRange()) + "[" + strconv.Quote(string(key)) + "]"
	}
	if in.item = name; s.in != nil && s.in.item != "" {
		in.item += " of " + s.in.item
	}
	return in
}

// nameOf returns a short name of a list or map: of a path its last member. It is plain if indices are those of the
// object, too.
func (s *steps) nameOf(e ast.Expr) (name string, plain bool) {
	switch e.Kind() {
	case ast.SelectKind:
		if operand := e.AsSelect().Operand(); operand.Kind() == ast.IdentKind && operand.AsIdent() == "variables" {
			return "variables." + e.AsSelect().FieldName(), true
		}
		return e.AsSelect().FieldName(), true
	case ast.IdentKind:
		return e.AsIdent(), true
	case ast.CallKind:
		args := e.AsCall().Args()
		switch name := e.AsCall().FunctionName(); {
		case name == "_?._" && args[1].Kind() == ast.LiteralKind:
			if field, ok := args[1].AsLiteral().(types.String); ok {
				return string(field), true
			}
		case e.AsCall().IsMemberFunction() && (name == "orValue" || name == "or" || name == "value"):
			return s.nameOf(e.AsCall().Target())
		case name == operators.Conditional:
			switch s.value(args[0]) {
			case types.True:
				return s.nameOf(args[1])
			case types.False:
				return s.nameOf(args[2])
			}
		}
	}
	return "the list", false
}

// path returns the field path of a part of the object or of a variable; empty for other expressions.
func (s *steps) path(e ast.Expr) string {
	member := func(of ast.Expr, name string) string {
		switch parent := s.path(of); {
		case parent == "":
			return ""
		case strings.ContainsAny(name, "./[") || name == "":
			return parent + "[" + strconv.Quote(name) + "]"
		default:
			return parent + "." + name
		}
	}
	switch e.Kind() {
	case ast.IdentKind:
		for in := s.in; in != nil; in = in.outer {
			if in.variable == e.AsIdent() {
				return in.path
			}
		}
		switch name := e.AsIdent(); name {
		case "object", "variables":
			return name
		case locals.Scope, locals.Item:
			if at := s.o.Seen.Scope; at != "" {
				return "object." + at
			}
		}
	case ast.SelectKind:
		return member(e.AsSelect().Operand(), e.AsSelect().FieldName())
	case ast.CallKind:
		args := e.AsCall().Args()
		switch name := e.AsCall().FunctionName(); {
		case name == operators.Index || name == "_?._" || name == "_[?_]":
			switch key := s.value(args[1]).(type) {
			case types.String:
				return member(args[0], string(key))
			case types.Int:
				if parent := s.path(args[0]); parent != "" {
					return parent + "[" + strconv.FormatInt(int64(key), 10) + "]"
				}
			}
		case e.AsCall().IsMemberFunction() && (name == "orValue" || name == "value"):
			return s.path(e.AsCall().Target())
		}
	}
	return ""
}

// itemPath returns the field path of an item of a list, which may be a concatenation of lists.
func (s *steps) itemPath(list ast.Expr, index int) string {
	if path := s.path(list); path != "" {
		return path + "[" + strconv.Itoa(index) + "]"
	}
	if list.Kind() != ast.CallKind {
		return ""
	}
	args := list.AsCall().Args()
	switch list.AsCall().FunctionName() {
	case operators.Add:
		first, ok := s.value(args[0]).(traits.Lister)
		if !ok {
			return ""
		}
		if n := int(first.Size().(types.Int)); index >= n {
			return s.itemPath(args[1], index-n)
		}
		return s.itemPath(args[0], index)
	case operators.Conditional:
		switch s.value(args[0]) {
		case types.True:
			return s.itemPath(args[1], index)
		case types.False:
			return s.itemPath(args[2], index)
		}
	}
	return ""
}

// Path returns the path in the object of the whole expression, like that of a Step.
func (o Evaluation) Path() string {
	return o.path(func(s *steps, e ast.Expr) string { return s.path(e) })
}

// ItemPath returns the path of an item of the resulting list in the object; empty if the item is not part of the
// object.
func (o Evaluation) ItemPath(index int) string {
	return o.path(func(s *steps, e ast.Expr) string { return s.itemPath(e, index) })
}

func (o Evaluation) path(of func(*steps, ast.Expr) string) string {
	if o.Seen.Tree == nil || o.Seen.Values == nil {
		return ""
	}
	path, _ := strings.CutPrefix(of(&steps{o: o}, o.Seen.Tree.NativeRep().Expr()), "object.")
	return path
}

// labelOf returns a text that identifies an item of a list: a short text or number itself, or the name of a map or its
// equivalent.
func labelOf(item ref.Val) string {
	m, ok := item.(traits.Mapper)
	if !ok {
		if isContainer(item) {
			return ""
		}
		if text := Value(item); len(text) <= longestValue/3 {
			return " " + text
		}
		return ""
	}
	for _, key := range []string{"name", "key", "containerPort", "port", "ip"} {
		switch v, _ := m.Find(types.String(key)); v := v.(type) {
		case types.String:
			return " " + strconv.Quote(shorten(string(v)))
		case types.Int:
			return " " + key + " " + Value(v)
		}
	}
	return ""
}

func isContainer(v ref.Val) bool {
	switch v.(type) {
	case traits.Mapper, traits.Lister:
		return true
	}
	return false
}

// mostSteps bounds an explanation.
const mostSteps = 24

func (s *steps) value(e ast.Expr) ref.Val {
	if e.Kind() == ast.LiteralKind {
		return e.AsLiteral()
	}
	if v, ok := s.o.Seen.Values.Value(e.ID()); ok {
		return v
	}
	if e.Kind() == ast.IdentKind {
		for in := s.in; in != nil; in = in.outer {
			if in.variable == e.AsIdent() {
				return in.value
			}
		}
	}
	if e.Kind() == ast.IdentKind &&
		s.o.Seen.Variables != nil { // the root of a path does not have a value of its own in the state
		switch name := e.AsIdent(); name {
		case "object", "oldObject", "params", "namespaceObject":
			if v, ok := s.o.Seen.Variables.ResolveName(name); ok {
				root, _ := v.(ref.Val)
				return root
			}
		}
	}
	return nil
}

// decide adds the parts that determined the value of e.
func (s *steps) decide(e ast.Expr) {
	if s.isCall(e) {
		s.add(e)
		s.arguments(e, s.start(e))
		return
	}
	switch e.Kind() {
	case ast.LiteralKind:
	case ast.IdentKind, ast.SelectKind:
		s.add(e)
		if v := s.value(e); v != nil && types.IsError(v) && e.Kind() == ast.SelectKind {
			s.holder(e.AsSelect().Operand())
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			s.decide(item)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			s.decide(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			s.decide(f.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		in, before := s.loop(e.ID(), c), len(s.list)
		if v := s.value(e); v != nil && isContainer(v) { // the result says more than its computation
			s.decide(c.IterRange())
			s.add(e)
			return
		}
		if in.item == "" || in.of > 0 { // otherwise the item is more informative than the list
			s.decide(c.IterRange())
		}
		s.in = in
		s.decide(c.LoopStep())
		if s.in = in.outer; len(s.list) == before {
			s.decide(c.IterRange())
		}
	case ast.CallKind:
		s.call(e)
	}
}

// start returns the byte of the text at which a part begins.
func (s *steps) start(e ast.Expr) int {
	r, _ := s.o.Seen.Tree.NativeRep().SourceInfo().GetOffsetRange(e.ID())
	return compile.ByteOffset(s.o.Expr.Src, int(r.Start))
}

// isCall reports whether a part is a call of a library function, with the body of the function in its place.
func (s *steps) isCall(e ast.Expr) bool {
	return s.isInlined(e) && !s.isVariable(e)
}

func (s *steps) isInlined(e ast.Expr) bool { return s.o.Expr.InlinedText().IsReplaced(s.start(e)) }

// isVariable reports whether a part is a variable, such as one of a library.
func (s *steps) isVariable(e ast.Expr) bool {
	return e.Kind() == ast.SelectKind && e.AsSelect().Operand().Kind() == ast.IdentKind &&
		e.AsSelect().Operand().AsIdent() == "variables"
}

// arguments adds the parts that determined the arguments of a call that begins at a byte of the text. The code of the
// function is not the author's.
func (s *steps) arguments(e ast.Expr, call int) {
	for _, part := range s.children(e) {
		switch {
		case s.isInlined(part) && s.start(part) == call:
			s.arguments(part, call)
		case s.in != nil && part.Kind() == ast.IdentKind && part.AsIdent() == s.in.variable: // the step names the item
		default:
			s.decide(part)
		}
	}
}

func (s *steps) children(e ast.Expr) []ast.NavigableExpr {
	return ast.NavigateExpr(s.o.Seen.Tree.NativeRep(), e).Children()
}

// hasCall reports whether a part is or contains a call of a library function.
func (s *steps) hasCall(e ast.Expr) bool {
	if s.o.Expr.InlinedText() == nil {
		return false
	}
	contains := func(part ast.NavigableExpr) bool { return s.hasCall(part) }
	return s.isCall(e) || slices.ContainsFunc(s.children(e), contains)
}

// holder adds the value that lacks the selected member: of a map its keys suffice.
func (s *steps) holder(e ast.Expr) {
	for s.value(e) == nil && e.Kind() == ast.SelectKind && !e.AsSelect().IsTestOnly() {
		e = e.AsSelect().Operand() // never reached
	}
	m, ok := s.value(e).(traits.Mapper)
	before := len(s.list)
	s.decide(e)
	if !ok || len(s.list) != before+1 {
		return
	}
	if keys := keysOf(m); len(keys) > 0 {
		s.list[before].Value = shorten("a map with " + strings.Join(keys, ", "))
	}
}

func (s *steps) call(e ast.Expr) {
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
			if s.decide(a); failed {
				break // only the first error is reported
			}
		}
	case operators.Conditional:
		s.decide(args[0])
		switch s.value(args[0]) {
		case types.True:
			s.decide(args[1])
		case types.False:
			s.decide(args[2])
		}
	case operators.Index, "_?._", "_[?_]":
		s.add(e)
		if v := s.value(e); v != nil && types.IsError(v) {
			s.holder(args[0])
		}
	default:
		_, operator := operators.FindReverse(c.FunctionName())
		if !operator && !strings.HasPrefix(c.FunctionName(), "@") {
			s.add(e)
		}
		if c.IsMemberFunction() && (c.FunctionName() != "orValue" || s.path(e) == "") {
			s.decide(c.Target())
		}
		for _, a := range args {
			s.decide(a)
		}
	}
}

// isVerdict reports whether a literal is a verdict of the dialect: it is wrapped in dyn.
func isVerdict(e ast.Expr) bool {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "dyn" || len(e.AsCall().Args()) != 1 {
		return false
	}
	return e.AsCall().Args()[0].Kind() == ast.LiteralKind
}

func (s *steps) add(e ast.Expr) {
	v := s.value(e)
	if v == nil || len(s.list) >= mostSteps {
		return
	}
	if strings.HasPrefix(v.Type().TypeName(), "kubernetes.authorization.") {
		return // its value cannot be shown
	}
	if _, ok := v.(*objects.Mark); ok {
		return // its text shows it
	}
	if _, ok := v.(traits.FieldTester); ok && v.Type().TypeName() == "kubernetes.variables" {
		return
	}
	if e.Kind() == ast.IdentKind && (strings.HasPrefix(e.AsIdent(), "@") || strings.HasPrefix(e.AsIdent(), "__")) {
		return // the accumulator of a macro
	}
	if isVerdict(e) {
		return
	}
	info := s.o.Seen.Tree.NativeRep().SourceInfo()
	text, err := cel.ExprToString(e, info)
	text = strings.ReplaceAll(text, ", "+objects.Place+")", ")") // not written by the author
	if err != nil || s.hasCall(e) {                              // it contains a macro, or code of a function
		from, to := compile.Extent(s.o.Expr.Src, s.o.Seen.Tree.NativeRep(), e)
		if text = strings.ReplaceAll(strings.Join(strings.Fields(s.o.Expr.Src[from:to]), " "), " .",
			"."); len(text) > longestValue {
			return
		}
	}
	if text == "" || s.seen[text] {
		return
	}
	s.seen[text] = true
	step := Step{Text: text, Value: Value(v), Error: types.IsError(v)}
	step.Path, _ = strings.CutPrefix(s.path(e), "object.")
	if step.Path == "object" || step.Path == "variables" {
		step.Path = ""
	}
	if s.in != nil {
		step.Last, step.Item, step.Of = true, s.in.item, s.in.of
	}
	if r, ok := info.GetOffsetRange(e.ID()); ok {
		step.Offset = compile.ByteOffset(s.o.Expr.Src, int(r.Start))
	}
	s.list = append(s.list, step)
}

// DecisivePart returns the range of bytes that made the expression false or an error: the first such operand of &&, or
// the selected branch of ?:. It is the whole text if several parts are responsible.
func (o Evaluation) DecisivePart() (from, to int) {
	whole := len(o.Expr.Src)
	if o.Seen.Tree == nil || o.Seen.Values == nil {
		return 0, whole
	}
	s := steps{o: o}
	root := o.Seen.Tree.NativeRep().Expr()
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
	if from, to = compile.Extent(o.Expr.Src, o.Seen.Tree.NativeRep(), e); from >= to {
		return 0, whole
	}
	return from, to
}

// culprit returns the operand that made a call false or an error; nil for the call itself.
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
