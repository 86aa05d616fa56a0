package compile

import (
	"context"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/interpreter"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// A Tracer is told what one evaluation of an expression came to: the tree of the expression, the values of its nodes and
// what its variables stand for.
type Tracer func(x policy.Expr, tree *cel.Ast, values interpreter.EvalState, variables interpreter.Activation)

// Traced is [Policy] for expressions that tell the values of their parts. Each is evaluated twice: cel-go v0.29.2 counts no cost in
// a program that tracks state. Variables are evaluated once all the same.
func Traced(set *celenv.Set, p *policy.Policy, trace Tracer) (*Program, error) {
	return recompile(set, p, func(e *Expression, env *cel.Env, tree *cel.Ast) error {
		watched, err := celenv.Program(env, tree, cel.EvalOptions(cel.OptTrackState))
		if err != nil {
			return err
		}
		e.Watch = func(ctx context.Context, vars interpreter.Activation) {
			if _, d, _ := watched.ContextEval(ctx, vars); d != nil && d.State() != nil {
				trace(e.Expr, tree, d.State(), vars)
			}
		}
		return nil
	})
}
