package celgate

import (
	"maps"
	"slices"

	"github.com/celgate/celgate/policy"
)

// A reinvocation records which invocations run in the next pass.
type reinvocation struct {
	pass      int                    // from 1
	previous  []invocationKey        // IfNeeded invocations of native policies that ran since the object last changed
	own       []ownInvocation        // invocations of the dialect whose fields have not changed since
	again     map[invocationKey]bool // run in this pass
	next      map[invocationKey]bool // run in the next one
	passes    map[invocationKey]int  // the number of runs of each invocation of the dialect
	restless  map[invocationKey]bool // would run again, but have reached their limit
	ran       map[invocationKey]bool // in the first pass; kept for listeners
	requested bool
}

// An ownInvocation is one of a policy of the dialect, which runs again only if what it reads or writes has changed.
type ownInvocation struct {
	key  invocationKey
	hook *hook
}

// begin starts a pass with the requested invocations.
func (re *reinvocation) begin(pass int) {
	re.pass, re.again, re.next, re.requested = pass, re.next, nil, false
}

// isDue reports whether an invocation runs in this pass, which is not the first. For policies of the dialect, changes
// by earlier policies of the same pass count.
func (re *reinvocation) isDue(in *invocation) bool {
	key := in.key()
	if in.hook.Kind != policy.Admission {
		return re.pass == policy.DefaultPasses && re.again[key]
	}
	return re.again[key] || re.next[key]
}

// done records that an invocation has run in this pass.
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

// skipReason returns the reason why an invocation that matches in the second pass does not run; empty: it does.
func (re *reinvocation) skipReason(in *invocation) string {
	switch {
	case re.isDue(in):
		return ""
	case !in.hook.MayReinvoke():
		return "reinvocationPolicy is Never"
	case !re.ran[in.key()]:
		return "only mutations of the first pass run again, and it did not match the request then"
	case in.hook.Kind == policy.Admission:
		return "the fields that it reads or writes have not changed since it ran"
	}
	return "other policies did not change the object after it ran"
}

// remember records that an invocation ran in the first pass.
func (re *reinvocation) remember(in *invocation) {
	if re.ran == nil {
		re.ran = map[invocationKey]bool{}
	}
	re.ran[in.key()] = true
}

// invocations returns those that ran and must run again if something else changes the object.
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

// require makes all native policies that ran before run again: the object has changed since.
func (re *reinvocation) require() {
	for _, key := range re.previous {
		re.mark(key)
	}
	re.previous = nil
	re.requested = true
}

// noteChange marks the invocations that must run again because of a change.
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
