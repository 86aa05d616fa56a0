package celgate

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/policy"
)

// A matcher finds the policies, bindings and params that match a request.
type matcher struct {
	teller
	reading    context.Context // for reads from the cluster
	cluster    Cluster
	index      *hookIndex
	known      *indexEntry
	attributes match.Attributes
	world      match.World
}

// begin initialises the matcher for a request to an engine. lookUp finds namespaces.
func (r *matcher) begin(
	ctx context.Context, e *Engine, req *Request, known *indexEntry, lookUp func(name string) (map[string]any, error),
) {
	made := req.target()
	r.told, r.reading, r.cluster, r.index, r.known = e.told, ctx, e.cluster, e.index, known
	r.attributes = match.Attributes{
		Kind: made.Kind, Resource: made.Resource, SubResource: made.SubResource,
		Namespace: req.Namespace, Name: req.Name, Operation: string(req.Operation),
		Object: req.Object, OldObject: req.OldObject, User: req.UserInfo.Username, Groups: req.UserInfo.Groups,
	}
	r.world = match.World{Types: e.types, Namespace: lookUp}
}

// invocations yields the invocations for the request: policies by name, their bindings by name, their params by
// namespace and name. For a policy or binding that cannot run it yields an error; a policy or binding that does not
// match yields nothing.
//
// The order is that of generic/policy_dispatcher.go and validating/dispatcher.go v0.37.2: match the policy, then its
// configuration, then for each binding match, params.
func (r *matcher) invocations(phase policy.Phase) iter.Seq2[invocation, *configurationError] {
	return func(yield func(invocation, *configurationError) bool) {
		hooks, certain := r.candidates(phase)
		for i, h := range hooks {
			var m match.Result
			var err error
			if i < len(certain) && certain[i] {
				m = match.Direct(&r.attributes)
			} else {
				m, err = h.criteria.Match(r.attributesFor(h), r.world)
			}
			if err == nil && m.Matched {
				err = h.err
			}
			r.tellMatch(h, nil, m, err)
			if err == nil && !m.Matched {
				continue
			}
			if err != nil {
				if !yield(invocation{}, &configurationError{h, nil, err}) {
					return
				}
				continue
			}
			for _, b := range h.bindings {
				if !r.bindingInvocations(h, b, m, yield) {
					return
				}
			}
		}
	}
}

// attributesFor returns the attributes of the request for matching a policy. A policy about templates selects by the
// labels of the template.
func (r *matcher) attributesFor(h *hook) *match.Attributes {
	if !h.template {
		return &r.attributes
	}
	a := r.attributes
	a.Object, a.OldObject = templateOf(a.Object, a.Kind), templateOf(a.OldObject, a.Kind)
	return &a
}

// candidates returns the policies that may match the request, and which of them match for certain. Listeners also
// receive all others.
func (r *matcher) candidates(phase policy.Phase) (hooks []*hook, certain []bool) {
	of := r.known.candidates(phase)
	known := of.hooks
	if !r.hasListener() {
		return known, of.certain
	}
	templates := map[*policy.Policy]bool{} // of policies that judge the template of the object
	for _, h := range known {
		templates[h.Policy] = templates[h.Policy] || h.template
	}
	for _, h := range r.index.hooks {
		if h.phase == phase && (h.Static || !r.known.onlyStatic) &&
			(slices.Contains(known, h) || !h.template && !templates[h.Policy]) {
			hooks = append(hooks, h)
		}
	}
	return hooks, nil
}

func (r *matcher) bindingInvocations(h *hook, b *compiledBinding, m match.Result,
	yield func(invocation, *configurationError) bool) bool {
	if b.as != nil {
		var err error
		if m, err = b.as.Match(r.attributesFor(h), r.world); err != nil || !m.Matched {
			of := *b
			of.criteria = b.as
			if r.tellMatch(h, &of, m, err); err != nil {
				return yield(invocation{}, &configurationError{h, b, err})
			}
			return true
		}
	}
	bm, err := b.criteria.Match(r.attributesFor(h), r.world)
	r.tellMatch(h, b, bm, err)
	if err == nil && !bm.Matched {
		return true
	}
	var params []map[string]any
	if err == nil {
		if params, err = r.params(h, b); len(params) == 0 {
			r.tellParams(h, b, err)
		}
	}
	if err != nil {
		return yield(invocation{}, &configurationError{h, b, err})
	}
	in := invocation{hook: h, binding: b, resource: m.Resource, kind: m.Kind, left: len(params)}
	if len(params) == 0 {
		in.idle = true
		return yield(in, nil)
	}
	for _, in.param = range params {
		if !yield(in, nil) {
			return false
		}
		in.left--
	}
	return true
}

// params returns the params of one binding: one nil without params, else the objects that paramRef selects (as
// generic/policy_dispatcher.go v0.37.2, CollectParams).
func (r *matcher) params(h *hook, b *compiledBinding) ([]map[string]any, error) {
	from := b.ParamRef
	switch {
	case h.ParamKind == nil || from == nil && h.defaults == nil:
		return withoutParam, nil
	case from == nil:
		return []map[string]any{h.defaults}, nil
	}
	namespace := from.Namespace
	switch {
	case !h.param.Namespaced && namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case h.param.Namespaced && namespace == "":
		if namespace = r.attributes.Namespace; namespace == "" {
			if h.defaults != nil && from.NotFoundAction == policy.NotFoundDefault {
				return []map[string]any{h.defaults}, nil
			}
			return nil, ErrNoParamNamespace
		}
	}
	params, err := r.selectParams(h, b, namespace)
	if len(params) > 0 || err != nil {
		return params, err
	}
	switch {
	case from.NotFoundAction == policy.NotFoundDeny:
		return nil, ErrNoParams
	case from.NotFoundAction != policy.NotFoundDefault:
		return nil, nil
	case h.defaults == nil:
		return nil, ErrNoDefaultParams
	}
	return []map[string]any{h.defaults}, nil
}

// selectParams returns the params of a namespace that a paramRef selects.
func (r *matcher) selectParams(h *hook, b *compiledBinding, namespace string) ([]map[string]any, error) {
	from := b.ParamRef
	kind := h.param.GroupVersion().WithKind(h.param.Kind)
	var params []map[string]any
	if from.Name != "" {
		param, err := r.cluster.Get(r.reading, kind, namespace, from.Name)
		if err != nil {
			return nil, err
		}
		if param != nil {
			params = append(params, h.withDefaults(h.holdParam(param)))
		}
	} else {
		all, err := r.cluster.List(r.reading, kind, namespace)
		if err != nil {
			return nil, err
		}
		for _, param := range all {
			if b.selector.Matches(match.Labels(param)) {
				params = append(params, h.withDefaults(h.holdParam(param)))
			}
		}
	}
	return params, nil
}

// tellMatch reports whether a policy, or with b its binding, matches the request.
func (r *matcher) tellMatch(h *hook, b *compiledBinding, m match.Result, err error) {
	if !r.hasListener() {
		return
	}
	found := explain.Match{Kind: h.Kind, Phase: h.phase, Policy: h.Name, Matched: m.Matched && err == nil,
		By:     string(m.By),
		Reason: m.Reason(&r.attributes), Err: err}
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

// tellParams reports that a binding does not run because its params are missing.
func (r *matcher) tellParams(h *hook, b *compiledBinding, err error) {
	if !r.hasListener() {
		return
	}
	found := explain.Match{Kind: h.Kind, Phase: h.phase, Policy: h.Name, Binding: b.Name, By: "paramRef",
		Reason: "paramRef selects nothing", Err: err}
	found.Compared = []explain.Comparison{{Field: "paramRef", Want: r.wantedParams(h, b), Got: "nothing"}}
	r.tell(h, b, nil, explain.Event{Op: explain.OpMatch, Match: &found})
}

// wantedParams describes the params that a binding selects.
func (r *matcher) wantedParams(h *hook, b *compiledBinding) string {
	ref := b.ParamRef
	text := h.ParamKind.Kind + " "
	if h.param != nil && h.param.Namespaced {
		namespace := ref.Namespace
		if namespace == "" {
			namespace = r.attributes.Namespace
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
		text += " (paramRef does not name a namespace, so it is that of the request)"
	}
	return text
}
