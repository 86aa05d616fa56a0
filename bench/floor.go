package main

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

// A floor is a part of the work of a workload alone: the expressions of its validations, one after the other, on
// variables that are ready.
type floor struct {
	name string
	eval func() error
}

func (f *floor) prepare(n int) (func() error, error) {
	return func() error {
		for range n {
			if err := f.eval(); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
		return nil
	}, nil
}

// variables are those of a request, for cel-go and for plans.
type variables map[string]ref.Val

func (v variables) ResolveName(name string) (any, bool) { x, ok := v[name]; return x, ok }

func (v variables) Parent() cel.Activation { return nil }

// floors are the expressions of a workload, evaluated by cel-go with and without counting costs, and by celgate with
// costs.
func floors(w *workload, req *celgate.Request) ([]*floor, error) {
	if !w.floors {
		return nil, nil
	}
	form := eval.Reflected
	if w.definition != "" {
		form = eval.Plain
	}
	vars := variables{
		"object": eval.Value(req.Object, form), "oldObject": eval.Value(req.OldObject, form),
		"request": eval.Value(map[string]any{"operation": string(req.Operation)}, eval.Reflected),
	}
	set, err := readSet(w.policies)
	if err != nil {
		return nil, err
	}
	var plain, tracked []cel.Program
	var planned []*plan.Plan
	for _, p := range set.Policies {
		for _, v := range p.Validations {
			one, err := compileExpression(v.Expr)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", v.Expr.Src, err)
			}
			plain, tracked, planned = append(plain, one.plain), append(tracked, one.tracked),
				append(planned, one.planned)
		}
	}
	var memory plan.Memory
	all := []*floor{
		{"cel-go", func() error {
			for _, p := range plain {
				if v, _, err := p.Eval(vars); v != types.True {
					return fmt.Errorf("%v, %w", v, err)
				}
			}
			return nil
		}},
		{"cel-go, costs", func() error {
			for _, p := range tracked {
				if v, _, err := p.ContextEval(context.Background(), vars); v != types.True {
					return fmt.Errorf("%v, %w", v, err)
				}
			}
			return nil
		}},
		{"plan, costs", func() error {
			for _, p := range planned {
				if v, _, ok := p.Eval(vars, nil, &memory); !ok || v != types.True {
					return fmt.Errorf("%v, %v", v, ok)
				}
			}
			return nil
		}},
	}
	if w.byHand == nil {
		return all, nil
	}
	_, cost, _ := planned[0].Eval(vars, nil, nil)
	return append(all, &floor{"Go, costs", func() error {
		if v, counted := w.byHand(req.Object); !v || counted != cost {
			return fmt.Errorf("%v for %d, not %d", v, counted, cost)
		}
		return nil
	}}), nil
}

type compiledExpression struct {
	plain, tracked cel.Program
	planned        *plan.Plan
}

func compileExpression(x policy.Expr) (*compiledExpression, error) {
	set, err := celenv.New(celgate.Newest, quirks.SetOf(celgate.Newest))
	if err != nil {
		return nil, err
	}
	scope, declared := set.Scope(celenv.Run, true), celenv.Declared{}
	env, err := scope.Env(declared)
	if err != nil {
		return nil, err
	}
	fns, err := scope.Functions(declared)
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(x.Src)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	c := &compiledExpression{planned: plan.New(env, fns, checked, celenv.ExpressionLimit)}
	if c.planned == nil {
		return nil, fmt.Errorf("no plan")
	}
	if c.tracked, err = env.Program(checked, cel.InterruptCheckFrequency(celenv.InterruptFrequency)); err != nil {
		return nil, err
	}
	bare, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
		cel.Variable("request", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		ext.Strings(),
		library.Quantity(),
	)
	if err != nil {
		return nil, err
	}
	if checked, issues = bare.Compile(x.Src); issues.Err() != nil {
		return nil, issues.Err()
	}
	c.plain, err = bare.Program(checked, cel.EvalOptions(cel.OptOptimize))
	return c, err
}

const nonRoot = "object.spec.containers.all(c, has(c.securityContext) && c.securityContext.runAsNonRoot)"

// nonRootByHand is nonRoot as Go, with its cost in CEL's units: the least that an evaluator of such trees does.
func nonRootByHand(object map[string]any) (result bool, cost uint64) {
	spec, _ := object["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	cost += 3 // object.spec.containers
	result = true
	for _, item := range containers {
		cost += 2 // the condition of the loop
		if !result {
			break
		}
		cost += 2 // the result so far, has()
		c, _ := item.(map[string]any)
		var context map[string]any
		if context, result = c["securityContext"].(map[string]any); result {
			result, _ = context["runAsNonRoot"].(bool)
			cost += 3
		}
		if cost > celenv.ExpressionLimit {
			return false, cost
		}
	}
	return result, cost + 1
}
