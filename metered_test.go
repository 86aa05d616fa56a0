package celgate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
)

// decideMetered sends a ConfigMap to an engine with metering, for which an AdmissionPolicy exists.
func decideMetered(t *testing.T, spec string) *celgate.Decision {
	t.Helper()
	policies := strings.Replace(dialectPolicy("p", spec), configMapRules, mutableRules, 1)
	engine := engineWith(t, policies, celgate.Options{Metered: true})
	for _, r := range engine.Rejections() {
		t.Fatal(r.Status.Message)
	}
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"},
		"metadata": map[string]any{"name": "c", "namespace": "default"}}
	return admitObject(t, engine, "configmaps", object)
}

// TestMetered counts the spent part of each budget, and the evaluated variables: once for the conditions, once for the
// validations, again for messages, and not those that are unused.
func TestMetered(t *testing.T) {
	d := decideMetered(t, `
  matchConditions: [{name: m, expression: object.metadata.name == "c"}]
  variables:
  - {name: used, expression: object.data.a}
  - {name: wrong, expression: object.data.z}
  - {name: unused, expression: object.data.a}
  mutations:
  - {patchType: JSONMergePatch, jsonMergePatch: {expression: '{"data": {"b": variables.used}}'}}
  mutationValidationPolicy: Skip
  reinvocationPolicy: Never
  validations:
  - {expression: variables.used == "x", messageExpression: '"not " + variables.used'}
  - {expression: variables.used == "b"}
  - {expression: variables.wrong == "b"}
  auditAnnotations: [{key: k, valueExpression: string(variables.used)}]
`)
	var variables []string
	for _, r := range d.Resolutions() {
		variables = append(variables, fmt.Sprintf("%s %s %d %d", r.Policy, r.Variable, r.Times, r.Failed))
	}
	slices.Sort(variables)
	// In the mutating phase the mutation uses it; in the other phase validations, message and annotation.
	if got := strings.Join(variables, ", "); got != "p used 1 0, p used 3 0, p wrong 1 1" {
		t.Errorf("variables: %s", got)
	}
	budgets, costs := map[string]int{}, map[string]int64{}
	for _, s := range d.Spendings() {
		budgets[s.Budget]++
		costs[s.Budget] += s.Units
		if s.Policy != "p" || s.Binding != "p" || s.Units <= 0 || s.Units > s.Of {
			t.Errorf("%+v", s)
		}
	}
	var all int64
	for _, units := range costs {
		all += units
	}
	if d.Cost != all {
		t.Errorf("it cost %d in all, and %v", d.Cost, costs)
	}
	want := map[string]int{celgate.OfMatchConditions: 2, celgate.OfMutation: 1, celgate.OfValidations: 1,
		celgate.OfAuditAnnotations: 1}
	if !maps.Equal(budgets, want) {
		t.Errorf("budgets: %v", budgets)
	}
	var validations int64
	for _, o := range d.Outcomes {
		if strings.HasPrefix(o.Field(), "spec.validations") {
			validations += o.Cost
		}
	}
	if costs[celgate.OfValidations] <= validations {
		t.Errorf("the message costs nothing: %d of %d", validations, costs[celgate.OfValidations])
	}
	if d := admit(t, dialectPolicy("p", "  validations: [{expression: 'true'}]\n"), "{a: b}"); d.Spendings() != nil {
		t.Error("counted though nobody asks")
	}
}

// TestBudgetSpent reports an exceeded budget as spent above its limit. A single expression cannot exceed it: its own
// limit is 1,000,000.
func TestBudgetSpent(t *testing.T) {
	const loop = `lists.range(370).all(i, lists.range(370).all(j, i + j >= 0))`
	repeat := func(format string) string {
		var all []string
		for i := range 12 {
			all = append(all, fmt.Sprintf(format, i, loop))
		}
		return "[" + strings.Join(all, ", ") + "]\n"
	}
	const holds = "  validations: [{expression: 'true'}]\n"
	var sum []string
	for i := range 12 {
		sum = append(sum, fmt.Sprintf("variables.v%d", i))
	}
	for _, c := range []struct {
		of   string
		spec string
	}{
		{celgate.OfMatchConditions, "  matchConditions: " + repeat("{name: m%d, expression: '%s'}") + holds},
		{celgate.OfValidations, "  validations: " + repeat("{name: v%d, expression: '%s'}")},
		{celgate.OfAuditAnnotations, holds + "  auditAnnotations: " + repeat("{key: k%d, valueExpression: 'string(%s)'}")},
		{celgate.OfMutation, "  variables: " + repeat("{name: v%d, expression: '%s'}") + "  reinvocationPolicy: Never\n" +
			"  mutationValidationPolicy: Skip\n  mutations: [{patchType: JSONMergePatch, jsonMergePatch: {expression: '" +
			strings.Join(sum, " && ") + ` ? {"data": {"x": "y"}} : {}'}}]` + "\n"},
	} {
		d := decideMetered(t, c.spec)
		i := slices.IndexFunc(d.Spendings(), func(s celgate.Spending) bool { return s.Budget == c.of })
		if i < 0 || d.Spendings()[i].Units != d.Spendings()[i].Of+1 || d.Allowed {
			t.Errorf("%s: %+v %s", c.of, d.Spendings(), describeDecision(d))
		}
	}
}
