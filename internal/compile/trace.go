package compile

import (
	"context"
	"errors"

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
	prog, err := Policy(set, p)
	if err != nil {
		return nil, err
	}
	scope := set.Scope(celenv.Run, false)
	defer scope.Close()
	params := p.ParamKind != nil
	each := func(e *Expression, use policy.Use) {
		if e == nil || e.Err != nil {
			return
		}
		env, envErr := scope.Env(declared(use, params))
		if envErr != nil {
			err = errors.Join(err, envErr)
			return
		}
		tree, issues := env.Compile(e.Src)
		if issues != nil {
			err = errors.Join(err, issues.Err())
			return
		}
		inner, programErr := env.Program(tree, cel.InterruptCheckFrequency(celenv.InterruptFrequency), cel.EvalOptions(cel.OptTrackState))
		if programErr != nil {
			err = errors.Join(err, programErr)
			return
		}
		e.Plan = nil
		e.Program = tracedProgram{inner, func(d *cel.EvalDetails) {
			if d != nil && d.State() != nil {
				trace(e.Expr, tree, d.State())
			}
		}}
	}
	for _, v := range prog.Variables {
		each(v.Expression, useVariable)
		scope.Declare(v.Name, v.Output)
	}
	for _, e := range prog.MatchConditions {
		each(e, policy.UseMatchCondition)
	}
	for i, e := range prog.Validations {
		each(e, policy.UseValidation)
		each(prog.Messages[i], policy.UseMessageExpression)
	}
	for _, e := range prog.Annotations {
		each(e, policy.UseAuditAnnotation)
	}
	for i, e := range prog.Mutations {
		use := policy.UseApplyConfiguration
		if p.Mutations[i].PatchType == policy.JSONPatch {
			use = policy.UseJSONPatch
		}
		each(e, use)
	}
	return prog, err
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
