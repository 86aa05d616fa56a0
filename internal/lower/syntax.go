package lower

import (
	"errors"
	"math"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
)

// reader parses expressions without expanding macros: they become calls.
var reader = func() *parser.Parser {
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true))
	if err != nil {
		panic(err) // cannot happen: constant options
	}
	return p
}()

var nodes = ast.NewExprFactory()

// parse returns the syntax tree of an expression.
func parse(src string) (ast.Expr, error) {
	tree, errs := reader.Parse(common.NewTextSource(src))
	if len(errs.GetErrors()) > 0 {
		return nil, errors.New(errs.ToDisplayString())
	}
	return tree.Expr(), nil
}

// text returns an expression in one line.
func text(e ast.Expr) string {
	src, err := parser.Unparse(e, ast.NewSourceInfo(nil), parser.WrapOnColumn(math.MaxInt))
	if err != nil {
		return err.Error() // not a tree of the parser
	}
	return src
}

// operand returns the text of an expression, in parentheses unless operators and members may follow it.
func operand(e ast.Expr) string {
	if isOperation(e) {
		return "(" + text(e) + ")"
	}
	return text(e)
}

// group puts a text in parentheses unless operators and members may follow it.
func group(src string) string {
	if e, err := parse(src); err == nil && isOperation(e) {
		return "(" + src + ")"
	}
	return src
}

// isOperation reports whether the outermost part of an expression is an operator.
func isOperation(e ast.Expr) bool {
	if e.Kind() != ast.CallKind {
		return false
	}
	switch name := e.AsCall().FunctionName(); name {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return false
	default:
		_, known := operators.FindReverse(name)
		return known || name == operators.Conditional
	}
}

// function returns the name of the called function with its library; "" for other expressions.
func function(e ast.Expr) string {
	if e.Kind() != ast.CallKind {
		return ""
	}
	c := e.AsCall()
	if c.IsMemberFunction() && c.Target().Kind() == ast.IdentKind {
		switch library := c.Target().AsIdent(); library {
		case "objects", "mutations", "optional":
			return library + "." + c.FunctionName()
		}
	}
	return c.FunctionName()
}

// isSkip reports whether an expression is a verdict without effect.
func isSkip(e ast.Expr) bool {
	return function(e) == "mutations.skip" ||
		e.Kind() == ast.LiteralKind && (e.AsLiteral() == types.NullValue || e.AsLiteral() == types.True)
}

// isDenial reports whether an expression denies the request.
func isDenial(e ast.Expr) bool {
	return function(e) == "mutations.deny" || e.Kind() == ast.LiteralKind && e.AsLiteral() == types.False
}

var errDenial = errors.New("kube-apiserver does not accept a verdict as a patch, and denies only by validations")

// accepts reports whether some side of an expression has no effect, and none denies.
func accepts(e ast.Expr) bool {
	var skips, denies bool
	visitSides(e, func(e ast.Expr) {
		skips = skips || isSkip(e)
		denies = denies || isDenial(e)
	})
	return skips && !denies
}

// visitSides visits the sides of conditionals: the expressions that may provide the value.
func visitSides(e ast.Expr, visit func(ast.Expr)) {
	if function(e) != operators.Conditional {
		visit(e)
		return
	}
	for _, side := range e.AsCall().Args()[1:] {
		visitSides(side, visit)
	}
}

// branches returns the text of an expression with each side replaced; nothing replaces sides without effect.
func branches(e ast.Expr, nothing string, side func(ast.Expr) (string, error)) (string, error) {
	switch {
	case function(e) == operators.Conditional:
		args := e.AsCall().Args()
		first, err := branches(args[1], nothing, side)
		if err != nil {
			return "", err
		}
		second, err := branches(args[2], nothing, side)
		if err != nil {
			return "", err
		}
		return operand(args[0]) + " ? " + group(first) + " : " + group(second), nil
	case isSkip(e):
		return nothing, nil
	case isDenial(e):
		return "", errDenial
	}
	return side(e)
}

// substitute replaces a name by an expression.
func substitute(e ast.Expr, name string, by ast.Expr) {
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind && e.AsIdent() == name {
			e.SetKindCase(by)
		}
	}))
}

// constant returns the string of a string literal.
func constant(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// A joined is a string made of constant parts and expressions.
type joined []piece

type piece struct {
	text string
	expr string // instead of the text
}

func (j joined) with(more ...piece) joined { return append(j[:len(j):len(j)], more...) }

// String returns the string as an expression.
func (j joined) String() string {
	var all []string
	constant := ""
	flush := func() {
		if constant != "" {
			all = append(all, quote(constant))
		}
		constant = ""
	}
	for _, p := range j {
		if p.expr == "" {
			constant += p.text
			continue
		}
		flush()
		all = append(all, p.expr)
	}
	if flush(); len(all) == 0 {
		return `""`
	}
	return strings.Join(all, " + ")
}

// identifiers returns the names that expressions use, including variables of macros.
func identifiers(all ...ast.Expr) map[string]bool {
	names := map[string]bool{}
	for _, e := range all {
		if e == nil {
			continue
		}
		ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
			if e.Kind() == ast.IdentKind {
				names[e.AsIdent()] = true
			}
		}))
	}
	return names
}
