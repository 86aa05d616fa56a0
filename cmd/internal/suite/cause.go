package suite

import (
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
)

// A Cause is an expression that determined an answer.
type Cause struct {
	Policy    string
	Binding   string
	Says      string // the result of the expression
	Expr      policy.Expr
	Variable  string             // the variable with the expression, if its error is the cause; empty: none
	Violation *celgate.Violation // its violation; nil: none
	Values    []explain.Step     // the decisive parts of the expression, and of the variables in it
	From, To  int                // of the decisive part of the text; both 0 if unknown

	outcome int // index among the outcomes of the decision; -1: none
}

// cause returns an outcome of the decision as the cause of a failure.
func (run *caseRun) cause(outcome int) Cause {
	o := run.Decision.Outcomes[outcome]
	return Cause{Policy: o.Policy, Binding: o.Binding, Says: sayOutcome(o), Expr: *o.Expr, outcome: outcome}
}

// mostCauses bounds the causes shown for one failure.
const mostCauses = 3

// denials returns the causes of the denial of a request.
func (run *caseRun) denials() []Cause {
	var all []Cause
	for i, v := range run.Decision.Violations {
		if len(v.Actions) > 0 && !slices.Contains(v.Actions, policy.Deny) || len(all) == mostCauses {
			continue
		}
		all = append(all, Cause{Policy: v.Policy, Binding: v.Binding, Says: v.Message, Expr: v.Expr,
			Violation: &run.Decision.Violations[i], outcome: blame.OutcomeOf(run.Decision, v)})
	}
	return all
}

// skips returns the match conditions that excluded policies.
func (run *caseRun) skips(name string) []Cause {
	var all []Cause
	for i, o := range run.Decision.Outcomes {
		if isCondition(o) && o.Verdict != celgate.Admit && !o.Expr.IsZero() && (name == "" || o.Policy == name) &&
			len(all) < mostCauses &&
			!slices.ContainsFunc(all, func(c Cause) bool {
				return c.Expr.Field == o.Field() &&
					c.Expr.Src == o.Expr.Src
			}) {
			all = append(all, run.cause(i))
		}
	}
	return all
}

// causesOf returns the causes of an outcome.
func (run *caseRun) causesOf(outcome int) []Cause {
	if outcome < 0 {
		return nil
	}
	return []Cause{run.cause(outcome)}
}

func sayOutcome(o celgate.Outcome) string {
	switch o.Verdict {
	case celgate.Admit:
		if strings.HasPrefix(o.Field(), "spec.mutations") {
			return "the mutation was applied"
		}
		return "the expression is true"
	case celgate.Denied:
		return "the expression is false"
	case celgate.Skip:
		if !isCondition(o) {
			return "the condition of the mutation is false"
		}
		return "the match condition is false"
	case celgate.Error:
		return "the expression is an error: " + o.Message
	}
	return ""
}

// explain adds values to failures, and the policies that did not match.
func (run *caseRun) explain() {
	run.noteAbsent()
	var reasons map[int]blame.Reason
	for i := range run.Failures {
		for j := range run.Failures[i].Causes {
			c := &run.Failures[i].Causes[j]
			if c.outcome < 0 {
				continue
			}
			if reasons == nil {
				if reasons = blame.Reasons(run.ctx, run.arena.engine, run.prepared,
					run.Decision.Outcomes); reasons == nil {
					return
				}
			}
			if r, ok := reasons[c.outcome]; ok {
				c.Values, c.From, c.To, c.Variable = r.Values, r.From, r.To, r.Variable
				if r.Variable != "" {
					c.Expr = r.Expr
				}
			}
		}
	}
}

// noteAbsent adds the policies that did not match, with reasons, to the failure of a request that was allowed or left
// unchanged.
func (run *caseRun) noteAbsent() {
	if !run.Decision.Allowed || run.Failures[0].created {
		return
	}
	f := &run.Failures[0]
	said := f.Got
	for i := range f.Causes {
		said += "\n" + f.Causes[i].Says
	}
	for _, m := range run.matches() {
		if m.Matched || m.Err != nil || strings.Contains(said, m.Reason) || len(f.Notes) == mostNotes {
			continue
		}
		by := "policy " + m.Policy
		if m.Binding != "" {
			by += ", binding " + m.Binding
		}
		f.Notes = append(f.Notes, by+" is not for this request: "+strings.TrimSuffix(m.Reason, " of the binding"))
	}
	for _, p := range run.Set.Policies {
		if len(f.Notes) < mostNotes && !run.Set.Binds(p.Ref()) {
			f.Notes = append(f.Notes, "policy "+p.Name+" does not have a binding in the suite: it is never evaluated")
		}
	}
}

// mostNotes bounds the notes about policies that did not match.
const mostNotes = 5
