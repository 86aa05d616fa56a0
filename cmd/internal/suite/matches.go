package suite

import (
	"errors"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
)

// matches reports for each policy in force whether it matches the request: an entry for each binding and param, or one
// for a policy that does not match with any binding.
func (run *caseRun) matches() []explain.Match {
	if run.prepared == nil || run.matched != nil {
		return run.matched
	}
	var events []explain.Event
	d, err := run.arena.engine.Explain(run.ctx, run.prepared,
		explain.Options{Trace: func(e explain.Event) { events = append(events, e) }})
	if err != nil {
		return nil
	}
	all := []explain.Match{}
	var failed []string // match conditions of the last entry
	told := 0           // outcomes of the last entry
	for _, e := range events {
		last := len(all) - 1
		switch {
		case e.Second || e.Match != nil && e.Match.Matched:
		case e.Op == explain.OpMatch:
			all, failed, told = append(all, *e.Match), nil, 0
		case e.Op == explain.OpRun:
			all, failed, told = append(all, explain.Match{Kind: e.Kind, Policy: e.Policy, Binding: e.Binding,
				Matched: true}), nil, 0
		case e.Op == explain.OpOutcome && last >= 0 && all[last].By != "matchConditions":
			o := d.Outcomes[e.Outcome]
			told++
			switch {
			case o.Verdict == celgate.Skip && isCondition(o):
				all[last] = run.skippedMatch(all[last], o)
			case o.Verdict == celgate.Error && run.isOfConditions(all[last], o, told == 1) &&
				!slices.Contains(failed, o.Message):
				failed = append(failed, o.Message)
				all[last] = run.failedCondition(all[last], failed)
			}
		}
	}
	run.matched = all
	return all
}

// isOfConditions reports whether an outcome is that of a match condition, or of all of them: then it comes first and
// does not have an expression.
func (run *caseRun) isOfConditions(m explain.Match, o celgate.Outcome, first bool) bool {
	if !o.Expr.IsZero() {
		return isCondition(o)
	}
	p := run.policy(m)
	return first && p != nil && len(p.MatchConditions) > 0
}

// skippedMatch returns a match whose condition is false.
func (run *caseRun) skippedMatch(m explain.Match, o celgate.Outcome) explain.Match {
	m.Matched, m.Err, m.By, m.Field, m.Reason = false, nil, "matchConditions", o.Field(), "a match condition is false"
	if p := run.policy(m); p != nil {
		for _, c := range p.MatchConditions {
			if c.Expr.Field == o.Field() {
				m.Reason = "the match condition " + c.Name + " is false"
			}
		}
	}
	return m
}

// failedCondition returns a match whose conditions fail, unless another one of them is false.
func (run *caseRun) failedCondition(m explain.Match, messages []string) explain.Match {
	m.Matched, m.Err = false, nil
	if p := run.policy(m); p != nil && p.FailurePolicy == policy.Ignore {
		m.Reason = "a match condition fails, and failurePolicy Ignore skips the policy then"
		return m
	}
	text := strings.Join(messages, ", ")
	if len(messages) > 1 {
		text = "[" + text + "]"
	}
	m.Err = errors.New(text)
	return m
}

func (run *caseRun) policy(m explain.Match) *policy.Policy {
	for _, p := range run.Set.Policies {
		if p.Kind == m.Kind && p.Name == m.Policy {
			return p
		}
	}
	return nil
}
