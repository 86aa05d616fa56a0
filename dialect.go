package celgate

import (
	"cmp"
	"errors"

	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/patch/mergepatch"
	"github.com/celgate/celgate/policy"
)

// mutationValues are those for the expressions of the mutations of one invocation.
func (r *run) mutationValues(in *invocation, v *versioned) eval.Inputs {
	inputs := r.values(in, v)
	inputs.Namespace = &r.namespaces[whole]
	if !v.reflected {
		inputs.Object, inputs.OldObject = plain(v.object), plain(v.oldObject)
	}
	if in.hook.Kind == policy.Admission {
		inputs.Kind = &eval.Kind{Name: v.kind.GroupVersion().String() + " " + v.kind.Kind,
			Type: r.engine.types.Type(v.kind), Merger: r.engine.merger, Meter: inputs.Meter}
	}
	return inputs
}

// condition evaluates the condition of a mutation of the dialect, which is made if that holds.
func (r *run) condition(in *invocation, index int, v *versioned) eval.Outcome {
	o := eval.Condition(r.ctx, in.hook.Program, index, r.mutationValues(in, v))
	if o.Verdict == eval.Error {
		r.reword(in, index, v, &o)
	}
	return o
}

// reword gives an error or a denial the text that its author wrote.
func (r *run) reword(in *invocation, index int, v *versioned, o *eval.Outcome) {
	text := eval.MutationText(r.ctx, in.hook.Program, index, r.mutationValues(in, v))
	o.Reason = in.hook.Policy.Mutations[index].Reason
	if o.Message = cmp.Or(text, o.Message); o.Message == "" {
		o.Message = eval.DeniedText(in.hook.Policy.Mutations[index].Expr)
	}
}

// applyJSONMergePatch returns the object with a JSON merge patch. Unlike after a JSON patch of the server, an object
// that cannot be decoded is an error of the policy.
func (r *run) applyJSONMergePatch(v *versioned, patch map[string]any) (map[string]any, error) {
	patched, err := v.normal.Patched(mergepatch.Apply(v.object, patch), v.object, r.engine.types, v.kind)
	if err != nil {
		return nil, &PatchError{policy.JSONMergePatch, err}
	}
	return patched, nil
}

// verdictOf returns the outcome of a mutation that has come to a verdict in place of a patch, and whether it has.
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
