// Package prove proves properties of policies for all objects. It evaluates their expressions for all objects at once,
// to formulas over the members of an object, and asks package solve whether a formula is satisfiable.
//
// There are five answers. Proved: all requests of the cases satisfy the claim, under the assumptions in docs/prove.md.
// Counterexample: a request that both engines have confirmed; a model that they do not confirm does not count.
// Undecided: an expression has a part that cannot be decided, or the models are not objects that a server prepares. Not
// found: the bound of a list may have hidden a counterexample. Disputed: a second solver has another answer.
package prove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/google/cel-go/common/operators"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An Answer is the answer to a question.
type Answer string

// The answers.
const (
	Proved         Answer = "Proved"
	Counterexample Answer = "Counterexample"
	NotFound       Answer = "NotFound"
	Undecided      Answer = "Undecided"
	Disputed       Answer = "Disputed" // two solvers have different answers
)

// rankOf orders answers: the worst of several is the overall answer.
func (a Answer) rankOf() int {
	return slices.Index([]Answer{Proved, NotFound, Undecided, Counterexample, Disputed}, a)
}

// isFinal reports whether other cases cannot change an answer.
func (a Answer) isFinal() bool { return a == Counterexample || a == Disputed }

// A Side is a set of policies that are in force together.
type Side struct {
	Set *policy.Set // the policies and bindings that are in force

	native   *lowered
	programs []*program // of validating policies
	mutators []*program // of mutating ones, in the order of their names
	engine   *celgate.Engine
}

// A Room is the context of questions: a server with its kinds.
type Room struct {
	Types       *schema.Registry
	KubeVersion string
	Second      Second // another solver, asked the same questions; nil: none

	envs      *celenv.Set
	supported map[string][]string // by class: values that the registry was seen to require
}

// NewRoom returns a room for a Kubernetes minor.
func NewRoom(types *schema.Registry, minor string) (*Room, error) {
	envs, err := celenv.New(minor, quirks.SetOf(minor))
	return &Room{Types: types, KubeVersion: minor, envs: envs}, err
}

// NewSide returns a side of a set. Policies of the dialect take part if they have a native form, for which their
// manifests are needed; nil: they do not take part.
func (r *Room) NewSide(set *policy.Set, manifest Manifest) (*Side, error) {
	s := &Side{Set: set}
	if manifest == nil {
		manifest = func(policy.Ref) map[string]any { return nil }
	}
	var err error
	if s.native, err = r.lower(set, manifest); err != nil {
		return nil, err
	}
	for _, p := range s.native.set.Policies {
		made, err := compileProgram(r.envs, p)
		if err != nil {
			return nil, err
		}
		made.origin = cmp.Or(s.native.origins[p.Ref()], p.Name)
		if p.Kind == policy.Mutating {
			s.mutators = append(s.mutators, made)
			continue
		}
		s.programs = append(s.programs, made)
	}
	slices.SortFunc(s.mutators, func(a, b *program) int { return cmp.Compare(a.Name, b.Name) })
	s.engine, err = celgate.New(set, celgate.Options{KubeVersion: r.KubeVersion, Types: r.Types})
	return s, err
}

// Outside returns the policies and bindings that no question is about, because they do not have a native form.
func (s *Side) Outside() []Reason { return s.native.outside }

// A Reason is the reason why an answer is undecided, with the responsible part of an expression.
type Reason struct {
	Policy   string
	Expr     policy.Expr // zero: not an expression
	From, To int         // of the part in the text of Expr
	Message  string
}

// A Result is the answer for one case, or for all of them.
type Result struct {
	Answer  Answer
	Case    Case // of a counterexample, and of an undecided answer
	Reasons []Reason
	Found   *Example
	Tried   int // objects that engines did not confirm
	Cases   []Case
	Opinion Opinion
}

// An Example is a request for which the answers of two sets differ.
type Example struct {
	refusal  string // why the server would not store it; empty: it would
	causes   []metav1.StatusCause
	Request  *celgate.Request // as an author would write it
	Objects  []map[string]any // that must exist: the namespace and params
	Old, New Asked
}

// Existing returns the objects that must exist, without a namespace that only has a name.
func (ex *Example) Existing() []map[string]any {
	return slices.DeleteFunc(slices.Clone(ex.Objects), func(o map[string]any) bool {
		return tree.Object(o).Kind() == namespaceKind && len(o) <= 3 && len(tree.Object(o).Metadata()) <= 1
	})
}

// Asked holds an engine and its answer about a request.
type Asked struct {
	Engine   *celgate.Engine
	Prepared *celgate.Prepared
	Decision *celgate.Decision
}

// A clause is a part of a policy that may deny a request: a validation, or the conditions of a policy.
type clause struct {
	program *program
	binding *policy.Binding
	index   int // of the validation; -1: conditions
}

// denies reports whether a binding denies a request with a violation of its policy.
func denies(b *policy.Binding) bool { return slices.Contains(b.Actions, policy.Deny) }

// clauses returns the parts of a set that may deny requests.
func (s *Side) clauses() []clause {
	var all []clause
	for _, p := range s.programs {
		for b := range s.native.set.EachBinding() {
			if !b.Binds(p.Policy) || !denies(b) {
				continue
			}
			if (len(p.conditions) > 0 || b.ParamRef != nil) && p.FailurePolicy != policy.Ignore {
				all = append(all, clause{p, b, -1})
			}
			for i := range p.validations {
				all = append(all, clause{p, b, i})
			}
		}
	}
	return all
}

// outsideReasons returns the reasons why a whole set cannot be decided by a question about validating policies.
func (s *Side) outsideReasons() []Reason {
	all := slices.Clone(s.native.outside)
	for _, p := range s.mutators {
		all = append(all, Reason{Policy: p.origin, Message: fmt.Sprintf("%s has a kind that prove does not support yet",
			p.Ref())})
	}
	return all
}

// Stricter proves that a set denies every request that another set denies: a counterexample is a request that old
// denies and now admits.
func (r *Room) Stricter(ctx context.Context, old, now *Side) (*Result, error) {
	out := &Result{Answer: Proved}
	if outside := append(old.outsideReasons(), now.outsideReasons()...); len(outside) > 0 {
		out.Answer, out.Reasons = Undecided, outside
		return out, nil
	}
	var policies []*policy.Policy
	for _, p := range old.programs {
		policies = append(policies, p.Policy)
	}
	out.Cases = casesOf(r.Types, policies)
	clauses := old.clauses()
	if len(clauses) == 0 {
		out.Reasons = []Reason{{Message: "none of the bindings in the old set has the action Deny"}}
	}
	clauses = slices.DeleteFunc(clauses, now.isKept)
	for _, c := range out.Cases {
		if c.isOutside() && out.Answer.rankOf() < Undecided.rankOf() {
			out.Answer, out.Case = Undecided, c
			out.Reasons = []Reason{{Message: c.String() + ": prove does not support such requests yet"}}
		}
		if c.isOutside() {
			continue
		}
		for _, k := range clauses {
			found, err := r.query(ctx, c, k, old, now)
			if err != nil {
				return nil, err
			}
			if out = out.worst(found); out.Answer.isFinal() {
				return out, nil
			}
		}
	}
	return out, nil
}

// mostTries is the maximum number of models of one question that engines confirm or refute.
const mostTries = 12

// query searches for a request of a case that a clause of old denies and now admits. At first, only the relevant
// policies of now take part: those with the same name, and those that denied an earlier model.
func (r *Room) query(ctx context.Context, c Case, k clause, old, now *Side) (*Result, error) {
	within := map[string]bool{k.program.origin: true}
	sizes, keys := map[string]int{}, map[string][]string{}
	out := &Result{Answer: Proved, Case: c}
	for round := 0; ; round++ {
		if round > 200 {
			return nil, errors.New("the sizes of lists do not converge")
		}
		m := newMachine(sizes, keys)
		req := newRequest(m, c, r.Types)
		goal := req.denial(k)
		for _, p := range now.programs {
			if !within[p.origin] {
				continue
			}
			for b := range now.native.set.EachBinding() {
				if b.Binds(p.Policy) && denies(b) {
					goal = m.store.Conjoin(goal, req.invoke(p, b).deny(m.store).Negate())
				}
			}
		}
		if !m.settle() {
			continue
		}
		more, err := r.search(ctx, req, goal, r.trialOf(old, now), out)
		if err != nil {
			return nil, err
		}
		widened := false
		for _, name := range more {
			if !within[name] {
				within[name], widened = true, true
			}
		}
		if !widened || out.Answer.isFinal() {
			return out, nil
		}
		*out = Result{Answer: Proved, Case: c, Tried: out.Tried, Opinion: out.Opinion}
	}
}

// denial returns the condition under which a clause denies.
func (r *request) denial(k clause) solve.Formula {
	i := r.invoke(k.program, k.binding)
	if k.index < 0 {
		return i.failing
	}
	return i.validations[k.index]
}

// search finds models of a goal and asks the engines about them. It returns the policies of now that denied one.
func (r *Room) search(ctx context.Context, req *request, goal solve.Formula, confirm trial, out *Result) ([]string,
	error) {
	m := req.m
	open, refusal := goal, ""
	for try := 0; try < mostTries; try++ {
		model, err := req.model(ctx, open, r.supported)
		if try == 0 || errors.Is(err, solve.ErrSize) {
			nice := req.niceties(r.supported)
			model, err = r.compare(ctx, m.store, open, model, err, &out.Opinion,
				slices.Concat(nice[0], nice[1]), nice[0])
		}
		var d *dispute
		switch {
		case errors.As(err, &d):
			out.Answer, out.Reasons = Disputed, []Reason{{Message: d.explain(req.objectIn)}}
			return nil, nil
		case errors.Is(err, solve.ErrSize):
			out.Answer = Undecided
			out.Reasons = append(out.Reasons, Reason{Message: err.Error()})
			return nil, nil
		case err != nil:
			return nil, err
		case model == nil && try == 0 && len(m.unbounded) == 0:
			return nil, nil
		case model == nil && try == 0:
			out.Answer = NotFound
			for _, u := range m.unbounded {
				out.addReason(u.toReason())
			}
			return nil, nil
		}
		if model == nil {
			break
		}
		example, confirmed, deniers, err := r.replay(ctx, req, model, confirm)
		if err != nil {
			return nil, err
		}
		out.Tried++
		refusal = cmp.Or(example.refusal, refusal)
		if confirmed {
			out.Answer = Counterexample
			out.Found, err = r.shrink(ctx, example, confirm)
			return nil, err
		}
		if len(deniers) > 0 {
			r.explainDoubt(m, goal, refusal, out)
			return deniers, nil
		}
		open = m.store.Conjoin(open, model.Leaves(goal).Negate())
	}
	r.explainDoubt(m, goal, refusal, out)
	return nil, nil
}

// explainDoubt explains why engines do not confirm any of the models.
func (r *Room) explainDoubt(m *machine, goal solve.Formula, refusal string, out *Result) {
	out.Answer = Undecided
	used := m.store.Variables(goal)
	causes := map[*opaque]bool{}
	for _, o := range slices.Backward(m.unknown) { // arguments before results
		if causes[o] = causes[o] || o.isIn(used); causes[o] {
			for _, argument := range o.of {
				causes[argument] = true
			}
		}
	}
	for _, o := range m.unknown {
		if causes[o] {
			out.addReason(o.toReason())
		}
	}
	if len(out.Reasons) == 0 {
		out.Reasons = []Reason{{Message: cmp.Or(refusal,
			"the API server changes the candidate objects when it prepares them, and they do not refute the claim then")}}
	}
}

// addReason adds a reason without duplicates: a part of an expression has one for each item of a list.
func (out *Result) addReason(r Reason) {
	if !slices.ContainsFunc(out.Reasons, func(o Reason) bool {
		return o.Policy == r.Policy && o.Message == r.Message && o.From == r.From && o.To == r.To &&
			o.Expr.Field == r.Expr.Field && o.Expr.Src == r.Expr.Src
	}) {
		out.Reasons = append(out.Reasons, r)
	}
}

func (r reason) toReason() Reason {
	what := r.what
	if symbol, ok := operators.FindReverse(what); ok && symbol != "" {
		what = symbol
	}
	out := Reason{Expr: r.expr, Message: what + " cannot be decided"}
	if r.policy != nil {
		out.Policy = r.policy.Name
	}
	if r.ast == nil {
		return out
	}
	if at, ok := r.ast.SourceInfo().GetOffsetRange(r.id); ok {
		out.From = compile.ByteOffset(r.expr.Src, int(at.Start))
		out.To = out.From + 1
	}
	return out
}
