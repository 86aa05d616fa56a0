package celgate

import (
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// checkMutations checks, after all mutations of a request, whether those of an invocation still hold, whichever policy
// has changed the object since: a webhook does not know which policies ran before it.
func (r *run) checkMutations(in *invocation, v *versioned) {
	if v.object == nil || in.binding.DryRun() {
		return
	}
	made, hook := *in, *in.hook
	hook.phase = policy.PhaseMutation // params have another form there
	made.hook, made.trial = &hook, true
	action := policy.Deny
	if in.hook.Lost == policy.WarnOfLost {
		action = policy.Warn
	}
	for i := range hook.Policy.Mutations {
		if hook.Policy.Mutations[i].Overwritable {
			continue
		}
		o := r.checkKept(&made, i, v)
		r.decision.Cost += o.Cost
		r.meter.Keep()
		r.record(in, []eval.Outcome{o})
		if o.Verdict == eval.Deny || o.Verdict == eval.Error && in.hook.FailurePolicy == policy.Fail {
			r.violation(in, o, []policy.Action{action})
		}
	}
}

// checkKept denies if mutation i of an invocation no longer holds for an object.
func (r *run) checkKept(in *invocation, i int, v *versioned) (o eval.Outcome) {
	m := &in.hook.Policy.Mutations[i]
	name := m.Name
	if name == "" {
		name = strconv.Itoa(i)
	}
	if m.IsExact() {
		o = r.checkRepeated(in, i, v)
	} else if o = eval.Check(r.ctx, in.hook.Program, i, r.mutationValues(in, v)); o.Verdict == eval.Deny {
		o.Message = "no longer holds: " + o.Message
	}
	switch o.Verdict {
	case eval.Deny:
		o.Message, o.Reason = "mutation "+name+" "+o.Message, metav1.StatusReasonInvalid
	case eval.Error:
		o.Message = "mutation " + name + " cannot be checked: " + o.Message
	}
	return o
}

// checkRepeated denies if mutation i, applied once more, changes the object, or itself denies.
func (r *run) checkRepeated(in *invocation, i int, v *versioned) eval.Outcome {
	if in.hook.Conditions[i] != nil && in.hook.Policy.Mutations[i].RunsOnce() {
		if o := r.condition(in, i, v); o.Verdict != eval.Admit {
			return o
		}
	}
	again := *v
	normal, err := v.normal.Continue(v.object, r.engine.types, v.kind) // normalising is not a change by the mutation
	if err == nil {
		again.object, again.normal = normal.Object, normal
	}
	before := again.object
	o, err := r.makeMutation(in, i, &again, nil)
	if err != nil {
		o.Verdict, o.Message, o.Err = eval.Error, err.Error(), err
	}
	switch {
	case o.Verdict == eval.Deny:
		r.reword(in, i, v, &o)
		o.Message = "denies the object: " + o.Message
	case o.Verdict == eval.Admit && !tree.Equal(before, again.object):
		o.Verdict = eval.Deny
		path := namePath(difference(before, again.object), before)
		o.Message = fmt.Sprintf("no longer holds: made again, it changes %s from %s to %s", textOfPath(path),
			textOfValue(valueAt(before, path)), textOfValue(valueAt(again.object, path)))
		if by := r.lastChanger(path, in.hook.Ref()); by != "" {
			o.Message += "; " + by + " has changed it"
		}
	}
	return o
}

// lastChanger names the other policy that last changed the value at a path; empty if none is known.
func (r *run) lastChanger(path []any, than policy.Ref) string {
	for _, c := range slices.Backward(r.made) {
		if tree.Equal(valueAt(c.Before, path), valueAt(c.After, path)) {
			continue
		}
		if by := c.Kind.Ref(c.Policy); by != than {
			return by.String()
		}
		return ""
	}
	return ""
}
