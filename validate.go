package celgate

import (
	"errors"
	"strings"

	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/policy"
)

// validate runs every invocation of the validating policies. The error is one to which failurePolicy does not apply.
func (r *run) validate() error {
	var published annotations
	var bindings combination
	var current *hook
	next := func(h *hook) {
		if h == current {
			return
		}
		if current != nil {
			published.publish(current.Name, r.decision)
			bindings.end(current, r.decision)
		}
		current, published = h, annotations{}
		bindings.begin(r.decision)
	}
	for in, confErr := range r.invocations(policy.PhaseValidation) {
		if confErr != nil {
			next(confErr.hook)
			r.configurationViolation(confErr)
			bindings.add(confErr.binding, false, true)
			continue
		}
		next(in.hook)
		start := r.beginning()
		ran, failed, err := r.validateOne(&in, &published)
		if err != nil {
			return err
		}
		bindings.add(in.binding, ran, failed)
		r.addTiming(&in, start)
	}
	next(nil)
	r.decision.decide(r.Request, r.engine.quirks)
	return nil
}

// validateOne evaluates an invocation and reports whether its validations were evaluated, and whether anything failed.
func (r *run) validateOne(in *invocation, published *annotations) (ran, failed bool, err error) {
	if in.idle { // the server looks up the namespace anyway
		r.noteNoParams(in)
		_, err := r.requestNamespace()
		return false, false, err
	}
	v, err := r.convertTo(in.kind)
	if err != nil {
		r.configurationViolation(&configurationError{in.hook, in.binding, conversionError{err}})
		return false, true, nil
	}
	if _, err := r.requestNamespace(); err != nil {
		return false, false, err
	}
	r.begins(in)
	r.meter.Begin()
	ran, failed = r.validateOn(v, in, published)
	r.noteExcess(in)
	return ran, failed, nil
}

// validateOn is validateOne for the object in the matched version.
func (r *run) validateOn(v *versioned, in *invocation, published *annotations) (ran, failed bool) {
	if o := r.costExcess(); o != nil {
		r.record(in, []eval.Outcome{*o})
		if in.hook.FailurePolicy == policy.Fail {
			r.violation(in, *o, in.binding.ActionsOnError(nil))
		}
		return false, true
	}
	inputs := r.values(in, v)
	if in.hook.Kind == policy.Admission {
		inputs.Type, inputs.Binding = r.engine.types.Type(v.kind), in.binding.Binding
	}
	if in.hook.template && !r.showTemplate(&inputs, v) {
		return false, false
	}
	if len(in.hook.MatchConditions) > 0 {
		matching := inputs
		matching.Request = r.request(r.attributes.Resource, in.kind)
		conditions := eval.Match(r.ctx, in.hook.Program, matching)
		r.record(in, conditions.Outcomes)
		r.spend(in, OfMatchConditions, conditions.Cost)
		if conditions.Err != nil {
			r.violation(in, eval.Outcome{Verdict: eval.Error, Message: conditions.Err.Error(), Err: conditions.Err},
				in.actionsOn(nil, true))
		}
		if !conditions.Matched {
			return false, conditions.Err != nil
		}
	}

	if in.hook.ChecksMutations() {
		r.checkMutations(in, v)
	}
	inputs.Namespace = &r.namespaces[declaredOnly]
	result := r.validator.Validate(r.ctx, in.hook.Program, &inputs, &r.namespaces[whole])
	r.record(in, result.Outcomes)
	r.spend(in, OfValidations, result.Cost)
	if result.AnnotationCost > 0 {
		r.spend(in, OfAuditAnnotations, result.AnnotationCost)
	}
	for i := range result.Outcomes {
		switch o := &result.Outcomes[i]; o.Verdict {
		case eval.Deny:
			failed = true
			r.violation(in, *o, in.actionsOn(&in.hook.Policy.Validations[o.Index], false))
		case eval.Error:
			failed = true
			rule := in.hook.rule(o)
			if in.hook.FailurePolicyOf(rule) == policy.Fail {
				r.violation(in, *o, in.actionsOn(rule, true))
			}
		}
	}
	for _, a := range result.Annotations {
		switch {
		case a.Err == nil:
			published.add(a.Key, a.Value)
		default:
			failed = true
			wrong := eval.Outcome{Expression: a.Expression, Verdict: eval.Error, Message: a.Err.Error(), Err: a.Err}
			var unbound *eval.UnboundError
			if errors.As(a.Err, &unbound) && unbound.Name == "authorizer" &&
				r.engine.quirks.Has(quirks.AuditAnnotationAuthorizer) {
				r.decision.note(quirks.AuditAnnotationAuthorizer, in.hook.Name)
			}
			r.record(in, []eval.Outcome{wrong})
			if in.hook.FailurePolicy == policy.Fail {
				r.violation(in, wrong, in.binding.ActionsOnMisconfiguration())
			}
		}
	}
	return true, failed
}

// showTemplate replaces the object in values by its template. It returns false if there is none.
func (r *run) showTemplate(values *eval.Inputs, v *versioned) bool {
	at, _ := scope.TemplateOf(v.kind.Group, v.kind.Kind)
	values.Place, values.Type = at.Path, r.engine.types.Type(podKind)
	object, old := templateOf(v.object, v.kind), templateOf(v.oldObject, v.kind)
	values.Object, values.OldObject = nil, nil
	if object != nil {
		values.Object = toForm(object, values.Type, v.form)
	}
	if old != nil {
		values.OldObject = toForm(old, values.Type, v.form)
	}
	return object != nil || v.object == nil && old != nil
}

// actionsOn returns the actions for a rule of an invocation that fails or that cannot be evaluated.
func (in *invocation) actionsOn(rule *policy.Validation, isError bool) []policy.Action {
	actions := in.binding.ActionsOnError
	if !isError {
		actions = in.binding.ActionsOn
	}
	if in.hook.template {
		return in.hook.TemplateActions(actions(rule))
	}
	return actions(rule)
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
