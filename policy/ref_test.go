package policy

import "testing"

func TestRef(t *testing.T) {
	for _, kind := range []Kind{Validating, Mutating} {
		p, b := &Policy{Kind: kind, Name: "p"}, &Binding{Kind: kind, Name: "p", PolicyName: "p"}
		if p.Ref() == b.Ref() {
			t.Errorf("a policy and a binding are both %s", p.Ref())
		}
		if b.PolicyRef() != p.Ref() {
			t.Errorf("the binding binds %s, not %s", b.PolicyRef(), p.Ref())
		}
		for _, ref := range []Ref{p.Ref(), b.Ref()} {
			object := map[string]any{"kind": ref.Kind, "metadata": map[string]any{"name": ref.Name}}
			if got := RefOf(object); got != ref {
				t.Errorf("an object %s is %s", ref, got)
			}
			if of, binds := KindOf(ref.Kind); of != kind || binds != (ref == b.Ref()) {
				t.Errorf("kind %s is of %s, a binding: %t", ref.Kind, of, binds)
			}
		}
		set := Set{Policies: []*Policy{p}, Bindings: []*Binding{b}}
		if set.Policy(p.Ref()) != p || set.Binding(b.Ref()) != b || !set.Binds(p.Ref()) {
			t.Errorf("a set does not find %s and its binding", p.Ref())
		}
		if set.Policy(b.Ref()) != nil || set.Binding(p.Ref()) != nil || set.Binds(kind.Ref("other")) {
			t.Errorf("a set takes %s for another", p.Ref())
		}
	}
	if got := Validating.Ref("p").String(); got != "ValidatingAdmissionPolicy p" {
		t.Errorf("a reference is %q", got)
	}
	if RefOf(map[string]any{"kind": 1, "metadata": "x"}) != (Ref{}) {
		t.Error("an object without a kind has one")
	}
}
