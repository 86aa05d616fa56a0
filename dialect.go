package celgate

import (
	"cmp"
	"errors"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/patch/mergepatch"
	"github.com/celgate/celgate/internal/trace"
	"github.com/celgate/celgate/policy"
)

// mutationValues returns the inputs of expressions of the mutations of one invocation.
func (r *run) mutationValues(in *invocation, v *versioned) eval.Inputs {
	inputs := r.values(in, v)
	inputs.Namespace = &r.namespaces[whole]
	if !v.reflected {
		inputs.Object, inputs.OldObject = toPlain(v.object), toPlain(v.oldObject)
	}
	if in.hook.Kind == policy.Admission {
		inputs.Kind = &eval.Kind{Name: v.kind.GroupVersion().String() + " " + v.kind.Kind,
			Type: r.engine.types.Type(v.kind), Merger: r.engine.merger, Meter: inputs.Meter}
		inputs.Type, inputs.Each = inputs.Kind.Type, in.each
	}
	return inputs
}

// condition evaluates the condition of a mutation of the dialect.
func (r *run) condition(in *invocation, index int, v *versioned) eval.Outcome {
	o := eval.Condition(r.ctx, in.hook.Program, index, r.mutationValues(in, v))
	if o.Verdict == eval.Error {
		r.reword(in, index, v, &o)
	}
	return o
}

// reword replaces the message of an error or a denial by the author's.
func (r *run) reword(in *invocation, index int, v *versioned, o *eval.Outcome) {
	inputs := r.mutationValues(in, v)
	var item *eval.ItemError
	var each *eval.EachError
	where := ""
	if errors.As(o.Err, &each) {
		inputs.Each, where = each.Of, each.Of.String()+": "
	}
	if errors.As(o.Err, &item) {
		inputs.At, where = item.At, where+item.At.Field()+": "
	}
	text := eval.MutationText(r.ctx, in.hook.Program, index, inputs)
	if text != "" && in.hook.MutationMessages[index] == nil {
		text = where + text
	}
	o.Reason = in.hook.Policy.Mutations[index].Reason
	if o.Message = cmp.Or(text, o.Message); o.Message == "" {
		o.Message = where + eval.DeniedText(in.hook.Policy.Mutations[index].Expr)
	}
	if o.Verdict == eval.Deny {
		o.Err = nil
	}
}

// applyJSONMergePatch returns the object with a JSON merge patch. Unlike after a JSON patch on the server, an object
// that cannot be decoded is an error of the policy.
func (r *run) applyJSONMergePatch(v *versioned, patch map[string]any) (map[string]any, error) {
	patched, err := v.normal.CheckPatched(mergepatch.Apply(v.object, patch), v.object, r.engine.types, v.kind)
	if err != nil {
		return nil, &PatchError{policy.JSONMergePatch, err}
	}
	return patched, nil
}

// patchItems returns the object with the changes of a mutation with a scope; nil if the outcome, which it sets, is
// complete.
func (r *run) patchItems(in *invocation, index int, v *versioned, outcome *eval.Outcome,
	told *explain.Mutation) map[string]any {
	failed := func(err error) map[string]any {
		outcome.Verdict, outcome.Message, outcome.Err = eval.Error, err.Error(), err
		var item *eval.ItemError
		if errors.As(err, &item) {
			outcome.Scope = item.At.Field()
			if errors.Is(err, eval.ErrDenied) {
				outcome.Verdict, outcome.Message = eval.Deny, ""
			}
		}
		return nil
	}
	inputs := r.mutationValues(in, v)
	found, err := eval.Items(r.ctx, in.hook.Program, index, inputs)
	r.recordCondition(in, index, found.Held, found.Fails)
	if outcome.Cost = found.Cost; err != nil {
		return failed(err)
	}
	changes := found.Changes
	if len(changes) == 0 {
		return nil
	}
	if told != nil {
		told.Patch = itemTrees(changes)
	}
	as := in.hook.Policy.Mutations[index].PatchType
	patched, err := eval.ChangeItems(v.object, inputs.Kind, changes,
		func(patched map[string]any) (map[string]any, error) {
			normal, err := v.normal.Continue(patched, r.engine.types, v.kind)
			return normal.Object, err
		})
	if err == nil && as != policy.ApplyConfiguration {
		patched, err = v.normal.CheckPatched(patched, v.object, r.engine.types, v.kind)
	}
	if err != nil {
		return failed(&PatchError{as, err})
	}
	if told != nil {
		told.Patched = patched
	}
	return patched
}

// recordCondition records that the condition of a mutation with several values was true, or false, for some of them.
// Its cost is part of that of the mutation.
func (r *run) recordCondition(in *invocation, index int, held, fails bool) {
	e := in.hook.Conditions[index]
	if e == nil || in.trial {
		return
	}
	if held {
		r.record(in, []eval.Outcome{{Expression: e, Index: index}})
	}
	if fails {
		r.record(in, []eval.Outcome{{Expression: e, Index: index, Verdict: eval.Skip}})
	}
}

// itemTrees returns the patches of the values of a scope, by path.
func itemTrees(changes []eval.ItemChange) map[string]any {
	all := map[string]any{}
	for _, c := range changes {
		all[c.Path.String()] = trace.Tree(c.Tree())
	}
	return all
}

// verdictOf returns the outcome of a mutation whose value is a verdict and not a patch, and whether it is.
func verdictOf(err error, o eval.Outcome) (eval.Outcome, bool) {
	switch {
	case errors.Is(err, eval.ErrUnchanged):
		return o, true
	case errors.Is(err, eval.ErrDenied):
		o.Verdict = eval.Deny
		return o, true
	}
	return o, false
}
