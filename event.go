package celgate

import (
	"errors"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/patch/jsonpatch"
	"github.com/celgate/celgate/policy"
)

// tells reports whether anybody listens.
func (r *review) tells() bool { return r.engine.told != nil }

// tellMatch says whether a policy, or with b its binding, is for the request.
func (r *review) tellMatch(h *hook, b *binding, m match.Result, err error) {
	if !r.tells() {
		return
	}
	found := explain.Match{Kind: h.Kind, Policy: h.Name, Matched: m.Matched && err == nil, By: string(m.By), Reason: m.Reason(&r.attributes), Err: err}
	criteria := h.criteria
	if b != nil {
		criteria, found.Binding = b.criteria, b.Name
		if found.Reason != "" {
			found.Reason += " of the binding"
		}
	}
	found.Compared = criteria.Compare(&r.attributes, r.world)
	r.tell(h, b, nil, explain.Event{Op: explain.OpMatch, Match: &found})
}

// tellParams says that a binding does not run for want of params.
func (r *review) tellParams(h *hook, b *binding, err error) {
	if !r.tells() {
		return
	}
	found := explain.Match{Kind: h.Kind, Policy: h.Name, Binding: b.Name, By: "paramRef", Reason: "paramRef selects nothing", Err: err}
	found.Compared = []explain.Comparison{{Field: "paramRef", Want: r.wantedParams(h, b), Got: "nothing"}}
	r.tell(h, b, nil, explain.Event{Op: explain.OpMatch, Match: &found})
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
		found := explain.Match{Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, By: "reinvocationPolicy", Reason: whyNot}
		r.tell(in.hook, in.binding, in, explain.Event{Op: explain.OpMatch, Match: &found})
		return
	}
	r.tell(in.hook, in.binding, in, explain.Event{Op: explain.OpRun})
}

func (r *review) tell(h *hook, b *binding, in *invocation, e explain.Event) {
	e.Kind, e.Policy, e.Second = h.Kind, h.Name, r.second
	if b != nil {
		e.Binding = b.Name
	}
	if in != nil {
		e.Param = paramName(in.param)
	}
	r.engine.told.tell(e)
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
func (r *review) tellMutation(in *invocation, index int, v *versioned) *explain.Mutation {
	if !r.tells() {
		return nil
	}
	m := in.hook.Policy.Mutations[index]
	return &explain.Mutation{Index: index, Expr: m.Expr, Type: m.PatchType, As: v.kind, Before: v.object, Stopped: -1}
}

// tellPatched keeps what a JSON patch made of the object.
func tellPatched(m *explain.Mutation, doc any, err error) {
	m.Stopped = stoppedAt(err)
	m.Dropped = errors.Is(err, jsonpatch.ErrTestFailed)
	switch tree, ok := doc.(map[string]any); {
	case m.Dropped:
		m.Patched = m.Before
	case ok && err == nil:
		m.Patched = tree
	}
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
