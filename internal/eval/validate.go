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
	"github.com/celgate/celgate/policy"
)

// A Verdict is what one expression says.
type Verdict uint8

// The verdicts.
const (
	Admit Verdict = iota
	Deny
	Error
	Skip // a match condition that is false
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
	Scope      string // the path of the value that it is about; empty: the object, or all values that pass
}

// fail makes the outcome an error.
func (o *Outcome) fail(err error) { o.Verdict, o.Message, o.Err = Error, err.Error(), err }

// A Conditions result says whether the match conditions hold. If they do not, or not for sure, nothing else of
// the invocation runs.
type Conditions struct {
	Matched  bool
	Err      error     // what failurePolicy Fail makes of errors
	Outcomes []Outcome // one for each condition that was evaluated
	Cost     int64     // more than the budget: it has run out
}

// Match evaluates the match conditions. in.Request is the request with its own resource, in.Namespace is null.
//
// A condition that is false wins over errors in others, but not over an exhausted budget (as
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

// usedOf is what of a budget is gone: one unit more than all of it if that has run out, 0 if nobody knows.
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

// aggregate joins errors as apimachinery's Aggregate prints them: one alone, several in brackets and each
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

// An aggregated error is several in one text.
type aggregated struct {
	text string
	errs []error
}

func (e *aggregated) Error() string   { return e.text }
func (e *aggregated) Unwrap() []error { return e.errs }

// A Validation is the result of one invocation of a ValidatingAdmissionPolicy whose match conditions hold.
type Validation struct {
	// Outcomes has one for each validation, or a single error that stands for all of them. A validation with a scope
	// has one for the values that pass, which is Skip if there is no value, and one for each that does not.
	Outcomes    []Outcome
	Annotations []Annotation // in the order of the policy; not those that are excluded

	Cost           int64 // of the validations and their messages; more than the budget: it has run out
	AnnotationCost int64 // likewise
}

// An Annotation is the value of one audit annotation, or the error in place of it.
type Annotation struct {
	Expression *compile.Expression
	Key        string
	Value      string
	Err        error
}

// A Validator evaluates the invocations of validating policies for one request, one after the other in the same memory.
type Validator struct {
	activation activation
	outcomes   []Outcome
	failing    []*Scoped          // beside outcomes, as far as there are any: the values that they are about
	guard      *policy.Validation // that has failed: what comes after it is not evaluated
}

// Validate evaluates validations, their messages and the audit annotations, as
// pkg/admission/plugin/policy/validating/validator.go v0.37.2. Annotations see the whole namespace,
// everything else that of the inputs. The outcomes are there until the next invocation.
func (v *Validator) Validate(ctx context.Context, prog *compile.Program, in *Inputs, wholeNamespace Lazy) Validation {
	a := &v.activation
	a.Inputs = *in
	a.begin(ctx, prog)
	left, err := v.validations(prog)
	if err != nil {
		return Validation{Outcomes: failedOutcomes(err), Cost: usedOf(budget, left, err)}
	}
	// The authorizer is bound for validations only, also where annotations may name it.
	a.Authorizer, a.RequestResource = nil, nil
	var messages []Result
	var messageErr error
	if slices.ContainsFunc(prog.Messages, func(e *compile.Expression) bool { return e != nil }) {
		spent := a.mended
		a.begin(ctx, prog)
		a.mended = spent // of the same budget
		messages, left, messageErr = v.messages(prog, left)
	}
	for i := range v.outcomes {
		o := &v.outcomes[i]
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

// Release lets go of everything but the memory.
func (v *Validator) Release() {
	clear(v.outcomes)
	v.activation, v.outcomes, v.failing, v.guard = activation{}, v.outcomes[:0], nil, nil
}

// validations evaluates the validations to outcomes, of which denials have no text yet, and returns the rest of the
// budget.
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
		if rule.Guard && slices.ContainsFunc(v.outcomes[from:], Outcome.hasFailed) {
			v.guard = rule
		}
	}
	return left, nil
}

// skipReason says why a validation is not evaluated; "" if it is.
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

// hasFailed reports that what the outcome is about is not so, or not for sure.
func (o Outcome) hasFailed() bool { return o.Verdict == Deny || o.Verdict == Error }

// evaluateWhole evaluates a validation without a scope.
func (v *Validator) evaluateWhole(prog *compile.Program, i int, left int64) (int64, error) {
	e := prog.Validations[i]
	r, left, err := v.activation.evaluate(e, left)
	if err != nil {
		return 0, err
	}
	v.outcomes = append(v.outcomes, Outcome{})
	o := &v.outcomes[len(v.outcomes)-1]
	o.Expression, o.Index, o.Cost = e, i, r.Cost
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
	v.add(Outcome{Expression: e, Index: i, Verdict: Skip, Message: "there is no value at " + within.Text}, nil)
	var ends error
	var passing int64 // what the values that pass cost
	failed := 0
	each := a.repeat(e)
	defer each.close()
	err := Walk(within, a.Object, a.OldObject, a.Type, func(at *Scoped) error {
		a.scoped, at.place = at, a.Place
		var r Result
		if r, left, ends = each.evaluate(left - 1); ends != nil {
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
	if v.outcomes[passed].Verdict == Skip && len(v.outcomes) > passed+1 { // no value passes
		v.outcomes = slices.Delete(v.outcomes, passed, passed+1)
		v.failing = slices.Delete(v.failing, passed, passed+1)
	}
	return left, nil
}

var errFailing = errors.New("too many values fail")

// add adds an outcome, about a value of a scope unless at is nil.
func (v *Validator) add(o Outcome, at *Scoped) {
	for len(v.failing) < len(v.outcomes) {
		v.failing = append(v.failing, nil)
	}
	v.outcomes, v.failing = append(v.outcomes, o), append(v.failing, at)
}

// messages evaluates the message expressions: of validations with a scope for each value that fails, of others always.
// The results are those for the outcomes, with the rest of the budget.
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
		a := Annotation{Expression: prog.Annotations[i], Key: prog.AuditAnnotations[i].Key, Err: r.Err}
		if r.Err == nil {
			// Anything but text is null by the type of the expression.
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

// failedOutcomes is one error in place of all outcomes.
func failedOutcomes(err error) []Outcome {
	return []Outcome{{Verdict: Error, Message: err.Error(), Err: err}}
}

// message chooses the text of a denial: the messageExpression if it gave one line of text, else the message,
// else the expression itself. In a scope the path of the value comes before the latter two.
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

// givenText is the text that an author gave, by an expression or as it is; "" if there is none.
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
