// Package explain defines the events by which an engine reports how it comes to a decision, and the order in which
// mutating policies run.
package explain

import (
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/trace"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// Options configure the decision about a request and the reports about it. The zero value decides as usual and reports
// nothing.
type Options struct {
	// Order names mutating policies: exactly those run, in this order. Nil: all, in the order of their names. A server
	// runs them in random order.
	Order []string

	// MutatingOnly skips the validating policies and the registry's work before them.
	MutatingOnly bool

	// Trace receives the events in order, from the goroutine that decides; nil: no events.
	Trace func(Event)

	// Observe receives the values of branches, from the goroutine that decides; nil: no observations.
	Observe func(Observation)
}

// An Event is one step towards a decision. The events of one request come in order, from the goroutine that makes the
// decision. Op determines which of the pointers is set.
type Event struct {
	Op      Op
	Kind    policy.Kind
	Phase   policy.Phase
	Policy  string
	Binding string // empty: the policy itself, for all bindings
	Param   string // "namespace/name" or "name", or celgate.DefaultParam; empty without a param
	Second  bool   // in the second pass of the mutating policies

	Match      *Match
	Evaluation *Evaluation
	Mutation   *Mutation

	Outcome int // for OpOutcome: the index among the outcomes of the decision
}

// An Op is the kind of an event.
type Op string

// Operations.
const (
	OpMatch    Op = "match"    // a policy or a binding was compared with the request: Match
	OpRun      Op = "run"      // the policy runs with a binding and a param; the following events belong to that
	OpEvaluate Op = "evaluate" // an expression was evaluated: Evaluation
	OpOutcome  Op = "outcome"  // the result for the policy: Outcome
	OpMutate   Op = "mutate"   // a mutation was applied, or failed: Mutation
	OpExempt   Op = "exempt"   // the server does not evaluate policies for the request
)

// A Comparison is one comparison of a criterion of a policy or binding with a request.
type Comparison = match.Comparison

// A Match is the result of matching one binding of a policy with a request, with the reason if it does not match.
type Match struct {
	Kind    policy.Kind
	Phase   policy.Phase
	Policy  string
	Binding string // empty: the policy itself does not match, whatever the binding
	Matched bool

	// By names the criterion that did not match: namespaceSelector, objectSelector, excludeResourceRules or
	// resourceRules, matchConditions, or paramRef if it does not select a param; in the dialect also namespaces,
	// subjects, permissions, and these with exclude. It is empty for a match or an error.
	By     string
	Field  string // the server's path of a match condition that is false
	Reason string // in words, for a reader
	Err    error  // of the configuration or a match condition; failurePolicy applies

	Compared []Comparison // the comparisons that decided
}

// A Mutation is one mutation of one invocation.
type Mutation struct {
	Index  int
	Expr   policy.Expr
	Type   policy.PatchType
	As     schema.GroupVersionKind // the version in which the policy sees the object
	Before map[string]any          // the object before the mutation
	// the tree of the Object literal, or the operations of the JSON patch; nil if there is none
	Patch any
	// the object with the patch, before the server decodes it as its type; nil if that failed
	Patched map[string]any
	After   map[string]any // the object for the next mutation; nil if the mutation failed
	// Stopped is the index of the operation of the JSON patch that could not be applied, else -1. Dropped means that it
	// is a test, for which the server drops the whole patch without an error.
	Stopped int
	Dropped bool
}

// An Evaluation is one evaluation of one expression: a match condition, variable, validation, message, audit annotation
// or mutation. Variables are evaluated when they are first used.
type Evaluation struct {
	Policy *policy.Policy
	Expr   policy.Expr

	traced trace.Evaluation
}

// NewEvaluation is called by the engine.
func NewEvaluation(p *policy.Policy, x policy.Expr, seen compile.Seen) *Evaluation {
	return &Evaluation{p, x, trace.Evaluation{Expr: x, Seen: seen}}
}

// A Step is a part of an expression that determined its value.
type Step = trace.Step

// Result returns the value of the expression in CEL syntax, or its error.
func (e Evaluation) Result() (value string, failed bool) { return e.traced.Result() }

// Steps returns the parts that determined the result, in the order of the text: of a false conjunction the false
// operands; of a comparison its sides; of a macro its range. Parts that were not evaluated are left out.
func (e Evaluation) Steps() []Step { return e.traced.Steps() }

// Scope returns the path of the value for which the expression was evaluated; empty: the object.
func (e Evaluation) Scope() string { return e.traced.Seen.Scope }

// Path returns the path in the object of the whole expression, like that of a Step.
func (e Evaluation) Path() string { return e.traced.Path() }

// ItemPath returns the path of an item of the resulting list in the object; empty if the item is not part of the
// object.
func (e Evaluation) ItemPath(index int) string { return e.traced.ItemPath(index) }

// DecisivePart returns the range of bytes that made the expression false or an error: the first such operand of &&, or
// the selected branch of ?:. It is the whole text if several parts are responsible.
func (e Evaluation) DecisivePart() (from, to int) { return e.traced.DecisivePart() }

// A Branch is a part of an expression that determines which other parts are evaluated: an operand of && or ||, or the
// condition of ?:. The bodies of macros such as all, exists and filter have branches too.
type Branch struct {
	Policy   *policy.Policy
	Field    string // the server's path of the expression
	Index    int    // among the branches of the expression
	From, To int    // the bytes of the branch in the text of the expression
}

// An Observation is one value of a branch of an expression, or with Branch -1 of the expression itself.
type Observation struct {
	Policy *policy.Policy
	Expr   policy.Expr
	Branch int // the Index of a [Branch]

	// Both are false for an error, and for the value of an expression that is not a condition.
	True, False bool
}
