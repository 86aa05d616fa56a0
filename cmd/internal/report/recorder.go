package report

import (
	"context"
	"slices"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/order"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/policy"
)

// A Recorder collects the events of decisions, one decision after the other.
type Recorder struct {
	names     map[variable]string
	events    []Event
	evaluated map[*policy.Policy][]explain.Evaluation // of variables
}

// A variable is identified by its policy and the field path of its expression.
type variable struct {
	policy.Ref
	field string
}

// NewRecorder returns a recorder for decisions of the policies of set.
func NewRecorder(set *policy.Set) *Recorder {
	r := &Recorder{names: map[variable]string{}}
	for _, p := range set.Policies {
		for _, v := range p.Variables {
			r.names[variable{p.Ref(), v.Expr.Field}] = v.Name
		}
	}
	r.Take()
	return r
}

// Trace records an event, as an option of [explain.Options].
func (r *Recorder) Trace(told explain.Event) {
	e := Event{Event: told}
	if o := told.Evaluation; o != nil {
		e.Variable = r.names[variable{o.Policy.Ref(), o.Expr.Field}]
		e.Steps = blame.ShowSteps(o.Policy, o.Steps())
		e.Value, e.Failed = o.Result()
		e.Reason = blame.ReasonOf(*o, r.evaluated[o.Policy])
		if e.Variable != "" {
			r.evaluated[o.Policy] = append(r.evaluated[o.Policy], *o)
		}
	}
	r.events = append(r.events, e)
}

// Take returns the events since the last call.
func (r *Recorder) Take() []Event {
	events := r.events
	r.events, r.evaluated = nil, map[*policy.Policy][]explain.Evaluation{}
	return events
}

// Resolve adds the outcomes of a decision to its events.
func Resolve(events []Event, d *celgate.Decision) {
	for i := range events {
		if e := &events[i]; e.Op == explain.OpOutcome {
			e.Result = &d.Outcomes[e.Outcome]
		}
	}
}

// OtherOrders repeats the decision behind events in the other orders that a server may choose, and returns one with a
// different result.
func OtherOrders(ctx context.Context, engine *celgate.Engine, req *celgate.Prepared, events []Event) ([]Order, error) {
	var names []policy.Ref
	for _, e := range events {
		if ref := e.Kind.Ref(e.Policy); e.Op == explain.OpRun && e.Phase == policy.PhaseMutation &&
			!slices.Contains(names, ref) {
			names = append(names, ref)
		}
	}
	other, err := order.TryOthers(ctx, engine, req, names)
	if err != nil || other == nil {
		return nil, err
	}
	found := Order{Policies: other.Policies, Decision: other.Decision}
	if other.Decision.Allowed {
		found.Changes = []celgate.Change{{Before: other.Usual.Object, After: other.Decision.Object}}
	}
	return []Order{found}, nil
}
