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

// ruleMetrics count single expressions: one series for each validation, match condition and binding in force, so they
// are asked for (--rule-metrics). Series of policies that are gone are removed.
type ruleMetrics struct {
	validations, conditions *prometheus.CounterVec
	costs                   *prometheus.HistogramVec
	known                   map[string]bool // names of policies that may have series
}

func newRuleMetrics(registry *prometheus.Registry) *ruleMetrics {
	r := &ruleMetrics{
		validations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "celgate", Name: "validations_total",
			Help: "Validations in requests, by policy, binding, validation (its name, or its index) and result: admit, deny, error, skip (by a match condition, a guard or a level, or no value at the path of a scope).",
		}, []string{"policy", "policy_binding", "validation", "result"}),
		conditions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "celgate", Name: "match_conditions_total",
			Help: "Match conditions in requests, by policy, condition and result: true, false or error.",
		}, []string{"policy", "condition", "result"}),
		costs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "celgate", Name: "validation_cost_units",
			Help:    "CEL cost units of a validation in one request with one binding and param; all of a policy have 10,000,000.",
			Buckets: []float64{10, 100, 1_000, 10_000, 100_000, 1_000_000, 3_000_000, 10_000_000},
		}, []string{"policy", "validation"}),
		known: map[string]bool{},
	}
	registry.MustRegister(r.validations, r.conditions, r.costs)
	return r
}

// observe counts the expressions of a decision; set has the names of match conditions.
func (r *ruleMetrics) observe(d *celgate.Decision, set *policy.Set) {
	for _, o := range d.Outcomes {
		if o.Phase != policy.PhaseValidation {
			continue
		}
		switch list, index, _ := partOf(o.Field); list {
		case "validations":
			name := cmp.Or(o.Validation, strconv.Itoa(index))
			r.validations.WithLabelValues(o.Policy, o.Binding, name, strings.ToLower(string(o.Verdict))).Inc()
			if o.Verdict != celgate.Skip {
				r.costs.WithLabelValues(o.Policy, name).Observe(float64(o.Cost))
			}
		case "matchConditions":
			name, result := strconv.Itoa(index), "true"
			if p := set.Policy(o.Kind.Ref(o.Policy)); p != nil && index < len(p.MatchConditions) {
				name = p.MatchConditions[index].Name
			}
			switch o.Verdict {
			case celgate.Skip:
				result = "false"
			case celgate.Error:
				result = "error"
			}
			r.conditions.WithLabelValues(o.Policy, name, result).Inc()
		}
	}
}

// keep removes the series of policies that are not in a set.
func (r *ruleMetrics) keep(set *policy.Set) {
	now := map[string]bool{}
	for _, p := range set.Policies {
		now[p.Name] = true
	}
	for name := range r.known {
		if !now[name] {
			gone := prometheus.Labels{"policy": name}
			r.validations.DeletePartialMatch(gone)
			r.conditions.DeletePartialMatch(gone)
			r.costs.DeletePartialMatch(gone)
		}
	}
	r.known = now
}

// count says how many policies and bindings there are of each kind, and what they do.
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
	if m.rules != nil {
		m.rules.keep(force)
	}
}
