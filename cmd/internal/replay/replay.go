// Package replay finds out whether the mutations of a request are safe: whether a second run would change the object
// again, and whether what one policy set is still there after all others.
//
// A server never looks. It runs policies with reinvocationPolicy IfNeeded a second time when something else has changed
// the object, and all of them once more on every update.
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

// A Result is what was found out about one request.
type Result struct {
	Again  []Change // what a second run of the mutating phase changes; none: it is idempotent
	Denied string   // the answer of the second run, if it is a denial
	Lost   []Loss   // what policies set and others took away; none: it survives
	Beyond []By     // policies that set more than was looked at
}

// most is how many values of one change are looked for in the end.
const most = 1000

// IsIdempotent reports whether a second run leaves the object as it is.
func (r *Result) IsIdempotent() bool { return len(r.Again) == 0 && r.Denied == "" }

// Survives reports whether what each policy set is there in the end.
func (r *Result) Survives() bool { return len(r.Lost) == 0 }

// A Change is what one policy does to the object in the second run.
type Change struct {
	By
	Paths []string // of what differs, each once
	Hunks []rewrite.Hunk
}

// By names an invocation of a policy.
type By struct{ Policy, Binding, Param string }

// WiderText words that a policy sets more than was looked at.
func (b By) WiderText() string {
	return fmt.Sprintf("policy %s sets more than %d values: whether the others survive is not known", b.Policy,
		most)
}

func changerOf(c *celgate.Change) By { return By{c.Policy, c.Binding, c.Param} }

// A Loss is one value that a policy set and that the object does not have in the end.
type Loss struct {
	By
	Path    string // such as spec.containers[name=app].image; of a list without keys: the list
	Value   any    // that was set
	Removed bool   // the policy took the value away, and it is back
	Item    bool   // the value is an item of the list
	Thief   By     // who changed it; empty: nobody of the policies
}

// Run runs the mutating phase of a request once more on its result. The decision is that about the request; what was
// denied is not looked at.
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

// findLosses compares what each policy set with the end. What a policy changes of its own is not a loss.
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

// String words what a policy does in a second run.
func (c Change) String() string {
	return fmt.Sprintf("policy %s changes %s again when the mutating phase runs once more", c.Policy,
		strings.Join(c.Paths, ", "))
}

// Messages word all that was found.
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

// String words the loss.
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

// Lines word what a second run changes.
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
