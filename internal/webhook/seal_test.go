package webhook_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

// TestSeal makes the seal of a handler and tests that it is not valid for anything else.
func TestSeal(t *testing.T) {
	seal := webhook.NewSeal([]byte(strings.Repeat("k", 32)))
	secret := &policy.ParamKind{APIVersion: "v1", Kind: "Secret"}
	p := &policy.Policy{Kind: policy.Validating, Name: "p", ParamKind: secret}
	if seal.Holds(nil, p, nil) || (*webhook.Seal)(nil).Holds(nil, p, nil) {
		t.Error("an object without a seal is taken for one with")
	}
	if !seal.Holds(nil, &policy.Policy{Name: "p"}, nil) ||
		!(*webhook.Seal)(nil).Holds(nil, nil, &policy.Binding{Name: "b"}) {
		t.Error("an object without params needs no seal")
	}
	sealed := seal.Put(map[string]any{"metadata": map[string]any{"name": "p", "annotations": map[string]any{"a": "b"}}},
		p, nil)
	if !seal.Holds(sealed, p, nil) {
		t.Fatal("the right seal does not hold")
	}
	if sealed["metadata"].(map[string]any)["annotations"].(map[string]any)["a"] != "b" {
		t.Error("an annotation is gone")
	}
	for name, other := range map[string]*policy.Policy{
		"name": {Kind: policy.Validating, Name: "q", ParamKind: secret},
		"kind": {Kind: policy.Mutating, Name: "p", ParamKind: secret},
		"what": {Kind: policy.Validating, Name: "p", ParamKind: &policy.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}},
	} {
		if seal.Holds(sealed, other, nil) {
			t.Errorf("the seal holds for another %s", name)
		}
	}
	b := &policy.Binding{Kind: policy.Validating, Name: "p", PolicyName: "p", ParamRef: &policy.ParamRef{Name: "x"}}
	if seal.Holds(sealed, nil, b) {
		t.Error("the seal of a policy holds for a binding")
	}
	bound := seal.Put(nil, nil, b)
	moved := *b
	moved.ParamRef = &policy.ParamRef{Name: "y"}
	if !seal.Holds(bound, nil, b) || seal.Holds(bound, nil, &moved) ||
		webhook.NewSeal([]byte("other")).Holds(bound, nil, b) {
		t.Error("the seal of a binding holds for another paramRef or key")
	}

	// A binding of a namespace has a seal without params, too: of the right to bind.
	own := &policy.Binding{Kind: policy.Admission, Namespace: "a", Name: "a/own", PolicyName: "p"}
	elsewhere := *own
	elsewhere.Namespace, elsewhere.Name = "b", "b/own"
	another := *own
	another.PolicyName = "q"
	if bound := seal.Put(nil, nil, own); seal.Holds(nil, nil, own) || !seal.Holds(bound, nil, own) ||
		seal.Holds(bound, nil, &elsewhere) || seal.Holds(bound, nil, &another) {
		t.Error("the seal of a binding of a namespace does not hold, or for another namespace or policy")
	}

	// A binding of several policies is sealed for all of them.
	several := &policy.Binding{Kind: policy.Admission, Name: "p", ParamRef: &policy.ParamRef{Name: "x"},
		Policies: []policy.Ref{policy.Admission.Ref("a"), policy.Admission.Ref("b")}}
	bound = seal.Put(nil, nil, several)
	other := *several
	other.Policies = []policy.Ref{policy.Admission.Ref("a"), policy.Admission.Ref("c")}
	if !seal.Holds(bound, nil, several) || seal.Holds(bound, nil, &other) {
		t.Error("the seal of a binding of several policies does not hold, or for others")
	}
}
