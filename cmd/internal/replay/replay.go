// Package replay checks whether the mutations of a request are safe: whether a second run would change the object
// again, and whether the final object still has the values that each policy set.
//
// A server does not check this. It runs policies with reinvocationPolicy IfNeeded a second time when something else has
// changed the object, and all policies once more on every update.
package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// A Result is the result of the checks for one request.
type Result struct {
	Again  []Change // the changes of a second run of the mutating phase; none: the mutations are idempotent
	Denied string   // the answer of the second run, if it denies the request
	Lost   []Loss   // values that a policy set and others removed or replaced; none: all survive
	Beyond []By     // policies with more values than the check examines
}

// most is the maximum number of values of one change that the check examines.
const most = 1000

// IsIdempotent reports whether a second run does not change the object.
func (r *Result) IsIdempotent() bool { return len(r.Again) == 0 && r.Denied == "" }

// Survives reports whether the final object has the values that each policy set.
func (r *Result) Survives() bool { return len(r.Lost) == 0 }

// A Change is the effect of one policy on the object in the second run.
type Change struct {
	By
	Paths []string // of the differences, without duplicates
	Hunks []rewrite.Hunk
}

// A By identifies an invocation of a policy.
type By struct{ Policy, Binding, Param string }

// WiderText returns the message for a policy with more values than the check examines.
func (b By) WiderText() string {
	return fmt.Sprintf("policy %s sets more than %d values: whether the others survive is not known", b.Policy,
		most)
}

func changerOf(c *celgate.Change) By { return By{c.Policy, c.Binding, c.Param} }

// A Loss is a value that a policy set and that the final object does not have.
type Loss struct {
	By
	Path    string // such as spec.containers[name=app].image; of a list without keys: the list
	Value   any    // the value that was set
	Removed bool   // the policy removed the value, and it is back
	Item    bool   // the value is an item of the list
	Thief   By     // the invocation that changed it; empty: not a policy
}

// Run runs the mutating phase of a request again on its result. The decision is the one about the request; if it is a
// denial, Run does not check anything.
func Run(ctx context.Context, engine *celgate.Engine, p *celgate.Prepared, d *celgate.Decision,
	types *schema.Registry) (*Result, error) {
	found := &Result{}
	if d.MutatedObject == nil || len(d.Changes) == 0 {
		return found, nil
	}
	t := types.Type(p.Request().Kind)
	again, err := engine.Mutate(ctx, p.WithObject(d.MutatedObject))
	if err != nil {
		return nil, err
	}
	switch {
	case !again.Allowed:
		found.Denied = "denied"
		if again.Status != nil {
			found.Denied = again.Status.Message
		}
	case !tree.Equal(again.Object, d.MutatedObject):
		for i := range again.Changes {
			c := &again.Changes[i]
			found.Again = append(found.Again, Change{changerOf(c), paths(c, t), rewrite.Diff(c.Before, c.After, t)})
		}
	}
	found.findLosses(d, t)
	return found, nil
}

func paths(c *celgate.Change, t *shape.Type) []string {
	var all []string
	for _, w := range writesOf(c.Before, c.After, t) {
		if path := w.path(); !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all
}

// findLosses compares the values that each policy set with the final object. A policy may change its own values.
func (r *Result) findLosses(d *celgate.Decision, t *shape.Type) {
	for i := range d.Changes {
		c := &d.Changes[i]
		all := writesOf(c.Before, c.After, t)
		if len(all) > most {
			all, r.Beyond = all[:most], append(r.Beyond, changerOf(c))
		}
		for _, w := range all {
			if w.holds(d.MutatedObject) {
				continue
			}
			loss := Loss{By: changerOf(c), Path: w.path(), Value: w.value, Removed: w.removed, Item: w.item}
			if next := slices.IndexFunc(d.Changes[i+1:],
				func(c celgate.Change) bool { return !w.holds(c.After) }); next >= 0 {
				loss.Thief = changerOf(&d.Changes[i+1+next])
			}
			if loss.Thief != loss.By && !slices.ContainsFunc(r.Lost, func(l Loss) bool {
				return l.By == loss.By && l.Path == loss.Path && l.Removed == loss.Removed &&
					(!l.Item || tree.Equal(l.Value, loss.Value))
			}) {
				r.Lost = append(r.Lost, loss)
			}
		}
	}
}

// String describes the effect of a policy in a second run.
func (c Change) String() string {
	return fmt.Sprintf("policy %s changes %s again when the mutating phase runs once more", c.Policy,
		strings.Join(c.Paths, ", "))
}

// Messages describes all results.
func (r *Result) Messages() []string {
	var all []string
	if r.Denied != "" {
		all = append(all, "the mutating phase is denied when it runs once more: "+r.Denied)
	}
	for _, c := range r.Again {
		all = append(all, c.String())
	}
	for _, l := range r.Lost {
		all = append(all, l.String())
	}
	for _, b := range r.Beyond {
		all = append(all, b.WiderText())
	}
	return all
}

// String describes the loss.
func (l Loss) String() string {
	thief := "policy " + l.Thief.Policy
	if l.Thief.Policy == "" {
		thief = "the API server"
	}
	switch what := writeValue(l.Value); {
	case l.Item && l.Removed:
		return fmt.Sprintf("%s: policy %s removed %s, %s restores it", l.Path, l.Policy, what, thief)
	case l.Item:
		return fmt.Sprintf("%s: policy %s added %s, %s removes it", l.Path, l.Policy, what, thief)
	case l.Removed:
		return fmt.Sprintf("%s: policy %s removed it, %s restores it", l.Path, l.Policy, thief)
	default:
		return fmt.Sprintf("%s: policy %s set %s, %s undoes it", l.Path, l.Policy, what, thief)
	}
}

// Lines describes the changes of a second run.
func (c Change) Lines() []string {
	var lines []string
	for _, h := range c.Hunks {
		indent := ""
		if h.Path != "" {
			lines, indent = append(lines, h.Path+":"), "  "
		}
		for _, l := range h.Lines {
			lines = append(lines, indent+l)
		}
	}
	return lines
}

// writeValue writes a value for a message.
func writeValue(v any) string {
	if object, ok := v.(map[string]any); ok {
		for _, key := range []string{"name", "key"} {
			if name, ok := object[key].(string); ok {
				return fmt.Sprintf("the item %q", name)
			}
		}
	}
	const width = 80
	all := text(v)
	if runes := []rune(all); len(runes) > width {
		return string(runes[:width]) + "…"
	}
	return all
}
