package celgate

import (
	"github.com/celgate/celgate/policy"
)

// A combination finds out whether a request satisfies a policy of which one binding is enough.
type combination struct {
	from      int              // where the violations of the policy begin
	binding   *compiledBinding // that is evaluated
	ran       bool             // for any param of the binding
	failed    bool             // for any param of the binding, or it could not be evaluated
	satisfied bool             // by a binding before
}

// begin begins a policy; the decision has the violations of those before.
func (c *combination) begin(d *Decision) { *c = combination{from: len(d.Violations)} }

// add takes note of an invocation of the policy.
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

// end takes the violations of a policy back if the request satisfies one of its bindings and that is enough.
func (c *combination) end(h *hook, d *Decision) {
	if c.next(nil); c.satisfied && h.Combine == policy.CombineAny {
		clear(d.Violations[c.from:])
		d.Violations = d.Violations[:c.from]
	}
}
