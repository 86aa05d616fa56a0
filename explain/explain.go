// Package explain says in what words an engine tells how it comes to its decisions.
package explain

import (
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/trace"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// Options say how a request is decided and what is told about it. The zero value decides as always and tells nothing.
type Options struct {
	// Order names mutating policies: exactly those are asked, in this order. Nil: all, in the order of their names.
	// The order in which a server asks them is random.
	Order []string

	// MutatingOnly leaves out the validating policies and what comes before them.
	MutatingOnly bool

	// Trace is told what happens, in order, from the goroutine that decides. Nil: nobody listens.
	Trace func(Event)

	// Observe is told what the branches of expressions come to, from the goroutine that decides. Nil: nobody listens.
	Observe func(Observation)
}

// An Event is one thing that happened on the way to a decision. The events of one request come in order, from the
// goroutine that makes the decision. What Op says is in one of the pointers.
type Event struct {
	Op      Op
	Kind    policy.Kind
	Phase   policy.Phase
	Policy  string
	Binding string // empty: the policy itself, whatever the binding
	Param   string // "namespace/name" or "name", or celgate.DefaultParam; empty without a param
	Second  bool   // in the second pass of the mutating policies

	Match      *Match
	Evaluation *Evaluation
	Mutation   *Mutation

	Outcome int // with OpOutcome, the index among the outcomes of the decision
}

// An Op says what happened.
type Op string

// The operations.
const (
	OpMatch    Op = "match"    // a policy or a binding was compared with the request: Match
	OpRun      Op = "run"      // the policy runs with a binding and a param; what follows is about that
	OpEvaluate Op = "evaluate" // an expression came to a value: Evaluation
	OpOutcome  Op = "outcome"  // what a value means: Outcome
	OpMutate   Op = "mutate"   // a mutation was applied, or failed: Mutation
	OpExempt   Op = "exempt"   // the server asks no policy about the request
)

// A Comparison is one thing that was compared to find out whether a policy or binding is for a request.
type Comparison = match.Comparison

// A Match says whether one binding of a policy is for a request, and what decided when it is not.
type Match struct {
	Kind    policy.Kind
	Phase   policy.Phase
	Policy  string
	Binding string // empty: the policy itself is not for the request, whatever the binding
	Matched bool

	// By names what did not match: namespaceSelector, objectSelector, excludeResourceRules or resourceRules,
	// matchConditions, or paramRef for one that selects nothing; in the dialect also namespaces, subjects, permissions,
	// and these with exclude. It is empty for a match and for an error.
	By     string
	Field  string // the server's path of a match condition that is false
	Reason string // in words, for a reader
	Err    error  // of the configuration or a match condition; failurePolicy decides what it means

	Compared []Comparison // what decided
}

// A Mutation is one mutation of one invocation.
type Mutation struct {
	Index  int
	Expr   policy.Expr
	Type   policy.PatchType
	As     schema.GroupVersionKind // the version in which the policy sees the object
	Before map[string]any          // the object when the mutation begins
	// the tree of the Object literal, or the operations of the JSON patch; nil if there is none
	Patch any
	// the object with the patch, before the server reads it as its type; nil if that failed
	Patched map[string]any
	After   map[string]any // the object as the next mutation sees it; nil if the mutation failed
	// Stopped is the index of the operation of the JSON patch that could not be applied, else -1. Dropped means that
	// it is a test, for which the server drops the whole patch without an error.
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

// NewEvaluation is for the engine.
func NewEvaluation(p *policy.Policy, x policy.Expr, seen compile.Seen) *Evaluation {
	return &Evaluation{p, x, trace.Evaluation{Expr: x, Seen: seen}}
}

// A Step is a part of an expression that had a say in its value.
type Step = trace.Step

// Result is the value that the expression came to, as CEL writes it; the error in place of it.
func (e Evaluation) Result() (value string, failed bool) { return e.traced.Result() }

// Steps are the parts that decided, in the order of the text: of a conjunction that is false, the operands that are; of
// a comparison, its sides; of a macro, its range. Parts that were not evaluated are left out.
func (e Evaluation) Steps() []Step { return e.traced.Steps() }

// Scope is the path of the value that the expression was evaluated for; empty: the object.
func (e Evaluation) Scope() string { return e.traced.Seen.Scope }

// Path is that of the whole expression in the object, as a [Step] has one.
func (e Evaluation) Path() string { return e.traced.Path() }

// ItemPath is that of an item of the list that the expression came to; empty if it is none of the object.
func (e Evaluation) ItemPath(index int) string { return e.traced.ItemPath(index) }

// DecisivePart returns the bytes of the part of the text that made the expression false or an error: the first operand
// of && that is, the branch of ?: that was taken. It is the whole text if no part is alone to blame.
func (e Evaluation) DecisivePart() (from, to int) { return e.traced.DecisivePart() }

// A Branch is a part of an expression that decides what else of it is evaluated: an operand of && or ||, or the
// condition of ?:. The bodies of macros such as all, exists and filter are made of them too.
type Branch = compile.Branch

// An Observation is one value of a branch of an expression, or with Branch -1 of the expression itself.
type Observation struct {
	Policy *policy.Policy
	Expr   policy.Expr
	Branch int // index among the branches of the expression
	Value  BranchValue
}

// A BranchValue is the result of evaluating a branch.
type BranchValue int

// The values of branches.
const (
	OtherValue BranchValue = iota // an error, or the value of an expression that is not a condition
	BranchTrue
	BranchFalse
)

// An Observed is an expression of a policy in force with its branches.
type Observed struct {
	Policy   *policy.Policy
	Field    string // the server's path of the expression
	Branches []Branch
}
