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

// A Decision is the whole answer to a request. A denial is data: Admit returns an error only when the caller
// must act.
type Decision struct {
	Allowed bool
	Status  *metav1.Status // how the server answers a denied request; nil when allowed
	Denial  *Violation     // that Status is about, in Violations; nil if no policy denied

	Warnings         []Warning // in the order in which the server sends them
	AuditAnnotations map[string]string

	Mutated bool           // a mutation changed Object
	Changes []Change       // what each mutating policy did to it
	DryRun  []Change       // what mutations of bindings without the action Apply would have done
	Object  map[string]any // at the end of admission; nil on DELETE

	// MutatedObject is the object as mutating policies left it, before the registry gave it a uid and the like; nil on
	// DELETE, and if the request did not get that far.
	MutatedObject map[string]any

	Outcomes []Outcome // every expression's verdict that took part, in the order of evaluation
	// what would be denied, warned about or audited, though the server reports only the first denial
	Violations []Violation
	Fights     []Fight  // between mutating policies of the dialect that do not come to rest
	Notes      []Note   // where the answer depends on a defect of the server or on what is not simulated
	Timings    []Timing // with [Options].Timed
	Cost       int64    // CEL cost units of all that was evaluated, messages and audit annotations included

	Spendings   []Spending   // with [Options].Metered
	Resolutions []Resolution // likewise, of each phase and pass those of a policy side by side

	ran     []invocationKey // in the first pass, of mutating policies that may run again
	would   []wouldMutate   // of bindings with mutationAction Audit
	dialect []policy.Ref    // policies that took part and would not on an API server
}

// FirstPass returns the object as the first pass of the mutating policies left it, nil if none of them may run again.
func (d *Decision) FirstPass() map[string]any {
	if len(d.ran) == 0 {
		return nil
	}
	for _, c := range d.Changes {
		if c.Second {
			return c.Before
		}
	}
	return d.Object
}

// WithoutObjects returns what [Engine.Remutate] needs to know of the decision, without its objects.
func (d *Decision) WithoutObjects() *Decision { return &Decision{ran: d.ran} }

// The budgets of the API server, in CEL cost units.
const (
	// of the validations of one invocation with their messages, of its audit annotations, of one mutation
	Budget               = celenv.Budget
	MatchConditionBudget = celenv.MatchBudget // of the match conditions of one invocation
)

// A wouldMutate is one element of the annotation about what mutations change, or would.
type wouldMutate struct {
	Policy  string   `json:"policy"`
	Binding string   `json:"binding"`
	Param   string   `json:"param,omitempty"`
	Applied bool     `json:"applied,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Message string   `json:"message,omitempty"` // of what fails
}

// A Verdict is the result of one expression in one invocation.
type Verdict string

// The verdicts.
const (
	Admit  Verdict = "Admit"
	Denied Verdict = "Deny"
	Error  Verdict = "Error"
	Skip   Verdict = "Skip" // a match condition that is false, or what did not run because of it
)

// An Outcome is one expression's verdict in one invocation: one policy, binding and param.
type Outcome struct {
	Policy  string
	Binding string
	Param   string // "namespace/name" or "name", or [DefaultParam]; empty without a param
	Field   string // the server's path of the expression, such as "spec.validations[0].expression"
	Verdict Verdict
	Message string // of a denial or an error
	Err     error  // of an error, with a type: see [ExpressionError]
	Cost    int64  // CEL cost units

	// Scope is the path of the value that the expression was evaluated for, such as spec.containers[1]. It is empty for
	// the object, and for all values of a scope that pass.
	Scope string

	Validation string // the name of the validation; empty: it has none

	Kind  policy.Kind
	Phase policy.Phase
	Expr  policy.Expr
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
	Actions []policy.Action // what the binding does with it; an error in the configuration always denies
	IsError bool            // an error, not a verdict
	Err     error           // of an error, with a type: see [ExpressionError]
	Expr    policy.Expr     // zero when no single expression is to blame
	Scope   string          // as of an [Outcome]

	Validation string // as of an [Outcome]
	Code       int32  // of a denial; 0: that of Reason

	// Reference is what the client is told in place of Message, if the binding does not let it see that; else empty.
	Reference string

	tellsDryRun bool // in a dry run the client is warned of what is only audited

	index int // among the policy's validations
}

// A Change is what one invocation of a mutating policy made of the object.
type Change struct {
	Kind    policy.Kind
	Policy  string
	Binding string
	Param   string
	Second  bool // in the second pass
	Before  map[string]any
	After   map[string]any

	// Mutations are the indexes of those that changed something, of a policy with several; nil for one with a single
	// one.
	Mutations []int

	// Names are those of Mutations, of the policy's one mutation if that is nil; nil if none of them has a name.
	Names []string
}

// A Fight is between mutating policies that do not come to rest: each changes back what the other one has changed.
type Fight struct {
	Policies []policy.Ref // the one that would change it again first; one alone if it undoes itself
	Path     string       // of the field
	Values   []string     // that it had one after the other, as JSON
}

// String says it in one line.
func (f Fight) String() string {
	text := f.Policies[0].String() + " does not come to rest"
	if len(f.Policies) > 1 {
		text += ": fights with " + f.Policies[1].String()
	}
	return text + " over " + f.Path + ": " + strings.Join(f.Values, ", ")
}

// A Timing says how long one invocation took, and what it cost: one policy, binding and param.
type Timing struct {
	Kind    policy.Kind
	Policy  string
	Binding string
	Param   string
	Elapsed time.Duration
	Cost    int64 // CEL cost units
}

// The budgets of an invocation.
const (
	OfMatchConditions  = "matchConditions"
	OfValidations      = "validations" // with their messages
	OfAuditAnnotations = "auditAnnotations"
	OfMutation         = "mutation" // of each one
)

// A Spending says what one invocation, or one mutation of it, spent of a budget.
type Spending struct {
	Kind    policy.Kind
	Phase   policy.Phase
	Policy  string
	Binding string
	Param   string
	Budget  string // such as [OfValidations]
	Units   int64  // of CEL cost; more than Of: the budget has run out
	Of      int64  // what the budget has
}

// A Resolution says how often a variable of a policy was evaluated, once for each time that its expressions were with
// other values, if they asked for it.
type Resolution struct {
	Kind     policy.Kind
	Policy   string
	Variable string
	Times    int
	Failed   int // of these
}

// A Warning is what the server tells the client beside its answer.
type Warning struct {
	Text      string     // as it is sent
	Violation *Violation // that it is about, in the Violations of the decision; nil: the server itself warns
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

// A Note says that the answer holds a defect of the chosen server version or leaves something out.
type Note struct {
	Message string
	Quirk   *Quirk // the defect; nil: there is none
	Topic   string // what the note is about, if whoever makes it tells notes apart
}

func (d *Decision) note(id quirks.ID, policyName string) {
	quirk := quirkOf[id]
	message := quirk.Title
	if policyName != "" {
		message = "policy " + policyName + ": " + message
	}
	d.addNote(Note{Quirk: quirk, Message: message})
}

// rememberPolicy remembers that a policy of the dialect took part.
func (d *Decision) rememberPolicy(p policy.Ref) {
	if !slices.Contains(d.dialect, p) {
		d.dialect = append(d.dialect, p)
	}
}

// noteDialect says which policies took part that an API server would ignore.
func (d *Decision) noteDialect() {
	if len(d.dialect) == 0 {
		return
	}
	slices.SortFunc(d.dialect, policy.Ref.Compare)
	var names, bound []string
	for _, p := range d.dialect {
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
	for _, p := range next.dialect {
		d.rememberPolicy(p)
	}
	d.Timings = append(d.Timings, next.Timings...)
	d.Cost += next.Cost
	d.Spendings = append(d.Spendings, next.Spendings...)
	d.Resolutions = append(d.Resolutions, next.Resolutions...)
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

// refuse ends the request with the server's status for err.
func (d *Decision) refuse(err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	d.Allowed, d.Status = false, &s
}
