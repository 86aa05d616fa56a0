package celenv

import (
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celgate/celgate/internal/bound"
)

// checkPatterns checks an expression. ValidateRegexLiterals of cel/validator.go v0.29.2 compiles every constant
// pattern, which takes half a gigabyte for 3,000 times `x{1000}`; whether one is right is known when it is parsed. So
// while the validator looks, something short stands where a large pattern is.
func checkPatterns(env *cel.Env, parsed *cel.Ast) (*cel.Ast, *cel.Issues) {
	large := map[int64]ref.Val{}
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
			large[arg.ID()] = text
		}
	})
	if len(large) == 0 {
		return checkFormats(env, parsed)
	}
	set := func(tree *cel.Ast, value func(id int64) ref.Val) {
		made := ast.NewExprFactory()
		visit(tree, func(e ast.Expr) {
			if large[e.ID()] != nil && e.Kind() == ast.LiteralKind {
				e.SetKindCase(made.NewLiteral(e.ID(), value(e.ID())))
			}
		})
	}
	set(parsed, func(int64) ref.Val { return types.String("") })
	checked, issues := checkFormats(env, parsed)
	put := func(id int64) ref.Val { return large[id] }
	set(parsed, put)
	if checked != nil {
		set(checked, put)
	}
	return checked, issues
}

func visit(tree *cel.Ast, do func(ast.Expr)) {
	ast.PostOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(do))
}
