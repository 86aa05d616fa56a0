package suite

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// A Cause is an expression that made an answer what it is.
type Cause struct {
	Policy    string
	Binding   string
	Says      string // what the expression came to
	Expr      policy.Expr
	Violation *celgate.Violation // what the expression led to; nil if that is none
	Values    []celgate.Step     // the parts of the expression, and of the variables in it, that decided
	From, To  int                // of the part of the text that decided; both 0 if it is not known

	outcome int // index among the outcomes of the decision; -1: none
}

// cause is an outcome of the decision as the reason for a failure.
func (run *caseRun) cause(outcome int) Cause {
	o := run.Decision.Outcomes[outcome]
	return Cause{Policy: o.Policy, Binding: o.Binding, Says: sayOutcome(o), Expr: o.Expr, outcome: outcome}
}

// mostCauses bounds what one failure shows of the expressions behind it.
const mostCauses = 3

// denials are the causes of the denial of a request.
func (run *caseRun) denials() []Cause {
	var all []Cause
	for i, v := range run.Decision.Violations {
		if len(v.Actions) > 0 && !slices.Contains(v.Actions, policy.Deny) || len(all) == mostCauses {
			continue
		}
		all = append(all, Cause{Policy: v.Policy, Binding: v.Binding, Says: v.Message, Expr: v.Expr, Violation: &run.Decision.Violations[i], outcome: run.outcomeOf(v)})
	}
	return all
}

// outcomeOf returns the index of the outcome that became a violation; -1 if it came from no expression.
func (run *caseRun) outcomeOf(v celgate.Violation) int {
	return slices.IndexFunc(run.Decision.Outcomes, func(o celgate.Outcome) bool {
		return o.Kind == v.Kind && o.Policy == v.Policy && o.Field == v.Expr.Field &&
			(v.Binding == "" || o.Binding == v.Binding) && o.Param == v.Param
	})
}

// skips are the match conditions that kept policies out.
func (run *caseRun) skips(name string) []Cause {
	var all []Cause
	for i, o := range run.Decision.Outcomes {
		if isCondition(o) && o.Verdict != celgate.Admit && !o.Expr.IsZero() && (name == "" || o.Policy == name) && len(all) < mostCauses &&
			!slices.ContainsFunc(all, func(c Cause) bool { return c.Expr.Field == o.Field && c.Expr.Src == o.Expr.Src }) {
			all = append(all, run.cause(i))
		}
	}
	return all
}

// causesOf are the causes for which there is an outcome.
func (run *caseRun) causesOf(outcome int) []Cause {
	if outcome < 0 {
		return nil
	}
	return []Cause{run.cause(outcome)}
}

func sayOutcome(o celgate.Outcome) string {
	switch o.Verdict {
	case celgate.Admit:
		if o.Kind == policy.Mutating && !isCondition(o) {
			return "the mutation was applied"
		}
		return "the expression is true"
	case celgate.Denied:
		return "the expression is false"
	case celgate.Skip:
		return "the match condition is false"
	case celgate.Error:
		return "the expression is an error: " + o.Message
	}
	return ""
}

// A tracer decides again about requests of failed cases, for the values of the parts of expressions.
type tracer struct {
	engine func() *celgate.Engine // nil if it cannot be made; the case has failed all the same

	mutex sync.Mutex
	seen  []celgate.Evaluation // of the request at hand
}

func newTracer(set *policy.Set, opts celgate.Options) *tracer {
	t := &tracer{}
	t.engine = sync.OnceValue(func() *celgate.Engine {
		engine, err := celgate.NewTraced(set, opts, func(e celgate.Event) {
			if e.Evaluation != nil {
				t.seen = append(t.seen, *e.Evaluation)
			}
		})
		if err != nil {
			return nil
		}
		return engine
	})
	return t
}

// evaluations decides about a request and returns, beside the outcomes of its decision, the evaluations that each
// comes from: the last one is of the expression itself, those before it are of variables.
func (t *tracer) evaluations(ctx context.Context, request *celgate.Request, outcomes []celgate.Outcome) [][]celgate.Evaluation {
	engine := t.engine()
	if engine == nil {
		return nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.seen = nil
	if _, err := engine.Admit(ctx, request); err != nil {
		return nil
	}
	all := make([][]celgate.Evaluation, len(outcomes))
	next := map[*policy.Policy]int{} // the first evaluation of a policy that belongs to no outcome yet
	for i, o := range outcomes {
		for at, e := range t.seen {
			p := e.Policy
			if at < next[p] || p.Kind != o.Kind || p.Name != o.Policy || e.Expr.Field != o.Field {
				continue
			}
			for _, before := range t.seen[:at] {
				if before.Policy == p && strings.HasPrefix(before.Expr.Field, "spec.variables") {
					all[i] = append(all[i], before)
				}
			}
			all[i] = append(all[i], e)
			next[p] = at + 1
			break
		}
	}
	return all
}

// explain adds to the causes of failures the values behind them.
func (run *caseRun) explain() {
	var beside [][]celgate.Evaluation
	for i := range run.Failures {
		for j := range run.Failures[i].Causes {
			c := &run.Failures[i].Causes[j]
			if c.outcome < 0 {
				continue
			}
			if beside == nil {
				if beside = run.arena.tracer.evaluations(run.ctx, run.Request, run.Decision.Outcomes); beside == nil {
					return
				}
			}
			if evaluations := beside[c.outcome]; len(evaluations) > 0 {
				last := evaluations[len(evaluations)-1]
				c.Values = values(last, evaluations[:len(evaluations)-1])
				c.From, c.To = last.Decisive()
			}
		}
	}
}

// values are the steps of an evaluation, with those of each variable behind it.
func values(e celgate.Evaluation, variables []celgate.Evaluation) []celgate.Step {
	var all []celgate.Step
	add := func(s celgate.Step) bool {
		if slices.ContainsFunc(all, func(had celgate.Step) bool { return had.Text == s.Text }) {
			return false
		}
		all = append(all, s)
		return true
	}
	var of func(e celgate.Evaluation, known string)
	of = func(e celgate.Evaluation, known string) {
		for i, s := range e.Steps() {
			if i == 0 && s.Value == known {
				continue // the whole of the variable's expression
			}
			name, isVariable := strings.CutPrefix(s.Text, "variables.")
			if !add(s) || !isVariable {
				continue
			}
			for i := len(variables) - 1; i >= 0; i-- {
				if v := variables[i]; fieldOfVariable(v.Policy, name) == v.Expr.Field {
					of(v, s.Value)
					break
				}
			}
		}
	}
	of(e, "")
	return all
}

func fieldOfVariable(p *policy.Policy, name string) string {
	for _, v := range p.Variables {
		if v.Name == name {
			return v.Expr.Field
		}
	}
	return ""
}
