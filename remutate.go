package celgate

import (
	"context"

	"github.com/celgate/celgate/policy"
)

// Remutate changes the object of a request that something else has changed after its mutating policies had decided:
// those that ran then and ask for it run a second time, and none a third. The object is that of [Decision.FirstPass]
// with what has changed since. The API server does so with its own policies once webhooks have changed an object.
func (e *Engine) Remutate(ctx context.Context, p *Prepared, first *Decision) (*Decision, error) {
	again := &reinvocation{pass: policy.DefaultPasses, again: map[invocationKey]bool{}}
	for _, key := range first.ran {
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
