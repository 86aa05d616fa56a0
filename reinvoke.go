package celgate

import (
	"maps"
	"slices"

	"github.com/celgate/celgate/policy"
)

// reinvocation remembers which invocations are to run in the next pass.
type reinvocation struct {
	pass      int                    // 1 is the first
	previous  []invocationKey        // IfNeeded invocations of released policies that ran since the object last changed
	own       []ownInvocation        // those of the dialect, whose object has not changed since where they look
	again     map[invocationKey]bool // in this pass
	next      map[invocationKey]bool // in the next one
	passes    map[invocationKey]int  // how often those of the dialect ran
	restless  map[invocationKey]bool // would run again, and have run as often as they may
	ran       map[invocationKey]bool // in the first pass; kept for who listens
	requested bool
}

// An ownInvocation is one of a policy of the dialect, which runs again only if what it reads or writes has changed.
type ownInvocation struct {
	key  invocationKey
	hook *hook
}

// begin makes what was asked for what runs in a pass.
func (re *reinvocation) begin(pass int) {
	re.pass, re.again, re.next, re.requested = pass, re.next, nil, false
}

// isDue reports that an invocation is to run in this pass, which is not the first. What earlier policies changed in the
// same pass counts for those of the dialect.
func (re *reinvocation) isDue(in *invocation) bool {
	key := in.key()
	if in.hook.Kind != policy.Admission {
		return re.pass == policy.DefaultPasses && re.again[key]
	}
	return re.again[key] || re.next[key]
}

// done keeps that an invocation has run in this pass.
func (re *reinvocation) done(in *invocation) {
	if !in.hook.MayReinvoke() {
		return
	}
	key := in.key()
	if in.hook.Kind != policy.Admission {
		re.previous = append(re.previous, key)
		return
	}
	delete(re.next, key)
	if re.passes == nil {
		re.passes = map[invocationKey]int{}
	}
	re.passes[key]++
	re.own = append(re.own, ownInvocation{key, in.hook})
}

// skipReason says why an invocation that matches in the second pass does not run; empty: it does.
func (re *reinvocation) skipReason(in *invocation) string {
	switch {
	case re.isDue(in):
		return ""
	case !in.hook.MayReinvoke():
		return "reinvocationPolicy is Never"
	case !re.ran[in.key()]:
		return "only what ran in the first pass runs again, and there it was not for the request"
	case in.hook.Kind == policy.Admission:
		return "nothing that it reads or writes has changed since it ran"
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
	all := re.previous
	if len(re.next) > 0 {
		all = append(slices.Collect(maps.Keys(re.next)), all...)
	}
	for _, o := range re.own {
		all = append(all, o.key)
	}
	return all
}

// require makes all released policies that ran before run again: the object has changed since.
func (re *reinvocation) require() {
	for _, key := range re.previous {
		re.mark(key)
	}
	re.previous = nil
	re.requested = true
}

// noteChange makes those run again that ran before and for which the object has changed.
func (re *reinvocation) noteChange(before, after map[string]any) {
	re.require()
	re.own = slices.DeleteFunc(re.own, func(o ownInvocation) bool {
		if !o.hook.effects.HaveChanged(before, after) {
			return false
		}
		if re.passes[o.key] < o.hook.Passes() {
			re.mark(o.key)
			return true
		}
		if re.restless == nil {
			re.restless = map[invocationKey]bool{}
		}
		re.restless[o.key] = true
		return true
	})
}

func (re *reinvocation) mark(key invocationKey) {
	if re.next == nil {
		re.next = map[invocationKey]bool{}
	}
	re.next[key] = true
}
