package celgate

import (
	"reflect"
	"testing"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
)

// TestBefore changes one of two policies: the other one is not compiled again.
func TestBefore(t *testing.T) {
	made := func(name string) *policy.Policy {
		p, _, err := policy.FromObject(map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
			"metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
					"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"pods"},
					"operations": []any{"CREATE"},
				}}},
				"validations": []any{map[string]any{"expression": "object.metadata.name != '" + name + "'"}},
			},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	bound := func(name string) *policy.Binding {
		return &policy.Binding{Kind: policy.Validating, Name: name, PolicyName: name,
			Actions: []policy.Action{policy.Deny}}
	}
	engine := func(before *Engine, policies []*policy.Policy, bindings ...*policy.Binding) *Engine {
		e, err := New(&policy.Set{Policies: policies, Bindings: bindings}, Options{Before: before})
		if err != nil || len(e.Rejections()) > 0 {
			t.Fatal(err, e.Rejections())
		}
		return e
	}
	a, b := made("a"), made("b")
	first := engine(nil, []*policy.Policy{a, b}, bound("a"))
	second := engine(first, []*policy.Policy{a, made("b")}, bound("a"), bound("b"))
	if first.index.hooks[0].Program != second.index.hooks[0].Program {
		t.Error("what has not changed was compiled again")
	}
	if len(second.index.hooks) != 2 || second.compiled[b].Program != nil {
		t.Error("what has changed was taken over")
	}
	older := engine(nil, []*policy.Policy{a}, bound("a"))
	older.minor = "1.36"
	if other := engine(older, []*policy.Policy{a},
		bound("a")); other.index.hooks[0].Program == older.index.hooks[0].Program {
		t.Error("taken over from another minor")
	}
	if third := engine(first, []*policy.Policy{a, b}, bound("b")); len(third.index.hooks) != 1 ||
		third.index.hooks[0].Program == nil {
		t.Error("a policy that was not bound before was not compiled")
	}
}

// TestExplainKeepsOptions tests that a call in another order uses all options and compiled programs of the engine.
func TestExplainKeepsOptions(t *testing.T) {
	e, err := New(&policy.Set{}, Options{
		KubeVersion: "1.36", Timed: true, WithoutQuirks: true, Limits: Limits{Memory: 1 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	asked, err := e.explainEngine(explain.Options{Order: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	before, after := *e, *asked
	before.index, after.index = nil, nil
	if !reflect.DeepEqual(before, after) {
		t.Errorf("options are lost: %+v, %+v", before, after)
	}
}
