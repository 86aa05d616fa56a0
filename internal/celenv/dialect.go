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

// CompileOwn is [Compile] for an expression of a mutation or a variable of the dialect.
//
// The value of a mutation may be null, true or false beside what it otherwise is: these literals, where they are the
// value of the whole or of a side of a condition, are of every type. In a JSON merge patch the same holds for the
// values in a map there, and in the maps in it, which may then be as different as those of JSON.
//
// What the expression names of libraries is put in. Where unset, remove and replace have a meaning, optional.none() as
// a literal means unset.
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

// ParseOwn is [Parse] for an expression of a policy for which d is declared, which may be one of the dialect.
func ParseOwn(env *cel.Env, d Declared, x policy.Expr) (*cel.Ast, *cel.Issues) {
	parsed, issues := parseExpression(env, x, withoutQuotes)
	if len(issues.Errors()) == 0 {
		expandDialect(parsed, d)
	}
	return parsed, issues
}

// expandDialect makes of what is written in the dialect what is meant.
func expandDialect(parsed *cel.Ast, d Declared) {
	if d.Marks {
		objects.Unsets(parsed)
	}
	if d.Dialect {
		freeVerdicts(parsed, d.Merge)
	}
}

// misusedObjects finds functions of the library objects where they have no meaning.
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

// freeVerdicts puts dyn() around literals that may be of another type than their place.
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
