package policy

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/tree"
)

// A Ref identifies a policy, a binding or a library. A cluster may have one object of a kind and name, and the static
// files of its API server another one.
type Ref struct {
	Kind   string // of the object, such as "ValidatingAdmissionPolicyBinding"
	Name   string
	Static bool // see [Policy.Static]
}

// String returns the kind and the name, as in messages.
func (r Ref) String() string { return r.Kind + " " + r.Name }

// Compare orders by kind, then by name; a static object comes first.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(strings.Compare(r.Kind, other.Kind), strings.Compare(r.Name, other.Name),
		StaticFirst(r.Static, other.Static))
}

// StaticFirst orders static policies before others, as the API server does.
func StaticFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// bindingSuffix is the difference between the kinds of bindings and the kinds of their policies.
const bindingSuffix = "Binding"

// Binding returns the kind of the bindings of policies of kind k.
func (k Kind) Binding() string { return string(k) + bindingSuffix }

// RefOf returns the reference of an object that is a policy or binding.
func RefOf(object map[string]any) Ref {
	o := tree.Object(object)
	if o.Text("kind") == NamespacedBinding {
		return Ref{Kind: NamespacedBinding, Name: namespaceOf(o.Namespace()) + "/" + o.Name()}
	}
	return Ref{Kind: o.Text("kind"), Name: o.Name()}
}

// Ref returns the reference of a policy of kind k.
func (k Kind) Ref(name string) Ref { return Ref{Kind: string(k), Name: name} }

// KindOf returns the policy kind of a kind of policies or bindings, and whether it is that of bindings.
func KindOf(kind string) (k Kind, binds bool) {
	if kind == NamespacedBinding {
		return Admission, true
	}
	name, binds := strings.CutSuffix(kind, bindingSuffix)
	return Kind(name), binds
}

// Ref returns the reference of the policy.
func (p *Policy) Ref() Ref { return Ref{string(p.Kind), p.Name, p.Static} }

// Ref returns the reference of the binding.
func (b *Binding) Ref() Ref {
	if b.Namespace != "" {
		return Ref{Kind: NamespacedBinding, Name: b.Name, Static: b.Static}
	}
	return Ref{Kind: b.Kind.Binding(), Name: b.Name, Static: b.Static}
}

// BindingRef returns the reference of a binding of policies of kind k, given its name in messages.
func (k Kind) BindingRef(name string) Ref {
	if k == Admission && strings.Contains(name, "/") {
		return Ref{Kind: NamespacedBinding, Name: name}
	}
	return Ref{Kind: k.Binding(), Name: name}
}

// PolicyRef returns the policy that b binds; the first if there are several.
func (b *Binding) PolicyRef() Ref { return b.PolicyRefs()[0] }

// PolicyRefs returns the policies that b binds, at least one.
func (b *Binding) PolicyRefs() []Ref {
	if len(b.Policies) > 0 {
		return b.Policies
	}
	return []Ref{{string(b.Kind), b.PolicyName, b.Static}}
}

// PolicyPath returns the field that names policy i of [Binding.PolicyRefs].
func (b *Binding) PolicyPath(i int) *field.Path {
	if len(b.Policies) == 0 {
		return field.NewPath("spec", "policyName")
	}
	return field.NewPath("spec", "policies").Index(i)
}
