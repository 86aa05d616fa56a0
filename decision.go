package celgate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

// A Decision is the answer to a request, with its reasons. A denial is data: Admit returns an error only if the caller
// must act.
type Decision struct {
	Allowed bool
	Mutated bool           // by a mutation
	Status  *metav1.Status // the server's response to a denied request; nil when allowed
	Denial  *Violation     // the violation behind Status, in Violations; nil if no policy denied

	Warnings         []Warning // in the order in which the server sends them
	AuditAnnotations map[string]string

	Changes []Change       // the changes of each mutating policy to Object
	Object  map[string]any // at the end of admission; nil on DELETE

	// MutatedObject is the object after the mutating policies, before the registry sets its uid and other fields; nil
	// on DELETE, and if the request was denied before.
	MutatedObject map[string]any

	Outcomes []Outcome // the verdicts of all evaluated expressions, in the order of evaluation
	// all denials, warnings and audits, though the server reports only the first denial
	Violations []Violation
	Notes      []Note // assumptions behind the answer: defects of the server, and parts that are not simulated
	Cost       int64  // CEL cost units of all evaluations, including messages and audit annotations

	rare *rare // nil for most decisions
}

// A rare holds fields that most decisions do not need. They are separate to keep decisions small: in a large program
// the garbage collector accounts for half of the cost of a request.
type rare struct {
	dryRun      []Change
	fights      []Fight
	timings     []Timing
	spendings   []Spending
	resolutions []Resolution

	ran     []invocationKey // mutating policies of the first pass that may run again
	would   []wouldMutate   // for bindings with mutationAction Audit
	dialect []policy.Ref    // policies that took part, but would not on an API server

	unchecked []string // parts of the server that were not simulated
	fillings  []Change
}

var without rare

// seldom returns the rare fields for reading.
func (d *Decision) seldom() *rare {
	if d.rare == nil {
		return &without
	}
	return d.rare
}

// addRare returns the rare fields for writing.
func (d *Decision) addRare() *rare {
	if d.rare == nil {
		d.rare = new(rare)
	}
	return d.rare
}

// DryRun returns the changes that mutations of bindings without the action Apply would have made.
func (d *Decision) DryRun() []Change { return d.seldom().dryRun }

// Fights returns the fights between mutating policies of the dialect.
func (d *Decision) Fights() []Fight { return d.seldom().fights }

// UncheckedParts returns the parts of the API server that concern the request and were not simulated, such as
// "validation beyond metadata", in the order in which the server runs them. It is nil without [Options].Server.
func (d *Decision) UncheckedParts() []string { return d.seldom().unchecked }

// Fillings returns the changes of admission plugins in an object that policies changed, too: before their first pass,
// and between that and the second. They have no policy.
func (d *Decision) Fillings() []Change { return d.seldom().fillings }

func (d *Decision) addFilling(f Change) {
	more := d.addRare()
	more.fillings = append(more.fillings, f)
}

// fillFirst records the change of plugins before all policies, if one of these changed the object.
func (d *Decision) fillFirst(f Change) {
	if d.Mutated && f.After != nil {
		more := d.addRare()
		more.fillings = slices.Insert(more.fillings, 0, f)
	}
}

// leave records parts of the server that are not simulated, each once.
func (d *Decision) leave(parts ...string) {
	for _, part := range parts {
		if more := d.addRare(); !slices.Contains(more.unchecked, part) {
			more.unchecked = append(more.unchecked, part)
		}
	}
}

// Timings returns the time of each invocation, with [Options].Timed.
func (d *Decision) Timings() []Timing { return d.seldom().timings }

// Spendings returns the used parts of budgets, with [Options].Metered.
func (d *Decision) Spendings() []Spending { return d.seldom().spendings }

// Resolutions returns the numbers of evaluations of variables, with [Options].Metered: by phase and pass, those of a
// policy side by side.
func (d *Decision) Resolutions() []Resolution { return d.seldom().resolutions }

// FirstPass returns the object after the first pass of the mutating policies; nil if none of them may run again.
func (d *Decision) FirstPass() map[string]any {
	if len(d.seldom().ran) == 0 {
		return nil
	}
	for _, c := range d.Changes {
		if c.Second {
			return c.Before
		}
	}
	return d.Object
}

// WithoutObjects returns the parts of the decision that [Engine.Remutate] needs, without its objects.
func (d *Decision) WithoutObjects() *Decision { return &Decision{rare: &rare{ran: d.seldom().ran}} }

// Budgets of the API server, in CEL cost units.
const (
	// for the validations of one invocation with their messages, for its audit annotations, for one mutation
	Budget               = celenv.Budget
	MatchConditionBudget = celenv.MatchBudget // for the match conditions of one invocation
)

// A wouldMutate is one element of the annotation about changes that mutations would make.
type wouldMutate struct {
	Policy  string   `json:"policy"`
	Binding string   `json:"binding"`
	Param   string   `json:"param,omitempty"`
	Applied bool     `json:"applied,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Message string   `json:"message,omitempty"` // of a failure
}

// A Verdict is the result of one expression in one invocation.
type Verdict string

// Verdicts.
const (
	Admit  Verdict = "Admit"
	Denied Verdict = "Deny"
	Error  Verdict = "Error"
	Skip   Verdict = "Skip" // not evaluated, because a match condition is false
)

// An Outcome is the verdict of one expression in one invocation: one policy, binding and param.
type Outcome struct {
	Policy  string
	Binding string
	Param   string // "namespace/name" or "name", or [DefaultParam]; empty without a param
	Verdict Verdict
	Message string // of a denial or an error
	Err     error  // of an error, with a type: see [ExpressionError]
	Cost    int64  // CEL cost units

	// Scope is the path of the value for which the expression was evaluated, such as spec.containers[1]. It is empty
	// for the object, and for all values of a scope that pass.
	Scope string

	Kind  policy.Kind
	Phase policy.Phase
	Expr  *policy.Expr       // never nil; zero if the outcome is not about an expression
	Rule  *policy.Validation // nil if the outcome is not about a validation
}

// Field returns the server's path of the expression, such as "spec.validations[0].expression"; empty if the outcome is
// not about an expression.
func (o *Outcome) Field() string { return o.Expr.Field }

// Validation returns the name of the validation; empty if it does not have one.
func (o *Outcome) Validation() string {
	if o.Rule == nil {
		return ""
	}
	return o.Rule.Name
}

// A Violation is one failed validation, or one error that failurePolicy Fail turns into a failure.
type Violation struct {
	Kind    policy.Kind
	Phase   policy.Phase
	Policy  string
	Binding string // empty for an error of the policy before any binding
	Param   string
	Message string
	Reason  metav1.StatusReason
	Actions []policy.Action // actions of the binding; an error in the configuration always denies
	IsError bool            // not a verdict
	Err     error           // of an error, with a type: see [ExpressionError]
	Expr    policy.Expr     // zero when no single expression is to blame
	Scope   string          // that of the [Outcome]

	Validation string // the name of the validation; empty if it does not have one
	Code       int32  // of a denial; 0: that of Reason

	// Reference is the client's text in place of Message, if the binding hides that; else empty.
	Reference string

	tellsDryRun bool // in a dry run the client is warned of a violation that is only audited

	index int // among the policy's validations
}

// A Change is the effect of one invocation of a mutating policy on the object.
type Change struct {
	Kind    policy.Kind
	Policy  string
	Binding string
	Param   string
	Second  bool // in the second pass
	Before  map[string]any
	After   map[string]any

	// Mutations are the indexes of the mutations that changed the object; nil if the policy has only one mutation.
	Mutations []int

	// Names are the names of Mutations, or of the only mutation of the policy; nil if they do not have names.
	Names []string
}

// A Fight is a conflict of mutating policies that does not end: each reverts the change of the other.
type Fight struct {
	Policies []policy.Ref // the one that would change it again first; a single one undoes itself
	Path     string       // of the field
	Values   []string     // its successive values, as JSON
}

// String describes the fight in one line.
func (f Fight) String() string {
	text := f.Policies[0].String() + " does not converge"
	if len(f.Policies) > 1 {
		text += ": it conflicts with " + f.Policies[1].String()
	}
	return text + " over " + f.Path + ": " + strings.Join(f.Values, ", ")
}

// A Timing is the duration and the cost of one invocation: one policy, binding and param.
type Timing struct {
	Kind    policy.Kind
	Policy  string
	Binding string
	Param   string
	Elapsed time.Duration
	Cost    int64 // CEL cost units
}

// Budgets of an invocation.
const (
	OfMatchConditions  = "matchConditions"
	OfValidations      = "validations" // with their messages
	OfAuditAnnotations = "auditAnnotations"
	OfMutation         = "mutation" // of a single one
)

// A Spending is the part of a budget that one invocation, or one mutation of it, used.
type Spending struct {
	Kind    policy.Kind
	Phase   policy.Phase
	Policy  string
	Binding string
	Param   string
	Budget  string // such as [OfValidations]
	Units   int64  // used CEL cost units; more than Of: the budget was exceeded
	Of      int64  // the budget
}

// A Resolution counts the evaluations of a variable of a policy: one for each set of inputs, if an expression uses the
// variable.
type Resolution struct {
	Kind     policy.Kind
	Policy   string
	Variable string // its name; LIBRARY.NAME for one of a library
	Times    int
	Failed   int // failed ones of Count
}

// A Warning is a warning that the server sends with its answer.
type Warning struct {
	Text      string     // as it is sent
	Violation *Violation // its cause, in the Violations of the decision; nil: the server's own warning
}

// WarningTexts returns the texts of the warnings.
func (d *Decision) WarningTexts() []string {
	if len(d.Warnings) == 0 {
		return nil
	}
	texts := make([]string, len(d.Warnings))
	for i, w := range d.Warnings {
		texts[i] = w.Text
	}
	return texts
}

// A Note states that the answer reproduces a defect of the chosen server version, or that something is not simulated.
type Note struct {
	Message string
	Quirk   *Quirk // the defect; nil: there is none
	Topic   string // the subject, if the engine distinguishes it
}

func (d *Decision) note(id quirks.ID, policyName string) {
	quirk := quirkOf[id]
	message := quirk.Title
	if policyName != "" {
		message = "policy " + policyName + ": " + message
	}
	d.addNote(Note{Quirk: quirk, Message: message})
}

// rememberPolicy records that a policy of the dialect took part.
func (d *Decision) rememberPolicy(p policy.Ref) {
	if seen := d.addRare(); !slices.Contains(seen.dialect, p) {
		seen.dialect = append(seen.dialect, p)
	}
}

// noteDialect notes the policies that an API server would ignore.
func (d *Decision) noteDialect() {
	took := d.seldom().dialect
	if len(took) == 0 {
		return
	}
	slices.SortFunc(took, policy.Ref.Compare)
	var names, bound []string
	for _, p := range took {
		if p.Kind == string(policy.Admission) {
			names = append(names, p.Name)
		} else {
			bound = append(bound, p.String())
		}
	}
	if len(bound) > 0 {
		d.addNote(Note{Message: fmt.Sprintf("%s in force by an %s of %s, a kind that kube-apiserver ignores",
			strings.Join(bound, ", "), policy.Admission.Binding(), policy.Dialect)})
	}
	if len(names) == 0 {
		return
	}
	d.addNote(Note{Message: fmt.Sprintf("decided by the %s %s of %s, a kind that kube-apiserver ignores", policy.Admission, strings.Join(names, ", "), policy.Dialect)})
}

func (d *Decision) addNote(n Note) {
	if !slices.Contains(d.Notes, n) {
		d.Notes = append(d.Notes, n)
	}
}

// join adds the decision of the validating phase to that of the mutating phase, which allowed the request.
func (d *Decision) join(next *Decision) *Decision {
	d.Allowed, d.Status = next.Allowed, next.Status
	d.Object = next.Object
	d.Violations = append(d.Violations, next.Violations...)
	moved := func(of *Violation) *Violation {
		for i := range next.Violations {
			if of == &next.Violations[i] {
				return &d.Violations[len(d.Violations)-len(next.Violations)+i]
			}
		}
		return nil
	}
	d.Denial = moved(next.Denial)
	for _, w := range next.Warnings {
		w.Violation = moved(w.Violation)
		d.warn(w)
	}
	if d.AuditAnnotations == nil {
		d.AuditAnnotations = next.AuditAnnotations
	} else {
		maps.Copy(d.AuditAnnotations, next.AuditAnnotations)
	}
	d.Outcomes = append(d.Outcomes, next.Outcomes...)
	d.Notes = append(d.Notes, next.Notes...)
	d.Cost += next.Cost
	if next.rare == nil {
		return d
	}
	for _, p := range next.rare.dialect {
		d.rememberPolicy(p)
	}
	all := d.addRare()
	all.timings = append(all.timings, next.rare.timings...)
	all.spendings = append(all.spendings, next.rare.spendings...)
	all.resolutions = append(all.resolutions, next.rare.resolutions...)
	d.leave(next.rare.unchecked...)
	return d
}

// newDecision returns the initial decision: the request is allowed, the object unchanged.
func newDecision(req *Request) *Decision { return &Decision{Allowed: true, Object: req.Object} }

type invocationKey struct {
	kind                   policy.Kind
	policy, binding, param string
}

// warn adds a warning; the server sends equal texts once.
func (d *Decision) warn(w Warning) {
	if !slices.ContainsFunc(d.Warnings, func(sent Warning) bool { return sent.Text == w.Text }) {
		d.Warnings = append(d.Warnings, w)
	}
}

func (d *Decision) annotate(key, value string) {
	if d.AuditAnnotations == nil {
		d.AuditAnnotations = map[string]string{}
	}
	d.AuditAnnotations[key] = value
}

// refuse ends the request with the server's response for err.
func (d *Decision) refuse(err error) { d.Allowed, d.Status = false, statusOf(err) }

// statusOf returns the server's response for err.
func statusOf(err error) *metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	return &s
}
