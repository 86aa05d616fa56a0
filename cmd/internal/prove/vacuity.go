package prove

import (
	"context"
	"errors"
	"fmt"

	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/policy"
)

// A Vacuity is a part of a policy that is proved to have no effect.
type Vacuity struct {
	Policy, Binding string
	Expr            policy.Expr // zero for a binding
	Message         string
}

// A possibility is the question whether a condition can be true in any case.
type possibility struct {
	Vacuity
	possible  bool
	undecided bool
	of        func(*invocation, *solve.Store) solve.Formula
}

// Vacuous returns the parts of a set that have no effect: validations that never or always deny, match conditions that
// are never or always true, bindings that do not match any request. All of them are proved; the second result is the
// number of undecided questions.
func (r *Room) Vacuous(ctx context.Context, s *Side) (all []Vacuity, undecided int, err error) {
	for _, p := range s.programs {
		cases := casesOf(r.Types, []*policy.Policy{p.Policy})
		for b := range s.native.set.EachBinding() {
			if !b.Binds(p.Policy) || len(cases) == 0 {
				continue
			}
			found, open, err := r.vacuousIn(ctx, p, b, cases)
			if err != nil {
				return nil, 0, err
			}
			all, undecided = append(all, found...), undecided+open
		}
	}
	return all, undecided, nil
}

func (r *Room) vacuousIn(ctx context.Context, p *program, b *policy.Binding, cases []Case) ([]Vacuity, int, error) {
	questions := possibilities(p, b)
	for _, c := range cases {
		if err := r.askPossible(ctx, p, b, c, questions); err != nil {
			return nil, 0, err
		}
	}
	var found []Vacuity
	undecided := 0
	for i, q := range questions {
		switch {
		case q.possible:
		case q.undecided:
			undecided++
		default:
			found = append(found, q.Vacuity)
		}
		if i == 0 && !q.possible { // the binding does not match any request: the rest follows
			break
		}
	}
	return found, undecided, nil
}

func possibilities(p *program, b *policy.Binding) []*possibility {
	all := []*possibility{{
		Vacuity: Vacuity{p.Name, b.Name, policy.Expr{}, "does not match any request that the policy matches"},
		of:      func(i *invocation, _ *solve.Store) solve.Formula { return i.matched }}}
	add := func(x policy.Expr, message string, of func(*invocation, *solve.Store) solve.Formula) {
		all = append(all, &possibility{Vacuity: Vacuity{p.Name, b.Name, x, message}, of: of})
	}
	for k, c := range p.MatchConditions {
		add(c.Expr, "is never true: the policy never applies", func(i *invocation, s *solve.Store) solve.Formula {
			return s.Conjoin(i.matched, i.conditions[k].truth)
		})
		add(c.Expr, "is always true", func(i *invocation, s *solve.Store) solve.Formula {
			return s.Conjoin(i.matched, i.conditions[k].truth.Negate())
		})
	}
	for k, v := range p.Policy.Validations {
		add(v.Expr, "never denies a request", func(i *invocation, _ *solve.Store) solve.Formula { return i.validations[k] })
		add(v.Expr, "denies every request that the policy matches", func(i *invocation, s *solve.Store) solve.Formula {
			return s.Conjoin(i.applies, i.values[k].truth)
		})
	}
	return all
}

// askPossible marks the possibilities in a case.
func (r *Room) askPossible(ctx context.Context, p *program, b *policy.Binding, c Case, questions []*possibility) error {
	if c.isOutside() {
		for _, q := range questions {
			q.undecided = true
		}
		return nil
	}
	sizes, keys := map[string]int{}, map[string][]string{}
	for range 200 {
		m := newMachine(sizes, keys)
		req := newRequest(m, c, r.Types)
		inv := req.invoke(p, b)
		if !m.settle() {
			continue
		}
		for _, q := range questions {
			if q.possible {
				continue
			}
			m.store.Limit(mostClauses)
			model, err := m.store.Solve(ctx, q.of(inv, m.store))
			switch {
			case errors.Is(err, solve.ErrSize):
				q.undecided = true
			case err != nil:
				return err
			case model != nil:
				q.possible = true
			case len(m.unbounded) > 0:
				q.undecided = true
			}
		}
		return nil
	}
	return fmt.Errorf("policy %s: the sizes of lists do not converge", p.Name)
}
