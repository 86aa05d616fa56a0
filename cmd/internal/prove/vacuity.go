package prove

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/policy"
)

// A Vacuity is a part of a policy that is proved to have no effect.
type Vacuity struct {
	Policy, Binding string      // without a binding: with each of them
	Expr            policy.Expr // zero for a binding
	From, To        int         // the part of the text of Expr; 0, 0: the whole
	Instead         string      // what may stand in place of the part
	Message         string
}

// Part returns the text of the part of the expression; empty: it is the whole expression or a binding.
func (v Vacuity) Part() string { return v.Expr.Src[v.From:v.To] }

// Vacuities are the answers about a set.
type Vacuities struct {
	Found     []Vacuity
	Undecided int // the number of questions
	Disputes  []string
	Opinion   Opinion
}

// A possibility is the question whether a condition can be true in any case.
type possibility struct {
	Vacuity
	possible  bool
	undecided bool
	unless    *possibility // if this one is not possible either, it is reported instead
	of        func(*invocation, *solve.Store) solve.Formula
}

// Vacuous returns the parts of a set that have no effect: validations that never or always deny, match conditions that
// are never or always true, bindings that do not match any request, messages that are never used, operands and branches
// that make no difference. All of them are proved.
func (r *Room) Vacuous(ctx context.Context, s *Side) (*Vacuities, error) {
	out := &Vacuities{}
	for _, p := range s.programs {
		cases := casesOf(r.Types, []*policy.Policy{p.Policy})
		first, applies := len(out.Found), false
		for b := range s.native.set.EachBinding() {
			if !b.Binds(p.Policy) || len(cases) == 0 {
				continue
			}
			before := len(out.Found)
			if err := r.vacuousIn(ctx, p, b, cases, out); err != nil {
				return nil, err
			}
			applies = applies || !slices.ContainsFunc(out.Found[before:], func(v Vacuity) bool {
				return v.Expr.IsZero()
			})
		}
		if !applies {
			continue
		}
		if err := r.findDead(ctx, s, p, cases, out.Found[first:], out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *Room) vacuousIn(ctx context.Context, p *program, b *policy.Binding, cases []Case, out *Vacuities) error {
	questions := possibilities(p, b)
	for _, c := range cases {
		if err := r.askPossible(ctx, p, b, c, questions, out); err != nil {
			return err
		}
	}
	for i, q := range questions {
		switch {
		case q.possible || q.unless != nil && !q.unless.possible:
		case q.undecided:
			out.Undecided++
		default:
			out.Found = append(out.Found, q.Vacuity)
		}
		if i == 0 && !q.possible { // the binding does not match any request: the rest follows
			break
		}
	}
	return nil
}

func possibilities(p *program, b *policy.Binding) []*possibility {
	var all []*possibility
	add := func(x policy.Expr, message string, of func(*invocation, *solve.Store) solve.Formula) {
		v := Vacuity{Policy: p.Name, Binding: b.Name, Expr: x, Message: message}
		all = append(all, &possibility{Vacuity: v, of: of})
	}
	add(policy.Expr{}, "does not match any request that the policy matches",
		func(i *invocation, _ *solve.Store) solve.Formula { return i.matched })
	for k, c := range p.MatchConditions {
		add(c.Expr, "is never true: the policy never applies", func(i *invocation, s *solve.Store) solve.Formula {
			return s.Conjoin(i.matched, i.conditions[k].truth)
		})
		add(c.Expr, "is always true", func(i *invocation, s *solve.Store) solve.Formula {
			return s.Conjoin(i.matched, i.conditions[k].truth.Negate())
		})
	}
	for k, v := range p.Policy.Validations {
		add(v.Expr, "never denies a request",
			func(i *invocation, _ *solve.Store) solve.Formula { return i.validations[k] })
		denies := all[len(all)-1]
		add(v.Expr, "denies every request that the policy matches", func(i *invocation, s *solve.Store) solve.Formula {
			return s.Conjoin(i.applies, i.validations[k].Negate()) // an error that is ignored does not deny
		})
		all[len(all)-1].unless = denies
		if p.messages[k] != nil {
			add(v.MessageExpr, "is never the message: if the validation fails, it is an error, empty or of several lines",
				func(i *invocation, _ *solve.Store) solve.Formula { return i.messages[k] })
			all[len(all)-1].unless = denies
		}
	}
	return all
}

// askPossible marks the possibilities in a case.
func (r *Room) askPossible(ctx context.Context, p *program, b *policy.Binding, c Case, questions []*possibility,
	out *Vacuities) error {
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
		inv.messages = req.messagesOf(p, inv)
		if !m.settle() {
			continue
		}
		for _, q := range questions {
			if q.possible {
				continue
			}
			m.store.Limit(mostClauses)
			about := "policy " + q.Policy + ", whether it " + q.Message
			possible, known, err := r.isPossible(ctx, req, q.of(inv, m.store), about, out)
			if err != nil {
				return err
			}
			q.possible, q.undecided = possible, q.undecided || !known
		}
		return nil
	}
	return fmt.Errorf("policy %s: the sizes of lists do not converge", p.Name)
}

// isPossible asks whether a goal about a request can be true; not known: that is undecided.
func (r *Room) isPossible(ctx context.Context, req *request, goal solve.Formula, about string,
	out *Vacuities) (possible, known bool, err error) {
	s := req.m.store
	model, err := s.Solve(ctx, goal)
	model, err = r.compare(ctx, s, goal, model, err, &out.Opinion)
	var d *dispute
	switch {
	case errors.As(err, &d):
		out.Disputes = append(out.Disputes, about+": "+d.explain(req.objectIn))
		return false, false, nil
	case errors.Is(err, solve.ErrSize):
		return false, false, nil
	case err != nil:
		return false, false, err
	}
	return model != nil, model != nil || len(req.m.unbounded) == 0, nil
}

// usableMessage matches the results of messageExpressions that a server uses, and more: one line that is not empty.
const usableMessage = `\A[\s\x{85}\p{Z}]*[^\s\x{85}\p{Z}]([^\n]*[^\s\x{85}\p{Z}])?[\s\x{85}\p{Z}]*\z`

// messagesOf returns for each validation the condition under which it fails and its messageExpression is the message.
func (r *request) messagesOf(p *program, in *invocation) []solve.Formula {
	s := r.m.store
	out := make([]solve.Formula, len(p.messages))
	for i, tree := range p.messages {
		if out[i] = solve.False; tree == nil || in.matched == solve.False {
			continue
		}
		expressions := r.evaluator(p, withoutAuthorizer(in.roots))
		for _, part := range expressions.valueOf(tree, p.Policy.Validations[i].MessageExpr).parts() {
			usable := solve.True
			if l, ok := part.leaf.(textLeaf); ok {
				usable = r.m.isMatch(l, usableMessage)
			}
			out[i] = s.Disjoin(out[i], s.Conjoin(part.when, usable))
		}
		v := in.values[i]
		out[i] = s.All(out[i], in.applies, v.isBool, v.truth.Negate())
	}
	return out
}
