package policy

import (
	"slices"
	"testing"
)

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

func TestExpressions(t *testing.T) {
	x := func(src string) Expr { return Expr{Src: src, Field: "spec." + src} }
	p := &Policy{
		MatchConditions: []NamedExpr{{Name: "c", Expr: x("condition")}},
		Variables:       []NamedExpr{{Name: "empty"}, {Name: "v", Expr: x("variable")}},
		Validations: []Validation{
			{Expr: x("validation"), MessageExpr: x("message")}, {Expr: x("second")},
		},
		AuditAnnotations: []NamedExpr{{Name: "key", Expr: x("annotation")}},
		Mutations:        []Mutation{{PatchType: ApplyConfiguration, Expr: x("apply")}, {PatchType: JSONPatch, Expr: x("patch")}},
	}
	want := []Part{
		{x("condition"), UseMatchCondition, "c", 0, ""}, {x("variable"), UseVariable, "v", 1, ""},
		{x("validation"), UseValidation, "", 0, ""}, {x("message"), UseMessageExpression, "", 0, ""},
		{x("second"), UseValidation, "", 1, ""}, {x("annotation"), UseAuditAnnotation, "key", 0, ""},
		{x("apply"), UseApplyConfiguration, "", 0, ""}, {x("patch"), UseJSONPatch, "", 1, ""},
	}
	var got []Part
	for x := range p.Expressions() {
		got = append(got, x)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the expressions are\n%v, not\n%v", got, want)
	}
	for range p.Expressions() {
		break // an iterator that goes on panics
	}
	if got := p.ExpressionAt("spec.second"); got != x("second") {
		t.Errorf("At finds %v", got)
	}
}

// TestRefOfBinding identifies a binding of a namespace by its namespace: a name may have any text, until it is refused.
func TestRefOfBinding(t *testing.T) {
	for _, c := range []struct {
		b    Binding
		want string
	}{
		{Binding{Kind: Mutating, Name: "a/b"}, "MutatingAdmissionPolicyBinding a/b"},
		{Binding{Kind: Admission, Name: "a/b"}, "AdmissionPolicyBinding a/b"},
		{Binding{Kind: Admission, Namespace: "a", Name: "a/b"}, "NamespacedAdmissionPolicyBinding a/b"},
	} {
		if got := c.b.Ref().String(); got != c.want {
			t.Errorf("%s, not %s", got, c.want)
		}
	}
}
