package celgate

import (
	"context"

	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/policy"
)

// A Match says whether one binding of a policy is for a request, and what decided when it is not.
type Match struct {
	Kind    policy.Kind
	Policy  string
	Binding string // empty: the policy itself is not for the request, whatever the binding
	Matched bool

	// By names what did not match: namespaceSelector, objectSelector, excludeResourceRules or resourceRules,
	// matchConditions, or paramRef for one that selects nothing. It is empty for a match and for an error.
	By     string
	Field  string // the server's path of a match condition that is false
	Reason string // in words, for a reader
	Err    error  // of the configuration or a match condition; failurePolicy decides what it means

	Compared []Comparison // what decided, in the events of a tracer
}

// Matches tells for each policy in force whether it is for a request. Validating
// policies are asked about what the mutating ones make of it. The error is that of a context that ended.
//
// It evaluates match conditions anew and is meant for explanations, not for every request.
func (e *Engine) Matches(ctx context.Context, p *Prepared) ([]Match, error) {
	req := &p.request
	if exempt(req) {
		return nil, nil
	}
	all := newReview(ctx, e, req).matches(policy.Mutating)
	mutated, sharesLabels, err := e.mutating(ctx, p)
	if err != nil {
		return nil, err
	}
	if mutated.Allowed {
		all = append(all, newReview(ctx, e, e.register(req, mutated.Object, sharesLabels)).matches(policy.Validating)...)
	}
	return all, ctx.Err()
}

func (r *review) matches(kind policy.Kind) []Match {
	if kind == policy.Mutating && r.Operation == Delete {
		return nil
	}
	var all []Match
	for _, h := range r.engine.index.hooks {
		if h.Kind != kind {
			continue
		}
		found := Match{Kind: kind, Policy: h.Name}
		m, err := h.criteria.Match(&r.attributes, r.world)
		if err == nil && m.Matched {
			err = h.err
		}
		if found.Err = err; err != nil || !m.Matched {
			found.By, found.Reason = string(m.By), m.Reason(&r.attributes)
			all = append(all, found)
			continue
		}
		for _, b := range h.bindings {
			found.Binding = b.Name
			bm, err := b.criteria.Match(&r.attributes, r.world)
			if err != nil || !bm.Matched {
				of := found
				of.By, of.Reason, of.Err = string(bm.By), bm.Reason(&r.attributes), err
				if of.Reason != "" {
					of.Reason += " of the binding"
				}
				all = append(all, of)
				continue
			}
			r.bindingInvocations(h, b, m, func(in invocation, confErr *configurationError) bool {
				all = append(all, r.matchOf(found, &in, confErr))
				return true
			})
		}
	}
	return all
}

func (r *review) matchOf(found Match, in *invocation, confErr *configurationError) Match {
	switch {
	case confErr != nil:
		found.Err = confErr
		return found
	case in.idle:
		found.By, found.Reason = "paramRef", "paramRef selects nothing"
		return found
	}
	v, err := r.versioned(in.kind)
	if err != nil {
		found.Err = conversionError{err}
		return found
	}
	inputs := r.inputs(in, v)
	inputs.Request = r.request(r.attributes.Resource, in.kind)
	conditions := eval.Match(r.ctx, in.hook.Program, inputs)
	found.Matched, found.Err = conditions.Matched, conditions.Err
	if conditions.Matched || conditions.Err != nil {
		return found
	}
	found.By, found.Reason = "matchConditions", "a match condition fails, and failurePolicy Ignore skips the policy then"
	for _, o := range conditions.Outcomes {
		if o.Verdict == eval.Skip && o.Expression != nil {
			found.Field, found.Reason = o.Expression.Field, "a match condition is false"
			for i, c := range in.hook.Policy.MatchConditions {
				if i == o.Index {
					found.Reason = "the match condition " + c.Name + " is false"
				}
			}
			break
		}
	}
	return found
}
