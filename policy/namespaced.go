package policy

import (
	"cmp"
	"slices"

	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NamespacedBinding is the kind of bindings of a namespace. Their names in messages are "namespace/name".
const NamespacedBinding = "NamespacedAdmissionPolicyBinding"

// The values of Policy.Bindable: which bindings may name a policy of the dialect.
const (
	BindableCluster    = "Cluster"
	BindableNamespaces = "Namespaces"
)

// namespaceOf returns the namespace of a namespaced object, default if unset.
func namespaceOf(given string) string { return cmp.Or(given, metav1.NamespaceDefault) }

// Scope returns the match resources of a binding. Those of a namespaced binding match only objects of its namespace.
func (b *Binding) Scope() *MatchResources {
	if b.Namespace == "" {
		return b.MatchResources
	}
	own := MatchResources{MatchPolicy: Equivalent}
	if b.MatchResources != nil {
		own = *b.MatchResources
	}
	own.Namespaces = []string{b.Namespace}
	return &own
}

// checkBindable checks which bindings may name a policy.
func (v *validator) checkBindable(p *Policy, path *field.Path) {
	if p.Singleton != nil && p.Bindable != nil {
		v.add(field.Forbidden(path, "a singleton policy has no bindings"))
	}
	if p.Bindable != nil && len(p.Bindable) == 0 {
		v.add(field.Required(path, "without bindable, an AdmissionPolicyBinding may name the policy"))
	}
	for i, who := range p.Bindable {
		oneOf(v, path.Index(i), who, []string{BindableCluster, BindableNamespaces})
		if slices.Contains(p.Bindable[:i], who) {
			v.add(field.Duplicate(path.Index(i), who))
		}
	}
}

// CheckBindable returns errors for the given policies that b may not bind.
func (b *Binding) CheckBindable(policies []*Policy) (errs field.ErrorList) {
	for i, ref := range b.PolicyRefs() {
		for _, p := range policies {
			if p.Ref() == ref {
				errs = append(errs, b.checkBindable(p, b.PolicyPath(i))...)
			}
		}
	}
	return errs
}

func (b *Binding) checkBindable(p *Policy, at *field.Path) field.ErrorList {
	if p.Kind != Admission && b.Namespace == "" {
		return nil
	}
	who, text := BindableCluster, "the policy "+p.Name+" is bindable in namespaces only: spec.bindable does not have Cluster"
	if b.Namespace != "" {
		who, text = BindableNamespaces, "the policy "+p.Name+" is not bindable in namespaces: spec.bindable does not have Namespaces"
	}
	if p.Bindable == nil && who == BindableCluster || slices.Contains(p.Bindable, who) {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, text)}
}

// checkNamespaced checks the restrictions of a namespaced binding.
func (v *validator) checkNamespaced(b *Binding, spec *field.Path) {
	v.texts(field.NewPath("metadata", "namespace"), b.Namespace, metavalidation.ValidateNamespaceName(b.Namespace, false))
	for i, ref := range b.Policies {
		if ref.Kind != string(Admission) {
			v.add(field.Forbidden(spec.Child("policies").Index(i).Child("kind"), "only an AdmissionPolicy is bindable in namespaces"))
		}
	}
	if r := b.ParamRef; r != nil && r.Namespace != b.Namespace {
		v.add(field.Forbidden(spec.Child("paramRef", "namespace"), "params always come from the namespace of the binding"))
	}
	m, at := b.MatchResources, spec.Child("matchResources")
	if m == nil {
		return
	}
	const own = "a namespaced binding always applies to its own namespace"
	if s := m.NamespaceSelector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		v.add(field.Forbidden(at.Child("namespaceSelector"), own))
	}
	if m.Namespaces != nil {
		v.add(field.Forbidden(at.Child("namespaces"), own))
	}
	if m.ExcludeNamespaces != nil {
		v.add(field.Forbidden(at.Child("excludeNamespaces"), own))
	}
}
