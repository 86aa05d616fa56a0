package celgate

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// Admit decides about a request as the API server's admission chain does: mutating policies, what the
// registry does to the object in between, validating policies. The error is that of a context that ended.
func (e *Engine) Admit(ctx context.Context, p *Prepared) (*Decision, error) {
	decision, sharesLabels, err := e.mutating(ctx, p)
	defer e.written(&p.request, decision)
	if decision.Allowed {
		decision.MutatedObject = decision.Object
	}
	if err != nil || !decision.Allowed {
		return decision.send(p), err
	}
	next := e.register(&p.request, decision.Object, sharesLabels)
	if err = e.refusal(next); err == nil {
		err = e.policyRefusal(ctx, next)
	}
	if err != nil {
		decision.refuse(err)
		return decision.send(p), nil
	}
	validated, err := e.validating(ctx, next)
	if err != nil {
		return nil, err
	}
	for _, text := range e.advice(next, decision.Object) {
		decision.warn(Warning{Text: text})
	}
	return decision.then(validated).send(p), nil
}

// Validate decides about a request with the validating policies alone.
func (e *Engine) Validate(ctx context.Context, p *Prepared) (*Decision, error) {
	if p.refusal != nil {
		return refused(p).send(p), ctx.Err()
	}
	d, err := e.validating(ctx, &p.request)
	return d.send(p), err
}

func (e *Engine) validating(ctx context.Context, req *Request) (*Decision, error) {
	known := e.index.entry(req)
	if e.unconcerned(known, policy.Validating) {
		return allowed(req), ctx.Err()
	}
	r := e.review(ctx, req, known)
	if err := r.validate(); err != nil {
		r.decision.refuse(err)
	}
	r.noteUnsimulated()
	r.noteMadeUp()
	decision := r.decision
	r.release()
	return decision, ctx.Err()
}

// Mutate changes the object of a request with the mutating policies alone.
func (e *Engine) Mutate(ctx context.Context, p *Prepared) (*Decision, error) {
	d, _, err := e.mutating(ctx, p)
	if d.Allowed {
		d.MutatedObject = d.Object
	}
	e.written(&p.request, d)
	return d.send(p), err
}

// Remutate changes the object of a request that something else has changed after its mutating policies had decided:
// those that ran then and ask for it run a second time, and none a third. The object is that of [Decision.FirstPass]
// with what has changed since. The API server does so with its own policies once webhooks have changed an object.
func (e *Engine) Remutate(ctx context.Context, p *Prepared, first *Decision) (*Decision, error) {
	again := &reinvocation{requested: true, again: map[invocationKey]bool{}}
	for _, key := range first.ran {
		again.again[key] = true
	}
	req := &p.request
	known := e.index.entry(req)
	if e.unconcerned(known, policy.Mutating) || req.Operation == Delete {
		return allowed(req), ctx.Err()
	}
	r := e.reviewMutation(ctx, p, known)
	r.second = true
	if err := r.mutationPass(again, true); err != nil {
		r.decision.refuse(err)
	}
	r.noteUnsimulated()
	r.noteMadeUp()
	decision := r.decision
	r.release()
	e.written(req, decision)
	return decision.send(p), ctx.Err()
}

// mutating is Mutate with the object as it is before it is written; sharesLabels is what [prepare.Result] says about it.
func (e *Engine) mutating(ctx context.Context, p *Prepared) (d *Decision, sharesLabels bool, err error) {
	req := &p.request
	if p.refusal != nil {
		return refused(p), false, ctx.Err()
	}
	known := e.index.entry(req)
	if e.unconcerned(known, policy.Mutating) || req.Operation == Delete {
		return allowed(req), p.sharesLabels, ctx.Err()
	}
	r := e.reviewMutation(ctx, p, known)
	if err := r.mutate(); err != nil {
		r.decision.refuse(err)
	}
	r.noteUnsimulated()
	r.noteMadeUp()
	d, sharesLabels = r.decision, r.sharesLabels
	r.release()
	return d, sharesLabels, ctx.Err()
}

// reviewMutation begins the review of a request by mutating policies.
func (e *Engine) reviewMutation(ctx context.Context, p *Prepared, known *indexEntry) *review {
	r := e.review(ctx, &p.request, known)
	r.normal, r.sharesLabels = p.normal, p.sharesLabels
	return r
}

// written makes the object of a decision what the server writes: to the end an empty list that a mutation sets in a custom
// object is a list, and is null then.
func (e *Engine) written(req *Request, d *Decision) {
	if !d.Mutated || d.Object == nil {
		return
	}
	if r := e.types.Resource(req.Resource); r != nil && r.Custom != nil {
		d.Object = prepare.Written(d.Object)
	}
}

// unconcerned reports that no policy of a kind has a say about a request; a tracer is told why.
func (e *Engine) unconcerned(known *indexEntry, kind policy.Kind) bool {
	if known.exempt {
		if e.trace != nil {
			e.trace(Event{Op: OpExempt, Kind: kind})
		}
		return true
	}
	return e.trace == nil && len(known.of(kind).hooks) == 0
}

// validate runs every invocation of the validating policies. The error is one that no failurePolicy covers.
func (r *review) validate() error {
	var published annotations
	var current *hook
	publish := func() {
		if current != nil {
			published.publish(current.Name, r.decision)
		}
		published = annotations{}
	}
	for in, confErr := range r.invocations(policy.Validating) {
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
		r.took(&in, start)
	}
	publish()
	r.decision.decide(r.Request, r.engine.quirks)
	return nil
}

func (r *review) validateOne(in *invocation, published *annotations) error {
	if in.idle { // the server looks up the namespace all the same
		_, err := r.requestNamespace()
		return err
	}
	v, err := r.versioned(in.kind)
	if err != nil {
		r.configurationViolation(&configurationError{in.hook, in.binding, conversionError{err}})
		return nil
	}
	if _, err := r.requestNamespace(); err != nil {
		return err
	}
	r.tellRun(in, "")
	r.meter.Begin()
	defer r.noteExcess(in)
	inputs := r.inputs(in, v)
	if len(in.hook.MatchConditions) > 0 {
		matching := inputs
		matching.Request = r.request(r.attributes.Resource, in.kind)
		conditions := eval.Match(r.ctx, in.hook.Program, matching)
		r.record(in, conditions.Outcomes)
		if conditions.Err != nil {
			r.violation(in, eval.Outcome{Verdict: eval.Error, Message: conditions.Err.Error(), Err: conditions.Err}, in.binding.Actions)
		}
		if !conditions.Matched {
			return nil
		}
	}

	inputs.Namespace = &r.namespaces[declaredOnly]
	result := r.validator.Validate(r.ctx, in.hook.Program, inputs, &r.namespaces[whole])
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
			var unbound *UnboundError
			if errors.As(a.Err, &unbound) && unbound.Name == "authorizer" && r.engine.quirks.Has(quirks.AuditAnnotationAuthorizer) {
				r.decision.note(quirks.AuditAnnotationAuthorizer, in.hook.Name)
			}
			r.record(in, []eval.Outcome{failed})
			if in.hook.FailurePolicy == policy.Fail {
				r.violation(in, failed, []policy.Action{policy.Deny}) // whatever the binding says
			}
		}
	}
	return nil
}

// clock is the time if somebody wants to know how long invocations take.
func (r *review) clock() time.Time {
	if !r.engine.timed {
		return time.Time{}
	}
	return time.Now()
}

// took adds the time of an invocation to the decision.
func (r *review) took(in *invocation, start time.Time) {
	if !r.engine.timed {
		return
	}
	if r.decision.Timings == nil {
		r.decision.Timings = make([]Timing, 0, len(r.known.of(in.hook.Kind).hooks))
	}
	r.decision.Timings = append(r.decision.Timings, Timing{
		Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, Param: paramName(in.param), Elapsed: time.Since(start),
	})
}

type conversionError struct{ error }

func (e conversionError) Error() string {
	return "failed to convert object version: " + e.error.Error()
}

// configurationViolation denies under failurePolicy Fail, whatever the actions of the binding are.
func (r *review) configurationViolation(e *configurationError) {
	if e.hook.FailurePolicy == policy.Ignore {
		return
	}
	v := Violation{
		Kind: e.hook.Kind, Policy: e.hook.Name, Message: e.Error(), IsError: true, Err: e, Actions: []policy.Action{policy.Deny},
	}
	if e.binding != nil {
		v.Binding = e.binding.Name
	}
	r.decision.Violations = append(r.decision.Violations, v)
}

func (r *review) violation(in *invocation, o eval.Outcome, actions []policy.Action) {
	r.decision.Violations = append(r.decision.Violations, Violation{
		Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, Param: paramName(in.param),
		Message: o.Message, Reason: o.Reason, Actions: actions, IsError: o.Verdict == eval.Error, Err: o.Err,
		Expr: expression(o.Expression), index: o.Index,
	})
}

var verdicts = [...]Verdict{eval.Admit: Admit, eval.Deny: Denied, eval.Error: Error, eval.Skip: Skip}

// record adds outcomes to the decision.
func (r *review) record(in *invocation, outcomes []eval.Outcome) {
	if r.decision.Outcomes == nil {
		r.decision.Outcomes = make([]Outcome, 0, r.known.of(in.hook.Kind).outcomes)
	}
	param := paramName(in.param)
	for i := range outcomes {
		o := &outcomes[i]
		expr := expression(o.Expression)
		r.decision.Outcomes = append(r.decision.Outcomes, Outcome{
			Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, Param: param,
			Field: expr.Field, Expr: expr, Verdict: verdicts[o.Verdict], Message: o.Message, Err: o.Err, Cost: o.Cost,
		})
		if r.tells() {
			told := r.decision.Outcomes[len(r.decision.Outcomes)-1]
			r.tell(in.hook, in.binding, in, Event{Op: OpOutcome, Outcome: &told})
		}
	}
}

func expression(e *compile.Expression) policy.Expr {
	if e == nil {
		return policy.Expr{}
	}
	return e.Expr
}

// declaredNamespace is the copy of a namespace that validations see: of its metadata only the declared members
// (as CreateNamespaceObject in pkg/admission/plugin/cel/condition.go v0.37.2).
func declaredNamespace(namespace map[string]any) map[string]any {
	if namespace == nil {
		return nil
	}
	whole, _ := namespace["metadata"].(map[string]any)
	metadata := map[string]any{}
	for _, member := range declaredNamespaceMetadata {
		if v, ok := whole[member]; ok {
			metadata[member] = v
		}
	}
	return map[string]any{"metadata": metadata, "spec": namespace["spec"], "status": namespace["status"]}
}

var declaredNamespaceMetadata = []string{
	"name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
}

// exempt reports requests that no policy is asked about: reviews of authentication and authorization, and the
// policies themselves (as pkg/kubeapiserver/admission/exclusion/resources.go v1.37.2).
func exempt(req *Request) bool {
	return Exempt(req.Resource.GroupResource())
}

// Exempt reports that the server asks no policy about a resource.
func Exempt(resource schema.GroupResource) bool { return exemptResources[resource] }

var exemptResources = map[schema.GroupResource]bool{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:                       true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:                             true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}:                 true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:                  true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:                   true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:                      true,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       true,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicies"}:         true,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingadmissionpolicybindings"}:   true,
}

func namespaceOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	return namespace
}

// refusal is the registry's error about an object whose namespace or, if it is a custom object, kind a mutation has changed.
// What else the registry would refuse is not looked at.
func (e *Engine) refusal(req *Request) error {
	if given := namespaceOf(req.Object); given != "" && req.Namespace != "" && given != req.Namespace && req.Kind != namespaceKind {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	kind, _ := req.Object["kind"].(string)
	if resource := e.types.Resource(req.Resource); kind == req.Kind.Kind || req.Object == nil || resource == nil || resource.Custom == nil {
		return nil
	}
	// As pkg/registry/customresource/validator.go of apiextensions-apiserver v0.37.2.
	wrong := field.Invalid(field.NewPath("kind"), kind, "must be "+req.Kind.Kind)
	return apierrors.NewInvalid(apischema.GroupKind{Group: req.Kind.Group, Kind: kind}, req.Name, field.ErrorList{wrong})
}

// input is a request for package prepare.
func (e *Engine) input(req *Request) prepare.Input {
	return prepare.Input{
		Types: e.types, Resource: e.types.Resource(req.Resource), SubResource: req.SubResource, Operation: string(req.Operation),
		Namespace: req.Namespace, Object: req.Object, Old: req.OldObject, Options: req.Options,
		Name: req.Name, DryRun: req.DryRun,
		User: prepare.User{Name: req.UserInfo.Username, UID: req.UserInfo.UID, Groups: req.UserInfo.Groups, Extra: req.UserInfo.Extra},
	}
}

// advice is what the registry warns about, before validating policies do. It had made the object of the request of before.
func (e *Engine) advice(req *Request, before map[string]any) []string {
	in := e.input(req)
	in.Before = before
	return prepare.Warnings(in)
}

// register is what the registry does between the two phases: a name for generateName, uid and timestamps, the
// status of a new object.
func (e *Engine) register(req *Request, object map[string]any, sharesLabels bool) *Request {
	next := *req
	in := e.input(req)
	in.Object, in.SharesLabels = object, sharesLabels
	next.Object = prepare.ForValidation(in)
	if metadata, ok := next.Object["metadata"].(map[string]any); ok && next.Name == "" && req.Operation == Create {
		next.Name, _ = metadata["name"].(string)
	}
	return &next
}
