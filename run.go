package celgate

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

// A review is one request on its way through the engine.
type review struct {
	*Request
	ctx        context.Context
	engine     *Engine
	known      *indexEntry
	attributes match.Attributes
	world      match.World
	lookUp     func(name string) (map[string]any, error) // the method namespace, which is made a value once
	decision   *Decision
	second     bool   // pass of the mutating policies
	evaluating string // the name of a policy

	normal       prepare.Normal // of the object of the request, if mutating policies are asked
	sharesLabels bool           // see prepare.Result; of the object that the mutating policies leave

	objects    []*versioned
	requests   []*requestInput
	namespaces [2]namespaceInput // by declaredOnly and whole
	own        ownNamespace
	authorizer authorizerValues
	validator  eval.Validator
	meter      bound.Meter

	// What nearly every review has is in its memory.
	firstObject  versioned
	firstRequest requestInput
	oneObject    [1]*versioned
	oneRequest   [1]*requestInput
}

func newReview(ctx context.Context, e *Engine, req *Request) *review {
	return e.review(ctx, req, e.index.entry(req))
}

func (e *Engine) review(ctx context.Context, req *Request, known *indexEntry) *review {
	r := reviews.Get().(*review)
	r.Request, r.ctx, r.engine, r.known, r.decision = req, ctx, e, known, allowed(req)
	made := req.made()
	r.attributes = match.Attributes{
		Kind: made.Kind, Resource: made.Resource, SubResource: made.SubResource,
		Namespace: req.Namespace, Name: req.Name, Operation: string(req.Operation),
		Object: req.Object, OldObject: req.OldObject,
	}
	r.meter = e.limits.meter()
	r.world = match.World{Types: e.types, Namespace: r.lookUp}
	r.namespaces[declaredOnly].declared = true
	r.authorizer.review = r
	r.objects, r.requests = r.oneObject[:0], r.oneRequest[:0]
	return r
}

// reviewMutation begins the review of a request by mutating policies.
func (e *Engine) reviewMutation(ctx context.Context, p *Prepared, known *indexEntry) *review {
	r := e.review(ctx, &p.request, known)
	r.normal, r.sharesLabels = p.normal, p.sharesLabels
	return r
}

// reviews are those that nothing refers to any more.
var reviews = sync.Pool{New: func() any {
	r := new(review)
	r.lookUp = r.namespace
	return r
}}

// release gives the memory of the review to another one. Who listens may have kept values of expressions.
func (r *review) release() {
	r.meter.End()
	if r.tells() {
		return
	}
	r.validator.Release()
	*r = review{validator: r.validator, lookUp: r.lookUp}
	reviews.Put(r)
}

// Looped notes that an expression loops for long.
func (r *review) Looped(uint64) {
	if r.engine.quirks.Has(quirks.SlowLoop) {
		r.decision.note(quirks.SlowLoop, r.evaluating)
	}
}

// noteExcess says what an invocation took of the server that it would not get from celgate, or that it was not evaluated for it.
func (r *review) noteExcess(in *invocation) {
	if taken, refused := r.meter.Excess(); taken != (bound.Size{}) && !r.engine.standsIn {
		text := "policy " + in.hook.Name + ": the API server needs " + taken.String() + " for this"
		if refused {
			text += ", celgate stopped before: what the server answers, if it does, is not known"
		}
		r.decision.say(Note{Message: text})
	}
}

// noteNoParams notes that a binding lets a request pass because there is no param.
func (r *review) noteNoParams(h *hook, b *binding) {
	n := Note{Message: fmt.Sprintf("binding %q of policy %q finds no param (%s): by parameterNotFoundAction Allow it does nothing",
		b.Name, h.Name, r.wantedParams(h, b))}
	if !slices.Contains(r.decision.Notes, n) {
		r.decision.Notes = append(r.decision.Notes, n)
	}
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

// record adds outcomes to the decision.
func (r *review) record(in *invocation, outcomes []eval.Outcome) {
	if r.decision.Outcomes == nil {
		r.decision.Outcomes = make([]Outcome, 0, r.known.of(in.hook.Kind).outcomes)
	}
	param := paramName(in.param)
	for i := range outcomes {
		o := &outcomes[i]
		expr := expression(o.Expression)
		r.decision.Outcomes = append(r.decision.Outcomes, Outcome{
			Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, Param: param,
			Field: expr.Field, Expr: expr, Verdict: verdicts[o.Verdict], Message: o.Message, Cost: o.Cost,
		})
		if r.tells() {
			at := r.engine.told.outcomes + len(r.decision.Outcomes) - 1
			r.tell(in.hook, in.binding, in, explain.Event{Op: explain.OpOutcome, Outcome: at})
		}
	}
}

func (r *review) violation(in *invocation, o eval.Outcome, actions []policy.Action) {
	r.decision.Violations = append(r.decision.Violations, Violation{
		Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, Param: paramName(in.param),
		Message: o.Message, Reason: o.Reason, Actions: actions, IsError: o.Verdict == eval.Error,
		Expr: expression(o.Expression), index: o.Index,
	})
}

// configurationViolation denies under failurePolicy Fail, whatever the actions of the binding are.
func (r *review) configurationViolation(e *configurationError) {
	if e.hook.FailurePolicy == policy.Ignore {
		return
	}
	v := Violation{
		Kind: e.hook.Kind, Policy: e.hook.Name, Message: e.Error(), IsError: true, Actions: []policy.Action{policy.Deny},
	}
	if e.binding != nil {
		v.Binding = e.binding.Name
	}
	r.decision.Violations = append(r.decision.Violations, v)
}

var verdicts = [...]Verdict{eval.Admit: Admit, eval.Deny: Denied, eval.Error: Error, eval.Skip: Skip}

// clock is the time if somebody wants to know how long invocations take.
func (r *review) clock() time.Time {
	if !r.engine.timed {
		return time.Time{}
	}
	return time.Now()
}

// took adds the time of an invocation to the decision.
func (r *review) took(in *invocation, start time.Time) {
	if !r.engine.timed {
		return
	}
	if r.decision.Timings == nil {
		r.decision.Timings = make([]Timing, 0, len(r.known.of(in.hook.Kind).hooks))
	}
	r.decision.Timings = append(r.decision.Timings, Timing{
		Kind: in.hook.Kind, Policy: in.hook.Name, Binding: in.binding.Name, Param: paramName(in.param), Elapsed: time.Since(start),
	})
}
