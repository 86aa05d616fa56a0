package eval

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/policy"
)

// Verdicts that a mutation of the dialect may return in place of a patch.
var (
	ErrUnchanged = errors.New("the mutation changes nothing")
	ErrDenied    = errors.New("the mutation denies the request")
)

// unlessVerdict returns the value of a mutation if it is a patch, or one of the errors above: null, true and an empty
// optional change nothing, false denies. Mutations of native kinds do not have verdicts.
func unlessVerdict(prog *compile.Program, value ref.Val) (ref.Val, error) {
	if prog.Kind != policy.Admission {
		return value, nil
	}
	return verdictOr(value)
}

func verdictOr(value ref.Val) (ref.Val, error) {
	if optional, ok := value.(*types.Optional); ok {
		if !optional.HasValue() {
			return nil, ErrUnchanged
		}
		value = optional.GetValue()
	}
	switch value {
	case types.NullValue, types.True:
		return nil, ErrUnchanged
	case types.False:
		return nil, ErrDenied
	}
	return value, nil
}

// JSONMergePatch evaluates a mutation to the tree of a JSON merge patch.
func JSONMergePatch(ctx context.Context, prog *compile.Program, e *compile.Expression, in Inputs) (map[string]any,
	int64, error) {
	value, cost, err := mutationResult(ctx, prog, e, in)
	if err == nil {
		value, err = unlessVerdict(prog, value)
	}
	if err == nil {
		err = bound.ChargeTree(in.Meter, value)
	}
	if err != nil {
		return nil, cost, err
	}
	if object, ok := value.(*dynamic.ObjectVal); ok {
		if err := checkTypeNames(object); err != nil {
			return nil, cost, err
		}
	}
	tree, err := jsonTree(value)
	if err != nil {
		return nil, cost, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	patch, ok := tree.(map[string]any)
	if !ok {
		return nil, cost, fmt.Errorf("a JSON merge patch is a map or an Object, not %v", value.Type())
	}
	return patch, cost, nil
}

// Condition evaluates the condition of mutation i, which must have one: Skip if it is false.
func Condition(ctx context.Context, prog *compile.Program, i int, in Inputs) Outcome {
	return holds(ctx, prog, prog.Conditions[i], i, in, Skip)
}

// Check evaluates the final check of mutation i, an expression: Deny if it is false.
func Check(ctx context.Context, prog *compile.Program, i int, in Inputs) Outcome {
	o := holds(ctx, prog, prog.Checks[i], i, in, Deny)
	if o.Verdict == Deny {
		o.Message = failedExpression(o.Expression.Expr)
	}
	return o
}

// holds evaluates an expression of mutation i with a budget of its own; if it is false, the verdict is otherwise.
func holds(ctx context.Context, prog *compile.Program, e *compile.Expression, i int, in Inputs,
	otherwise Verdict) Outcome {
	o := Outcome{Expression: e, Index: i}
	result, _, err := newActivation(ctx, prog, in).evaluate(e, budget)
	if o.Cost = result.Cost; err == nil {
		err = result.Err
	}
	switch {
	case err != nil:
		o.fail(err)
	case result.Value != types.True:
		o.Verdict = otherwise
	}
	return o
}

// MutationText returns the author's message for errors and denials of mutation i; "" if there is none. Messages cannot
// use the authorizer.
func MutationText(ctx context.Context, prog *compile.Program, i int, in Inputs) string {
	var evaluated Result
	if e := prog.MutationMessages[i]; e != nil {
		in.Authorizer, in.RequestResource = nil, nil
		if result, _, err := newActivation(ctx, prog, in).evaluate(e, budget); err == nil && result.Err == nil {
			evaluated = result
		}
	}
	return givenText(evaluated, prog.Policy.Mutations[i].Message)
}

// DeniedText returns the message of a denial without one by its author.
func DeniedText(x policy.Expr) string { return failedExpression(x) }
