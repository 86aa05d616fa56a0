package compile

import (
	"context"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/locals"
)

// A Seen is the record of one evaluation of an expression.
type Seen struct {
	Tree  *cel.Ast
	Scope string // the path of the value for which it was evaluated; empty: the object
	// of the nodes of the tree; in the body of a loop those of the last item
	Values    interpreter.EvalState
	Variables interpreter.Activation // the values of variables
	Loops     map[int64]*Loop        // by the node of the comprehension, if its body was evaluated
}

// A Loop is the state at the end of the loop of a macro.
type Loop struct {
	Item  ref.Val // the last item: of a map its key
	Index int     // of that item, from 0
	After ref.Val // the accumulated value after it
}

// Trace returns a program that decides like prog and reports the values of the parts of its expressions to a
// [Listener]. Each expression is evaluated twice, because cel-go v0.29.2 does not count costs in a program that tracks
// state; variables are evaluated once.
func Trace(set *celenv.Set, prog *Program) (*Program, error) {
	return recompile(set, prog, func(e *Expression, tree *cel.Ast, program programs) error {
		watched, err := program(cel.EvalOptions(cel.OptTrackState), followLoops(tree))
		if err != nil {
			return err
		}
		e.Watch = func(ctx context.Context, vars interpreter.Activation, failed bool) {
			tell := listenerOf(ctx).Trace
			if tell == nil {
				return
			}
			seen := Seen{Tree: tree, Variables: vars, Loops: map[int64]*Loop{}}
			if at, ok := vars.ResolveName(locals.Path(locals.Whole)); ok {
				seen.Scope = string(at.(types.String))
			}
			if _, d, _ := watched.ContextEval(ctx, followed{vars, &follower{seen.Loops, failed}}); d != nil &&
				d.State() != nil {
				seen.Values = d.State()
				tell(prog.Policy, e.Expr, seen)
			}
		}
		return nil
	})
}

// A follower records the ends of loops. If the whole expression is known to be an error, loops end at the first item
// with an error, the reported one: the recorded values are then those of that item.
type follower struct {
	loops  map[int64]*Loop
	failed bool
}

// followerName is the variable by which an evaluation finds its follower. It is not a valid name in expressions.
const followerName = "@follower"

type followed struct {
	interpreter.Activation
	by *follower
}

func (f followed) ResolveName(name string) (any, bool) {
	if name == followerName {
		return f.by, true
	}
	return f.Activation.ResolveName(name)
}

func followerOf(a interpreter.Activation) *follower {
	v, _ := a.ResolveName(followerName)
	f, _ := v.(*follower)
	return f
}

// followLoops wraps the parts of comprehensions that are evaluated for each item.
func followLoops(tree *cel.Ast) cel.ProgramOption {
	type part struct {
		of int64
		ast.ComprehensionExpr
	}
	loops, conditions, steps := map[int64]bool{}, map[int64]int64{}, map[int64]part{}
	ast.PostOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			c := e.AsComprehension()
			if c.LoopStep().Kind() == ast.IdentKind {
				return // cel.bind loops over nothing
			}
			loops[e.ID()], conditions[c.LoopCondition().ID()], steps[c.LoopStep().ID()] = true, e.ID(), part{e.ID(), c}
		}
	}))
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch i.(type) {
		case loopStart, loopCondition, loopStep:
			return i, nil
		}
		if _, ok := i.(interpreter.InterpretableAttribute); ok && loops[i.ID()] {
			return i, nil // a member or item of the accumulated value, with the same id
		}
		if loops[i.ID()] {
			return loopStart{i}, nil
		}
		if of, ok := conditions[i.ID()]; ok {
			return loopCondition{i, of}, nil
		}
		if p, ok := steps[i.ID()]; ok {
			return loopStep{i, p.of, p.IterVar()}, nil
		}
		return i, nil
	})
}

type loopStart struct{ interpreter.InterpretableV2 }

func (l loopStart) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if f := followerOf(frame); f != nil {
		delete(f.loops, l.ID())
	}
	return l.InterpretableV2.Exec(frame)
}

type loopCondition struct {
	interpreter.InterpretableV2
	of int64
}

func (l loopCondition) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	if f := followerOf(frame); f != nil && f.failed && f.loops[l.of] != nil && types.IsError(f.loops[l.of].After) {
		return types.False
	}
	return l.InterpretableV2.Exec(frame)
}

type loopStep struct {
	interpreter.InterpretableV2
	of   int64
	item string
}

func (l loopStep) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	after := l.InterpretableV2.Exec(frame)
	f := followerOf(frame)
	if f == nil {
		return after
	}
	loop := f.loops[l.of]
	if loop == nil {
		loop = &Loop{Index: -1}
		f.loops[l.of] = loop
	}
	loop.Index++
	loop.After = after
	if v, ok := frame.ResolveName(l.item); ok {
		loop.Item, _ = v.(ref.Val)
	}
	return after
}
