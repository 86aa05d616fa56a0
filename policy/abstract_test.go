package policy_test

import (
	"reflect"
	"testing"

	"github.com/celgate/celgate/policy"
)

// TestComplete gives an abstract policy the rules of its bindings, each once: those of a binding of a namespace are for
// nothing outside of namespaces.
func TestComplete(t *testing.T) {
	rule := func(resource, scope string) policy.Rule {
		return policy.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Operations: []string{"CREATE"},
			Resources: []string{resource}, Scope: scope}
	}
	binding := func(name, namespace string, rules ...policy.Rule) *policy.Binding {
		return &policy.Binding{Kind: policy.Admission, Name: name, Namespace: namespace, PolicyName: "p",
			MatchResources: &policy.MatchResources{ResourceRules: rules}}
	}
	p := &policy.Policy{Kind: policy.Admission, Name: "p", Abstract: true}
	set := policy.Set{Policies: []*policy.Policy{p}, Bindings: []*policy.Binding{
		binding("b", "", rule("pods", "*"), rule("nodes", "Cluster")),
		binding("a", "", rule("pods", "*")),
		{Kind: policy.Admission, Name: "without", PolicyName: "p"},
		binding("team/c", "team", rule("secrets", "*"), rule("nodes", "Cluster")),
		{Kind: policy.Admission, Name: "other", PolicyName: "q",
			MatchResources: &policy.MatchResources{ResourceRules: []policy.Rule{rule("services", "*")}}},
	}}
	want := []policy.Rule{rule("pods", "*"), rule("nodes", "Cluster"), rule("secrets", "Namespaced")}
	if got := set.Complete(p).MatchConstraints; !reflect.DeepEqual(got.ResourceRules, want) ||
		got.MatchPolicy != policy.Equivalent {
		t.Errorf("got %+v", got)
	}
	if got := p.With(set.Bindings[3]); got.Abstract || len(got.MatchConstraints.ResourceRules) != 1 {
		t.Errorf("got %+v", got.MatchConstraints)
	}
	if p.MatchConstraints != nil {
		t.Error("the policy itself has changed")
	}
}
