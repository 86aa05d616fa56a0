package celgate

import (
	"sync"

	"github.com/celgate/celgate/explain"
)

// A telling is somebody who is told what happens in one call.
type telling struct {
	tell     func(explain.Event)
	outcomes int // of the phases before
}

// next begins another phase of a call. The outcomes of the new phase come after those of d.
func (t *telling) next(d *Decision) {
	if t != nil {
		t.outcomes = len(d.Outcomes)
	}
}

// watches are what programs tell, as bits.
type watches int

const (
	watchValues watches = 1 << iota
	watchBranches
)

// watchedPolicies are the policies in force as programs that tell what happens in them, by what they tell. They are
// compiled when somebody first asks.
type watchedPolicies [watchValues | watchBranches + 1]struct {
	once sync.Once
	watchedHooks
	err error
}

type watchedHooks struct {
	index    *hookIndex
	observed []explain.Observed // if branches are told
}

// hooks returns the policies as programs that tell what is asked for; compile makes them.
func (w *watchedPolicies) hooks(what watches, compile func(watches) (watchedHooks, error)) (watchedHooks, error) {
	of := &w[what]
	of.once.Do(func() { of.watchedHooks, of.err = compile(what) })
	return of.watchedHooks, of.err
}

// A teller tells what happens to one request.
type teller struct {
	told   *telling // nil: nobody listens
	second bool     // in the second pass of the mutating policies
}

// hasListener reports whether anybody listens.
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
