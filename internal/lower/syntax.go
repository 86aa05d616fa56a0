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

// reader reads expressions as they are written: macros are calls to it.
var reader = func() *parser.Parser {
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true))
	if err != nil {
		panic(err) // of constants
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

// text is an expression in one line.
func text(e ast.Expr) string {
	src, err := parser.Unparse(e, ast.NewSourceInfo(nil), parser.WrapOnColumn(math.MaxInt))
	if err != nil {
		return err.Error() // of a tree that no parser makes
	}
	return src
}

// operand is the text of an expression that operators and members may follow.
func operand(e ast.Expr) string {
	if isOperation(e) {
		return "(" + text(e) + ")"
	}
	return text(e)
}

// group is a text that operators and members may follow.
func group(src string) string {
	if e, err := parse(src); err == nil && isOperation(e) {
		return "(" + src + ")"
	}
	return src
}

// isOperation reports that operators hold an expression together.
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

// function is the name of the function that an expression calls, with that of its library; "" for other expressions.
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

// isSkip reports that an expression is one of those that change nothing.
func isSkip(e ast.Expr) bool {
	return function(e) == "mutations.skip" ||
		e.Kind() == ast.LiteralKind && (e.AsLiteral() == types.NullValue || e.AsLiteral() == types.True)
}

// isDenial reports that an expression denies the request.
func isDenial(e ast.Expr) bool {
	return function(e) == "mutations.deny" || e.Kind() == ast.LiteralKind && e.AsLiteral() == types.False
}

var errDenial = errors.New("kube-apiserver takes no verdict for a patch, and denies by validations only")

// accepts reports that a side of an expression changes nothing, and none denies.
func accepts(e ast.Expr) bool {
	var skips, denies bool
	visitSides(e, func(e ast.Expr) {
		skips = skips || isSkip(e)
		denies = denies || isDenial(e)
	})
	return skips && !denies
}

// visitSides visits the sides of an expression, of which its value is one.
func visitSides(e ast.Expr, visit func(ast.Expr)) {
	if function(e) != operators.Conditional {
		visit(e)
		return
	}
	for _, side := range e.AsCall().Args()[1:] {
		visitSides(side, visit)
	}
}

// branches is the text of an expression with another text for each of its sides; nothing for those that change nothing.
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

// substitute puts an expression in the place of a name.
func substitute(e ast.Expr, name string, by ast.Expr) {
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind && e.AsIdent() == name {
			e.SetKindCase(by)
		}
	}))
}

// constant is the text that an expression is.
func constant(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// A joined text is constant in some parts, and in others what expressions come to.
type joined []piece

type piece struct {
	text string
	expr string // in place of the text
}

func (j joined) with(more ...piece) joined { return append(j[:len(j):len(j)], more...) }

// String is the expression of the text.
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

// identifiers are the names that expressions use, those of items of macros included.
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
