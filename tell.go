package celgate

import (
	"sync"

	"github.com/celgate/celgate/explain"
)

// A telling is the listener of one call.
type telling struct {
	tell     func(explain.Event)
	outcomes int // of earlier phases
}

// next begins another phase of a call. The outcomes of the new phase follow those of d.
func (t *telling) next(d *Decision) {
	if t != nil {
		t.outcomes = len(d.Outcomes)
	}
}

// watches are the kinds of events that programs report, as bits.
type watches int

const (
	watchValues watches = 1 << iota
	watchBranches
)

// watchedPolicies are the policies in force compiled to report events, by the kinds of events. They are compiled on
// demand.
type watchedPolicies [watchValues | watchBranches + 1]struct {
	once sync.Once
	watchedHooks
	err error
}

type watchedHooks struct {
	index    *hookIndex
	branches []explain.Branch // if branches are reported
}

// hooks returns the policies compiled to report the given events, calling compile once.
func (w *watchedPolicies) hooks(what watches, compile func(watches) (watchedHooks, error)) (watchedHooks, error) {
	of := &w[what]
	of.once.Do(func() { of.watchedHooks, of.err = compile(what) })
	return of.watchedHooks, of.err
}

// A teller reports the events of one request.
type teller struct {
	told   *telling // nil: no listener
	second bool     // in the second pass of the mutating policies
}

// hasListener reports whether there is a listener.
func (t *teller) hasListener() bool { return t.told != nil }

func (t *teller) tell(h *hook, b *compiledBinding, in *invocation, e explain.Event) {
	e.Kind, e.Phase, e.Policy, e.Second = h.Kind, h.phase, h.Name, t.second
	if b != nil {
		e.Binding = b.Name
	}
	if in != nil {
		e.Param = in.paramName()
	}
	t.told.tell(e)
}
