package celgate

import (
	"cmp"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/policy"
)

// makeMutation applies a mutation, once or for each item of its list; see [run.mutateOne]. Either all items count or
// none.
func (r *run) makeMutation(in *invocation, index int, v *versioned, told *explain.Mutation) (eval.Outcome, error) {
	if in.hook.Kind != policy.Admission || in.hook.Lists[index] == nil {
		return r.mutateOne(in, index, v, told)
	}
	outcome := eval.Outcome{Expression: in.hook.Mutations[index], Index: index}
	items, cost, err := eval.ItemsOf(r.ctx, in.hook.Program, index, r.mutationValues(in, v))
	if outcome.Cost = cost; err != nil {
		outcome.Expression = in.hook.Lists[index]
		outcome.Verdict, outcome.Message, outcome.Err = eval.Error, err.Error(), err
		return outcome, nil
	}
	made := *v
	patches := map[string]any{}
	for _, item := range items {
		one := *in
		one.each = item
		o, err := r.makeItem(&one, index, &made, told)
		outcome.Cost += o.Cost
		if told != nil && told.Patch != nil {
			patches[item.String()], told.Patch = told.Patch, nil
		}
		if o.Verdict == eval.Admit {
			if spent := eval.CheckSpent(outcome.Cost); spent != nil {
				o.Verdict, o.Err = eval.Error, spent
			}
		}
		if o.Verdict == eval.Error || o.Verdict == eval.Deny {
			failed := &eval.EachError{Of: item, Err: cmp.Or(o.Err, eval.ErrDenied)}
			outcome.Verdict, outcome.Err, outcome.Scope, outcome.Expression = o.Verdict, failed, o.Scope, o.Expression
			if o.Verdict == eval.Error {
				outcome.Message = failed.Error()
			}
			return outcome, err
		}
	}
	if told != nil && len(patches) > 0 {
		told.Before, told.Patch = v.object, patches
	}
	*v = made
	return outcome, nil
}

// makeItem applies a mutation for one item, if its condition holds.
func (r *run) makeItem(in *invocation, index int, v *versioned, told *explain.Mutation) (eval.Outcome, error) {
	cost := int64(0)
	if in.hook.Conditions[index] != nil && in.hook.Policy.Mutations[index].Scope.IsZero() {
		o := eval.Condition(r.ctx, in.hook.Program, index, r.mutationValues(in, v))
		r.recordCondition(in, index, o.Verdict == eval.Admit, o.Verdict == eval.Skip)
		if o.Verdict != eval.Admit {
			return o, nil
		}
		cost = o.Cost
	}
	o, err := r.mutateOne(in, index, v, told)
	o.Cost += cost
	return o, err
}
