package celgate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// mutate runs the mutating policies, and a second time those that request it if the object has changed (as
// mutating/dispatcher.go and mutating/reinvocationcontext.go v0.37.2). Policies of the dialect run again while the
// fields that they read change, up to their limit. The error is one to which failurePolicy does not apply.
func (r *run) mutate() error {
	re := reinvocation{pass: 1}
	err := r.mutationPass(&re)
	if r.engine.standsIn { // a webhook may be called again, see [Engine.Remutate]
		r.decision.addRare().ran = re.invocations()
	}
	for pass := 2; err == nil && r.decision.Allowed && re.requested; pass++ {
		if pass == 2 && r.engine.plugins != nil {
			changed, refused := r.admitAgain()
			if refused != nil {
				return refused
			}
			if changed {
				re.require()
			}
		}
		re.begin(pass)
		if pass == 2 && r.secondPassRedundant(&re) || pass > 2 && !r.hasOwnDue(&re) {
			break
		}
		err = r.passAgain(&re)
	}
	if err == nil && r.decision.Allowed && len(re.restless) > 0 {
		err = r.fights(&re)
	}
	r.noteCycles()
	return err
}

// admitAgain runs the mutating plugins again after the policies, and reports whether they changed the object.
func (r *run) admitAgain() (changed bool, err error) {
	again := *r.Request
	again.Object = r.decision.Object
	answer, err := r.engine.fill(r.ctx, &again)
	r.decision.leave(answer.Unchecked...)
	if err != nil || tree.Equal(answer.Object, again.Object) {
		return false, err
	}
	r.decision.addFilling(Change{Before: again.Object, After: answer.Object})
	r.decision.Object, r.normal = answer.Object, prepare.Normal{}
	return true, nil
}

// passAgain runs a pass that matches again, on the result of the one before.
func (r *run) passAgain(re *reinvocation) error {
	again := *r.Request
	again.Object = r.decision.Object
	next := r.engine.run(r.ctx, &again, r.engine.index.entry(&again))
	next.decision, next.second, next.normal, next.sharesLabels = r.decision, true, r.normal, r.sharesLabels
	err := next.mutationPass(re)
	r.sharesLabels = next.sharesLabels
	return err
}

// hasOwnDue reports whether a policy of the dialect must run again.
func (r *run) hasOwnDue(re *reinvocation) bool {
	for key := range re.again {
		if key.kind == policy.Admission {
			return true
		}
	}
	return false
}

// secondPassRedundant reports whether a second pass cannot change the result: no policy runs again, no native policy's
// match depends on the object, and the object needs no conversion, which could now fail.
func (r *run) secondPassRedundant(re *reinvocation) bool {
	converted := slices.ContainsFunc(r.objects, func(v *versioned) bool { return v.kind != r.Kind })
	return len(re.again) == 0 && !converted && !r.hasListener() && !r.known.mutating.byObject
}

// fights finds the policies that would change the object if they ran once more: they do not reach a stable result.
// These changes are not kept.
func (r *run) fights(re *reinvocation) error {
	before := *r.decision
	before.AuditAnnotations = maps.Clone(before.AuditAnnotations)
	kept := *before.seldom()
	before.rare = &kept
	trial := reinvocation{pass: re.pass + 1, again: re.restless}
	told := r.told
	r.told = nil
	err := r.passAgain(&trial)
	r.told = told
	made := r.decision.Changes[len(before.Changes):]
	*r.decision = before
	if err != nil {
		return err
	}
	for i := range made {
		f := fightOver(before.Changes, &made[i])
		kept.fights = append(kept.fights, f)
		r.decision.warn(Warning{Text: f.String()})
	}
	return nil
}

// mutationPass runs every invocation of the mutating policies once, each on the result of the one before. All of them
// are matched with the incoming object before the first one runs.
func (r *run) mutationPass(re *reinvocation) error {
	var ready []invocation
	var failures []policyError
	for in, confErr := range r.invocations(policy.PhaseMutation) {
		if confErr == nil && !in.idle {
			if _, err := r.convertTo(in.kind); err != nil {
				confErr = &configurationError{hook: in.hook, err: err}
			}
		}
		switch {
		case confErr != nil:
			failures = append(failures, policyError{hook: confErr.hook, binding: confErr.binding,
				message: confErr.Error(), reason: metav1.StatusReasonForbidden, err: confErr})
		case in.idle:
			r.noteNoParams(&in)
		default:
			ready = append(ready, in)
		}
	}
	if len(ready) > 0 {
		ran, err := r.runMutations(ready, re)
		if err != nil {
			return err
		}
		failures = append(failures, ran...)
	}
	r.refuseMutation(failures)
	return nil
}

// runMutations runs the invocations and writes the result back. An error ends the request at once.
func (r *run) runMutations(ready []invocation, re *reinvocation) ([]policyError, error) {
	if _, err := r.requestNamespace(); err != nil {
		return nil, err
	}
	p := mutatingPass{run: r, second: re.pass > 1, expected: min(len(ready), 4)}
	var touched []*versioned
	for i := range ready {
		changed, err := p.invoke(&ready[i], re)
		if err != nil {
			return nil, err
		}
		if changed != nil {
			touched = append(touched, changed)
		}
	}
	if p.last == nil || p.last.object == nil || !p.last.dirty {
		return p.failures, nil
	}
	re.require()
	return p.failures, r.writeBack(p.last, touched)
}

// A mutatingPass runs mutating policies one after the other.
type mutatingPass struct {
	*run
	second   bool
	expected int // how many changes have room at once
	failures []policyError
	last     *versioned // the object after the last policy
}

// invoke runs one invocation and returns the object if it changed. An error ends the request.
func (p *mutatingPass) invoke(in *invocation, re *reinvocation) (*versioned, error) {
	start := p.beginning()
	v, err := p.convertTo(in.kind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	dry := in.binding.DryRun()
	if dry {
		if p.second {
			return nil, nil
		}
		copied := *v
		v = &copied
	}
	if !p.begin(in, v, re) {
		return nil, nil
	}
	before := v.object
	var changing []int
	for m := range in.hook.Mutations {
		if !dry {
			p.last = v
		}
		prior := v.object
		if v.object == nil || p.second && !in.hook.Reinvokes(m) {
			continue
		}
		if p.failBeyondCost(in) {
			break
		}
		if !p.conditionHolds(in, m, v) {
			continue
		}
		if err := p.mutation(in, m, v); err != nil && !dry {
			return nil, err
		}
		if len(in.hook.Mutations) > 1 && !tree.Equal(prior, v.object) {
			changing = append(changing, m)
		}
	}
	p.addTiming(in, start)
	changed := p.keep(in, v, before, changing)
	if dry {
		return nil, nil
	}
	if changed {
		re.noteChange(before, v.object)
	}
	re.done(in)
	if !changed {
		return nil, nil
	}
	return v, nil
}

// begin reports whether an invocation runs: its match conditions hold, and in a second pass there is a reason to run it
// again.
func (p *mutatingPass) begin(in *invocation, v *versioned, re *reinvocation) bool {
	if p.second && in.hook.Kind == policy.Admission && !re.isDue(in) {
		p.tellRun(in, re.skipReason(in))
		return false
	}
	p.begins(in)
	p.meter.Begin()
	if p.failBeyondCost(in) {
		return false
	}
	matched, failed := p.conditionsHold(in, v)
	switch {
	case failed != nil:
		p.fail(in, *failed)
		return false
	case !matched:
		return false
	case p.second && !re.isDue(in):
		p.tellRun(in, re.skipReason(in))
		return false
	}
	if p.hasListener() && !p.second {
		re.remember(in)
	}
	return true
}

// conditionHolds evaluates the condition of one mutation of the dialect. With a scope or forEach it returns true,
// because the condition is evaluated for each value.
func (p *mutatingPass) conditionHolds(in *invocation, m int, v *versioned) bool {
	if in.hook.Kind != policy.Admission || in.hook.Conditions[m] == nil || !in.hook.Policy.Mutations[m].RunsOnce() {
		return true
	}
	o := p.condition(in, m, v)
	p.decision.Cost += o.Cost
	p.record(in, []eval.Outcome{o})
	if o.Verdict == eval.Error {
		p.fail(in, o)
	}
	return o.Verdict == eval.Admit
}

// mutation applies one mutation. An error ends the request.
func (p *mutatingPass) mutation(in *invocation, m int, v *versioned) error {
	told := p.tellMutation(in, m, v)
	o, err := p.makeMutation(in, m, v, told)
	failed := o.Verdict == eval.Error || o.Verdict == eval.Deny
	if failed && in.hook.Kind == policy.Admission {
		p.reword(in, m, v, &o)
	}
	p.meter.Keep()
	p.noteExcess(in)
	p.record(in, []eval.Outcome{o})
	if o.Cost == 0 && errors.Is(o.Err, ErrBudget) { // the error of a single expression has a cost
		o.Cost = Budget + 1
	}
	p.spend(in, OfMutation, o.Cost)
	if told != nil {
		p.tell(in.hook, in.binding, in, explain.Event{Op: explain.OpMutate, Mutation: told})
	}
	if failed && (err == nil || in.binding.DryRun()) {
		p.fail(in, o)
	}
	return err
}

// failBeyondCost reports whether the policies before have exceeded the cost of a request; then the policy fails without
// being evaluated.
func (p *mutatingPass) failBeyondCost(in *invocation) bool {
	o := p.costExcess()
	if o == nil {
		return false
	}
	p.record(in, []eval.Outcome{*o})
	p.fail(in, *o)
	return true
}

// fail records an outcome that denies the request if the policy has failurePolicy Fail.
func (p *mutatingPass) fail(in *invocation, o eval.Outcome) {
	f := policyError{hook: in.hook, binding: in.binding, message: o.Message,
		reason: metav1.StatusReasonInvalid, outcome: &o, param: in.paramName(), err: o.Err}
	if in.hook.Kind == policy.Admission {
		f.addOwn(&o)
	}
	p.failures = append(p.failures, f)
}

// keep records the changes of an invocation, and reports whether the next one sees another object. changing are the
// mutations that changed it.
func (p *mutatingPass) keep(in *invocation, v *versioned, before map[string]any, changing []int) bool {
	changed := !tree.Equal(before, v.object)
	if changed && in.binding.MutationActions != nil {
		p.tellChange(in, before, v.object)
	}
	if in.binding.DryRun() {
		if changed {
			more := p.decision.addRare()
			more.dryRun = append(more.dryRun, in.change(before, v.object, changing, p.second))
		}
		return false
	}
	if changed {
		if p.decision.Changes == nil {
			p.decision.Changes = make([]Change, 0, p.expected)
		}
		p.decision.Changes = append(p.decision.Changes, in.change(before, v.object, changing, p.second))
	}
	return changed
}

// change returns the change of an object by an invocation; changing are the mutations responsible, nil for the only
// one.
func (in *invocation) change(before, after map[string]any, changing []int, second bool) Change {
	c := Change{
		Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, Param: in.paramName(), Second: second,
		Before: before, After: after, Mutations: changing,
	}
	if in.hook.Kind != policy.Admission {
		return c
	}
	for i, m := range in.hook.Mutations {
		if m.Name != "" && (changing == nil || slices.Contains(changing, i)) {
			c.Names = append(c.Names, m.Name)
		}
	}
	return c
}

// writeBack makes the object of the last policy the object of the request. On the server, changes through other
// versions are lost.
func (r *run) writeBack(last *versioned, touched []*versioned) error {
	if slices.ContainsFunc(touched, func(v *versioned) bool { return v != last }) {
		r.decision.note(quirks.LostMutation, "")
	}
	object := last.object
	if last.kind != r.Kind && !last.custom { // a custom object has its own apiVersion
		var err error
		if object, err = r.engine.types.Convert(object, r.Kind); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
		}
	}
	object, err := prepare.Hold(object, r.Object, r.engine.types, r.Kind)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	r.decision.Object, r.sharesLabels = object, last.normal.SharesLabels
	// A single change of the request's object is known to differ from it.
	c := r.decision.Changes
	known := len(c) == 1 && tree.IsSame(c[0].Before, r.Object) && tree.IsSame(c[0].After, object)
	r.decision.Mutated = r.decision.Mutated || known || !tree.Equal(object, r.Object)
	return nil
}

// conditionsHold evaluates the match conditions. From then on the object of a built-in kind is presented by reflection.
func (r *run) conditionsHold(in *invocation, v *versioned) (bool, *eval.Outcome) {
	if len(in.hook.MatchConditions) == 0 {
		return true, nil
	}
	v.reflected = true
	inputs := r.values(in, v)
	inputs.Request = r.request(r.attributes.Resource, in.kind)
	conditions := eval.Match(r.ctx, in.hook.Program, inputs)
	r.record(in, conditions.Outcomes)
	r.spend(in, OfMatchConditions, conditions.Cost)
	if conditions.Err != nil {
		return false, &eval.Outcome{Verdict: eval.Error, Message: conditions.Err.Error(), Err: conditions.Err}
	}
	return conditions.Matched, nil
}

// refuseMutation denies the request if policies with failurePolicy Fail failed: with status 403 for any reason, and one
// cause for each of them (as generic/policy_dispatcher.go v0.37.2).
func (r *run) refuseMutation(failures []policyError) {
	var causes []metav1.StatusCause
	var hidden []auditedFailure
	var first policyError
	of := len(r.decision.Violations)
	for _, f := range failures {
		if f.dryRun() {
			r.tellFailure(&f)
			continue
		}
		if f.hook.FailurePolicy == policy.Ignore && !f.denied {
			continue
		}
		v := Violation{
			Kind: f.hook.Kind, Phase: policy.PhaseMutation, Policy: f.hook.Name, Message: f.message, Reason: f.reason,
			IsError: !f.denied, Err: f.err,
			Actions: []policy.Action{policy.Deny},
		}
		text := fmt.Sprintf("policy %q denied request: %s", f.hook.Name, f.message)
		if f.binding != nil {
			v.Binding, v.Param = f.binding.Name, f.param
			if r.shield(&v, f.binding.Binding); v.Reference != "" {
				hidden = append(hidden, v.auditFailure())
			}
			text = fmt.Sprintf("policy '%s'%s with binding '%s' denied request: %s", f.hook.Name, f.mutationName(),
				f.binding.Name, v.clientText())
		}
		if f.outcome != nil {
			v.Expr = expression(f.outcome.Expression)
		}
		r.decision.Violations = append(r.decision.Violations, v)
		if len(causes) == 0 {
			first = f
		}
		causes = append(causes, metav1.StatusCause{Message: text})
	}
	r.decision.auditFailures(hidden)
	if len(causes) == 0 {
		return
	}
	named := *r.Request
	named.Object = r.decision.Object // the present result of the policies
	status := apierrors.NewForbidden(r.Resource.GroupResource(), named.displayName(), errors.New("")).Status()
	status.Message, status.Reason = causes[0].Message, first.reason
	status.Details.Causes = causes
	if first.coded {
		status.Code = policy.CodeOf(first.reason)
	}
	r.decision.Allowed, r.decision.Status, r.decision.Denial = false, &status, &r.decision.Violations[of]
}
