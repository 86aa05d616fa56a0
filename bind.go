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

// BindErrors returns why a binding that is written cannot bind its policies, as far as these are known: they do not let
// it, they are in force without it, they have no validation that it names, or their params have no namespace, and it
// has one. An UPDATE may keep the validations and policies that it had.
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
		return nil // they may come later
	}
	if old == nil || !reflect.DeepEqual(old.Enforcement, b.Enforcement) ||
		!slices.Equal(old.PolicyRefs(), b.PolicyRefs()) {
		known := map[policy.Ref]*policy.Policy{}
		for _, p := range policies {
			known[p.Ref()] = p
		}
		errs = append(b.BindsSingletons(known), b.CheckNames(known)...)
	}
	return slices.Concat(errs, b.CheckBindable(policies), e.clusterParams(b, policies))
}

// clusterParams refuses a binding of a namespace that selects params if a policy of it has params without a namespace.
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
				"the params of %s, %s, are of no namespace: a binding of a namespace has params of its own namespace", p.Ref(),
				p.ParamKind.Kind)))
		}
	}
	return errs
}
