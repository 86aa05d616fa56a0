package celgate

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types/ref"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/patch/jsonpatch"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// An Event is one thing that happened on the way to a decision. The events of one request come in order, from the goroutine
// that makes the decision. What Op says is in one of the pointers.
type Event struct {
	Op      Op
	Kind    policy.Kind
	Policy  string
	Binding string // empty: the policy itself, whatever the binding
	Param   string // "namespace/name" or "name"; empty without a param
	Second  bool   // in the second pass of the mutating policies

	Match      *Match
	Evaluation *Evaluation
	Outcome    *Outcome
	Mutation   *Mutation
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

// A Tracer is told events. Nil costs nothing.
type Tracer func(Event)

// A Comparison is one thing that was compared to find out whether a policy or binding is for a request.
type Comparison = match.Comparison

// A Mutation is one mutation of one invocation.
type Mutation struct {
	Index   int
	Expr    policy.Expr
	Type    policy.PatchType
	As      schema.GroupVersionKind // the version in which the policy sees the object
	Before  map[string]any          // the object when the mutation begins
	Patch   any                     // the tree of the Object literal, or the operations of the JSON patch; nil if there is none
	Patched map[string]any          // the object with the patch, before the server reads it as its type; nil if that failed
	After   map[string]any          // the object as the next mutation sees it; nil if the mutation failed
	// Stopped is the index of the operation of the JSON patch that could not be applied, else -1. Dropped means that it is a
	// test, for which the server drops the whole patch without an error.
	Stopped int
	Dropped bool
}

// tells reports whether anybody listens.
func (r *review) tells() bool { return r.engine.trace != nil }

// tellMatch says whether a policy, or with b its binding, is for the request.
func (r *review) tellMatch(h *hook, b *binding, m match.Result, err error) {
	if !r.tells() {
		return
	}
	found := Match{Kind: h.Kind, Policy: h.Name, Matched: m.Matched && err == nil, By: string(m.By), Reason: m.Reason(&r.attributes), Err: err}
	criteria := h.criteria
	if b != nil {
		criteria, found.Binding = b.criteria, b.Name
		if found.Reason != "" {
			found.Reason += " of the binding"
		}
	}
	found.Compared = criteria.Compare(&r.attributes, r.world)
	r.tell(h, b, nil, Event{Op: OpMatch, Match: &found})
}

// tellParams says that a binding does not run for want of params.
func (r *review) tellParams(h *hook, b *binding, err error) {
	if !r.tells() {
		return
	}
	found := Match{Kind: h.Kind, Policy: h.Name, Binding: b.Name, By: "paramRef", Reason: "paramRef selects nothing", Err: err}
	found.Compared = []Comparison{{Field: "paramRef", Want: r.wantedParams(h, b), Got: "nothing"}}
	r.tell(h, b, nil, Event{Op: OpMatch, Match: &found})
}

// wantedParams are the params that a binding asks for, in words.
func (r *review) wantedParams(h *hook, b *binding) string {
	ref := b.ParamRef
	text := h.ParamKind.Kind + " "
	if h.param != nil && h.param.Namespaced {
		namespace := ref.Namespace
		if namespace == "" {
			namespace = r.Namespace
		}
		text += namespace + "/"
	}
	switch {
	case ref.Name != "":
		text += ref.Name
	case b.selector != nil:
		text += "with labels " + b.selector.String()
	}
	if h.param != nil && h.param.Namespaced && ref.Namespace == "" {
		text += " (paramRef names no namespace, so that it is the request's)"
	}
	return text
}

// tellRun says that an invocation begins, or why it does not in the second pass.
func (r *review) tellRun(in *invocation, whyNot string) {
	if !r.tells() {
		return
	}
	if whyNot != "" {
		found := Match{Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, By: "reinvocationPolicy", Reason: whyNot}
		r.tell(in.hook, in.binding, in, Event{Op: OpMatch, Match: &found})
		return
	}
	r.tell(in.hook, in.binding, in, Event{Op: OpRun})
}

func (r *review) tell(h *hook, b *binding, in *invocation, e Event) {
	e.Kind, e.Policy, e.Second = h.Kind, h.Name, r.second
	if b != nil {
		e.Binding = b.Name
	}
	if in != nil {
		e.Param = paramName(in.param)
	}
	r.engine.trace(e)
}

// whyNotAgain says why an invocation that matches in the second pass does not run; empty: it does.
func (re *reinvocation) whyNotAgain(in *invocation) string {
	switch {
	case re.again[in.key()]:
		return ""
	case in.hook.Reinvocation != policy.IfNeeded:
		return "reinvocationPolicy is Never"
	case !re.ran[in.key()]:
		return "only what ran in the first pass runs again, and there it was not for the request"
	}
	return "no other policy changed the object after it ran"
}

// remember keeps that an invocation ran in the first pass.
func (re *reinvocation) remember(in *invocation) {
	if re.ran == nil {
		re.ran = map[invocationKey]bool{}
	}
	re.ran[in.key()] = true
}

// tellMutation returns what is told about a mutation that begins; nil if nobody listens.
func (r *review) tellMutation(in *invocation, index int, v *versioned) *Mutation {
	if !r.tells() {
		return nil
	}
	m := in.hook.Policy.Mutations[index]
	return &Mutation{Index: index, Expr: m.Expr, Type: m.PatchType, As: v.kind, Before: v.object, Stopped: -1}
}

// patched keeps what a JSON patch made of the object.
func (m *Mutation) patched(doc any, err error) {
	m.Stopped = stoppedAt(err)
	m.Dropped = errors.Is(err, jsonpatch.ErrTestFailed)
	switch tree, ok := doc.(map[string]any); {
	case m.Dropped:
		m.Patched = m.Before
	case ok && err == nil:
		m.Patched = tree
	}
}

// shownTree is a patch with text in the place of values that have no JSON form, which the server refuses.
func shownTree(v any) any {
	switch v := v.(type) {
	case map[string]any:
		shown := make(map[string]any, len(v))
		for key, member := range v {
			shown[key] = shownTree(member)
		}
		return shown
	case []any:
		shown := make([]any, len(v))
		for i, item := range v {
			shown[i] = shownTree(item)
		}
		return shown
	case nil, string, bool, int64, float64:
		return v
	case structpb.NullValue:
		return nil
	case ref.Val:
		return shown(v)
	}
	return fmt.Sprint(v)
}

// stoppedAt returns the index of the operation that stopped a patch; -1 if none did.
func stoppedAt(err error) int {
	var at *jsonpatch.OperationError
	if errors.As(err, &at) {
		return at.Index
	}
	return -1
}

func operationTrees(ops []jsonpatch.Operation) []any {
	all := make([]any, len(ops))
	for i, op := range ops {
		all[i] = operationTree(op)
	}
	return all
}

func operationTree(op jsonpatch.Operation) map[string]any {
	tree := map[string]any{"op": op.Op, "path": op.Path}
	if op.From != "" {
		tree["from"] = op.From
	}
	if op.HasValue {
		tree["value"] = op.Value
	}
	return tree
}
