package compile

import (
	"cmp"
	"context"
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

// A Branch is a part of an expression that determines which other parts are evaluated: an operand of && or ||, or the
// condition of ?:. The bodies of macros such as all, exists and filter have branches too.
type Branch struct {
	From, To int // the range of bytes in the text of the expression

	id int64
}

// Observe returns a program that decides like prog and reports the values of its branches to a [Listener]. For that it
// evaluates each expression once more, so that costs do not change. The branches are those of each expression, by
// field.
func Observe(set *celenv.Set, prog *Program) (*Program, map[string][]Branch, error) {
	found := map[string][]Branch{}
	observed, err := recompile(set, prog, func(e *Expression, tree *cel.Ast, program programs) error {
		parts := branches(e.Expr, tree.NativeRep())
		watched, err := program(watch(tree, parts))
		if err != nil {
			return err
		}
		found[e.Field] = parts
		before := e.Watch
		e.Watch = func(ctx context.Context, vars interpreter.Activation, failed bool) {
			if before != nil {
				before(ctx, vars, failed)
			}
			if tell := listenerOf(ctx).Observe; tell != nil {
				hear := func(branch int, v ref.Val) { tell(prog.Policy, e.Expr, branch, v) }
				_, _, _ = watched.ContextEval(ctx, heard{vars, hear})
			}
		}
		return nil
	})
	return observed, found, err
}

// hearingName is the variable by which an evaluation finds its listener. It is not a valid name in expressions.
const hearingName = "@hearing"

// hearing receives the values of branches.
type hearing func(branch int, value ref.Val)

type heard struct {
	interpreter.Activation
	by hearing
}

func (h heard) ResolveName(name string) (any, bool) {
	if name == hearingName {
		return h.by, true
	}
	return h.Activation.ResolveName(name)
}

// branches finds the branches of an expression, in the order of its text, except those in the code of libraries.
func branches(x policy.Expr, tree *ast.AST) []Branch {
	var all []Branch
	isWritten := func(e ast.Expr) bool {
		r, _ := tree.SourceInfo().GetOffsetRange(e.ID())
		return !x.InlinedText().IsReplaced(ByteOffset(x.Src, int(r.Start)))
	}
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
		b.From, b.To = Extent(x.Src, tree, e)
		all = append(all, b)
	}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !isWritten(e) {
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
	slices.SortStableFunc(all, func(a, b Branch) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(b.To, a.To))
	})
	return all
}

// watch makes the root of an expression and its branches report their values.
func watch(tree *cel.Ast, parts []Branch) cel.ProgramOption {
	index := map[int64]int{tree.NativeRep().Expr().ID(): -1}
	for i, b := range parts {
		index[b.id] = i
	}
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		branch, ok := index[i.ID()]
		if !ok {
			return i, nil
		}
		switch inner := i.(type) {
		case watchedStep, watchedAttribute, interpreter.InterpretableConst, interpreter.InterpretableConstructor:
			return i, nil
		case interpreter.InterpretableAttribute: // qualifiers may be added to others
			return watchedAttribute{inner, watchedBranch(branch)}, nil
		}
		return watchedStep{i, watchedBranch(branch)}, nil
	})
}

// A watchedBranch is the index of an observed branch.
type watchedBranch int

func (b watchedBranch) tell(vars interpreter.Activation, v ref.Val) ref.Val {
	if by, ok := vars.ResolveName(hearingName); ok {
		by.(hearing)(int(b), v)
	}
	return v
}

type watchedStep struct {
	interpreter.InterpretableV2
	branch watchedBranch
}

func (w watchedStep) Exec(f *interpreter.ExecutionFrame) ref.Val {
	return w.branch.tell(f, w.InterpretableV2.Exec(f))
}

func (w watchedStep) Eval(a interpreter.Activation) ref.Val {
	return w.branch.tell(a, w.InterpretableV2.Eval(a))
}

type watchedAttribute struct {
	interpreter.InterpretableAttribute
	branch watchedBranch
}

func (w watchedAttribute) Exec(f *interpreter.ExecutionFrame) ref.Val {
	return w.branch.tell(f, w.InterpretableAttribute.Exec(f))
}

func (w watchedAttribute) Eval(a interpreter.Activation) ref.Val {
	return w.branch.tell(a, w.InterpretableAttribute.Eval(a))
}
