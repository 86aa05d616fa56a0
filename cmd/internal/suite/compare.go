package suite

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/replay"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// compare adds a failure for each unmet expectation.
func (run *caseRun) compare(e *Expectation, update bool) {
	d := run.Decision
	defer run.compareCreated(e)
	if !run.checkExercised(e) {
		return // further failures would not help
	}
	switch {
	case e.Denied != nil:
		run.compareDenials(e.Denied)
	case !d.Allowed && len(e.Skipped) == 0:
		run.fail(Failure{Place: e.Place, Expected: "allowed", Got: run.tellDenial(), Causes: run.denials()})
	case !d.Allowed:
		run.fail(Failure{Place: e.Place, Expected: "allowed, because policies are skipped", Got: run.tellDenial(),
			Causes: run.denials()})
	}
	if e.warningsGiven {
		run.compareWarnings(e)
	}
	for _, want := range e.Audited {
		run.compareAudited(want)
	}
	for _, want := range e.Annotations {
		run.compareAnnotation(want)
	}
	if e.Untouched.IsValid() || e.Mutated != nil {
		run.compareObject(e, update)
	}
	if e.Idempotent.IsValid() || e.Survives.IsValid() {
		run.compareReplay(e)
	}
}

// compareReplay runs the mutating policies once more.
func (run *caseRun) compareReplay(e *Expectation) {
	if run.prepared == nil {
		return // refused: a failure of its own
	}
	again, err := replay.Run(run.ctx, run.arena.engine, run.prepared, run.Decision, run.arena.types)
	if err != nil {
		run.setNotRun(&Problem{Position: e.Place, Message: err.Error()})
		return
	}
	if e.Idempotent.IsValid() && !again.IsIdempotent() {
		f := Failure{Place: e.Idempotent,
			Expected: "nothing changes when the mutating policies run again on their results"}
		if again.Denied != "" {
			f.Got = "denied: " + again.Denied
		}
		for i, c := range again.Again {
			if i == 0 {
				f.Causes = run.causesOf(run.mutation(c.Policy, c.Binding))
			}
			lines := append([]string{"policy " + c.Policy + " changes the object again"}, c.Lines()...)
			f.Got += strings.Repeat("\n", min(i, 1)) + strings.Join(lines, "\n  ")
		}
		run.fail(f)
	}
	if !e.Survives.IsValid() {
		return
	}
	for _, b := range again.Beyond {
		run.note(b.WiderText())
	}
	for _, l := range again.Lost {
		f := Failure{Place: e.Survives, Expected: "the changes of policy " + l.Policy + " survive the other policies",
			Got: l.String()}
		if l.Thief.Policy != "" {
			f.Causes = run.causesOf(run.mutation(l.Thief.Policy, l.Thief.Binding))
		}
		run.fail(f)
	}
}

func (run *caseRun) fail(f Failure) { run.Failures = append(run.Failures, f) }

// answerText returns the server's answer to a denied request.
func (run *caseRun) answerText() string {
	s := run.Decision.Status
	if s == nil {
		return "without a status"
	}
	return fmt.Sprintf("%s (%d %s)", s.Message, s.Code, s.Reason)
}

// tellDenial describes an unexpected denial; the report shows the violations.
func (run *caseRun) tellDenial() string {
	s := run.Decision.Status
	if s == nil || !slices.ContainsFunc(run.Decision.Violations,
		func(v celgate.Violation) bool { return slices.Contains(v.Actions, policy.Deny) }) {
		return "denied: " + run.answerText()
	}
	return fmt.Sprintf("denied (%d %s)", s.Code, s.Reason)
}

// checkExercised checks which policies took part. An expectation about a policy that was never evaluated is a failure.
func (run *caseRun) checkExercised(e *Expectation) bool {
	if len(e.Skipped) > 0 {
		for _, s := range e.Skipped {
			run.compareSkip(s)
		}
		return len(run.Failures) == 0
	}
	d := run.Decision
	if d.Status != nil && !d.Allowed && len(d.Outcomes) == 0 && len(d.Violations) == 0 {
		return true // refused before policies
	}
	names := map[string]bool{}
	for _, verdicts := range [][]Verdict{e.Denied, e.Warnings, e.Audited} {
		for _, v := range verdicts {
			if v.Policy != "" {
				names[v.Policy] = true
			}
		}
	}
	if len(names) == 0 {
		if run.isInvolved("", "") || run.exercisedByChildren() || len(e.Created) > 0 && e.Denied == nil {
			return true
		}
		run.fail(Failure{Place: e.Place, Expected: "a policy is evaluated for the request", Got: run.absenceReason("", ""),
			Causes: run.skips(""),
			Hint:   "write expect: skipped if the case is about that",
		},
		)
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.ContainsFunc(run.Set.Policies, func(p *policy.Policy) bool { return p.Name == name }) {
			run.fail(Failure{Place: e.Place, Expected: "policy " + name + " is evaluated for the request",
				Got: "the suite does not have such a policy"})
		} else if !run.isInvolved(name, "") {
			run.fail(Failure{Place: e.Place, Expected: "policy " + name + " is evaluated for the request",
				Got: run.absenceReason(name, ""), Causes: run.skips(name)})
		}
	}
	return len(run.Failures) == 0
}

// isInvolved reports whether a policy, or any with "", was evaluated for the request.
func (run *caseRun) isInvolved(name, binding string) bool {
	is := func(p, b string) bool { return (name == "" || p == name) && (binding == "" || b == binding) }
	for _, o := range run.Decision.Outcomes {
		if is(o.Policy, o.Binding) && !isCondition(o) {
			return true
		}
	}
	for _, v := range run.Decision.Violations {
		if is(v.Policy, v.Binding) {
			return true
		}
	}
	return slices.ContainsFunc(run.matches(),
		func(m explain.Match) bool { return is(m.Policy, m.Binding) && m.Matched })
}

// isCondition reports whether an outcome is that of a match condition.
func isCondition(o celgate.Outcome) bool { return strings.HasPrefix(o.Field(), "spec.matchConditions") }

// absenceReason returns a failure text for policies that were not evaluated, with reasons.
func (run *caseRun) absenceReason(name, binding string) string {
	return strings.Join(append([]string{notExercised}, run.reasons(name, binding)...), "\n")
}

const notExercised = "not exercised"

// reasons returns the reasons why policies did not match, one on a line.
func (run *caseRun) reasons(name, binding string) []string {
	var reasons []string
	matches := run.matches()
	for _, m := range matches {
		if name != "" && m.Policy != name || binding != "" && m.Binding != "" && m.Binding != binding || m.Matched {
			continue
		}
		reason := "policy " + m.Policy
		if m.Binding != "" {
			reason += ", binding " + m.Binding
		}
		switch {
		case m.Err != nil:
			reason += ": " + m.Err.Error()
		default:
			reason += ": " + m.Reason
		}
		reasons = append(reasons, reason)
	}
	for _, p := range run.Set.Policies {
		if (name == "" || p.Name == name) && !run.Set.Binds(p.Ref()) {
			reasons = append(reasons, "policy "+p.Name+" has no binding")
		}
	}
	const most = 4
	if n := len(reasons); n > most {
		reasons = append(reasons[:most], fmt.Sprintf("and %d more", n-most))
	}
	return reasons
}

func (run *caseRun) compareSkip(s Skip) {
	subject := "no policy"
	if s.Policy != "" {
		subject = "policy " + s.Policy + " not"
	}
	if s.Binding != "" {
		subject += " (binding " + s.Binding + ")"
	}
	expected := strings.Replace(subject, " not", "", 1) + " is skipped"
	if s.Policy == "" {
		expected = "every policy is skipped"
	}
	if s.By != "" {
		expected += " by " + s.By
	}
	if s.Condition != "" {
		expected += " (" + s.Condition + ")"
	}
	if s.Policy != "" &&
		!slices.ContainsFunc(run.Set.Policies, func(p *policy.Policy) bool { return p.Name == s.Policy }) {
		run.fail(Failure{Place: s.Place, Expected: expected, Got: "the suite does not have such a policy"})
		return
	}
	if run.isInvolved(s.Policy, s.Binding) {
		f := Failure{Place: s.Place, Expected: expected, Got: "it took part in the request"}
		for i, o := range run.Decision.Outcomes {
			if (s.Policy == "" || o.Policy == s.Policy) && (s.Binding == "" || o.Binding == s.Binding) &&
				!isCondition(o) {
				f.Got = "policy " + o.Policy + ", binding " + o.Binding + ", took part"
				f.Causes = run.causesOf(i)
				break
			}
		}
		run.fail(f)
		return
	}
	if s.By == "" {
		return
	}
	for _, m := range run.matches() {
		if s.Policy != "" && m.Policy != s.Policy || s.Binding != "" && m.Binding != "" && m.Binding != s.Binding ||
			m.By != s.By {
			continue
		}
		if s.Condition == "" || m.Field == run.conditionField(m, s.Condition) {
			return
		}
	}
	run.fail(Failure{Place: s.Place, Expected: expected,
		Got: cmp.Or(strings.Join(run.reasons(s.Policy, s.Binding), "\n"), notExercised), Causes: run.skips(s.Policy)})
}

func (run *caseRun) conditionField(m explain.Match, name string) string {
	for _, p := range run.Set.Policies {
		if p.Kind != m.Kind || p.Name != m.Policy {
			continue
		}
		for _, c := range p.MatchConditions {
			if c.Name == name {
				return c.Expr.Field
			}
		}
	}
	return "no such condition"
}

// compareDenials finds each verdict among the denials.
func (run *caseRun) compareDenials(want []Verdict) {
	d := run.Decision
	for _, v := range want {
		expected := v.describe("denied")
		if d.Allowed {
			f := Failure{Place: v.Place, Expected: expected, Got: "allowed"}
			if len(d.Warnings) > 0 {
				f.Got = fmt.Sprintf("allowed, with %d warnings", len(d.Warnings))
				if len(d.Warnings) == 1 {
					f.Got = "allowed, with the warning: " + d.Warnings[0].Text
				}
			}
			f.Causes = run.causesOf(run.decisiveOutcome(v))
			if i := slices.IndexFunc(run.created, func(c *caseRun) bool { return !c.Decision.Allowed }); i >= 0 {
				f.Got += fmt.Sprintf("; the %s that is created for it is not", run.created[i].says)
				f.Hint = fmt.Sprintf("write under expect, created: {%s: denied}", run.created[i].Request.Kind.Kind)
			}
			run.fail(f)
			continue
		}
		if v.Code != 0 && int(d.Status.Code) != v.Code || v.Reason != "" && string(d.Status.Reason) != v.Reason {
			run.fail(Failure{Place: v.Place, Expected: expected, Got: "denied: " + run.answerText(),
				Causes: run.denials()})
			continue
		}
		if !v.namesPolicy() && (!v.Message.given || v.Message.holds(d.Status.Message)) {
			continue
		}
		if !slices.ContainsFunc(d.Violations, func(x celgate.Violation) bool {
			return slices.Contains(x.Actions, policy.Deny) && v.holds(x, answerOfViolation(d, x))
		}) {
			f := Failure{Place: v.Place, Expected: expected, Got: run.listViolations("denied", policy.Deny),
				Causes: run.denials()}
			if v.namesPolicy() {
				if i := run.decisiveOutcome(v); i >= 0 && run.Decision.Outcomes[i].Verdict == celgate.Admit {
					f.Causes = run.causesOf(i)
				}
			}
			run.fail(f)
		}
	}
}

// decisiveOutcome returns the index of the outcome that allowed a request that should be denied; -1 if there is none.
func (run *caseRun) decisiveOutcome(v Verdict) int {
	for at, o := range run.Decision.Outcomes {
		if v.Policy != "" && o.Policy != v.Policy || v.Binding != "" && o.Binding != v.Binding {
			continue
		}
		if i, ok := validationIndex(o.Field()); ok && (v.Validation < 0 || i == v.Validation) {
			return at
		}
	}
	return -1
}

// validationIndex returns i of spec.validations[i].expression.
func validationIndex(field string) (int, bool) {
	var i int
	n, err := fmt.Sscanf(field, "spec.validations[%d]", &i)
	return i, n == 1 && err == nil
}

// holds reports whether a violation matches the verdict.
func (v Verdict) holds(x celgate.Violation, answer string) bool {
	if v.Policy != "" && v.Policy != x.Policy || v.Binding != "" && v.Binding != x.Binding ||
		v.Param != "" && v.Param != x.Param {
		return false
	}
	if i, ok := validationIndex(x.Expr.Field); v.Validation >= 0 && (!ok || i != v.Validation) {
		return false
	}
	if !v.Message.given || v.Message.holds(x.Message) {
		return true
	}
	return answer != "" && v.Message.holds(answer)
}

// answerOfViolation returns the server's answer if it is that of a violation, else "".
func answerOfViolation(d *celgate.Decision, x celgate.Violation) string {
	of := d.Denial
	if of == nil || x.Kind != of.Kind || x.Policy != of.Policy || x.Binding != of.Binding || x.Message != of.Message {
		return ""
	}
	return d.Status.Message
}

func (v Verdict) describe(verb string) string {
	s := verb
	if v.Policy != "" {
		s += " by policy " + v.Policy
	}
	if v.Binding != "" {
		s += ", binding " + v.Binding
	}
	if v.Param != "" {
		s += ", param " + v.Param
	}
	if v.Validation >= 0 {
		s += fmt.Sprintf(", validation %d", v.Validation)
	}
	if v.Code != 0 || v.Reason != "" {
		s += " with " + strings.TrimSpace(fmt.Sprintf("%s %s", countText(v.Code), v.Reason))
	}
	if v.Message.given {
		s += ": " + v.Message.String()
	}
	return s
}

func countText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// listViolations lists the violations with an action, one on a line.
func (run *caseRun) listViolations(verb string, action policy.Action) string {
	var lines []string
	for _, x := range run.Decision.Violations {
		if !slices.Contains(x.Actions, action) {
			continue
		}
		v := Verdict{Policy: x.Policy, Binding: x.Binding, Param: x.Param, Validation: -1,
			Message: Text{Exact: x.Message, given: true}}
		if i, ok := validationIndex(x.Expr.Field); ok {
			v.Validation = i
		}
		lines = append(lines, v.describe(verb))
	}
	if len(lines) == 0 && action == policy.Deny {
		return "denied: " + run.answerText()
	}
	if len(lines) == 0 {
		return "none"
	}
	return strings.Join(lines, "\n")
}

// compareWarnings compares all warnings in their order.
func (run *caseRun) compareWarnings(e *Expectation) {
	got := run.Decision.Warnings
	var lines []string
	ok := len(got) == len(e.Warnings)
	place := e.Place
	for i, want := range e.Warnings {
		lines = append(lines, want.describe("warning"))
		if i < len(got) && !run.warns(want, got[i]) || i >= len(got) {
			if ok || place == e.Place {
				place = want.Place
			}
			ok = false
		}
	}
	if ok {
		return
	}
	f := Failure{Place: place, Expected: cmp.Or(strings.Join(lines, "\n"), "no warning"), Got: "no warning"}
	if len(got) > 0 {
		f.Got = "warning: " + strings.Join(run.Decision.WarningTexts(), "\nwarning: ")
	}
	run.fail(f)
}

// warns reports whether a warning matches the verdict: as it is sent, or by the message of its policy.
func (run *caseRun) warns(want Verdict, got celgate.Warning) bool {
	if !want.namesPolicy() && want.Message.holds(got.Text) {
		return true
	}
	of := got.Violation
	return of != nil &&
		slices.ContainsFunc(run.Decision.Violations, func(x celgate.Violation) bool { // others may have the same text
			return slices.Contains(x.Actions, policy.Warn) && x.Policy == of.Policy && x.Binding == of.Binding &&
				x.Message == of.Message &&
				want.holds(x, got.Text)
		})
}

func (run *caseRun) compareAudited(want Verdict) {
	if !slices.ContainsFunc(run.Decision.Violations, func(x celgate.Violation) bool {
		return slices.Contains(x.Actions, policy.Audit) && want.holds(x, "")
	}) {
		f := Failure{Place: want.Place, Expected: want.describe("audited"), Got: run.listViolations("audited", policy.Audit)}
		f.Causes = run.causesOf(run.decisiveOutcome(want))
		run.fail(f)
	}
}

func (run *caseRun) compareAnnotation(want Annotation) {
	value, ok := run.Decision.AuditAnnotations[want.Key]
	expected := "audit annotation " + want.Key
	switch {
	case want.Absent && ok:
		run.fail(Failure{Place: want.Place, Expected: "no " + expected, Got: "it is " + quote(value)})
	case want.Absent || ok && want.Value.holds(value):
	case ok:
		run.fail(Failure{Place: want.Place, Expected: expected + ": " + want.Value.String(), Got: quote(value)})
	default:
		got := "the annotation is missing"
		if keys := slices.Sorted(maps.Keys(run.Decision.AuditAnnotations)); len(keys) > 0 {
			got = "annotations: " + strings.Join(keys, ", ")
		}
		run.fail(Failure{Place: want.Place, Expected: expected + ": " + want.Value.String(), Got: got})
	}
}

// holds reports whether a text matches.
func (t Text) holds(s string) bool {
	if !t.given {
		return true
	}
	if t.Contains != "" || t.Matches != nil {
		return strings.Contains(s, t.Contains) && (t.Matches == nil || t.Matches.MatchString(s))
	}
	return strings.TrimRight(s, "\n") == strings.TrimRight(t.Exact, "\n")
}

func (t Text) String() string {
	switch {
	case t.Matches != nil:
		return "text that matches " + t.Matches.String()
	case t.Contains != "":
		return "text with " + quote(t.Contains)
	}
	return t.Exact
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// compareObject compares the object after mutations.
func (run *caseRun) compareObject(e *Expectation, update bool) {
	mutated := run.Decision
	before, after := run.Request.Object, mutated.MutatedObject
	if before != nil && after == nil {
		return // a failure of its own
	}
	r := run.arena.types.Resource(run.Request.Resource)
	if mutated.Mutated && r != nil && r.Definition != nil {
		after = prepare.Reread(after)
	}
	changed := !tree.Equal(before, after)
	if e.Untouched.IsValid() {
		if changed {
			f := Failure{Place: e.Untouched, Expected: "the object is untouched",
				Got: "it is changed\n" + difference(before, after)}
			if n := len(mutated.Changes); n > 0 {
				f.Got = "it is changed by policy " + mutated.Changes[0].Policy + "\n" + difference(before, after)
				f.Causes = run.causesOf(run.mutation(mutated.Changes[0].Policy, mutated.Changes[0].Binding))
			}
			run.fail(f)
		}
		return
	}
	want := e.Mutated
	if !changed {
		f := Failure{Place: want.Place, Expected: "the object is mutated", Got: "policies do not change it"}
		if f.Causes = run.causesOf(run.mutation("", "")); f.Causes == nil {
			f.Causes = run.skips("")
		}
		if want.Golden == nil && want.Object == nil {
			run.fail(f)
			return
		}
	}
	for _, f := range want.Fields {
		steps, _ := parsePath(f.Path) // checked when it was read
		got := valueAt(after, steps)
		if !tree.EqualBut(got, f.Value, tree.Values) {
			run.fail(Failure{Place: f.Place, Expected: f.Path + ": " + text(f.Value), Got: f.Path + ": " + text(got),
				Causes: run.settersOf(mutated.Changes, steps)})
		}
	}
	if want.Object != nil {
		run.compareWhole(want.Place, want.Object.Object, after)
	}
	if want.Golden != nil {
		run.compareGolden(want, after, update)
	}
}

// mutation returns the index of the first outcome of a mutation, by any policy or the one of a change; -1 if there is
// none.
func (run *caseRun) mutation(name, binding string) int {
	return slices.IndexFunc(run.Decision.Outcomes, func(o celgate.Outcome) bool {
		return strings.HasPrefix(o.Field(), "spec.mutations") &&
			(name == "" || o.Policy == name && o.Binding == binding)
	})
}

// settersOf returns the mutations that set a field.
func (run *caseRun) settersOf(changes []celgate.Change, steps []step) []Cause {
	for _, c := range slices.Backward(changes) {
		if !tree.EqualBut(valueAt(c.Before, steps), valueAt(c.After, steps), tree.Values) {
			return run.causesOf(run.mutation(c.Policy, c.Binding))
		}
	}
	return nil
}

// compareWhole compares the mutated object with an author's object: without the members that the server fills in.
func (run *caseRun) compareWhole(place policy.Position, want, got map[string]any) {
	request := *run.Request
	request.Object = want
	prepared, err := run.arena.engine.Prepare(run.ctx, &request)
	if err != nil {
		run.fail(Failure{Place: place, Expected: "an object", Got: err.Error()})
		return
	}
	if whole := prepared.Request().Object; !tree.EqualBut(whole, got, tree.Values) {
		run.fail(Failure{Place: place, Expected: "the object after mutations as given",
			Got: "it differs\n" + difference(whole, got)})
	}
}

// compareGolden compares with a file, or writes it.
func (run *caseRun) compareGolden(want *Mutated, after map[string]any, update bool) {
	docs, problems := want.Golden.documents()
	var found *manifest.Document
	for _, d := range docs {
		if len(docs) == 1 || isNamed(d.Object, describeName(after)) {
			found = d
		}
	}
	if update {
		run.write(want, after, docs)
		return
	}
	if len(problems) > 0 || found == nil {
		run.fail(Failure{Place: want.Place, Expected: "the object in " + want.Golden.Path, Got: "the object is not there",
			Hint: "celgate test --update writes the file"})
		return
	}
	run.compareWhole(want.Place, found.Object, after)
}

func describeName(object map[string]any) string {
	return tree.Object(object).Kind().Kind + "/" + strings.TrimPrefix(
		tree.Object(object).Namespace()+"/"+tree.Object(object).Name(), "/")
}

// write writes the object to the golden file in its author's form, unless the file has it already.
func (run *caseRun) write(want *Mutated, after map[string]any, docs []*manifest.Document) {
	types := run.arena.types
	kind := types.Type(run.Request.Kind)
	author := run.doc.Object
	object := rewrite.Object(rewrite.Mutation{
		Author: author, Before: run.Request.Object, After: after, Type: kind,
		Prepare: func(object map[string]any) (map[string]any, error) {
			again := *run.Request
			again.Object = object
			next, err := run.arena.engine.Prepare(run.ctx, &again)
			if err != nil {
				return nil, err
			}
			return next.Request().Object, nil
		},
	})
	if len(docs) == 1 && tree.Equal(docs[0].Object, object) {
		return
	}
	if err := os.WriteFile(want.Golden.Path, []byte(rewrite.YAML(object, kind)), 0o666); err != nil {
		run.setNotRun(&Problem{Position: want.Place, Message: err.Error()})
		return
	}
	run.Updated = want.Golden.Path
}
