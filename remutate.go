package celgate

import (
	"context"

	"github.com/celgate/celgate/policy"
)

// Remutate runs mutating policies again after something else has changed the object: those that ran in the first
// decision and request a second pass. None runs a third time. The object is that of [Decision.FirstPass] with the
// changes since. The API server does the same with its own policies after webhooks have changed an object.
func (e *Engine) Remutate(ctx context.Context, p *Prepared, first *Decision) (*Decision, error) {
	again := &reinvocation{pass: policy.DefaultPasses, again: map[invocationKey]bool{}}
	for _, key := range first.seldom().ran {
		again.again[key] = true
	}
	req := &p.request
	known := e.index.entry(req)
	if e.noneCanMatch(known, policy.PhaseMutation) || req.Operation == Delete {
		return newDecision(req), ctx.Err()
	}
	r := e.runMutation(ctx, p, known)
	r.second = true
	if err := r.mutationPass(again); err != nil {
		r.decision.refuse(err)
	}
	decision := r.finish()
	e.serialise(req, decision)
	return decision.send(p), ctx.Err()
}
