package celenv

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// verdicts are the functions by which a mutation of the dialect says that it changes nothing or that the request is
// denied, where CEL wants one type of both sides of a condition.
func verdicts() cel.EnvOption {
	gives := func(name, id string, value ref.Val) cel.EnvOption {
		return cel.Function(name, cel.Overload(id, nil, cel.DynType,
			cel.FunctionBinding(func(...ref.Val) ref.Val { return value })))
	}
	return cel.Lib(declarations{
		gives("mutations.skip", "mutations_skip", types.NullValue),
		gives("mutations.deny", "mutations_deny", types.False),
	})
}

type declarations []cel.EnvOption

func (l declarations) CompileOptions() []cel.EnvOption     { return l }
func (l declarations) ProgramOptions() []cel.ProgramOption { return nil }

// CompileVerdict is [Compile] for an expression whose value may be null, true or false beside what it otherwise is:
// these literals, where they are the value of the whole or of a side of a condition, are of every type. With merge the
// same holds for the values in a map there, and in the maps in it, which may then be as different as those of JSON.
func CompileVerdict(env *cel.Env, src string, merge bool) (*cel.Ast, *cel.Issues) {
	parsed, issues := parse(env, common.NewTextSource(src))
	if len(issues.Errors()) > 0 {
		return nil, issues
	}
	next := ast.MaxID(parsed.NativeRep())
	untyped := verdictsOf(parsed.NativeRep().Expr())
	if merge {
		untyped = append(untyped, valuesIn(parsed.NativeRep().Expr())...)
	}
	made := ast.NewExprFactory()
	for _, e := range untyped {
		next++
		inner := made.NewUnspecifiedExpr(next)
		inner.SetKindCase(e)
		if at, ok := parsed.NativeRep().SourceInfo().GetOffsetRange(e.ID()); ok {
			parsed.NativeRep().SourceInfo().SetOffsetRange(next, at)
		}
		e.SetKindCase(made.NewCall(e.ID(), "dyn", inner))
	}
	return Check(env, parsed)
}

// valuesIn returns the values in the map that e is, or that a side of a condition is, innermost first.
func valuesIn(e ast.Expr) (all []ast.Expr) {
	switch e.Kind() {
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			value := entry.AsMapEntry().Value()
			all = append(append(all, valuesIn(value)...), value)
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Conditional && len(call.Args()) == 3 {
			return append(valuesIn(call.Args()[1]), valuesIn(call.Args()[2])...)
		}
	}
	return all
}

// GivesVerdict reports whether the value of an expression, which is parsed, may be a literal null, true or false.
func GivesVerdict(parsed *cel.Ast) bool { return len(verdictsOf(parsed.NativeRep().Expr())) > 0 }

// verdictsOf returns the literals that are the value of e, or of a side of a condition that is.
func verdictsOf(e ast.Expr) []ast.Expr {
	switch e.Kind() {
	case ast.LiteralKind:
		switch e.AsLiteral().(type) {
		case types.Null, types.Bool:
			return []ast.Expr{e}
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Conditional && len(call.Args()) == 3 {
			return append(verdictsOf(call.Args()[1]), verdictsOf(call.Args()[2])...)
		}
	}
	return nil
}
