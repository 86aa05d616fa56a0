package celgate

import (
	"context"
	"fmt"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/policy"
)

// BindErrors returns why a binding that is written cannot bind its policies, as far as these are known: they do not let
// it, or their params have no namespace, and it has one.
func (e *Engine) BindErrors(ctx context.Context, w compile.Written) field.ErrorList {
	named := w.Named
	if named == nil {
		named = e.policyNamed
	}
	policies, err := named(ctx, w.Binding)
	if err != nil {
		return nil // they may come later
	}
	return append(w.Binding.Unbindable(policies), e.clusterParams(w.Binding, policies)...)
}

// clusterParams refuses a binding of a namespace that selects params of a policy whose params have no namespace.
func (e *Engine) clusterParams(b *policy.Binding, policies []*policy.Policy) (errs field.ErrorList) {
	if b.Namespace == "" || b.ParamRef == nil {
		return nil
	}
	for _, p := range policies {
		if !b.Binds(p) || p.ParamKind == nil {
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
