package celgate

import (
	"github.com/celgate/celgate/policy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Decision is the whole answer to a request. A denial is data: Admit returns an error only when the caller
// must act.
type Decision struct {
	Allowed bool
	Status  *metav1.Status // how the server answers a denied request; nil when allowed

	Warnings         []string
	AuditAnnotations map[string]string

	Mutated bool           // a mutation changed Object
	Object  map[string]any // at the end of admission; nil on DELETE

	Outcomes   []Outcome   // every expression's verdict that took part, in the order of evaluation
	Violations []Violation // what would be denied, warned about or audited, though the server reports only the first denial
	Notes      []Note      // where the answer depends on a defect of the server or on what is not simulated
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
	Param   string // "namespace/name" or "name"; empty without a param
	Field   string // the server's path of the expression, such as "spec.validations[0].expression"
	Verdict Verdict
	Message string // of a denial or an error
	Cost    int64  // CEL cost units

	Kind policy.Kind
	Expr policy.Expr
}

// A Violation is one failed validation, or one error that failurePolicy Fail turns into a failure.
type Violation struct {
	Policy   string
	Binding  string // empty for an error of the policy before any binding
	Param    string
	Message  string
	Reason   metav1.StatusReason
	Actions  []policy.Action // what the binding does with it; a configuration error always denies
	Kind     policy.Kind
	Expr     policy.Expr // zero when no single expression is to blame
	IsError  bool        // an error, not a verdict
	Position policy.Position
}

// A Note says that the answer holds a defect of the chosen server version or leaves something out.
type Note struct {
	Quirk   string // id in package internal/quirks; empty for what is not simulated
	Message string
}
