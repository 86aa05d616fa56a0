package celgate

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/policy"
)

// BindErrors returns the errors about the policies of a binding that is being written, as far as they are known:
// policies that do not allow the binding, singleton policies, unknown validations, and cluster-scoped params of a
// namespaced binding. An UPDATE may keep the validations and policies of the old binding.
func (e *Engine) BindErrors(ctx context.Context, w compile.Written) (errs field.ErrorList) {
	b, old := w.Binding, w.OldBinding
	if b.Kind != policy.Admission {
		return nil
	}
	named := w.Named
	if named == nil {
		named = e.policyNamed
	}
	policies, err := named(ctx, b)
	if err != nil {
		return nil // they may be written later
	}
	known := map[policy.Ref]*policy.Policy{}
	for _, p := range policies {
		known[p.Ref()] = p
	}
	samePolicies := old != nil && slices.Equal(old.PolicyRefs(), b.PolicyRefs())
	if !samePolicies || !reflect.DeepEqual(old.Enforcement, b.Enforcement) {
		errs = append(b.BindsSingletons(known), b.CheckNames(known)...)
	}
	if !samePolicies || !reflect.DeepEqual(old.MatchResources, b.MatchResources) {
		errs = append(errs, e.unfitRules(b, policies)...)
	}
	return slices.Concat(errs, b.CheckAbstract(known), b.CheckBindable(policies), e.clusterParams(b, policies))
}

// unfitRules refuses a binding's rules for an abstract policy whose mutations or scopes are invalid for all kinds that
// they match.
func (e *Engine) unfitRules(b *policy.Binding, policies []*policy.Policy) (errs field.ErrorList) {
	for _, p := range policies {
		if !p.Abstract {
			continue
		}
		by := compile.Written{Policy: e.linkPolicy(p).With(b)}
		for _, err := range append(e.scopeErrors(by), e.typeErrors(by)...) {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "matchResources", "resourceRules"),
				fmt.Sprintf("%s cannot apply to these kinds: %v", p.Ref(), err)))
			break // the other policies concern the same kinds
		}
	}
	return errs
}

// clusterParams refuses a namespaced binding that selects params if the params of one of its policies are
// cluster-scoped.
func (e *Engine) clusterParams(b *policy.Binding, policies []*policy.Policy) (errs field.ErrorList) {
	if b.Namespace == "" || b.ParamRef == nil {
		return nil
	}
	for _, p := range policies {
		if p.ParamKind == nil {
			continue
		}
		resource := e.types.ResourceFor(apischema.FromAPIVersionAndKind(p.ParamKind.APIVersion, p.ParamKind.Kind))
		if resource != nil && !resource.Namespaced {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "paramRef"), fmt.Sprintf(
				"the params of %s, %s, are cluster-scoped: a binding of a namespace needs params of its own namespace", p.Ref(),
				p.ParamKind.Kind)))
		}
	}
	return errs
}
