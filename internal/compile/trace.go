package compile

import (
	"context"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/policy"
)

// A Tracer is told what one evaluation of an expression came to: the tree of the expression, the values of its nodes and
// what its variables stand for.
type Tracer func(x policy.Expr, tree *cel.Ast, values interpreter.EvalState, variables interpreter.Activation)

// Traced is [Policy] for expressions that tell the values of their parts, which makes them slow.
func Traced(set *celenv.Set, p *policy.Policy, trace Tracer) (*Program, error) {
	return recompile(set, p, func(e *Expression, tree *cel.Ast, program programs) error {
		watched, err := program(cel.EvalOptions(cel.OptTrackState))
		if err != nil {
			return err
		}
		e.Plan = nil
		e.Program = tracedProgram{e.Program, watched, func(d *cel.EvalDetails, vars any) {
			if d != nil && d.State() != nil {
				variables, _ := vars.(interpreter.Activation)
				trace(e.Expr, tree, d.State(), variables)
			}
		}}
		return nil
	})
}

// A tracedProgram evaluates twice: cel-go v0.29.2 counts no cost in a program that tracks state. Variables are evaluated
// once all the same.
type tracedProgram struct {
	cel.Program
	watched cel.Program
	tell    func(*cel.EvalDetails, any)
}

func (p tracedProgram) ContextEval(ctx context.Context, vars any) (ref.Val, *cel.EvalDetails, error) {
	var meter *bound.Meter
	if names, ok := vars.(interpreter.Activation); ok {
		meter = plan.MeterOf(names)
	}
	before := meter.Mark()
	v, details, err := p.Program.ContextEval(ctx, vars)
	meter.Reset(before)
	_, seen, _ := p.watched.ContextEval(ctx, vars)
	p.tell(seen, vars)
	return v, details, err
}
