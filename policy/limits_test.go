package policy_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/policy"
)

// TestLimits counts every list by which policies and bindings match; a longer stored list may stay, and not grow.
func TestLimits(t *testing.T) {
	two := []string{"a", "b"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1", "b": "2"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Values: two}, {Key: "b"}}}
	match := &policy.MatchResources{
		ResourceRules: []policy.Rule{{Resources: two, Operations: two, APIGroups: two, APIVersions: two, ResourceNames: two,
			Kinds: two}, {}},
		ExcludeRules: make([]policy.Rule, 2), NamespaceSelector: selector, ObjectSelector: selector,
		Namespaces: two, ExcludeNamespaces: two, Subjects: make([]policy.Subject, 2),
		ExcludeSubjects: make([]policy.Subject, 2), Permissions: make([]policy.Permission, 2),
		ExcludePermissions: make([]policy.Permission, 2),
	}
	large := &policy.Policy{MatchConstraints: match, MatchConditions: make([]policy.NamedExpr, 2),
		Validations: make([]policy.Validation, 2), Mutations: make([]policy.Mutation, 2)}
	limits := policy.Limits{Rules: 1, Validations: 1, Mutations: 1}
	var fields []string
	for _, err := range limits.PolicyErrors(large, nil) {
		fields = append(fields, strings.ReplaceAll(err.Field, "spec.matchConstraints", ""))
	}
	want := "spec.validations spec.mutations spec.matchConditions .resourceRules .resourceRules[0].resourceNames " +
		".resourceRules[0].operations .resourceRules[0].apiGroups .resourceRules[0].apiVersions " +
		".resourceRules[0].resources .resourceRules[0].kinds .excludeResourceRules " +
		".namespaceSelector.matchLabels .namespaceSelector.matchExpressions .namespaceSelector.matchExpressions[0].values " +
		".objectSelector.matchLabels .objectSelector.matchExpressions .objectSelector.matchExpressions[0].values " +
		".namespaces .excludeNamespaces .subjects .excludeSubjects .permissions .excludePermissions"
	if got := strings.Join(fields, " "); got != want {
		t.Errorf("%s", got)
	}
	if errs := limits.PolicyErrors(large, large); len(errs) > 0 {
		t.Errorf("what stays: %v", errs)
	}
	larger := *large
	larger.Validations = make([]policy.Validation, 3)
	if errs := limits.PolicyErrors(&larger, large); len(errs) != 1 {
		t.Errorf("what grows: %v", errs)
	}
	if errs := (policy.Limits{}).PolicyErrors(large, nil); len(errs) > 0 {
		t.Errorf("without limits: %v", errs)
	}

	bound := &policy.Binding{Kind: policy.Validating, PolicyName: "p", MatchResources: match}
	if errs := limits.BindingErrors(bound, nil); len(errs) != 20 || errs[0].Field != "spec.matchResources.resourceRules" {
		t.Errorf("a binding: %d %v", len(errs), errs)
	}
	limits.Bindings = 2
	others := func(n int) func(policy.Ref) int { return func(policy.Ref) int { return n } }
	if errs := limits.ManyBindings(bound, nil, others(1)); len(errs) > 0 {
		t.Errorf("the second: %v", errs)
	}
	errs := limits.ManyBindings(bound, nil, others(2))
	if len(errs) != 1 || errs[0].Error() !=
		"spec.policyName: Too many: 3: ValidatingAdmissionPolicy p may have at most 2 bindings" {
		t.Errorf("the third: %v", errs)
	}
	if errs := limits.ManyBindings(bound, bound, others(2)); len(errs) > 0 {
		t.Errorf("an update: %v", errs)
	}
}
