package serve

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// ruleMetrics count single expressions. They add several series for each validation, mutation, match condition and
// variable in force, so they are optional (--rule-metrics).
type ruleMetrics struct {
	validations, conditions, variables *prometheus.CounterVec
	costs, mutationCosts, budgets      *prometheus.HistogramVec
}

func newRuleMetrics(registry *prometheus.Registry) *ruleMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "celgate", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "celgate", Name: name, Help: help,
			Buckets: buckets}, labels)
	}
	units := []float64{10, 100, 1_000, 10_000, 100_000, 300_000, 1_000_000, 10_000_000}
	r := &ruleMetrics{
		validations: counter("validations_total",
			"Validations in requests, by kind of policy, policy, binding, validation (its name, or its index) and result: admit, deny, error, skip (by a match condition, a guard or a level, or for want of a value at the path of a scope).",
			"kind", "policy", "policy_binding", "validation", "result"),
		conditions: counter("match_conditions_total",
			"Match conditions in requests, by kind of policy, policy, phase, condition and result: true, false or error. Conditions that together exceed the budget count as one, *.",
			"kind", "policy", "phase", "condition", "result"),
		variables: counter("variables_total",
			"Evaluations of variables, by kind of policy, policy, variable and result: value or error. A variable is evaluated when an expression first reads it.",
			"kind", "policy", "variable", "result"),
		costs: histogram("validation_cost_units",
			"CEL cost units of a validation in one request with one binding and param, with the variables that it was the first to read; the limit of an expression is 1,000,000.",
			units, "kind", "policy", "validation"),
		mutationCosts: histogram("mutation_cost_units",
			"CEL cost units of a mutation in one request with one binding and param; the limit of an expression is 1,000,000.",
			units, "kind", "policy", "mutation"),
		budgets: histogram("budget_used_ratio",
			"Share of a budget used by one request with one binding and param: match_conditions (2,500,000 CEL cost units), validations with their messages, audit_annotations, or each mutation (10,000,000). Above 1 the budget was exceeded.",
			[]float64{0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.8, 1}, "kind", "policy", "budget"),
	}
	for _, each := range r.all() {
		registry.MustRegister(each)
	}
	return r
}

// all returns the metrics; all of them have the labels kind and policy.
func (r *ruleMetrics) all() []series {
	return []series{r.validations, r.conditions, r.variables, r.costs, r.mutationCosts, r.budgets}
}

// observe counts the expressions of a decision; set has the names of match conditions and mutations.
func (r *ruleMetrics) observe(d *celgate.Decision, set *policy.Set) {
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		kind := string(o.Kind)
		switch list, index, member := partOf(o.Field()); list {
		case "validations":
			name := cmp.Or(o.Validation(), strconv.Itoa(index))
			r.validations.WithLabelValues(kind, o.Policy, o.Binding, name, strings.ToLower(string(o.Verdict))).Inc()
			if o.Verdict != celgate.Skip {
				r.costs.WithLabelValues(kind, o.Policy, name).Observe(float64(o.Cost))
			}
		case "mutations":
			if o.Phase == policy.PhaseMutation && member != "condition" {
				name := nameOfMutation(dialectPolicy(set, o), index)
				r.mutationCosts.WithLabelValues(kind, o.Policy, name).Observe(float64(o.Cost))
			}
		case "matchConditions":
			name := strconv.Itoa(index)
			if p := set.Policy(o.Kind.Ref(o.Policy)); p != nil && index < len(p.MatchConditions) {
				name = p.MatchConditions[index].Name
			}
			r.condition(o, name)
		}
	}
	for _, s := range d.Spendings() {
		if s.Budget == celgate.OfMatchConditions && s.Units > s.Of {
			o := &celgate.Outcome{Kind: s.Kind, Phase: s.Phase, Policy: s.Policy, Verdict: celgate.Error}
			r.condition(o, "*")
		}
		r.budgets.WithLabelValues(string(s.Kind), s.Policy, budgetNames[s.Budget]).
			Observe(float64(s.Units) / float64(s.Of))
	}
	for _, v := range d.Resolutions() {
		resolved := r.variables.MustCurryWith(prometheus.Labels{
			"kind": string(v.Kind), "policy": v.Policy, "variable": v.Variable})
		if v.Times > v.Failed {
			resolved.WithLabelValues("value").Add(float64(v.Times - v.Failed))
		}
		if v.Failed > 0 {
			resolved.WithLabelValues("error").Add(float64(v.Failed))
		}
	}
}

var budgetNames = map[string]string{
	celgate.OfMatchConditions: "match_conditions", celgate.OfValidations: "validations",
	celgate.OfAuditAnnotations: "audit_annotations", celgate.OfMutation: "mutation",
}

// condition counts a match condition.
func (r *ruleMetrics) condition(o *celgate.Outcome, name string) {
	result := "true"
	switch o.Verdict {
	case celgate.Skip:
		result = "false"
	case celgate.Error:
		result = "error"
	}
	r.conditions.WithLabelValues(string(o.Kind), o.Policy, string(o.Phase), name, result).Inc()
}

// series are the series of one metric.
type series interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// keep removes the series of policies and bindings that are not in a set. The last removed ones are removed again the
// next time, because a request in progress may have added them again.
func (m *metrics) keep(set *policy.Set) {
	now := map[named]bool{}
	for _, p := range set.Policies {
		now[named{kind: p.Kind, policy: p.Name}] = true
	}
	for b := range set.EachBinding() {
		for _, ref := range b.PolicyRefs() {
			now[named{policy.Kind(ref.Kind), ref.Name, b.Name}] = true
		}
	}
	gone := map[named]bool{}
	for n := range m.known {
		if !now[n] {
			gone[n] = true
		}
	}
	m.checked.forget(func() {
		m.mutated.forget(func() {
			for n := range gone {
				m.remove(n)
			}
			for n := range m.gone {
				if !now[n] {
					m.remove(n)
				}
			}
		})
	})
	m.known, m.gone = now, gone
}

// A named is an owner of series: a policy, or a policy with a binding.
type named struct {
	kind            policy.Kind
	policy, binding string
}

// remove removes the series of a policy or binding that is no longer in force.
func (m *metrics) remove(n named) {
	labels := prometheus.Labels{"policy": n.policy}
	if n.binding != "" {
		labels["policy_binding"] = n.binding
	}
	for _, each := range []series{m.checks[n.kind], m.times[n.kind], m.mutations[n.kind]} {
		each.DeletePartialMatch(labels)
	}
	if n.binding == "" {
		m.shadow.DeletePartialMatch(labels)
	}
	if m.rules == nil {
		return
	}
	labels["kind"] = string(n.kind)
	for _, each := range m.rules.all() {
		each.DeletePartialMatch(labels)
	}
}

// count sets the numbers of policies and bindings, by kind, state and action.
func (m *metrics) count(set, force *policy.Set, rejected map[policy.Ref]celgate.Rejection) {
	m.definitions.Reset()
	m.bindings.Reset()
	bound := map[policy.Ref]bool{}
	for b := range force.EachBinding() {
		for _, ref := range b.PolicyRefs() {
			bound[ref] = true
		}
	}
	for _, p := range set.Policies {
		state := "active"
		if _, bad := rejected[p.Ref()]; bad {
			state = "rejected"
		} else if !bound[p.Ref()] {
			state = "unbound"
		}
		m.definitions.WithLabelValues(string(p.Kind), state).Inc()
	}
	for _, b := range set.Bindings {
		state := "active"
		if _, bad := rejected[b.Ref()]; bad {
			state = "rejected"
		}
		actions := slices.Concat(b.Actions, b.MutationActions)
		if b.Kind == policy.Mutating {
			actions = []policy.Action{policy.Apply}
		}
		for _, action := range actions {
			m.bindings.WithLabelValues(b.Ref().Kind, state, strings.ToLower(string(action))).Inc()
		}
	}
	m.keep(force)
}
