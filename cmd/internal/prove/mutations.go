package prove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// A Changing is the answer to a question about mutating policies.
type Changing struct {
	Policies []string
	*Result
}

// HasMutations reports whether mutating policies are in force, or policies without a native form, which may mutate.
func (s *Side) HasMutations() bool { return len(s.mutators)+len(s.native.outside) > 0 }

// mostOrdered is the maximum number of mutating policies for which all orders are examined.
const mostOrdered = 3

// Accepts proves that the validating policies of a set admit every object that the mutating policies of another set
// change, in every order of the mutating policies.
func (r *Room) Accepts(ctx context.Context, changes, checks *Side) (*Result, error) {
	out := &Result{Answer: Proved}
	outside := slices.Concat(changes.native.outside, checks.native.outside)
	if len(outside) > 0 {
		out.Answer, out.Reasons = Undecided, outside
		return out, nil
	}
	out.Cases = r.mutationCases(changes.mutators)
	both, err := r.join(changes, checks)
	if err != nil {
		return nil, err
	}
	orders := ordersOf(changes.mutators)
	if orders == nil {
		orders = [][]*program{changes.mutators}
		out.Answer, out.Reasons = Undecided, []Reason{{Message: fmt.Sprintf("the server runs mutating policies in "+
			"random order, and prove examines all orders of at most %d", mostOrdered)}}
	}
	if len(checks.clauses()) == 0 {
		out.addReason(Reason{Message: "none of the bindings of validating policies has the action Deny"})
	}
	for _, c := range out.Cases {
		if out.isOutsideFor(c) {
			continue
		}
		for _, order := range orders {
			confirm := r.denialAfter(both, order)
			for _, k := range checks.clauses() {
				found, err := r.askOne(ctx, c, confirm, func(req *request) solve.Formula {
					made := req.mutate(changes, order, req.start())
					return req.m.store.All(made.ran, made.failing.Negate(), req.later(made.object).denial(k))
				})
				if err != nil {
					return nil, err
				}
				out = out.worst(found)
				if out.Answer.isFinal() {
					return out, nil
				}
			}
		}
	}
	return out, nil
}

// worst returns the worse of two results.
func (out *Result) worst(found *Result) *Result {
	if found.Answer.rankOf() <= out.Answer.rankOf() {
		out.Tried += found.Tried
		out.Opinion.add(found.Opinion)
		return out
	}
	found.Cases = out.Cases
	found.Tried += out.Tried
	found.Opinion.add(out.Opinion)
	return found
}

// isOutsideFor reports whether mutations of a case cannot be decided, and records the reason.
func (out *Result) isOutsideFor(c Case) bool {
	why := c.unmutable()
	if why != "" && out.Answer.rankOf() < Undecided.rankOf() {
		out.Answer, out.Case, out.Reasons = Undecided, c, nil
	}
	if why != "" {
		out.addReason(Reason{Message: why})
	}
	return why != ""
}

// ordersOf returns all orders of a few policies; nil: there are too many.
func ordersOf(all []*program) [][]*program {
	if len(all) > mostOrdered {
		return nil
	}
	if len(all) < 2 {
		return [][]*program{all}
	}
	var out [][]*program
	for i := range all {
		for _, rest := range ordersOf(slices.Delete(slices.Clone(all), i, i+1)) {
			out = append(out, append([]*program{all[i]}, rest...))
		}
	}
	return out
}

// askOne searches for a model of a goal about one case.
func (r *Room) askOne(ctx context.Context, c Case, confirm trial, goalOf func(*request) solve.Formula) (*Result,
	error) {
	out := &Result{Answer: Proved, Case: c}
	sizes, keys := map[string]int{}, map[string][]string{}
	for range 200 {
		m := newMachine(sizes, keys)
		req := newRequest(m, c, r.Types)
		goal := goalOf(req)
		if !m.settle() {
			continue
		}
		_, err := r.search(ctx, req, m.store.All(append(m.assumed, goal)...), confirm, out)
		return out, err
	}
	return nil, errors.New("the sizes of lists do not converge")
}

// join returns a side with the mutating policies of one set and the validating ones of another.
func (r *Room) join(changes, checks *Side) (*Side, error) {
	set := &policy.Set{}
	add := func(s *Side, programs []*program) {
		for _, p := range programs {
			set.Policies = append(set.Policies, p.Policy)
		}
		for b := range s.native.set.EachBinding() {
			if slices.ContainsFunc(programs, func(p *program) bool { return b.Binds(p.Policy) }) {
				set.Bindings = append(set.Bindings, b)
			}
		}
	}
	add(changes, changes.mutators)
	add(checks, checks.programs)
	return r.NewSide(set, nil)
}

// restrict returns a side with some of the mutating policies of another, which run once.
func (r *Room) restrict(s *Side, programs ...*program) (*Side, error) {
	set := &policy.Set{}
	for _, p := range programs {
		once := *p.Policy
		once.Reinvocation = policy.Never
		set.Policies = append(set.Policies, &once)
	}
	for b := range s.native.set.EachBinding() {
		if slices.ContainsFunc(programs, func(p *program) bool { return b.Binds(p.Policy) }) {
			set.Bindings = append(set.Bindings, b)
		}
	}
	return r.NewSide(set, nil)
}

// denialAfter asks whether validating policies deny a request that mutating policies change in an order.
func (r *Room) denialAfter(both *Side, order []*program) trial {
	return func(ctx context.Context, ex *Example) (bool, []string, error) {
		asked, err := r.prepareIn(ctx, ex, both)
		if asked == nil || err != nil {
			return false, nil, err
		}
		asked.Decision, err = asked.Engine.Explain(ctx, asked.Prepared, explain.Options{Order: namesIn(order)})
		if err != nil {
			return false, nil, err
		}
		ex.Old = *asked
		d := asked.Decision
		ex.noteRefusal(d)
		return d.Denial != nil && d.Denial.Phase == policy.PhaseValidation && hasMutated(d), nil, nil
	}
}

func namesIn(programs []*program) (names []string) {
	for _, p := range programs {
		names = append(names, p.Name)
	}
	return names
}

// hasMutated reports whether a mutation was applied.
func hasMutated(d *celgate.Decision) bool {
	return slices.ContainsFunc(d.Outcomes, func(o celgate.Outcome) bool {
		return strings.HasPrefix(o.Field(), "spec.mutations") && o.Verdict == celgate.Admit
	})
}

// prepareIn prepares the request of an example for the engine of a side; nil: the request is refused.
func (r *Room) prepareIn(ctx context.Context, ex *Example, s *Side) (*Asked, error) {
	cluster := r.clusterOf(ex)
	if cluster == nil {
		return nil, nil
	}
	engine, err := celgate.New(s.Set,
		celgate.Options{KubeVersion: r.KubeVersion, Types: r.Types, Cluster: cluster, Before: s.engine})
	if err != nil {
		return nil, err
	}
	prepared, err := engine.Prepare(ctx, ex.Request)
	if err != nil {
		ex.refusal = "the API server refuses the candidate object: " + err.Error()
		return nil, nil
	}
	return &Asked{Engine: engine, Prepared: prepared}, nil
}

// Idempotence proves for each mutating policy that it does not change its own result again.
func (r *Room) Idempotence(ctx context.Context, s *Side) ([]Changing, error) {
	var all []Changing
	for _, p := range s.mutators {
		single, err := r.restrict(s, p)
		if err != nil {
			return nil, err
		}
		p := single.mutators[0]
		order := []*program{p}
		result, err := r.askEach(ctx, r.mutationCases(order), r.changeAgain(single), func(req *request) solve.Formula {
			once := req.mutate(single, order, req.start())
			second := *req
			second.after = once.object
			twice := second.mutate(single, order, once.object)
			return req.m.store.All(once.ran, once.failing.Negate(),
				req.m.store.Disjoin(twice.failing, req.differ(once.object, twice.object)))
		})
		if err != nil {
			return nil, err
		}
		all = append(all, Changing{[]string{p.Name}, result})
	}
	return all, nil
}

// differ returns the condition that two results of mutations differ.
func (r *request) differ(a, b *value) solve.Formula {
	p := &patcher{frame: &frame{machine: r.m}, builtin: r.Resource.Definition == nil}
	return p.differ(&held{solve.True, a}, &held{solve.True, b})
}

// askEach asks a question about each case, until one has a counterexample.
func (r *Room) askEach(ctx context.Context, cases []Case, confirm trial, goalOf func(*request) solve.Formula) (*Result,
	error) {
	out := &Result{Answer: Proved, Cases: cases}
	for _, c := range cases {
		if out.isOutsideFor(c) {
			continue
		}
		found, err := r.askOne(ctx, c, confirm, goalOf)
		if err != nil {
			return nil, err
		}
		if out = out.worst(found); out.Answer.isFinal() {
			break
		}
	}
	return out, nil
}

// changeAgain asks whether a second run of a mutating policy changes the result of the first one.
func (r *Room) changeAgain(single *Side) trial {
	return func(ctx context.Context, ex *Example) (bool, []string, error) {
		asked, err := r.prepareIn(ctx, ex, single)
		if asked == nil || err != nil {
			return false, nil, err
		}
		if asked.Decision, err = asked.Engine.Admit(ctx, asked.Prepared); err != nil {
			return false, nil, err
		}
		ex.Old = *asked
		first := asked.Decision
		ex.noteRefusal(first)
		if !first.Allowed || first.MutatedObject == nil || !hasMutated(first) {
			return false, nil, nil
		}
		ex.New = *asked
		ex.New.Decision, err = asked.Engine.Mutate(ctx, asked.Prepared.WithObject(first.MutatedObject))
		if err != nil {
			return false, nil, err
		}
		second := ex.New.Decision
		return !second.Allowed || !tree.Equal(second.Object, first.MutatedObject), nil, nil
	}
}

// Commutativity proves for each pair of mutating policies that their order does not make a difference.
func (r *Room) Commutativity(ctx context.Context, s *Side) ([]Changing, error) {
	var all []Changing
	for i, p := range s.mutators {
		for _, q := range s.mutators[i+1:] {
			pair, err := r.restrict(s, p, q)
			if err != nil {
				return nil, err
			}
			forth := pair.mutators
			back := []*program{forth[1], forth[0]}
			others := r.mutationCases(back[:1])
			cases := slices.DeleteFunc(r.mutationCases(forth[:1]),
				func(c Case) bool { return !slices.Contains(others, c) })
			result, err := r.askEach(ctx, cases, r.orderMatters(pair, forth, back), func(req *request) solve.Formula {
				st, start := req.m.store, req.start()
				one, two := req.mutate(pair, forth, start), req.mutate(pair, back, start)
				fails := st.Iff(one.failing, two.failing).Negate()
				return st.Disjoin(fails, st.All(one.failing.Negate(), two.failing.Negate(),
					req.differ(one.object, two.object)))
			})
			if err != nil {
				return nil, err
			}
			if len(cases) == 0 {
				result.Reasons = []Reason{{Message: "they do not match the same requests"}}
			}
			all = append(all, Changing{namesIn(forth), result})
		}
	}
	return all, nil
}

// orderMatters asks whether the order of mutating policies makes a difference.
func (r *Room) orderMatters(pair *Side, forth, back []*program) trial {
	return func(ctx context.Context, ex *Example) (bool, []string, error) {
		asked, err := r.prepareIn(ctx, ex, pair)
		if asked == nil || err != nil {
			return false, nil, err
		}
		in := func(order []*program, only bool) (Asked, error) {
			a := *asked
			a.Decision, err = a.Engine.Explain(ctx, a.Prepared,
				explain.Options{Order: namesIn(order), MutatingOnly: only})
			return a, err
		}
		stored := false // in one order at least
		for _, order := range [][]*program{forth, back} {
			a, err := in(order, false)
			if err != nil {
				return false, nil, err
			}
			ex.noteRefusal(a.Decision)
			stored = stored || a.Decision.Allowed
		}
		if !stored {
			return false, nil, nil
		}
		if ex.Old, err = in(forth, true); err != nil {
			return false, nil, err
		}
		if ex.New, err = in(back, true); err != nil {
			return false, nil, err
		}
		one, two := ex.Old.Decision, ex.New.Decision
		return one.Allowed != two.Allowed || !tree.Equal(one.Object, two.Object), nil, nil
	}
}
