package celgate

import (
	"errors"
	"strings"

	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

// validate runs every invocation of the validating policies. The error is one that no failurePolicy covers.
func (r *run) validate() error {
	var published annotations
	var current *hook
	publish := func() {
		if current != nil {
			published.publish(current.Name, r.decision)
		}
		published = annotations{}
	}
	for in, confErr := range r.invocations(policy.PhaseValidation) {
		if confErr != nil {
			r.configurationViolation(confErr)
			continue
		}
		if in.hook != current {
			publish()
			current = in.hook
		}
		start := r.clock()
		if err := r.validateOne(&in, &published); err != nil {
			return err
		}
		r.addTiming(&in, start)
	}
	publish()
	r.decision.decide(r.Request, r.engine.quirks)
	return nil
}

func (r *run) validateOne(in *invocation, published *annotations) error {
	if in.idle { // the server looks up the namespace all the same
		r.noteNoParams(in)
		_, err := r.requestNamespace()
		return err
	}
	v, err := r.inVersion(in.kind)
	if err != nil {
		r.configurationViolation(&configurationError{in.hook, in.binding, conversionError{err}})
		return nil
	}
	if _, err := r.requestNamespace(); err != nil {
		return err
	}
	r.begins(in)
	r.meter.Begin()
	r.validateOn(v, in, published)
	r.noteExcess(in)
	return nil
}

// validateOn evaluates an invocation on the object in the version that it wants.
func (r *run) validateOn(v *versioned, in *invocation, published *annotations) {
	inputs := r.values(in, v)
	if in.hook.Kind == policy.Admission {
		inputs.Type = r.engine.types.Type(v.kind)
	}
	if len(in.hook.MatchConditions) > 0 {
		matching := inputs
		matching.Request = r.request(r.attributes.Resource, in.kind)
		conditions := eval.Match(r.ctx, in.hook.Program, matching)
		r.record(in, conditions.Outcomes)
		if conditions.Err != nil {
			r.violation(in, eval.Outcome{Verdict: eval.Error, Message: conditions.Err.Error(), Err: conditions.Err},
				in.binding.Actions)
		}
		if !conditions.Matched {
			return
		}
	}

	if in.hook.ChecksMutations() {
		r.checkMutations(in, v)
	}
	inputs.Namespace = &r.namespaces[declaredOnly]
	result := r.validator.Validate(r.ctx, in.hook.Program, &inputs, &r.namespaces[whole])
	r.record(in, result.Outcomes)
	for i := range result.Outcomes {
		o := &result.Outcomes[i]
		if o.Verdict == eval.Deny || o.Verdict == eval.Error && in.hook.FailurePolicy == policy.Fail {
			r.violation(in, *o, in.binding.Actions)
		}
	}
	for _, a := range result.Annotations {
		switch {
		case a.Err == nil:
			published.add(a.Key, a.Value)
		default:
			failed := eval.Outcome{Expression: a.Expression, Verdict: eval.Error, Message: a.Err.Error(), Err: a.Err}
			var unbound *eval.UnboundError
			if errors.As(a.Err, &unbound) && unbound.Name == "authorizer" &&
				r.engine.quirks.Has(quirks.AuditAnnotationAuthorizer) {
				r.decision.note(quirks.AuditAnnotationAuthorizer, in.hook.Name)
			}
			r.record(in, []eval.Outcome{failed})
			if in.hook.FailurePolicy == policy.Fail {
				r.violation(in, failed, []policy.Action{policy.Deny}) // whatever the binding says
			}
		}
	}
}

// annotations collects the audit annotations of one policy over its bindings and params.
type annotations struct {
	keys   []string
	values map[string][]string
}

func (a *annotations) add(key, value string) {
	if a.values == nil {
		a.values = map[string][]string{}
	}
	if _, seen := a.values[key]; !seen {
		a.keys = append(a.keys, key)
	}
	for _, v := range a.values[key] {
		if v == value {
			return
		}
	}
	a.values[key] = append(a.values[key], value)
}

func (a *annotations) publish(policyName string, d *Decision) {
	for _, key := range a.keys {
		d.annotate(policyName+"/"+key, strings.Join(a.values[key], ", "))
	}
}
