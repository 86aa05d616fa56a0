package compile

import (
	"context"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/policy"
)

// A Tracer is told what one evaluation of an expression came to: the tree of the expression and the values of its nodes.
type Tracer func(x policy.Expr, tree *cel.Ast, values interpreter.EvalState)

// Traced is [Policy] for expressions that tell the values of their parts, which makes them slow.
func Traced(set *celenv.Set, p *policy.Policy, trace Tracer) (*Program, error) {
	return recompile(set, p, func(e *Expression, env *cel.Env, tree *cel.Ast) error {
		inner, err := env.Program(tree, cel.InterruptCheckFrequency(celenv.InterruptFrequency), cel.EvalOptions(cel.OptTrackState))
		if err != nil {
			return err
		}
		e.Plan = nil
		e.Program = tracedProgram{inner, func(d *cel.EvalDetails) {
			if d != nil && d.State() != nil {
				trace(e.Expr, tree, d.State())
			}
		}}
		return nil
	})
}

type tracedProgram struct {
	cel.Program
	tell func(*cel.EvalDetails)
}

func (p tracedProgram) ContextEval(ctx context.Context, vars any) (ref.Val, *cel.EvalDetails, error) {
	v, details, err := p.Program.ContextEval(ctx, vars)
	p.tell(details)
	return v, details, err
}
