package celgate

import (
	"maps"
	"slices"

	"github.com/celgate/celgate/policy"
)

// reinvocation remembers which invocations are to run in the second pass.
type reinvocation struct {
	previous  []invocationKey // IfNeeded invocations that ran since the object last changed
	again     map[invocationKey]bool
	ran       map[invocationKey]bool // in the first pass; kept for who listens
	requested bool
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

// invocations returns all that ran and are to run again once something else changes the object.
func (re *reinvocation) invocations() []invocationKey {
	if len(re.again) == 0 {
		return re.previous
	}
	return append(slices.Collect(maps.Keys(re.again)), re.previous...)
}

// require makes everything that ran before run again: the object has changed since.
func (re *reinvocation) require() {
	if re.again == nil && len(re.previous) > 0 {
		re.again = map[invocationKey]bool{}
	}
	for _, key := range re.previous {
		re.again[key] = true
	}
	re.previous = nil
	re.requested = true
}
