package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// A trial is an engine with the requests to ask it.
type trial struct {
	engine   *celgate.Engine
	requests []*celgate.Prepared
	traces   bool
	told     []*explain.Mutation // those of the last decision
	spent    int64               // CEL cost units of all decisions
}

// mostSpent bounds the cost of all decisions of one trial: beyond it, expressions are not run on further objects.
const mostSpent = 5_000_000

// spend adds the costs of a decision; false if the limit is reached.
func (t *trial) spend(d *celgate.Decision) bool {
	for _, o := range d.Outcomes {
		t.spent += o.Cost
	}
	return t.spent < mostSpent
}

// trials are the results of the trials of one policy.
type trials struct {
	measurement Measurement
	mutations   map[string]*results // by their fields
	twice       *unstable           // a mutation that is not idempotent; nil if none was found
}

// try tries a policy, once.
func (s *subject) try(f *facts) *trials {
	if f.trials == nil {
		s.typingsOf(f)
		s.each(func(s *subject, f *facts) {
			found := &trials{measurement: s.measureAll(f)}
			if f.Mutates() {
				found.mutations, found.twice = s.runs(f), s.runTwice(f)
			}
			f.trials, f.engine = found, nil
		})
	}
	return f.trials
}

// trialOf makes a trial of some policies, all in force; nil if there is nothing to try.
func (s *subject) trialOf(items int, of ...*facts) *trial {
	m := s.newMaker(of...)
	m.items = items
	requests := m.requests()
	if len(requests) == 0 {
		return nil
	}
	for _, f := range of {
		if s.unservedReason(f.APIVersion, string(f.Kind)) != "" || len(f.refusals()) > 0 {
			return nil
		}
	}
	cluster, err := m.cluster()
	if err != nil {
		return nil // params that cannot be made
	}
	set := &policy.Set{}
	for _, f := range of {
		set.Policies = append(set.Policies, f.stored)
		if f.Singleton != nil {
			continue
		}
		for _, b := range f.bindings {
			set.Bindings = append(set.Bindings, narrowBinding(b, f.Ref()))
		}
		if len(f.bindings) == 0 { // not in force yet
			set.Bindings = append(set.Bindings,
				&policy.Binding{Kind: f.Kind, Name: f.Name, PolicyName: f.Name, Actions: []policy.Action{policy.Deny}})
		}
	}
	t := &trial{traces: items == 0} // else only costs are of interest
	opts := celgate.Options{KubeVersion: s.KubeVersion, Types: s.Types, Cluster: cluster, Before: of[0].engine}
	if t.engine, err = celgate.New(set, opts); err != nil {
		s.err = err
		return nil
	}
	if len(t.engine.Rejections()) > 0 {
		return nil
	}
	if of[0].trials == nil {
		of[0].engine = t.engine
	}
	for _, r := range requests {
		if prepared, err := t.engine.Prepare(s.ctx, r); err == nil {
			t.requests = append(t.requests, prepared)
		}
	}
	return t
}

// decide runs the mutating policies in an order (nil: by name) and keeps the results of their mutations.
func (t *trial) decide(ctx context.Context, r *celgate.Prepared, order []string) (*celgate.Decision, error) {
	t.told = nil
	how := explain.Options{Order: order, MutatingOnly: true}
	if t.traces {
		how.Trace = func(e explain.Event) {
			if e.Mutation != nil {
				t.told = append(t.told, e.Mutation)
			}
		}
	}
	return t.engine.Explain(ctx, r, how)
}

// mutate runs the mutating policies and returns the object; nil if they deny the request.
func (t *trial) mutate(ctx context.Context, r *celgate.Prepared, order ...string) (map[string]any, error) {
	if t.spent >= mostSpent {
		t.told = nil
		return nil, nil
	}
	d, err := t.decide(ctx, r, order)
	if err != nil || !t.spend(d) || !d.Allowed {
		return nil, err
	}
	return d.Object, nil
}

// unstable is a mutation that changes its own result.
type unstable struct {
	mutation *explain.Mutation // of the second run
	example  []string
	shown    bool // a diagnostic has it
}

// runTwice searches for an object that a second run of a policy changes again.
func (s *subject) runTwice(f *facts) *unstable {
	t := s.trialOf(0, f)
	if t == nil {
		return nil
	}
	for _, p := range t.requests {
		r := p.Request()
		once, err := t.mutate(s.ctx, p)
		if err != nil {
			return nil
		}
		if once == nil || tree.Equal(once, r.Object) {
			continue
		}
		twice, err := t.mutate(s.ctx, p.WithObject(once))
		if err != nil {
			return nil
		}
		if twice == nil || tree.Equal(once, twice) {
			continue
		}
		i := slices.IndexFunc(t.told, func(m *explain.Mutation) bool {
			return m.After != nil &&
				!tree.Equal(m.Before, m.After)
		})
		if i < 0 {
			continue
		}
		typ := s.Types.Type(r.Kind)
		example := slices.Concat([]string{"an object:"}, yaml(r.Object, typ), []string{"the first run:"},
			diff(r.Object, once, typ), []string{"the second run:"}, diff(once, twice, typ))
		return &unstable{mutation: t.told[i], example: example}
	}
	return nil
}

// results count the outcomes of a mutation on the generated objects.
type results struct {
	count, failed, changed int
	message                string // the message of the last failure, as later objects have more fields
}

// runs evaluates a policy on generated objects and returns the results of its mutations, by field.
func (s *subject) runs(f *facts) map[string]*results {
	all := map[string]*results{}
	t := s.trialOf(0, f)
	if t == nil {
		return all
	}
	for _, r := range t.requests {
		d, err := t.decide(s.ctx, r, nil)
		if s.ctx.Err() != nil || d != nil && !t.spend(d) {
			break
		}
		for i, m := range t.told {
			of := all[m.Expr.Field]
			if of == nil {
				of = &results{}
				all[m.Expr.Field] = of
			}
			of.count++
			switch {
			case err != nil && i == len(t.told)-1: // the server ends such a request
				of.failed++
				of.message = cmp.Or(of.message, err.Error())
			case m.After == nil && m.Patch == nil: // its expression failed
			case m.After == nil:
				of.failed++
				for _, o := range d.Outcomes {
					if o.Field() == m.Expr.Field {
						of.message = o.Message
						if failed := (*celgate.PatchError)(nil); errors.As(o.Err, &failed) &&
							failed.Type == policy.ApplyConfiguration {
							of.message = failed.Err.Error()
						}
					}
				}
			case !tree.Equal(m.Before, m.After):
				of.changed++
			}
		}
	}
	return all
}

// tryBothOrders searches for an object for which the result of two policies depends on their order.
func (s *subject) tryBothOrders(a, b *facts) []string {
	t := s.trialOf(0, a, b)
	if t == nil {
		return nil
	}
	for _, p := range t.requests {
		r := p.Request()
		x, err := t.mutate(s.ctx, p, a.Name, b.Name)
		if err != nil {
			return nil
		}
		y, err := t.mutate(s.ctx, p, b.Name, a.Name)
		if err != nil {
			return nil
		}
		if t.spent >= mostSpent {
			return nil
		}
		if tree.Equal(x, y) {
			continue
		}
		typ := s.Types.Type(r.Kind)
		outcome := func(object map[string]any) []string {
			if object == nil {
				return []string{"  denied"}
			}
			return diff(r.Object, object, typ)
		}
		return slices.Concat([]string{"an object:"}, yaml(r.Object, typ), []string{a.Name + ", then " + b.Name + ":"},
			outcome(x), []string{b.Name + ", then " + a.Name + ":"}, outcome(y))
	}
	return nil
}

// longestExample is the maximum number of lines of an object or a difference in an example.
const longestExample = 24

func yaml(object map[string]any, t *shape.Type) []string {
	return indentedLines(strings.Split(strings.TrimRight(rewrite.YAML(object, t), "\n"), "\n"))
}

func diff(before, after map[string]any, t *shape.Type) []string {
	var lines []string
	for _, h := range rewrite.Diff(before, after, t) {
		if h.Path != "" {
			lines = append(lines, "@ "+h.Path)
		}
		lines = append(lines, h.Lines...)
	}
	if len(lines) == 0 {
		lines = []string{"no change"}
	}
	return indentedLines(lines)
}

func indentedLines(lines []string) []string {
	if more := len(lines) - longestExample; more > 1 {
		lines = append(lines[:longestExample:longestExample], fmt.Sprintf("and %d more lines", more))
	}
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

// narrowBinding returns a binding of several policies as a binding of one of them.
func narrowBinding(b *policy.Binding, ref policy.Ref) *policy.Binding {
	if len(b.Policies) == 0 {
		return b
	}
	one := *b
	one.Name, one.Policies = b.Name+"-"+ref.Name, []policy.Ref{ref}
	return &one
}
