package celgate

import (
	"context"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
)

// Admit decides a request as the API server's admission chain does: mutating policies, the work of the registry,
// validating policies. It returns an error only if the context ends.
func (e *Engine) Admit(ctx context.Context, p *Prepared) (*Decision, error) {
	if p.unasked != "" {
		return skip(p), ctx.Err()
	}
	decision, sharesLabels, err := e.mutatePrepared(ctx, p)
	defer e.serialise(&p.request, decision)
	if decision.Allowed {
		decision.MutatedObject = decision.Object
	}
	if err != nil || !decision.Allowed {
		return decision.send(p), err
	}
	e.leaveWebhooks(ctx, policy.PhaseMutation, &p.request, decision)
	next := e.register(&p.request, decision.Object, sharesLabels)
	if err = e.refusal(ctx, next, decision); err == nil {
		err = e.policyRefusal(ctx, next)
	}
	if err == nil {
		e.leaveValidation(next, decision)
		err = e.checkPlugins(ctx, next, decision)
	}
	if err != nil {
		decision.refuse(err)
		return decision.send(p), nil
	}
	e.told.next(decision)
	validated, err := e.validatePrepared(ctx, next, decision.Changes)
	if err != nil {
		return nil, err
	}
	if validated.Allowed {
		e.leaveWebhooks(ctx, policy.PhaseValidation, next, validated)
		validated.leave(e.quotas(ctx, next)...)
	}
	for _, text := range e.advice(next, decision.Object) {
		decision.warn(Warning{Text: text})
	}
	return decision.join(validated).send(p), nil
}

// Validate decides a request with the validating policies alone.
func (e *Engine) Validate(ctx context.Context, p *Prepared) (*Decision, error) {
	switch {
	case p.unasked != "":
		return skip(p), ctx.Err()
	case p.refusal != nil:
		return refusalOf(p).send(p), ctx.Err()
	}
	d, err := e.validatePrepared(ctx, &p.request, nil)
	return d.send(p), err
}

// validatePrepared is Validate; made are the known changes by the mutating policies.
func (e *Engine) validatePrepared(ctx context.Context, req *Request, made []Change) (*Decision, error) {
	known := e.index.entry(req)
	if e.noneCanMatch(known, policy.PhaseValidation) {
		return newDecision(req), ctx.Err()
	}
	r := e.run(ctx, req, known)
	r.made = made
	if err := r.validate(); err != nil {
		r.decision.refuse(err)
	}
	return r.finish(), ctx.Err()
}

// Mutate decides a request with the mutating policies alone.
func (e *Engine) Mutate(ctx context.Context, p *Prepared) (*Decision, error) {
	d, _, err := e.mutatePrepared(ctx, p)
	if d.Allowed {
		d.MutatedObject = d.Object
	}
	e.serialise(&p.request, d)
	return d.send(p), err
}

// mutatePrepared is Mutate with the object before it is serialised; sharesLabels is that of [prepare.Result].
func (e *Engine) mutatePrepared(ctx context.Context, p *Prepared) (d *Decision, sharesLabels bool, err error) {
	req := &p.request
	if p.refusal != nil {
		return refusalOf(p), false, ctx.Err()
	}
	known := e.index.entry(req)
	if e.noneCanMatch(known, policy.PhaseMutation) || req.Operation == Delete {
		d = newDecision(req)
		d.leave(p.left...)
		return d, p.sharesLabels, ctx.Err()
	}
	r := e.runMutation(ctx, p, known)
	r.decision.leave(p.left...)
	if err := r.mutate(); err != nil {
		r.decision.refuse(err)
	}
	r.decision.fillFirst(p.filling)
	sharesLabels = r.sharesLabels
	return r.finish(), sharesLabels, ctx.Err()
}

// noneCanMatch reports whether no policy of a phase can match a request, and reports the reasons to listeners.
func (e *Engine) noneCanMatch(known *indexEntry, phase policy.Phase) bool {
	if known.exempt {
		if e.told != nil {
			e.told.tell(explain.Event{Op: explain.OpExempt, Kind: phase.ReleasedKind(), Phase: phase})
		}
		return true
	}
	return e.told == nil && len(known.candidates(phase).hooks) == 0
}

// skip returns the decision about a request that the server allows without evaluating policies.
func skip(p *Prepared) *Decision {
	d := newDecision(&p.request)
	d.addNote(Note{Message: p.unasked})
	return d.send(p)
}
