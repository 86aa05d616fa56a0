package policy

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NamespacedBinding is the kind of bindings of a namespace. Their names in messages are "namespace/name".
const NamespacedBinding = "NamespacedAdmissionPolicyBinding"

// Who may bind a policy of the dialect.
const (
	BindableCluster    = "Cluster"
	BindableNamespaces = "Namespaces"
)

// namespaceOf is the namespace of an object that may name none.
func namespaceOf(given string) string { return cmp.Or(given, metav1.NamespaceDefault) }

// Scope returns the match resources of a binding: of one of a namespace, they are for the objects of that alone.
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

// checkBindable checks who may bind a policy.
func (v *validator) checkBindable(p *Policy, path *field.Path) {
	if p.Singleton != nil && p.Bindable != nil {
		v.add(field.Forbidden(path, "a singleton policy has no bindings"))
	}
	for i, who := range p.Bindable {
		oneOf(v, path.Index(i), who, []string{BindableCluster, BindableNamespaces})
		if slices.Contains(p.Bindable[:i], who) {
			v.add(field.Duplicate(path.Index(i), who))
		}
	}
}

// CheckBindable returns why b may not bind those of its policies that are given.
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

// checkNamespaced checks what a binding of a namespace may not say.
func (v *validator) checkNamespaced(b *Binding, spec *field.Path) {
	for i, ref := range b.Policies {
		if ref.Kind != string(Admission) {
			v.add(field.Forbidden(spec.Child("policies").Index(i).Child("kind"), "only an AdmissionPolicy is bindable in namespaces"))
		}
	}
	if r := b.ParamRef; r != nil && r.Namespace != b.Namespace {
		v.add(field.Forbidden(spec.Child("paramRef", "namespace"), "the params are of the namespace of the binding"))
	}
	m, at := b.MatchResources, spec.Child("matchResources")
	if m == nil {
		return
	}
	const own = "the binding is for its own namespace"
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
