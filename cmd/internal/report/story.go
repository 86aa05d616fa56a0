package report

import (
	"slices"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
)

// An Explanation is an answer with the events that led to it.
type Explanation struct {
	Item
	Given  map[string]any // the object as written by its author
	Events []Event
	Orders []Order // other orders of the mutating policies with other results
}

// An Event is an [explain.Event] with its context.
type Event struct {
	explain.Event
	Variable string // the name of the evaluated variable
	Value    string
	Failed   bool
	Steps    []explain.Step
	Reason   blame.Reason
	Result   *celgate.Outcome // of OpOutcome
}

// An Order is an order in which a server may run mutating policies, with the result.
type Order struct {
	Policies []string
	Decision *celgate.Decision
	Changes  []celgate.Change // from the object of the order by name to the object of this order
}

// A told holds the events of one policy with one binding and param.
type told struct {
	kind                   policy.Kind
	phase                  policy.Phase
	policy, binding, param string
	second                 bool
	matches                []explain.Match // of the policy and of the binding
	failed                 bool            // it was not evaluated: the last match has the reason
	skipped                string          // the reason why it does not run in the second pass
	outcomes               []toldOutcome
	messages               []Event // evaluations of messageExpression
	used                   map[string]bool

	pending []Event
}

// A toldOutcome is an outcome with the events behind it.
type toldOutcome struct {
	celgate.Outcome
	variables  []Event
	evaluation *Event // nil: the expression was not evaluated
	mutation   *explain.Mutation
}

// storyOf groups events: an entry for each invocation, and for each policy or binding that does not match the request.
func storyOf(events []Event) []*told {
	type key struct {
		kind            policy.Kind
		phase           policy.Phase
		policy, binding string
		second          bool
	}
	matched := map[key]explain.Match{}
	var all []*told
	var current *told
	begin := func(e Event, matches ...explain.Match) *told {
		one := &told{kind: e.Kind, phase: e.Phase, policy: e.Policy, binding: e.Binding, param: e.Param,
			second:  e.Second,
			matches: matches, used: map[string]bool{}}
		all = append(all, one)
		return one
	}
	for _, e := range events {
		k := key{e.Kind, e.Phase, e.Policy, e.Binding, e.Second}
		switch e.Op {
		case explain.OpMatch:
			switch {
			case e.Match.By == "reinvocationPolicy":
				if current != nil {
					current.skipped = e.Match.Reason
				}
			case e.Match.Matched:
				matched[k] = *e.Match
			default:
				matches := []explain.Match{*e.Match}
				if m, ok := matched[key{e.Kind, e.Phase, e.Policy, "", e.Second}]; ok && e.Binding != "" {
					matches = append([]explain.Match{m}, matches...)
				}
				begin(e, matches...).failed = true
			}
		case explain.OpRun:
			var matches []explain.Match
			for _, of := range []key{{e.Kind, e.Phase, e.Policy, "", e.Second}, k} {
				if m, ok := matched[of]; ok {
					matches = append(matches, m)
				}
			}
			current = begin(e, matches...)
		case explain.OpEvaluate:
			if current != nil {
				current.addEvaluation(e)
			}
		case explain.OpOutcome:
			if current != nil {
				current.outcomes = append(current.outcomes, current.outcome(*e.Result))
			}
		case explain.OpMutate:
			if current != nil && len(current.outcomes) > 0 {
				current.outcomes[len(current.outcomes)-1].mutation = e.Mutation
			}
		}
	}
	return all
}

func (one *told) addEvaluation(e Event) {
	if e.Variable != "" {
		one.used[e.Variable] = true
	}
	p := e.Evaluation.Policy
	if slices.ContainsFunc(p.Validations, func(v policy.Validation) bool {
		return !v.MessageExpr.IsZero() && v.MessageExpr.Field == e.Evaluation.Expr.Field
	}) {
		one.messages = append(one.messages, e)
		return
	}
	one.pending = append(one.pending, e)
}

// outcome returns an outcome with the evaluation of its expression and of the variables that were evaluated for it.
func (one *told) outcome(o celgate.Outcome) toldOutcome {
	out := toldOutcome{Outcome: o}
	i := one.evaluationOf(o)
	if i < 0 {
		return out
	}
	from := i
	for from > 0 && one.pending[from-1].Variable != "" {
		from--
	}
	found := one.pending[i]
	out.evaluation = &found
	out.variables = slices.Clone(one.pending[from:i])
	one.pending = slices.Delete(one.pending, from, i+1)
	return out
}

// evaluationOf returns the index of the evaluation of an outcome; -1 if there is none, or if evaluations for several
// values share the outcome.
func (one *told) evaluationOf(o celgate.Outcome) int {
	var all []int
	for i, e := range one.pending {
		if e.Variable == "" && e.Evaluation.Expr.Field == o.Field() &&
			(o.Scope == "" || e.Evaluation.Scope() == o.Scope) {
			all = append(all, i)
		}
	}
	switch {
	case len(all) == 0:
		return -1
	case len(all) == 1 || !isPerValue(one.pending[all[0]].Evaluation):
		return all[0]
	case o.Verdict == celgate.Error || o.Verdict == celgate.Denied:
		return all[len(all)-1]
	}
	return -1
}

// isPerValue reports whether an evaluation is for one of several values.
func isPerValue(x *explain.Evaluation) bool {
	return x.Scope() != "" || slices.ContainsFunc(x.Policy.Mutations, func(m policy.Mutation) bool {
		return m.Expr.Field == x.Expr.Field && !m.RunsOnce()
	})
}

// A spent is the cost of the expressions of one budget.
type spent struct {
	of    string
	cost  int64
	limit int64
}

// sumCosts sums the costs of an invocation by budget. Each mutation has a budget of its own.
func (one *told) sumCosts() []spent {
	conditions := spent{"match conditions", 0, celgate.MatchConditionBudget}
	rest := spent{"validations", 0, celgate.Budget}
	var all []spent
	seen := map[string]bool{}
	for _, o := range one.outcomes {
		switch {
		case o.mutation != nil:
			all = append(all, spent{o.Field(), o.Cost, celgate.Budget})
		case len(o.Field()) > len("spec.matchConditions") &&
			o.Field()[:len("spec.matchConditions")] == "spec.matchConditions":
			conditions.cost += o.Cost
			seen[conditions.of] = true
		default:
			rest.cost += o.Cost
			seen[rest.of] = true
		}
	}
	if seen[rest.of] && one.phase == policy.PhaseValidation {
		all = append([]spent{rest}, all...)
	}
	if seen[conditions.of] {
		all = append([]spent{conditions}, all...)
	}
	return all
}
