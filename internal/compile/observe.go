package compile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// A Branch is a part of an expression that decides what else of it is evaluated: an operand of && or ||, or the
// condition of ?:. The bodies of macros such as all, exists and filter are made of them too.
type Branch struct {
	From, To int // the bytes of the text of the expression that it is

	id int64
}

// An Observer is told each value of a branch of an expression, and with branch -1 each value of the expression itself. It
// is called by every goroutine that evaluates.
type Observer func(x policy.Expr, branch int, value ref.Val)

// Observed is [Policy] for expressions that tell what their branches come to, which makes them slow. Values and costs
// are the same. The branches are those of each expression by its field.
func Observed(set *celenv.Set, p *policy.Policy, observe Observer) (*Program, map[string][]Branch, error) {
	found := map[string][]Branch{}
	prog, err := recompile(set, p, func(e *Expression, tree *cel.Ast, program programs) error {
		parts := branches(e.Src, tree.NativeRep())
		watched, err := program(watch(e.Expr, tree, parts, observe))
		if err != nil {
			return err
		}
		e.Plan, e.Program = nil, watched
		found[e.Field] = parts
		return nil
	})
	if prog == nil {
		return nil, nil, err
	}
	return prog, found, err
}

// branches finds the branches of an expression, in the order of its text.
func branches(src string, tree *ast.AST) []Branch {
	var all []Branch
	add := func(e ast.Expr) {
		switch e.Kind() {
		case ast.LiteralKind:
			return
		case ast.IdentKind:
			if name := e.AsIdent(); strings.HasPrefix(name, "@") || strings.HasPrefix(name, "__") {
				return // the accumulator of a macro
			}
		case ast.CallKind:
			switch e.AsCall().FunctionName() {
			case operators.LogicalAnd, operators.LogicalOr, operators.NotStrictlyFalse:
				return // its operands are branches
			}
		}
		b := Branch{id: e.ID()}
		b.From, b.To = Extent(src, tree, e)
		all = append(all, b)
	}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		switch call := e.AsCall(); call.FunctionName() {
		case operators.LogicalAnd, operators.LogicalOr:
			for _, arg := range call.Args() {
				add(arg)
			}
		case operators.Conditional:
			add(call.Args()[0])
		}
	}))
	slices.SortStableFunc(all, func(a, b Branch) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.To, a.To)) })
	return all
}

// watch makes the root of an expression and its branches tell their values. What is watched keeps the interfaces by
// which costs are counted.
func watch(x policy.Expr, tree *cel.Ast, parts []Branch, observe Observer) cel.ProgramOption {
	index := map[int64]int{tree.NativeRep().Expr().ID(): -1}
	for i, b := range parts {
		index[b.id] = i
	}
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		branch, ok := index[i.ID()]
		if !ok {
			return i, nil
		}
		tell := func(v ref.Val) ref.Val {
			observe(x, branch, v)
			return v
		}
		switch inner := i.(type) {
		case watchedStep, watchedCall, watchedAttribute, interpreter.InterpretableConst, interpreter.InterpretableConstructor:
			return i, nil
		case interpreter.InterpretableAttribute:
			return watchedAttribute{inner, tell}, nil
		case interpreter.InterpretableCall:
			return watchedCall{inner, tell}, nil
		}
		return watchedStep{i, tell}, nil
	})
}

type watchedStep struct {
	interpreter.InterpretableV2
	tell func(ref.Val) ref.Val
}

func (w watchedStep) Exec(f *interpreter.ExecutionFrame) ref.Val {
	return w.tell(w.InterpretableV2.Exec(f))
}

func (w watchedStep) Eval(a interpreter.Activation) ref.Val { return w.tell(w.InterpretableV2.Eval(a)) }

type watchedCall struct {
	interpreter.InterpretableCall
	tell func(ref.Val) ref.Val
}

func (w watchedCall) Exec(f *interpreter.ExecutionFrame) ref.Val {
	return w.tell(w.InterpretableCall.Exec(f))
}

func (w watchedCall) Eval(a interpreter.Activation) ref.Val {
	return w.tell(w.InterpretableCall.Eval(a))
}

type watchedAttribute struct {
	interpreter.InterpretableAttribute
	tell func(ref.Val) ref.Val
}

func (w watchedAttribute) Exec(f *interpreter.ExecutionFrame) ref.Val {
	return w.tell(w.InterpretableAttribute.Exec(f))
}

func (w watchedAttribute) Eval(a interpreter.Activation) ref.Val {
	return w.tell(w.InterpretableAttribute.Eval(a))
}
