package celenv

import (
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/bound"
)

// standIns are what is checked in the place of literals, by the IDs of these.
type standIns map[int64]ast.Expr

// checkAs checks an expression with the stand-ins in the place of literals, and puts the literals back.
func checkAs(env *cel.Env, parsed *cel.Ast, hidden standIns) (*cel.Ast, *cel.Issues) {
	if len(hidden) == 0 {
		return env.Check(parsed)
	}
	made, literals := ast.NewExprFactory(), map[int64]ast.Expr{}
	visit(parsed, func(e ast.Expr) {
		if other := hidden[e.ID()]; other != nil && literals[e.ID()] == nil && e.Kind() == ast.LiteralKind {
			literals[e.ID()] = made.NewLiteral(e.ID(), e.AsLiteral())
			e.SetKindCase(other)
		}
	})
	putBack := func(tree *cel.Ast) {
		visit(tree, func(e ast.Expr) {
			if literal := literals[e.ID()]; literal != nil && e.Kind() == hidden[e.ID()].Kind() {
				e.SetKindCase(literal)
			}
		})
	}
	checked, issues := env.Check(parsed)
	putBack(parsed)
	if checked != nil {
		putBack(checked)
		for id := range literals {
			delete(checked.NativeRep().ReferenceMap(), id) // of a name in the place of a literal
		}
	}
	return checked, issues
}

// hidePatterns adds stand-ins for large patterns. ValidateRegexLiterals of cel/validator.go v0.29.2 compiles every
// constant pattern, which takes half a gigabyte for 3,000 times `x{1000}`; whether one is right is known when it is
// parsed. So while the validator looks, something short stands where a large pattern is.
func hidePatterns(parsed *cel.Ast, hidden standIns) {
	made := ast.NewExprFactory()
	visit(parsed, func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != overloads.Matches || len(e.AsCall().Args()) == 0 {
			return
		}
		arg := e.AsCall().Args()[0]
		if arg.Kind() != ast.LiteralKind {
			return
		}
		text, isText := arg.AsLiteral().(types.String)
		if !isText || bound.PatternOf(string(text), bound.Served.Bytes).IsSmall() {
			return
		}
		if _, err := syntax.Parse(string(text), syntax.Perl); err == nil {
			hidden[arg.ID()] = made.NewLiteral(arg.ID(), types.String(""))
		}
	})
}

func visit(tree *cel.Ast, do func(ast.Expr)) {
	ast.PostOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(do))
}
