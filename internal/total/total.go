// Package total determines which expressions have a value for every request.
//
// A negative answer means that the expression may fail, or that it is not known. Costs are ignored.
package total

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// A Judge judges the expressions of one policy.
type Judge struct {
	env       *cel.Env
	variables map[string]policy.Expr
	whole     bool // object is never null, and has metadata
}

// New returns a judge of the expressions of p.
func New(set *celenv.Set, p *policy.Policy) (*Judge, error) {
	scope := set.Scope(celenv.Write, false)
	defer scope.Close()
	env, err := scope.Env(celenv.Declared{Params: true, Authorizer: true})
	if err != nil {
		return nil, err
	}
	j := &Judge{env: env, variables: map[string]policy.Expr{}, whole: onlyWrites(p.MatchConstraints)}
	for _, v := range p.Variables {
		j.variables[v.Name] = v.Expr
	}
	return j, nil
}

// onlyWrites reports whether all requests write an object with metadata.
func onlyWrites(m *policy.MatchResources) bool {
	return m != nil && len(m.ResourceRules) > 0 && !slices.ContainsFunc(m.ResourceRules, func(r policy.Rule) bool {
		return slices.ContainsFunc(r.Operations, func(op string) bool { return op != "CREATE" && op != "UPDATE" })
	})
}

// Bool reports whether an expression evaluates to true or false for every request.
func (j *Judge) Bool(x policy.Expr) bool {
	root, ok := j.parse(x)
	if !ok {
		return false
	}
	w := walk{judge: j, names: map[string]value{}}
	v, ok := w.eval(root, nil)
	return ok && v.kind == boolean
}

// Mentions reports whether an expression, or a variable that it uses, may use one of the given names.
func (j *Judge) Mentions(x policy.Expr, names ...string) bool {
	return j.mentions(x, names, map[string]bool{})
}

func (j *Judge) mentions(x policy.Expr, names []string, seen map[string]bool) (found bool) {
	root, ok := j.parse(x)
	if !ok {
		return true
	}
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case e.Kind() == ast.IdentKind && slices.Contains(names, e.AsIdent()):
			found = true
		case e.Kind() == ast.IdentKind && e.AsIdent() == "variables" && !seen["variables"]:
			// The select around it determines the variable; it is simplest to follow all of them.
			seen["variables"] = true
			for _, v := range j.variables {
				found = found || j.mentions(v, names, seen)
			}
		}
	}))
	return found
}

func (j *Judge) parse(x policy.Expr) (ast.Expr, bool) {
	parsed, issues := celenv.ParseOwn(j.env, celenv.Declared{}, x)
	if len(issues.Errors()) > 0 {
		return nil, false
	}
	return parsed.NativeRep().Expr(), true
}

// A walk is the analysis of one expression.
type walk struct {
	judge *Judge
	names map[string]value // of comprehensions
	depth int              // of nested variables
}

// maxDepth is the largest nesting of variables.
const maxDepth = 32

// facts are the paths of members that are known to exist in a part of an expression.
type facts map[string]bool

func (f facts) add(more []string) facts {
	if len(more) == 0 {
		return f
	}
	out := facts{}
	maps.Copy(out, f)
	for _, at := range more {
		out[at] = true
	}
	return out
}

// eval returns the known facts about the value of an expression; false if it may fail.
func (w *walk) eval(e ast.Expr, known facts) (value, bool) {
	switch e.Kind() {
	case ast.LiteralKind:
		return literal(e), true
	case ast.IdentKind:
		return w.ident(e.AsIdent()), true
	case ast.SelectKind:
		return w.selection(e, known)
	case ast.ListKind:
		return w.list(e, known)
	case ast.MapKind:
		return w.object(e, known)
	case ast.ComprehensionKind:
		return w.comprehension(e.AsComprehension(), known)
	case ast.CallKind:
		return w.call(e.AsCall(), known)
	}
	return value{}, false
}

func literal(e ast.Expr) value {
	switch e.AsLiteral().Type() {
	case types.BoolType:
		return value{kind: boolean}
	case types.StringType:
		return value{kind: text}
	case types.IntType:
		return value{kind: integer}
	}
	return value{}
}

func (w *walk) ident(name string) value {
	if v, ok := w.names[name]; ok {
		return v
	}
	switch name {
	case "object":
		if w.judge.whole {
			return writtenObject
		}
	case "request":
		return request
	case "authorizer":
		return value{kind: checker}
	}
	return value{}
}

func (w *walk) selection(e ast.Expr, known facts) (value, bool) {
	s := e.AsSelect()
	if on := s.Operand(); on.Kind() == ast.IdentKind && on.AsIdent() == "variables" {
		return w.variable(s)
	}
	on, ok := w.eval(s.Operand(), known)
	if !ok {
		return value{}, false
	}
	member, present := on.member(s.FieldName())
	switch {
	case s.IsTestOnly():
		return value{kind: boolean}, on.kind == record || on.kind == mapping
	case on.kind == optional: // a selection in an optional
		return value{kind: optional, elem: &member}, true
	}
	return member, present || known[path(e)]
}

func (w *walk) variable(s ast.SelectExpr) (value, bool) {
	x, ok := w.judge.variables[s.FieldName()]
	if s.IsTestOnly() {
		return value{kind: boolean}, true
	}
	if w.depth++; !ok || w.depth > maxDepth {
		return value{}, false
	}
	defer func() { w.depth-- }()
	root, ok := w.judge.parse(x)
	if !ok {
		return value{}, false
	}
	inner := walk{judge: w.judge, names: map[string]value{}, depth: w.depth}
	return inner.eval(root, nil)
}

func (w *walk) list(e ast.Expr, known facts) (value, bool) {
	if len(e.AsList().OptionalIndices()) > 0 {
		return value{}, false
	}
	var elem *value
	for _, item := range e.AsList().Elements() {
		v, ok := w.eval(item, known)
		if !ok {
			return value{}, false
		}
		elem = join(elem, &v)
	}
	return value{kind: listing, elem: elem}, true
}

func (w *walk) object(e ast.Expr, known facts) (value, bool) {
	var elem *value
	for _, entry := range e.AsMap().Entries() {
		m := entry.AsMapEntry()
		k, ok := w.eval(m.Key(), known)
		if !ok || k.kind != text || m.Key().Kind() != ast.LiteralKind || m.IsOptional() {
			return value{}, false
		}
		v, ok := w.eval(m.Value(), known)
		if !ok {
			return value{}, false
		}
		elem = join(elem, &v)
	}
	return value{kind: mapping, elem: elem}, true
}

// comprehension analyses a macro such as exists or all.
func (w *walk) comprehension(c ast.ComprehensionExpr, known facts) (value, bool) {
	over, ok := w.eval(c.IterRange(), known)
	if !ok || c.HasIterVar2() {
		return value{}, false
	}
	item := value{kind: text} // a key
	switch over.kind {
	case listing:
		if item = (value{}); over.elem != nil {
			item = *over.elem
		}
	case mapping:
	default:
		return value{}, false
	}
	result, ok := w.eval(c.AccuInit(), known)
	if !ok {
		return value{}, false
	}
	inner := *w
	inner.names = map[string]value{}
	maps.Copy(inner.names, w.names)
	known = known.drop(c.IterVar()) // it may hide another name outside
	inner.names[c.IterVar()], inner.names[c.AccuVar()] = item, result
	if _, ok := inner.eval(c.LoopCondition(), known); !ok {
		return value{}, false
	}
	next, ok := inner.eval(c.LoopStep(), known)
	if !ok || next.kind != result.kind {
		return value{}, false
	}
	if result.kind == listing {
		result.elem = join(result.elem, next.elem)
		inner.names[c.AccuVar()] = result
	}
	delete(inner.names, c.IterVar())
	return inner.eval(c.Result(), known)
}

// drop removes the facts about a name.
func (f facts) drop(name string) facts {
	out := facts{}
	for at := range f {
		if root, _, _ := strings.Cut(at, separator); root != name {
			out[at] = true
		}
	}
	return out
}

// knownMembers returns the members that exist if an expression is true, or false.
func knownMembers(e ast.Expr, is bool) []string {
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
		if at := path(e); is && at != "" {
			return []string{at}
		}
		return nil
	}
	if e.Kind() != ast.CallKind {
		return nil
	}
	c := e.AsCall()
	switch c.FunctionName() {
	case operators.LogicalNot:
		return knownMembers(c.Args()[0], !is)
	case operators.LogicalAnd:
		if is {
			return append(knownMembers(c.Args()[0], true), knownMembers(c.Args()[1], true)...)
		}
	case operators.LogicalOr:
		if !is {
			return append(knownMembers(c.Args()[0], false), knownMembers(c.Args()[1], false)...)
		}
	case operators.In:
		if at := member(c.Args()[1], c.Args()[0]); is && at != "" {
			return []string{at}
		}
	}
	return nil
}

// member returns the path of a member selected by a constant; empty for others.
func member(of, key ast.Expr) string {
	on := path(of)
	if on == "" || key.Kind() != ast.LiteralKind {
		return ""
	}
	name, ok := key.AsLiteral().Value().(string)
	if !ok {
		return ""
	}
	return on + separator + name
}

// path returns the path of a selection, such as object.metadata.name; empty for others.
func path(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		if on := path(e.AsSelect().Operand()); on != "" {
			return on + separator + e.AsSelect().FieldName()
		}
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == operators.Index {
			return member(c.Args()[0], c.Args()[1])
		}
	}
	return ""
}
