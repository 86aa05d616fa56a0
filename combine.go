package celgate

import (
	"github.com/celgate/celgate/policy"
)

// A combination determines whether a request satisfies a policy with combine: Any.
type combination struct {
	from      int              // index of the policy's first violation
	binding   *compiledBinding // the present one
	ran       bool             // for any param of the binding
	failed    bool             // for any param of the binding, or it could not be evaluated
	satisfied bool             // by an earlier binding
}

// begin begins a policy; the decision has the violations of the policies before.
func (c *combination) begin(d *Decision) { *c = combination{from: len(d.Violations)} }

// add records an invocation of the policy.
func (c *combination) add(b *compiledBinding, ran, failed bool) {
	if b != c.binding {
		c.next(b)
	}
	c.ran = c.ran || ran
	c.failed = c.failed || failed
}

func (c *combination) next(b *compiledBinding) {
	c.satisfied = c.satisfied || c.ran && !c.failed
	c.binding, c.ran, c.failed = b, false, false
}

// end removes the violations of a policy if one satisfied binding suffices.
func (c *combination) end(h *hook, d *Decision) {
	if c.next(nil); c.satisfied && h.Combine == policy.CombineAny {
		clear(d.Violations[c.from:])
		d.Violations = d.Violations[:c.from]
	}
}
