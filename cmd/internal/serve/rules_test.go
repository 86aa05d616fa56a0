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

// counted returns the series of a registry whose names begin with a prefix, as "name{label=value}" to their value: of a
// histogram how often it was observed.
func counted(t *testing.T, m *metrics, prefix string) map[string]float64 {
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

// TestRuleMetrics counts single expressions, and forgets those of policies that are gone.
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
			Field: field, Verdict: verdict, Validation: name, Cost: cost}
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
	want := map[string]float64{
		"celgate_validations_total{policy=p,policy_binding=b,result=deny,validation=first}": 1,
		"celgate_validations_total{policy=p,policy_binding=b,result=admit,validation=1}":    1,
		"celgate_validations_total{policy=p,policy_binding=b,result=skip,validation=1}":     1,
		"celgate_validation_cost_units{policy=p,validation=first}":                          1,
		"celgate_validation_cost_units{policy=p,validation=1}":                              1,
	}
	if got := counted(t, m, "celgate_validation"); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	want = map[string]float64{
		"celgate_match_conditions_total{condition=mine,policy=p,result=true}":  1,
		"celgate_match_conditions_total{condition=mine,policy=p,result=false}": 1,
		"celgate_match_conditions_total{condition=mine,policy=p,result=error}": 1,
	}
	if got := counted(t, m, "celgate_match_conditions"); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	m.count(&policy.Set{}, &policy.Set{}, nil)
	if got := slices.Collect(maps.Keys(counted(t, m, "celgate_validation"))); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

// TestCounts says how many policies and bindings there are, and what they do.
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
	got := counted(t, m, "celgate_policy_definitions")
	maps.Copy(got, counted(t, m, "celgate_policy_bindings"))
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
