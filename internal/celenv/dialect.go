package celenv

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/policy"
)

// verdicts are the functions by which a mutation of the dialect changes nothing or denies the request, where CEL
// requires both sides of a conditional to have one type.
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

// CompileOwn is [Compile] for an expression of a mutation or a variable of the dialect.
//
// The value of a mutation may also be null, true or false: as the whole value, or as a side of a conditional, these
// literals have any type. In a JSON merge patch the same holds for values in the map, and in nested maps, which may
// have different types as in JSON.
//
// Library parts in the expression are inlined. Where unset, remove and replace are allowed, the literal optional.none()
// means unset.
func CompileOwn(env *cel.Env, d Declared, x policy.Expr) (*cel.Ast, *cel.Issues) {
	parsed, issues := parseExpression(env, x, common.NewTextSource)
	if len(issues.Errors()) > 0 {
		return nil, issues
	}
	expandDialect(parsed, d)
	checked, issues := Check(env, parsed)
	if issues == nil && d.Objects {
		issues = misusedObjects(checked, d.Marks)
	}
	if issues != nil {
		return nil, issues
	}
	return checked, nil
}

// ParseOwn is [Parse] for an expression of a policy with the declarations d, which may be one of the dialect.
func ParseOwn(env *cel.Env, d Declared, x policy.Expr) (*cel.Ast, *cel.Issues) {
	parsed, issues := parseExpression(env, x, withoutQuotes)
	if len(issues.Errors()) == 0 {
		expandDialect(parsed, d)
	}
	return parsed, issues
}

// expandDialect replaces constructs of the dialect by their CEL equivalents.
func expandDialect(parsed *cel.Ast, d Declared) {
	if d.Marks {
		objects.Unsets(parsed)
	}
	if d.Dialect {
		freeVerdicts(parsed, d.Merge)
	}
}

// misusedObjects finds functions of the library objects where they are not allowed.
func misusedObjects(checked *cel.Ast, marks bool) *cel.Issues {
	found := common.NewErrors(checked.Source())
	native := checked.NativeRep()
	ast.PreOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		at := native.SourceInfo().GetStartLocation(e.ID())
		c := e.AsCall()
		switch name := c.FunctionName(); name {
		case "objects.unset", "objects.remove", "objects.replace":
			if !marks {
				found.ReportErrorAtID(e.ID(), at, "%s is for ApplyConfiguration", name)
			}
		case "objects.apply":
			t := native.GetType(c.Args()[1].ID())
			if t.Kind() != types.StructKind && t.Kind() != types.DynKind {
				found.ReportErrorAtID(e.ID(), at, "objects.apply: want an Object type, got %s",
					checker.FormatCELType(t))
			}
		}
	}))
	if len(found.GetErrors()) == 0 {
		return nil
	}
	return cel.NewIssues(found)
}

// freeVerdicts puts dyn() around literals that may have another type than their place.
func freeVerdicts(parsed *cel.Ast, merge bool) {
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
}

// valuesIn returns the values in the map e, or in maps that are sides of conditionals, innermost first.
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

// GivesVerdict reports whether the value of a parsed expression may be a literal null, true or false.
func GivesVerdict(parsed *cel.Ast) bool { return len(verdictsOf(parsed.NativeRep().Expr())) > 0 }

// verdictsOf returns the literals that are the value of e, or of a side of a conditional.
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
