package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/policy"
)

// A Verdict is the verdict of one expression.
type Verdict uint8

// Verdicts.
const (
	Admit Verdict = iota
	Deny
	Error
	Skip // not evaluated: a match condition is false
)

// An Outcome is one expression's verdict.
type Outcome struct {
	Expression *compile.Expression // nil for an error of a group of expressions
	Index      int                 // among the validations
	Verdict    Verdict
	Message    string
	Err        error               // of Error; Message is its text
	Reason     metav1.StatusReason // of Deny
	Cost       int64
	Scope      string // the path of the value of a scope; empty: the object, or all values that pass
}

// fail turns the outcome into an error.
func (o *Outcome) fail(err error) { o.Verdict, o.Message, o.Err = Error, err.Error(), err }

// Conditions is the result of the match conditions. Unless they hold, nothing else of the invocation is evaluated.
type Conditions struct {
	Matched  bool
	Err      error     // the error that failurePolicy Fail reports
	Outcomes []Outcome // one for each evaluated condition
	Cost     int64     // more than the budget: it was exceeded
}

// Match evaluates the match conditions. in.Request has the resource of the request as sent, in.Namespace is null.
//
// A false condition takes precedence over errors of others, but not over an exceeded budget (as
// pkg/admission/plugin/webhook/matchconditions v0.37.2).
func Match(ctx context.Context, prog *compile.Program, in Inputs) Conditions {
	if len(prog.MatchConditions) == 0 {
		return Conditions{Matched: true}
	}
	in.Namespace = nil
	results, left, err := newActivation(ctx, prog, in).group(prog.MatchConditions, matchBudget)
	cost := usedOf(matchBudget, left, err)
	if err != nil {
		return Conditions{Err: ifFail(prog, err), Cost: cost,
			Outcomes: []Outcome{{Verdict: Error, Message: err.Error(), Err: err}}}
	}
	c := Conditions{Matched: true, Cost: cost, Outcomes: make([]Outcome, 0, len(results))}
	var errs []error
	for i, r := range results {
		o := Outcome{Expression: prog.MatchConditions[i], Index: i, Cost: r.Cost}
		switch {
		case r.Err != nil:
			o.fail(r.Err)
			errs = append(errs, r.Err)
		case r.Value == types.False:
			o.Verdict = Skip
			c.Matched = false
		}
		c.Outcomes = append(c.Outcomes, o)
	}
	if c.Matched && len(errs) > 0 {
		c.Matched = false
		c.Err = ifFail(prog, aggregate(errs))
	}
	return c
}

// usedOf returns the used part of a budget: one unit more than the budget if it was exceeded, 0 if unknown.
func usedOf(of, left int64, err error) int64 {
	switch {
	case errors.Is(err, ErrBudget):
		return of + 1
	case err != nil:
		return 0
	}
	return of - left
}

func ifFail(prog *compile.Program, err error) error {
	if prog.FailurePolicy == policy.Ignore {
		return nil
	}
	return err
}

// aggregate joins errors as apimachinery's Aggregate prints them: a single one as it is, several in brackets and each
// text once.
func aggregate(errs []error) error {
	var texts []string
	seen := map[string]bool{}
	for _, err := range errs {
		if text := err.Error(); !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	if len(texts) == 1 {
		return errs[0]
	}
	return &aggregated{"[" + strings.Join(texts, ", ") + "]", errs}
}

// An aggregated error combines several in one text.
type aggregated struct {
	text string
	errs []error
}

func (e *aggregated) Error() string   { return e.text }
func (e *aggregated) Unwrap() []error { return e.errs }

// A Validation is the result of one invocation of a ValidatingAdmissionPolicy whose match conditions hold.
type Validation struct {
	// Outcomes has one for each validation, or a single error in place of all. A validation with a scope has one for
	// all values that pass, which is Skip without values, and one for each value that does not.
	Outcomes    []Outcome
	Annotations []Annotation // in the order of the policy, without excluded ones

	Cost           int64 // of the validations and their messages; more than the budget: it was exceeded
	AnnotationCost int64 // likewise
}

// An Annotation is the value of one audit annotation, or its error.
type Annotation struct {
	Expression *compile.Expression
	Key        string
	Value      string
	Err        error
}

// A Validator evaluates the invocations of validating policies for one request, one after the other, reusing its
// memory.
type Validator struct {
	activation activation
	memory     plan.Memory
	outcomes   []Outcome
	failing    []*Scoped          // the scoped values of outcomes, by index, if any
	guard      *policy.Validation // a guard that has failed: the following validations are skipped
}

// Validate evaluates validations, their messages and the audit annotations, as
// pkg/admission/plugin/policy/validating/validator.go v0.37.2. Annotations see wholeNamespace, other expressions that
// of the inputs. The outcomes are valid until the next invocation.
func (v *Validator) Validate(ctx context.Context, prog *compile.Program, in *Inputs, wholeNamespace Lazy) Validation {
	a := &v.activation
	a.Inputs, a.memory = *in, &v.memory
	a.begin(ctx, prog)
	left, err := v.validations(prog)
	if err != nil {
		return Validation{Outcomes: failedOutcomes(err), Cost: usedOf(budget, left, err)}
	}
	// The authorizer is bound for validations only, although annotations may name it.
	a.Authorizer, a.RequestResource = nil, nil
	var messages []Result
	var messageErr error
	if slices.ContainsFunc(prog.Messages, func(e *compile.Expression) bool { return e != nil }) {
		spent := a.mended
		a.begin(ctx, prog)
		a.mended = spent // they share the budget
		messages, left, messageErr = v.messages(prog, left)
	}
	for i := range v.outcomes {
		o := &v.outcomes[i]
		if !o.hasFailed() && messageErr == nil {
			continue
		}
		if o.Scope == "" && o.hasFailed() {
			o.Scope = in.Place
		}
		switch {
		case o.Verdict == Error:
		case messageErr != nil:
			o.fail(fmt.Errorf("failed messageExpression: %w", messageErr))
		case o.Verdict == Deny && o.Message == "":
			var evaluated Result
			if messages != nil {
				evaluated = messages[i]
			}
			rule := &prog.Policy.Validations[o.Index]
			o.Message = message(rule, o.Scope, evaluated)
			if o.Reason = rule.Reason; o.Reason == "" {
				o.Reason = metav1.StatusReasonInvalid
			}
		}
	}
	cost := usedOf(budget, left, messageErr)
	if len(prog.Annotations) == 0 || v.guard != nil {
		return Validation{Outcomes: v.outcomes, Cost: cost}
	}
	a.Namespace = wholeNamespace
	a.begin(ctx, prog)
	annotations, left, err := v.annotations(prog)
	outcomes := v.outcomes
	if err != nil {
		outcomes = failedOutcomes(err)
	}
	return Validation{outcomes, annotations, cost, usedOf(budget, left, err)}
}

// Release drops references to the last invocation, and keeps the memory.
func (v *Validator) Release() {
	clear(v.outcomes)
	v.activation, v.outcomes, v.failing, v.guard = activation{}, v.outcomes[:0], nil, nil
}

// validations evaluates the validations to outcomes, whose denials do not have messages yet, and returns the rest of
// the budget.
func (v *Validator) validations(prog *compile.Program) (left int64, err error) {
	v.outcomes = slices.Grow(v.outcomes[:0], len(prog.Validations))
	v.failing, v.guard = nil, nil
	left = budget
	for _, i := range prog.Turns {
		rule := &prog.Policy.Validations[i]
		if why := v.skipReason(rule); why != "" {
			v.add(Outcome{Expression: prog.Validations[i], Index: i, Verdict: Skip, Message: why}, nil)
			continue
		}
		from := len(v.outcomes)
		if rule.Scope.IsZero() {
			left, err = v.evaluateWhole(prog, i, left)
		} else {
			left, err = v.evaluateScoped(prog, i, left)
		}
		if err != nil {
			return 0, err
		}
		if rule.Guard && slices.ContainsFunc(v.outcomes[from:], func(o Outcome) bool { return o.hasFailed() }) {
			v.guard = rule
		}
	}
	return left, nil
}

// skipReason returns the reason why a validation is not evaluated; "" if it is.
func (v *Validator) skipReason(rule *policy.Validation) string {
	binding := v.activation.Binding
	switch {
	case v.guard != nil:
		return "the guard " + cmp.Or(v.guard.Name, strings.TrimSuffix(v.guard.Expr.Field, ".expression")) + " fails"
	case binding != nil && !binding.Reaches(rule):
		return fmt.Sprintf("its level, %d, is above that of the binding, %d", rule.Level, binding.Enforcement.Level)
	}
	return ""
}

// hasFailed reports whether the outcome is a denial or an error.
func (o *Outcome) hasFailed() bool { return o.Verdict == Deny || o.Verdict == Error }

// evaluateWhole evaluates a validation without a scope.
func (v *Validator) evaluateWhole(prog *compile.Program, i int, left int64) (int64, error) {
	e := prog.Validations[i]
	r, left, err := v.activation.evaluate(e, left)
	if err != nil {
		return 0, err
	}
	v.outcomes = append(v.outcomes, Outcome{Expression: e, Index: i, Cost: r.Cost})
	o := &v.outcomes[len(v.outcomes)-1]
	switch {
	case r.Err != nil:
		o.fail(r.Err)
	case r.Value != types.True:
		o.Verdict = Deny
	}
	return left, nil
}

// evaluateScoped evaluates a validation for each value of its scope.
func (v *Validator) evaluateScoped(prog *compile.Program, i int, left int64) (int64, error) {
	e, within := prog.Validations[i], prog.Policy.Validations[i].ParsedScope()
	a := &v.activation
	passed := len(v.outcomes)
	v.add(Outcome{Expression: e, Index: i, Verdict: Skip, Message: "the object does not have a value at " + within.Text}, nil)
	var ends error
	var passing int64 // the cost of the values that pass
	failed := 0
	err := Walk(within, a.Object, a.OldObject, a.Type, func(at *Scoped) error {
		a.scoped, at.place = at, a.Place
		var r Result
		if r, left, ends = a.evaluate(e, left-1); ends != nil {
			return ends
		}
		if r.Err == nil && r.Value == types.True {
			passing += r.Cost + 1
			return nil
		}
		o := Outcome{Expression: e, Index: i, Cost: r.Cost + 1, Scope: at.Field()}
		switch {
		case r.Err != nil:
			o.fail(r.Err)
			o.Message = o.Scope + ": " + o.Message
		default:
			o.Verdict = Deny
		}
		if failed++; failed > maxScopeFailing {
			return errFailing
		}
		v.add(o, at.keep())
		return nil
	})
	a.scoped = nil
	if passing > 0 {
		o := &v.outcomes[passed]
		o.Verdict, o.Message, o.Cost = Admit, "", passing
	}
	switch {
	case ends != nil:
		return 0, ends
	case errors.Is(err, errFailing):
		field := joinPlace(a.Place, within.Text)
		v.add(Outcome{Expression: e, Index: i, Verdict: Deny, Scope: field,
			Message: fmt.Sprintf("%s: more than %d values fail", field, maxScopeFailing),
			Reason:  cmp.Or(prog.Policy.Validations[i].Reason, metav1.StatusReasonInvalid)}, nil)
	case err != nil:
		o := Outcome{Expression: e, Index: i}
		o.fail(err)
		v.add(o, nil)
	}
	if v.outcomes[passed].Verdict == Skip && len(v.outcomes) > passed+1 { // all values fail
		v.outcomes = slices.Delete(v.outcomes, passed, passed+1)
		v.failing = slices.Delete(v.failing, passed, passed+1)
	}
	return left, nil
}

var errFailing = errors.New("too many values fail")

// add adds an outcome; at is its value of a scope, or nil.
func (v *Validator) add(o Outcome, at *Scoped) {
	for len(v.failing) < len(v.outcomes) {
		v.failing = append(v.failing, nil)
	}
	v.outcomes, v.failing = append(v.outcomes, o), append(v.failing, at)
}

// messages evaluates the message expressions: of validations with a scope for each failing value, of others always. The
// results are in the order of the outcomes.
func (v *Validator) messages(prog *compile.Program, left int64) ([]Result, int64, error) {
	results := make([]Result, len(v.outcomes))
	for i := range v.outcomes {
		o := &v.outcomes[i]
		e := prog.Messages[o.Index]
		if e == nil || o.Verdict == Skip || o.Scope != "" && (o.Verdict != Deny || v.failing[i] == nil) ||
			o.Scope == "" && !prog.Policy.Validations[o.Index].Scope.IsZero() {
			continue
		}
		if v.activation.scoped = nil; o.Scope != "" {
			v.activation.scoped = v.failing[i]
		}
		var err error
		if results[i], left, err = v.activation.evaluate(e, left); err != nil {
			return nil, 0, err
		}
	}
	v.activation.scoped = nil
	return results, left, nil
}

// annotations evaluates the audit annotations, and returns the rest of their budget.
func (v *Validator) annotations(prog *compile.Program) ([]Annotation, int64, error) {
	values, left, err := v.activation.group(prog.Annotations, budget)
	if err != nil {
		return nil, 0, err
	}
	var annotations []Annotation
	for i, r := range values {
		a := Annotation{Expression: prog.Annotations[i], Key: prog.AuditAnnotations[i].Name, Err: r.Err}
		if r.Err == nil {
			// By its type, any other value of the expression is null.
			text, _ := r.Value.Value().(string)
			if a.Value = strings.TrimSpace(text); a.Value == "" {
				continue
			}
			a.Value = a.Value[:min(len(a.Value), celenv.MaxAnnotationBytes)]
		}
		annotations = append(annotations, a)
	}
	return annotations, left, nil
}

// failedOutcomes returns one error in place of all outcomes.
func failedOutcomes(err error) []Outcome {
	return []Outcome{{Verdict: Error, Message: err.Error(), Err: err}}
}

// message returns the message of a denial: the messageExpression if it evaluated to one line of text, else the message,
// else the expression itself. In a scope the latter two begin with the path of the value.
func message(v *policy.Validation, scope string, evaluated Result) string {
	if text := givenText(evaluated, ""); text != "" {
		return text
	}
	text := cmp.Or(givenText(Result{}, v.Message), failedExpression(v.Expr))
	if scope != "" {
		text = scope + ": " + text
	}
	return text
}

// givenText returns the author's text, evaluated or literal; "" if there is none.
func givenText(evaluated Result, message string) string {
	if evaluated.Value != nil {
		text, _ := evaluated.Value.Value().(string)
		text = strings.TrimSpace(text)
		if text != "" && len(text) <= celenv.MaxMessageBytes && !strings.Contains(text, "\n") {
			return text
		}
	}
	return strings.TrimSpace(message)
}

func failedExpression(x policy.Expr) string { return "failed expression: " + strings.TrimSpace(x.Src) }
