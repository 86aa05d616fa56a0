package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
	"github.com/google/cel-go/cel"
)

var costs = []*Analyzer{
	{
		Code: "CG601", Name: "cost", Severity: Warning,
		Title: "an expression or a policy may cost more than the server allows",
		Text: `One expression may cost 1,000,000 units, the match conditions of a policy together 2,500,000, its validations with their messages 10,000,000, its audit annotations and each mutation 10,000,000. What costs more is an error,
of which failurePolicy decides. It is a warning where an object that was made with lists of 32 items went over a
budget, and a note where only the estimate does: for lists and maps of 32 items and texts of 1,000 characters. celgate
check --measure shows both for all budgets. Two nested loops over one list cost the square of its length.`,
		Before: "expression: object.spec.containers.all(a, object.spec.containers.all(b, object.spec.containers.all(c, …)))",
		After:  "variables:\n- name: names\n  expression: object.spec.containers.map(c, c.name)\n…\nexpression: object.spec.containers.all(c, c.name in variables.names)",
		run:    findOverBudget,
	},
	{
		Code: "CG701", Name: "oldest-minor", Severity: Note,
		Title: "the policy needs a newer Kubernetes than 1.30",
		Text: `The functions that expressions may use, and the versions of the policy kinds, came with different minors. A server refuses a policy with a function that the minor before its own does not have. The
oldest minor is found by compiling with the libraries of each one, from 1.30 to the one that is asked for.`,
		run: oldestMinor,
	},
}

// A Measurement is what one policy costs, and where it works.
type Measurement struct {
	Kind   policy.Kind
	Name   string
	Oldest string // the oldest minor on which it compiles; empty if it does not on the one that is asked for
	// the newest minor that serves its API version, if that is withdrawn; empty: none is known to withdraw it
	Newest string
	Why    string // why it does not on the one before; empty if that is not known to celgate either
	Field  string // the expression that is to blame for it; empty: the kind
	Costs  []Cost

	slow bool // an expression loops so often that the server takes seconds
}

// A Cost is what the expressions of one budget cost.
type Cost struct {
	Of        string // "matchConditions", "validations", "auditAnnotations" or "mutations[0]"
	Limit     int64
	Estimated int64  // the most for lists and maps of 32 items and texts of 1,000 characters
	Observed  int64  // the most that an object that was made cost
	Exceeded  string // what the server says about an object for which it is not enough
	field     string // of its most expensive expression
}

// Measure measures policies. The error is of an input for which nothing can be said, or the end of the context.
func Measure(ctx context.Context, in Input) ([]Measurement, error) {
	envs, err := celenv.New(in.KubeVersion, quirks.SetOf(in.KubeVersion))
	if err != nil {
		return nil, err
	}
	s := newSubject(ctx, in, envs)
	var all []Measurement
	for _, f := range s.facts {
		all = append(all, s.measure(f))
	}
	return all, cmp.Or(s.err, ctx.Err())
}

// Estimate returns what policies may cost at most of each budget, without a look at objects, for lists and maps of 32
// items and texts of 1,000 characters. The error is as that of [Measure].
func Estimate(ctx context.Context, in Input) (map[policy.Ref][]Cost, error) {
	envs, err := celenv.New(in.KubeVersion, quirks.SetOf(in.KubeVersion))
	if err != nil {
		return nil, err
	}
	s := newSubject(ctx, in, envs)
	all := map[policy.Ref][]Cost{}
	for _, f := range s.facts {
		s.typingsOf(f)
		all[f.Ref()] = f.costs
	}
	return all, cmp.Or(s.err, ctx.Err())
}

// assumed is how large values are taken to be.
var assumed = celenv.Sizes{Items: 32, Text: 1000}

// measure returns what a policy costs and where it works.
func (s *subject) measure(f *facts) Measurement { return s.try(f).measurement }

// measureAll finds that out.
func (s *subject) measureAll(f *facts) Measurement {
	m := Measurement{Kind: f.Kind, Name: f.Name}
	m.Oldest, m.Field, m.Why = s.findOldest(f)
	if minor, ok := withdrawn[versionedKind(f)]; ok && m.Oldest != "" {
		m.Newest = fmt.Sprintf("1.%d", minor-1)
		if oldest := introduced[versionedKind(f)]; len(m.Oldest) == len("1.00") && m.Oldest > m.Newest {
			m.Oldest = fmt.Sprintf("1.%d", max(oldest, celenv.Oldest))
		}
	}
	m.Costs = slices.Clone(f.costs)
	m.slow = s.observe(f, m.Costs)
	return m
}

// budgetOf names the budget that an expression is under; empty for a variable.
func budgetOf(e *expression) (string, int64) {
	switch e.Use {
	case policy.UseMatchCondition:
		return "matchConditions", celgate.MatchConditionBudget
	case policy.UseValidation, policy.UseMessageExpression:
		return "validations", celgate.Budget
	case policy.UseAuditAnnotation:
		return "auditAnnotations", celgate.Budget
	case policy.UseApplyConfiguration, policy.UseJSONPatch:
		return fmt.Sprintf("mutations[%d]", e.Index), celgate.Budget
	}
	return "", 0
}

// estimates are what the expressions of a policy may cost at most, each alone.
type estimates map[*expression]int64

func (single estimates) add(e *expression, env *cel.Env, tree *cel.Ast) {
	if tree == nil {
		return
	}
	if cost, err := celenv.Estimate(env, tree, assumed); err == nil {
		single[e] = int64(min(cost, math.MaxInt64/1024))
	}
}

// worstOf adds the estimates up by budget and returns, for each budget, these or others, if those are more.
func (single estimates) worstOf(f *facts, others []Cost) []Cost {
	var of []Cost
	largest := map[string]int64{}
	for _, e := range f.exprs {
		name, limit := budgetOf(e)
		if name == "" {
			continue
		}
		i := slices.IndexFunc(of, func(c Cost) bool { return c.Of == name })
		if i < 0 {
			i = len(of)
			of = append(of, Cost{Of: name, Limit: limit})
		}
		of[i].Estimated += single[e]
		if single[e] >= largest[name] {
			largest[name], of[i].field = single[e], e.Field
		}
	}
	for i := range of {
		of[i].Estimated += single.variablesOf(f, of[i].Of)
		if i < len(others) && of[i].Estimated <= others[i].Estimated {
			of[i] = others[i]
		}
	}
	return of
}

// variablesOf adds what the variables cost that the expressions of a budget use: each once, and once more for messages.
func (single estimates) variablesOf(f *facts, budget string) int64 {
	used := map[string]map[*expression]bool{}
	for _, e := range f.exprs {
		if name, _ := budgetOf(e); name != budget {
			continue
		}
		part := string(e.Use)
		if used[part] == nil {
			used[part] = map[*expression]bool{}
		}
		for _, v := range e.before {
			used[part][v] = true
		}
	}
	sum := int64(0)
	for _, part := range used {
		for v := range part {
			sum += single[v]
		}
	}
	return sum
}

// observe runs the policy on objects, small and large, and keeps the most that each budget was charged.
func (s *subject) observe(f *facts, costs []Cost) (slow bool) {
	for _, items := range []int{0, int(assumed.Items)} {
		t := s.trialOf(items, f)
		if t == nil {
			return slow
		}
		decide := t.engine.Validate
		switch {
		case f.Mutates() && f.Validates():
			decide = t.engine.Admit
		case f.Mutates():
			decide = t.engine.Mutate
		}
		for _, r := range t.requests {
			d, err := decide(s.ctx, r)
			if err != nil {
				s.err = err
				return slow
			}
			slow = slow || loopsForLong(d)
			sums := map[string]int64{}
			exceeded := ""
			for _, o := range d.Outcomes {
				name := strings.TrimPrefix(o.Field, "spec.")
				if strings.HasPrefix(name, "mutations") {
					name = name[:strings.IndexByte(name, ']')+1]
				} else {
					name, _, _ = strings.Cut(name, "[")
				}
				sums[name] += o.Cost
				if errors.Is(o.Err, celgate.ErrBudget) {
					exceeded = o.Message
				}
			}
			for i := range costs {
				costs[i].Observed = max(costs[i].Observed, sums[costs[i].Of])
				costs[i].Exceeded = cmp.Or(costs[i].Exceeded, exceeded)
			}
			if !t.spend(d) || exceeded != "" {
				break
			}
		}
	}
	return slow
}

func findOverBudget(p *pass) {
	for _, f := range p.facts {
		for _, c := range p.measure(f).Costs {
			i := slices.IndexFunc(f.exprs, func(e *expression) bool { return e.Field == c.field })
			if i < 0 {
				continue
			}
			d := diagnosticIn(f.Policy, f.exprs[i].Expr, 0, len(f.exprs[i].Src))
			switch {
			case c.Exceeded != "":
				d.Message = fmt.Sprintf("an object with lists of %d items costs more than the server allows",
					assumed.Items)
				d.Suggestion = "compute what the loops have in common once, in a variable"
			case c.Estimated > c.Limit:
				d.Severity = Note
				d.Message = fmt.Sprintf("%s may cost %s of %s units for lists of %d items; objects that were made cost %s", c.Of, thousands(c.Estimated), thousands(c.Limit), assumed.Items, thousands(c.Observed))
			default:
				continue
			}
			p.report(d)
		}
	}
}

func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// introduced are the minors that first serve the kinds of policies, by kind and API version.
var introduced = map[string]int{
	"ValidatingAdmissionPolicy v1": 30, "ValidatingAdmissionPolicy v1beta1": 28,
	"ValidatingAdmissionPolicy v1alpha1": 26,
	"MutatingAdmissionPolicy v1":         36, "MutatingAdmissionPolicy v1beta1": 34, "MutatingAdmissionPolicy v1alpha1": 32,
}

// withdrawn are the minors from which on a server with its default flags does not serve the kinds in a version, as the
// lifecycle of k8s.io/api v0.37.2 has it; MutatingAdmissionPolicy v1 took the place of its betas, which were never on
// by default, in 1.36.
var withdrawn = map[string]int{
	"ValidatingAdmissionPolicy v1beta1": 34, "ValidatingAdmissionPolicy v1alpha1": 32,
	"MutatingAdmissionPolicy v1beta1": 36, "MutatingAdmissionPolicy v1alpha1": 36,
}

// versionedKind is the kind of a policy and the version in which it is written.
func versionedKind(f *facts) string {
	return string(f.Kind) + " " + f.APIVersion[strings.LastIndexByte(f.APIVersion, '/')+1:]
}

// findOldest finds the oldest minor on which a policy compiles, and what keeps it from the one before.
func (s *subject) findOldest(f *facts) (minor, blamed, why string) {
	refused := func(n int) (field, message string) {
		envs, err := s.older[n]()
		if err != nil {
			return "metadata", err.Error()
		}
		for _, err := range refusals(envs, f.Policy) {
			return err.Field, err.ErrorBody()
		}
		return "", ""
	}
	if len(f.refusals()) > 0 {
		return "", "", ""
	}
	first := max(introduced[versionedKind(f)], celenv.Oldest)
	if first > celenv.Oldest {
		why = fmt.Sprintf("%s %s is served from 1.%d on", f.APIVersion, f.Kind, first)
	}
	for n := first; n < len(s.older); n++ {
		field, message := refused(n)
		if field == "" {
			return fmt.Sprintf("1.%d", n), blamed, why
		}
		blamed, why = field, message
	}
	return s.KubeVersion, blamed, why
}

// environmentsBefore returns what makes the environments of each minor before one, once: by their numbers.
func environmentsBefore(kubeVersion string) []func() (*celenv.Set, error) {
	newest := 0
	if _, err := fmt.Sscanf(kubeVersion, "1.%d", &newest); err != nil {
		return nil
	}
	all := make([]func() (*celenv.Set, error), newest)
	for n := range all {
		version := fmt.Sprintf("1.%d", n)
		all[n] = sync.OnceValues(func() (*celenv.Set, error) { return celenv.New(version, quirks.SetOf(version)) })
	}
	return all
}

func oldestMinor(p *pass) {
	for _, f := range p.facts {
		m := p.measure(f)
		if m.Oldest == "" || m.Why == "" {
			continue
		}
		i := slices.IndexFunc(f.exprs, func(e *expression) bool { return e.Field == m.Field })
		if i < 0 {
			continue // its kind and version say so
		}
		d := diagnosticIn(f.Policy, f.exprs[i].Expr, 0, len(f.exprs[i].Src))
		d.Message = fmt.Sprintf("the oldest Kubernetes that takes the policy is %s", m.Oldest)
		if found := wording.Problems(m.Why); len(found) > 0 {
			d.Message += ": before, " + found[0].Message
		}
		p.report(d)
	}
}
