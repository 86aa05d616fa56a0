package policy

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/tree"
)

// A Ref names a policy, a binding or a library: a cluster has one object of a kind and name, and the files of its API
// server have another.
type Ref struct {
	Kind   string // of the object, such as "ValidatingAdmissionPolicyBinding"
	Name   string
	Static bool // see [Policy.Static]
}

// String returns the kind and the name, as messages have them.
func (r Ref) String() string { return r.Kind + " " + r.Name }

// Compare orders by kind, then by name; the static one is the first of two.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(strings.Compare(r.Kind, other.Kind), strings.Compare(r.Name, other.Name),
		StaticFirst(r.Static, other.Static))
}

// StaticFirst compares what is static with what is not: the API server asks static policies first.
func StaticFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// bindingSuffix is what the kinds of bindings have behind the kind of the policies that they bind.
const bindingSuffix = "Binding"

// Binding returns the kind of the bindings of policies of kind k.
func (k Kind) Binding() string { return string(k) + bindingSuffix }

// RefOf names the policy or binding that an object is.
func RefOf(object map[string]any) Ref {
	o := tree.Object(object)
	if o.Text("kind") == NamespacedBinding {
		return Ref{Kind: NamespacedBinding, Name: namespaceOf(o.Namespace()) + "/" + o.Name()}
	}
	return Ref{Kind: o.Text("kind"), Name: o.Name()}
}

// Ref names the policy of kind k with a name.
func (k Kind) Ref(name string) Ref { return Ref{Kind: string(k), Name: name} }

// KindOf returns the kind of policy that objects of a kind are or bind, and whether they bind it.
func KindOf(kind string) (k Kind, binds bool) {
	if kind == NamespacedBinding {
		return Admission, true
	}
	name, binds := strings.CutSuffix(kind, bindingSuffix)
	return Kind(name), binds
}

// Ref names the policy.
func (p *Policy) Ref() Ref { return Ref{string(p.Kind), p.Name, p.Static} }

// Ref names the binding.
func (b *Binding) Ref() Ref {
	if b.Namespace != "" {
		return Ref{Kind: NamespacedBinding, Name: b.Name, Static: b.Static}
	}
	return Ref{Kind: b.Kind.Binding(), Name: b.Name, Static: b.Static}
}

// BindingRef names the binding of policies of kind k that has a name in messages.
func (k Kind) BindingRef(name string) Ref {
	if k == Admission && strings.Contains(name, "/") {
		return Ref{Kind: NamespacedBinding, Name: name}
	}
	return Ref{Kind: k.Binding(), Name: name}
}

// PolicyRef names the policy that b binds; with several the first.
func (b *Binding) PolicyRef() Ref { return b.PolicyRefs()[0] }

// PolicyRefs name the policies that b binds, at least one.
func (b *Binding) PolicyRefs() []Ref {
	if len(b.Policies) > 0 {
		return b.Policies
	}
	return []Ref{{string(b.Kind), b.PolicyName, b.Static}}
}

// PolicyPath is the field that names the policy of index i in [Binding.PolicyRefs].
func (b *Binding) PolicyPath(i int) *field.Path {
	if len(b.Policies) == 0 {
		return field.NewPath("spec", "policyName")
	}
	return field.NewPath("spec", "policies").Index(i)
}
