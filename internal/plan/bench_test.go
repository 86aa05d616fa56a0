package plan_test

import (
	"context"
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/plan"
)

// BenchmarkAll compares a plan with cel-go: without costs, and with its tracker.
func BenchmarkAll(b *testing.B) {
	const src = "object.spec.containers.all(c, has(c.image) && c.image.size() > 5 && !c.name.contains('x'))"
	e := newEnvironment(b)
	vars := inputs(eval.Reflected)
	checked, issues := e.env.Compile(src)
	if issues != nil {
		b.Fatal(issues.Err())
	}
	bare, err := cel.NewEnv(cel.Variable("object", cel.DynType))
	if err != nil {
		b.Fatal(err)
	}
	checkedBare, issues := bare.Compile(src)
	if issues != nil && issues.Err() != nil {
		b.Fatal(issues.Err())
	}
	plain, err := bare.Program(checkedBare, cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		b.Fatal(err)
	}
	tracked, err := e.env.Program(checked)
	if err != nil {
		b.Fatal(err)
	}
	planned := plan.New(e.env, e.fns, checked, celenv.ExpressionLimit)
	b.Run("plan", func(b *testing.B) {
		for b.Loop() {
			planned.Eval(vars, nil)
		}
	})
	b.Run("cel-go", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := plain.Eval(vars); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tracker", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := tracked.ContextEval(context.Background(), vars); err != nil {
				b.Fatal(err)
			}
		}
	})
}
