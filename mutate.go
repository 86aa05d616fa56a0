package celgate

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/google/cel-go/common/types/ref"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/patch/jsonpatch"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// mutate runs the mutating policies, and those that ask for it a second time when the object has changed (as
// mutating/dispatcher.go and mutating/reinvocationcontext.go v0.37.2). The error is one that no failurePolicy
// covers.
func (r *review) mutate() error {
	var re reinvocation
	err := r.mutationPass(&re, false)
	if r.engine.standsIn { // whoever stands in for the server may be asked again, see [Engine.Remutate]
		r.decision.ran = re.invocations()
	}
	if err != nil || !re.requested || !r.decision.Allowed || r.said(&re) {
		return err
	}
	// The second pass matches anew, on what the first one made.
	second := *r.Request
	second.Object = r.decision.Object
	next := newReview(r.ctx, r.engine, &second)
	next.decision, next.second, next.normal, next.sharesLabels = r.decision, true, r.normal, r.sharesLabels
	err = next.mutationPass(&re, true)
	r.sharesLabels = next.sharesLabels
	return err
}

// said reports that the second pass has nothing to say that the first has not: nothing runs again, no policy looks at the
// object to find out whether it is for the request, and the object needs no conversion, which could fail now.
func (r *review) said(re *reinvocation) bool {
	converted := slices.ContainsFunc(r.objects, func(v *versioned) bool { return v.kind != r.Kind })
	return len(re.again) == 0 && !converted && !r.tells() && !r.known.mutating.byObject
}

// reinvocation remembers which invocations are to run in the second pass.
type reinvocation struct {
	previous  []invocationKey // IfNeeded invocations that ran since the object last changed
	again     map[invocationKey]bool
	ran       map[invocationKey]bool // in the first pass; kept for a tracer
	requested bool
}

type invocationKey struct{ policy, binding, param string }

func (in *invocation) key() invocationKey {
	return invocationKey{in.hook.Name, in.binding.Name, paramName(in.param)}
}

// invocations returns all that ran and are to run again once something else changes the object.
func (re *reinvocation) invocations() []invocationKey {
	if len(re.again) == 0 {
		return re.previous
	}
	return append(slices.Collect(maps.Keys(re.again)), re.previous...)
}

// require makes everything that ran before run again: the object has changed since.
func (re *reinvocation) require() {
	if re.again == nil && len(re.previous) > 0 {
		re.again = map[invocationKey]bool{}
	}
	for _, key := range re.previous {
		re.again[key] = true
	}
	re.previous = nil
	re.requested = true
}

// mutationPass runs every invocation of the mutating policies once, each on the result of the one before.
// Matching and params are settled on the incoming object before the first of them runs.
func (r *review) mutationPass(re *reinvocation, second bool) error {
	var ready []invocation
	var failures []policyError
	for in, confErr := range r.invocations(policy.Mutating) {
		if confErr == nil && !in.idle {
			if _, err := r.versioned(in.kind); err != nil {
				confErr = &configurationError{hook: in.hook, err: err}
			}
		}
		switch {
		case confErr != nil:
			failures = append(failures, policyError{confErr.hook, confErr.binding, confErr.Error(), metav1.StatusReasonForbidden, nil, "", confErr})
		case !in.idle:
			ready = append(ready, in)
		}
	}
	if len(ready) > 0 {
		ran, err := r.runMutations(ready, re, second)
		if err != nil {
			return err
		}
		failures = append(failures, ran...)
	}
	r.refuseMutation(failures)
	return nil
}

// A policyError is an error that obeys the failurePolicy of its policy.
type policyError struct {
	hook    *hook
	binding *binding // nil for an error of the policy
	message string
	reason  metav1.StatusReason
	outcome *eval.Outcome
	param   string // of the invocation; empty without
	err     error
}

// runMutations runs the invocations and writes the result back. An error ends the request at once.
func (r *review) runMutations(ready []invocation, re *reinvocation, second bool) ([]policyError, error) {
	if _, err := r.requestNamespace(); err != nil {
		return nil, err
	}
	var failures []policyError
	var last *versioned
	var touched []*versioned
	for i := range ready {
		in := &ready[i]
		start := r.clock()
		v, err := r.versioned(in.kind)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		fail := func(o eval.Outcome) {
			failures = append(failures, policyError{in.hook, in.binding, o.Message, metav1.StatusReasonInvalid, &o, paramName(in.param), o.Err})
		}
		r.tellRun(in, "")
		r.meter.Begin()
		if matched, failed := r.conditionsHold(in, v); failed != nil {
			fail(*failed)
			continue
		} else if !matched {
			continue
		}
		if second && !re.again[in.key()] {
			r.tellRun(in, re.whyNotAgain(in))
			continue
		}
		if r.tells() && !second {
			re.remember(in)
		}
		before := v.object
		var changing []int
		for m := range in.hook.Mutations {
			last = v
			prior := v.object
			if v.object == nil {
				continue
			}
			told := r.tellMutation(in, m, v)
			o, err := r.mutateOne(in, m, v, told)
			r.meter.Keep()
			r.noteExcess(in)
			r.record(in, []eval.Outcome{o})
			if told != nil {
				r.tell(in.hook, in.binding, in, Event{Op: OpMutate, Mutation: told})
			}
			if err != nil {
				return nil, err
			}
			if o.Verdict == eval.Error {
				fail(o)
			}
			if len(in.hook.Mutations) > 1 && !tree.Equal(prior, v.object) {
				changing = append(changing, m)
			}
		}
		r.took(in, start)
		if !tree.Equal(before, v.object) {
			re.require()
			touched = append(touched, v)
			r.decision.Changes = append(r.decision.Changes, Change{
				Policy: in.hook.Name, Binding: in.binding.Name, Param: paramName(in.param), Second: second, Before: before, After: v.object,
				Mutations: changing,
			})
		}
		if in.hook.Reinvocation == policy.IfNeeded {
			re.previous = append(re.previous, in.key())
		}
	}
	if last == nil || last.object == nil || !last.dirty {
		return failures, nil
	}
	re.require()
	return failures, r.writeBack(last, touched)
}

// writeBack makes the object of the last policy the object of the request. What policies changed in other
// versions of it is lost on the server.
func (r *review) writeBack(last *versioned, touched []*versioned) error {
	if slices.ContainsFunc(touched, func(v *versioned) bool { return v != last }) {
		r.decision.note(quirks.LostMutation, "")
	}
	object := last.object
	if last.kind != r.Kind && !last.custom { // a custom object says itself what it is
		var err error
		if object, err = r.engine.types.Convert(object, r.Kind); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
		}
	}
	object, err := prepare.Held(object, r.Object, r.engine.types, r.Kind)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
	}
	r.decision.Object, r.sharesLabels = object, last.normal.SharesLabels
	// What one policy made of the object of the request is known to differ from it.
	c := r.decision.Changes
	known := len(c) == 1 && tree.Same(c[0].Before, r.Object) && tree.Same(c[0].After, object)
	r.decision.Mutated = r.decision.Mutated || known || !tree.Equal(object, r.Object)
	return nil
}

// conditionsHold evaluates the match conditions, which show the object of a built-in kind by reflection from
// then on.
func (r *review) conditionsHold(in *invocation, v *versioned) (bool, *eval.Outcome) {
	if len(in.hook.MatchConditions) == 0 {
		return true, nil
	}
	v.reflected = true
	inputs := r.inputs(in, v)
	inputs.Request = r.request(r.attributes.Resource, in.kind)
	conditions := eval.Match(r.ctx, in.hook.Program, inputs)
	r.record(in, conditions.Outcomes)
	if conditions.Err != nil {
		return false, &eval.Outcome{Verdict: eval.Error, Message: conditions.Err.Error(), Err: conditions.Err}
	}
	return conditions.Matched, nil
}

// mutateOne runs one mutation of an invocation. The outcome is an error if the policy's failurePolicy decides
// about it; the error is one that fails the request. What happens is written to told, unless it is nil.
func (r *review) mutateOne(in *invocation, index int, v *versioned, told *Mutation) (eval.Outcome, error) {
	e := in.hook.Mutations[index]
	outcome := eval.Outcome{Expression: e, Index: index}
	failed := func(err error) (eval.Outcome, error) {
		outcome.Verdict, outcome.Message, outcome.Err = eval.Error, err.Error(), err
		var status *apierrors.StatusError
		if errors.As(err, &status) {
			return outcome, status
		}
		return outcome, nil
	}
	inputs := r.inputs(in, v)
	inputs.Namespace = &r.namespaces[whole]
	if !v.reflected {
		inputs.Object, inputs.OldObject = plain(v.object), plain(v.oldObject)
	}

	var patched map[string]any
	if in.hook.Policy.Mutations[index].PatchType == policy.JSONPatch {
		ops, cost, err := eval.JSONPatch(r.ctx, in.hook.Program, e, inputs)
		outcome.Cost = cost
		if err != nil {
			if errors.Is(err, eval.ErrNotJSON) && r.engine.quirks.Has(quirks.PatchReflectedValue) {
				r.decision.note(quirks.PatchReflectedValue, "")
			}
			return failed(r.namingStruct(err, in, v, inputs))
		}
		if told != nil {
			told.Patch = operationTrees(ops)
		}
		if patched, err = r.applyJSONPatch(v, ops, told); err != nil {
			return failed(err)
		}
	} else {
		patch, cost, err := eval.ApplyConfiguration(r.ctx, in.hook.Program, e, inputs)
		outcome.Cost = cost
		if err != nil {
			return failed(err)
		}
		if told != nil {
			told.Patch = shownTree(patch)
		}
		if patched, err = r.applyConfiguration(v, patch); err != nil {
			return failed(err)
		}
		if told != nil {
			told.Patched = patched
		}
	}
	if !v.custom && v.kind.GroupVersion() != r.attributes.Kind.GroupVersion() && r.engine.quirks.Has(quirks.EquivalentMutation) {
		r.decision.note(quirks.EquivalentMutation, in.hook.Name)
		return failed(equivalentError(v.kind, r.attributes.Kind))
	}
	normal, err := v.normal.Then(patched, r.engine.types, v.kind)
	if err != nil {
		return failed(err)
	}
	if normal.Truncated {
		if !r.engine.quirks.Has(quirks.IntegerTruncation) {
			return failed(errTruncated)
		}
		r.decision.note(quirks.IntegerTruncation, in.hook.Name)
	}
	v.object, v.normal, v.dirty = normal.Object, normal, true
	if told != nil {
		told.After = normal.Object
	}
	return outcome, nil
}

var errTruncated = errors.New("an integer is too large for its field")

// namingStruct returns an error about a struct of a built-in object that names its Go type, as typedStruct.ConvertToNative in
// k8s.io/apiserver v0.37.2 pkg/cel/common/valuesschemalesstyped.go.
func (r *review) namingStruct(err error, in *invocation, v *versioned, inputs eval.Inputs) error {
	var reflected *eval.ReflectedError
	if !errors.As(err, &reflected) {
		return err
	}
	var param *schema.Type
	if in.param != nil {
		param = r.engine.types.Type(in.hook.param.GroupVersionKind())
	}
	for _, input := range []struct {
		value ref.Val
		typ   *schema.Type
	}{
		{inputs.Object, v.typ}, {inputs.OldObject, v.typ}, {inputs.Params, param},
		{inputs.Request.Resolve(), requestType}, {inputs.Namespace.Resolve(), r.engine.types.Type(namespaceKind)},
	} {
		found := typeOf(eval.Shown(input.value), input.typ, reflected.Members)
		if found != nil && found.Kind == schema.Struct && found.Name != "" {
			return fmt.Errorf("%w: type conversion error from struct type %s to %s", eval.ErrNotJSON, path.Base(found.Name), reflected.To)
		}
	}
	return err
}

// typeOf returns the type of a map somewhere in a tree, nil if it is not there.
func typeOf(in any, t *schema.Type, wanted map[string]any) *schema.Type {
	if t == nil {
		return nil
	}
	switch in := in.(type) {
	case map[string]any:
		if tree.Same(in, wanted) {
			return t
		}
		for name, member := range in {
			inner := t.Elem
			if f := t.Field(name); f != nil {
				inner = f.Type
			}
			if found := typeOf(member, inner, wanted); found != nil {
				return found
			}
		}
	case []any:
		for _, item := range in {
			if found := typeOf(item, t.Elem, wanted); found != nil {
				return found
			}
		}
	}
	return nil
}

// equivalentError is why the server cannot turn a built-in object of one version into another, as convertToVersion in
// k8s.io/apimachinery v0.37.2 pkg/runtime/scheme.go.
func equivalentError(from, to schema.GroupVersionKind) error {
	if from.Group != to.Group {
		return fmt.Errorf("%s is not suitable for converting to %q in scheme %q", goType(from), to.GroupVersion(), "pkg/api/legacyscheme/scheme.go:30")
	}
	return fmt.Errorf("converting (%s) to (%s): unknown conversion", goType(from), goType(to))
}

// goType names a kind as Go prints the type of a built-in one.
func goType(k schema.GroupVersionKind) string { return k.Version + "." + k.Kind }

// kindOf returns the kind that an object says it is of.
func kindOf(object map[string]any) schema.GroupVersionKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return apischema.FromAPIVersionAndKind(apiVersion, kind)
}

func (r *review) applyConfiguration(v *versioned, patch map[string]any) (map[string]any, error) {
	t := r.engine.types.Type(v.kind)
	if t == nil || r.engine.types.ResourceFor(v.kind) == nil {
		// The kinds of subresources, such as Scale, are in no OpenAPI document of their own.
		return nil, &PatchError{policy.ApplyConfiguration, fmt.Errorf("failed to convert patch object to typed object: no corresponding type for %s", v.kind)}
	}
	if given := kindOf(v.object); v.custom && given != v.kind { // a JSON patch made it another one
		return nil, &PatchError{policy.ApplyConfiguration, fmt.Errorf("failed to convert patch object to typed object: no corresponding type for %v", given)}
	}
	merged, err := r.engine.merger.Apply(v.object, patch, t)
	if err != nil {
		return nil, &PatchError{policy.ApplyConfiguration, err}
	}
	return merged, nil
}

func (r *review) applyJSONPatch(v *versioned, ops []jsonpatch.Operation, told *Mutation) (map[string]any, error) {
	doc, err := jsonpatch.ApplyBounded(v.object, ops, &r.meter)
	if told != nil {
		told.patched(doc, err)
	}
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return v.object, nil // the server drops the patch and goes on
	}
	var panicked *jsonpatch.PanicError
	if errors.As(err, &panicked) {
		r.decision.note(quirks.PatchNilMap, "")
		return nil, apierrors.NewInternalError(panicked)
	}
	if err != nil {
		return nil, &PatchError{policy.JSONPatch, err}
	}
	if v.custom && v.kind.Group != r.Resource.Group { // a Scale, which the server reads as a custom object
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", v.kind.GroupVersion())
	}
	patched, err := v.normal.Patched(doc, v.object, r.engine.types, v.kind)
	if err != nil {
		if slices.ContainsFunc(ops, func(op jsonpatch.Operation) bool { return bigInteger(op.Value) }) {
			r.decision.note(quirks.PatchBigInteger, "")
		}
		r.decision.note(quirks.PatchDecodeError, "")
		return nil, apierrors.NewInternalError(err)
	}
	return patched, nil
}

// bigInteger reports text that stands for an integer which JSON numbers of the server cannot hold.
func bigInteger(v any) bool {
	switch v := v.(type) {
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return err == nil && (n > 1<<53-1 || n < -(1<<53-1))
	case []any:
		return slices.ContainsFunc(v, bigInteger)
	case map[string]any:
		for _, member := range v {
			if bigInteger(member) {
				return true
			}
		}
	}
	return false
}

// refuseMutation denies the request if policies with failurePolicy Fail failed: status 403 whatever the reason,
// one cause for each of them (as generic/policy_dispatcher.go v0.37.2).
func (r *review) refuseMutation(failures []policyError) {
	var causes []metav1.StatusCause
	var first policyError
	of := len(r.decision.Violations)
	for _, f := range failures {
		if f.hook.FailurePolicy == policy.Ignore {
			continue
		}
		v := Violation{
			Kind: policy.Mutating, Policy: f.hook.Name, Message: f.message, Reason: f.reason, IsError: true, Err: f.err,
			Actions: []policy.Action{policy.Deny},
		}
		text := fmt.Sprintf("policy %q denied request: %s", f.hook.Name, f.message)
		if f.binding != nil {
			v.Binding, v.Param = f.binding.Name, f.param
			text = fmt.Sprintf("policy '%s' with binding '%s' denied request: %s", f.hook.Name, f.binding.Name, f.message)
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
	if len(causes) == 0 {
		return
	}
	named := *r.Request
	named.Object = r.decision.Object // what the policies made of it until now
	status := apierrors.NewForbidden(r.Resource.GroupResource(), named.displayName(), errors.New("")).Status()
	status.Message, status.Reason = causes[0].Message, first.reason
	status.Details.Causes = causes
	r.decision.Allowed, r.decision.Status, r.decision.Denial = false, &status, &r.decision.Violations[of]
}
