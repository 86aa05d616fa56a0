package serve

import (
	"maps"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
	"github.com/celgate/celgate/policy"
)

// countsOf returns the values of the series whose names begin with a prefix, by "name{label=value}"; for a histogram,
// the number of observations.
func countsOf(t *testing.T, m *metrics, prefix string) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), prefix) {
			continue
		}
		for _, metric := range f.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				all[name] = metric.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM:
				all[name] = float64(metric.GetHistogram().GetSampleCount())
			default:
				all[name] = metric.GetGauge().GetValue()
			}
		}
	}
	return all
}

// TestRuleMetrics counts single validations and match conditions by their names.
func TestRuleMetrics(t *testing.T) {
	l := &loader{}
	l.RuleMetrics = true
	m := newMetrics(l)
	p := &policy.Policy{Kind: policy.Validating, Name: "p",
		MatchConditions: []policy.NamedExpr{{Name: "mine"}}, Validations: make([]policy.Validation, 2)}
	set := &policy.Set{Policies: []*policy.Policy{p}}
	m.set = func() *policy.Set { return set }
	m.count(set, set, nil)
	outcome := func(field string, verdict celgate.Verdict, name string, cost int64) celgate.Outcome {
		return celgate.Outcome{Kind: policy.Validating, Phase: policy.PhaseValidation, Policy: "p", Binding: "b",
			Expr: &policy.Expr{Field: field}, Verdict: verdict, Rule: &policy.Validation{Name: name}, Cost: cost}
	}
	m.observe(webhook.Observation{Decision: &celgate.Decision{Outcomes: []celgate.Outcome{
		outcome("spec.matchConditions[0].expression", celgate.Admit, "", 1),
		outcome("spec.validations[0].expression", celgate.Denied, "first", 7),
		outcome("spec.validations[1].expression", celgate.Admit, "", 7),
		outcome("spec.auditAnnotations[0].valueExpression", celgate.Error, "", 0),
	}}})
	m.observe(webhook.Observation{Decision: &celgate.Decision{Outcomes: []celgate.Outcome{
		outcome("spec.matchConditions[0].expression", celgate.Skip, "", 1),
	}}})
	m.observe(webhook.Observation{Decision: &celgate.Decision{Outcomes: []celgate.Outcome{
		outcome("spec.matchConditions[0].expression", celgate.Error, "", 1),
		outcome("spec.validations[1].expression", celgate.Skip, "", 0),
	}}})
	const of = "kind=ValidatingAdmissionPolicy,policy=p"
	want := map[string]float64{
		"celgate_validations_total{" + of + ",policy_binding=b,result=deny,validation=first}": 1,
		"celgate_validations_total{" + of + ",policy_binding=b,result=admit,validation=1}":    1,
		"celgate_validations_total{" + of + ",policy_binding=b,result=skip,validation=1}":     1,
		"celgate_validation_cost_units{" + of + ",validation=first}":                          1,
		"celgate_validation_cost_units{" + of + ",validation=1}":                              1,
	}
	if got := countsOf(t, m, "celgate_validation"); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	want = map[string]float64{
		"celgate_match_conditions_total{condition=mine," + "kind=ValidatingAdmissionPolicy,phase=validation,policy=p,result=true}":  1,
		"celgate_match_conditions_total{condition=mine," + "kind=ValidatingAdmissionPolicy,phase=validation,policy=p,result=false}": 1,
		"celgate_match_conditions_total{condition=mine," + "kind=ValidatingAdmissionPolicy,phase=validation,policy=p,result=error}": 1,
	}
	if got := countsOf(t, m, "celgate_match_conditions"); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

const counting = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: same}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  matchConditions: [{name: named, expression: 'object.metadata.name == "c"'}]
  variables: [{name: label, expression: '"b"'}, {name: missing, expression: object.data.z}]
  reinvocationPolicy: Never
  failurePolicy: Ignore
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": variables.label}}}'}}
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": variables.missing}}}'}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: one}
spec: {policyName: same}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: two}
spec: {policyName: same}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: same}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  variables: [{name: label, expression: object.metadata.labels.a}]
  validations: [{expression: variables.label == "b"}]
  auditAnnotations: [{key: k, valueExpression: string(variables.label)}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: one}
spec: {policyName: same, validationActions: [Deny]}
`

// TestCounting has a mutating and a validating policy of one name, whose series are apart, and which go with the policy
// or the binding that they are about.
func TestCounting(t *testing.T) {
	l := &loader{}
	l.RuleMetrics = true
	m := newMetrics(l)
	set := setOf(t, counting)
	m.set = func() *policy.Set { return set }
	m.count(set, set, nil)
	engine, err := celgate.New(set, celgate.Options{WithoutQuirks: true, Metered: true, Timed: true})
	if err != nil {
		t.Fatal(err)
	}
	request := &celgate.Request{Operation: celgate.Create, Namespace: "default", Name: "c", Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "default"}}}
	request.Kind.Version, request.Kind.Kind = "v1", "ConfigMap"
	request.Resource.Version, request.Resource.Resource = "v1", "configmaps"
	prepared, err := engine.Prepare(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	decision, err := engine.Admit(t.Context(), prepared)
	if err != nil || !decision.Allowed {
		t.Fatal(err, decision.Status)
	}
	m.observe(webhook.Observation{Decision: decision})
	const mutating, validating = "kind=MutatingAdmissionPolicy", "kind=ValidatingAdmissionPolicy"
	want := map[string]float64{
		"celgate_variables_total{" + mutating + ",policy=same,result=value,variable=label}":                             2,
		"celgate_variables_total{" + mutating + ",policy=same,result=error,variable=missing}":                           2,
		"celgate_variables_total{" + validating + ",policy=same,result=value,variable=label}":                           2, // validation, annotation
		"celgate_mutation_cost_units{" + mutating + ",mutation=0,policy=same}":                                          2,
		"celgate_mutation_cost_units{" + mutating + ",mutation=1,policy=same}":                                          2,
		"celgate_budget_used_ratio{budget=match_conditions," + mutating + ",policy=same}":                               4, // in the second pass, too
		"celgate_budget_used_ratio{budget=mutation," + mutating + ",policy=same}":                                       4,
		"celgate_budget_used_ratio{budget=validations," + validating + ",policy=same}":                                  1,
		"celgate_budget_used_ratio{budget=audit_annotations," + validating + ",policy=same}":                            1,
		"celgate_match_conditions_total{condition=named," + mutating + ",phase=mutation,policy=same,result=true}":       4,
		"celgate_mutating_admission_policy_mutations_total{mutation=0,policy=same,policy_binding=one,result=changed}":   1,
		"celgate_mutating_admission_policy_mutations_total{mutation=0,policy=same,policy_binding=two,result=evaluated}": 1,
		"celgate_mutating_admission_policy_mutations_total{mutation=1,policy=same,policy_binding=one,result=error}":     1,
		"celgate_mutating_admission_policy_mutations_total{mutation=1,policy=same,policy_binding=two,result=error}":     1,
	}
	all := countsOf(t, m, "celgate_")
	for name, n := range want {
		if all[name] != n {
			t.Errorf("%s %v, not %v", name, all[name], n)
		}
	}
	if t.Failed() {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if strings.Contains(name, "policy=same") {
				t.Log(name, all[name])
			}
		}
	}

	of := func(part string) (n int) {
		for name := range countsOf(t, m, "celgate_") {
			if strings.Contains(name, part) && !strings.HasPrefix(name, "celgate_policy_") {
				n++
			}
		}
		return n
	}
	if of("policy_binding=two") == 0 {
		t.Error("nothing of the binding")
	}
	unbound := &policy.Set{Policies: set.Policies, Bindings: slices.DeleteFunc(slices.Clone(set.Bindings),
		func(b *policy.Binding) bool { return b.Name == "two" })}
	m.count(unbound, unbound, nil)
	if n := of("policy_binding=two"); n != 0 || of("policy_binding=one") == 0 {
		t.Error("of the binding that is gone:", n)
	}
	alone := &policy.Set{Policies: set.Policies[1:], Bindings: set.Bindings[2:]}
	m.count(alone, alone, nil)
	if n := of("MutatingAdmissionPolicy,"); n != 0 || of("ValidatingAdmissionPolicy,") == 0 || of("mutating_admission_policy") != 0 {
		t.Error("of the policy that is gone:", n)
	}
	m.observe(webhook.Observation{Decision: decision}) // of a request that had begun
	for range 2 {
		m.count(&policy.Set{}, &policy.Set{}, nil)
	}
	if n := of("policy=same"); n != 0 {
		t.Error("left:", n)
	}
}

// TestCounts tests the numbers of policies and bindings, by state and action.
func TestCounts(t *testing.T) {
	m := newMetrics(&loader{})
	bound, alone := &policy.Policy{Kind: policy.Validating, Name: "bound"}, &policy.Policy{Kind: policy.Mutating, Name: "alone"}
	bad := &policy.Policy{Kind: policy.Validating, Name: "bad"}
	b := &policy.Binding{Kind: policy.Validating, Name: "b", PolicyName: "bound", Actions: []policy.Action{policy.Warn, policy.Audit}}
	set := &policy.Set{Policies: []*policy.Policy{bound, alone, bad}, Bindings: []*policy.Binding{b,
		{Kind: policy.Admission, Namespace: "team", Name: "team/b", PolicyName: "other", MutationActions: []policy.Action{policy.Apply}}}}
	force := &policy.Set{Policies: []*policy.Policy{bound, alone}, Bindings: set.Bindings}
	m.count(set, force, map[policy.Ref]celgate.Rejection{bad.Ref(): {}})
	want := map[string]float64{
		"celgate_policy_definitions{kind=ValidatingAdmissionPolicy,state=active}":                  1,
		"celgate_policy_definitions{kind=ValidatingAdmissionPolicy,state=rejected}":                1,
		"celgate_policy_definitions{kind=MutatingAdmissionPolicy,state=unbound}":                   1,
		"celgate_policy_bindings{action=warn,kind=ValidatingAdmissionPolicyBinding,state=active}":  1,
		"celgate_policy_bindings{action=audit,kind=ValidatingAdmissionPolicyBinding,state=active}": 1,
		"celgate_policy_bindings{action=apply,kind=NamespacedAdmissionPolicyBinding,state=active}": 1,
	}
	got := countsOf(t, m, "celgate_policy_definitions")
	maps.Copy(got, countsOf(t, m, "celgate_policy_bindings"))
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
