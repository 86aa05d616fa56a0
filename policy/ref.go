package policy

import (
	"cmp"
	"strings"

	"github.com/celgate/celgate/internal/tree"
)

// A Ref names a policy or a binding: a cluster has one object of a kind and name.
type Ref struct {
	Kind string // of the object, such as "ValidatingAdmissionPolicyBinding"
	Name string
}

// String returns the kind and the name, as messages have them.
func (r Ref) String() string { return r.Kind + " " + r.Name }

// Compare orders by kind, then by name.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(strings.Compare(r.Kind, other.Kind), strings.Compare(r.Name, other.Name))
}

// bindingSuffix is what the kinds of bindings have behind the kind of the policies that they bind.
const bindingSuffix = "Binding"

// Binding returns the kind of the bindings of policies of kind k.
func (k Kind) Binding() string { return string(k) + bindingSuffix }

// RefOf names the policy or binding that an object is.
func RefOf(object map[string]any) Ref {
	o := tree.Object(object)
	return Ref{o.Text("kind"), o.Name()}
}

// Ref names the policy of kind k with a name.
func (k Kind) Ref(name string) Ref { return Ref{string(k), name} }

// KindOf returns the kind of policy that objects of a kind are or bind, and whether they bind it.
func KindOf(kind string) (k Kind, binds bool) {
	name, binds := strings.CutSuffix(kind, bindingSuffix)
	return Kind(name), binds
}

// Ref names the policy.
func (p *Policy) Ref() Ref { return p.Kind.Ref(p.Name) }

// Ref names the binding.
func (b *Binding) Ref() Ref { return Ref{b.Kind.Binding(), b.Name} }

// PolicyRef names the policy that b binds; with several the first.
func (b *Binding) PolicyRef() Ref { return b.PolicyRefs()[0] }

// PolicyRefs name the policies that b binds, at least one.
func (b *Binding) PolicyRefs() []Ref {
	if len(b.Policies) > 0 {
		return b.Policies
	}
	return []Ref{b.Kind.Ref(b.PolicyName)}
}
