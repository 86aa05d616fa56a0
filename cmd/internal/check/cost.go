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
		Title: "an expression or a policy may exceed a cost limit of the API server",
		Text: `The limits are, in units: 1,000,000 for one expression, 2,500,000 for the match conditions of a policy
together, 10,000,000 for its validations with their messages, 10,000,000 for its audit annotations and for each
mutation. Exceeding a limit is an error, about which failurePolicy decides. It is a warning if a generated object with
lists of 32 items exceeds a limit, and a note if only the estimate does, which assumes lists and maps of 32 items and
strings of 1,000 characters. celgate check --measure shows both for all limits. Two nested loops over one list cost
the square of its length.`,
		Before: "expression: object.spec.containers.all(a, object.spec.containers.all(b, object.spec.containers.all(c, …)))",
		After:  "variables:\n- name: names\n  expression: object.spec.containers.map(c, c.name)\n…\nexpression: object.spec.containers.all(c, c.name in variables.names)",
		run:    findOverBudget,
	},
	{
		Code: "CG701", Name: "oldest-minor", Severity: Note,
		Title: "the policy needs a newer Kubernetes than 1.30",
		Text: `The functions of expressions and the versions of the policy kinds were introduced by different minors.
An API server refuses a policy that uses a function which the previous minor does not have. celgate finds the oldest
minor by compiling the policy with the libraries of each minor, from 1.30 to the requested one.`,
		run: oldestMinor,
	},
}

// A Measurement is the cost of one policy, and the minors on which it works.
type Measurement struct {
	Kind   policy.Kind
	Name   string
	Oldest string // the oldest minor on which it compiles; empty if it does not compile on Input.KubeVersion
	Newest string // the newest minor that serves its API version; empty if the version is not withdrawn
	Why    string // the error of the minor before Oldest; empty if celgate does not know that minor
	Field  string // the expression with that error; empty if it is about the kind
	Costs  []Cost

	slow bool // an expression loops so often that the server needs seconds
}

// A Cost is the cost of the expressions that share one budget, in CEL cost units.
type Cost struct {
	Of        string // "matchConditions", "validations", "auditAnnotations" or "mutations[0]"
	Limit     int64
	Estimated int64  // the worst case for lists and maps of 32 items and strings of 1,000 characters
	Observed  int64  // the maximum of the generated objects
	Exceeded  string // the server's message for a generated object that exceeds Limit; empty if none does
	field     string // of its most expensive expression
}

// Measure measures policies. It returns an error if the input cannot be analysed or the context ends.
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

// Estimate returns the worst-case cost of policies for each budget, without evaluating them, for lists and maps of 32
// items and strings of 1,000 characters. It returns the errors of [Measure].
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

// assumed are the sizes of values that estimates assume.
var assumed = celenv.Sizes{Items: 32, Text: 1000}

// measure returns the measurement of a policy.
func (s *subject) measure(f *facts) Measurement { return s.try(f).measurement }

// measureAll makes the measurement of a policy.
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

// budgetOf returns the name and limit of the budget of an expression; empty for a variable.
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

// estimates are the worst-case costs of the expressions of a policy, each alone.
type estimates map[*expression]int64

func (single estimates) add(e *expression, env *cel.Env, tree *cel.Ast) {
	if tree == nil {
		return
	}
	if cost, err := celenv.Estimate(env, tree, assumed); err == nil {
		single[e] = int64(min(cost, math.MaxInt64/1024))
	}
}

// worstOf adds up the estimates by budget and returns, for each budget, the larger of the sum and others.
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

// variablesOf returns the cost of the variables that a budget's expressions use: each once, and once more for messages.
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

// observe evaluates the policy on small and large objects and keeps the maximum that each budget was charged.
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
				name := strings.TrimPrefix(o.Field(), "spec.")
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
				d.Message = fmt.Sprintf("an object with lists of %d items exceeds the server's cost limit",
					assumed.Items)
				d.Suggestion = "compute the common part of the loops once, in a variable"
			case c.Estimated > c.Limit:
				d.Severity = Note
				d.Message = fmt.Sprintf("%s may cost %s of %s units for lists of %d items; generated objects cost up to %s",
					c.Of, thousands(c.Estimated), thousands(c.Limit), assumed.Items, thousands(c.Observed))
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

// introduced holds the first minor that serves each kind of policy, by kind and API version.
var introduced = map[string]int{
	"ValidatingAdmissionPolicy v1": 30, "ValidatingAdmissionPolicy v1beta1": 28,
	"ValidatingAdmissionPolicy v1alpha1": 26,
	"MutatingAdmissionPolicy v1":         36, "MutatingAdmissionPolicy v1beta1": 34, "MutatingAdmissionPolicy v1alpha1": 32,
}

// withdrawn holds the first minor that, with default flags, no longer serves a kind in a version, according to the
// lifecycle in k8s.io/api v0.37.2. In 1.36 MutatingAdmissionPolicy v1 replaced its betas, which were never on by
// default.
var withdrawn = map[string]int{
	"ValidatingAdmissionPolicy v1beta1": 34, "ValidatingAdmissionPolicy v1alpha1": 32,
	"MutatingAdmissionPolicy v1beta1": 36, "MutatingAdmissionPolicy v1alpha1": 36,
}

// versionedKind returns the kind and API version of a policy.
func versionedKind(f *facts) string {
	return string(f.Kind) + " " + f.APIVersion[strings.LastIndexByte(f.APIVersion, '/')+1:]
}

// findOldest returns the oldest minor on which a policy compiles, and the field and error on the minor before.
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

// environmentsBefore returns memoised constructors of the environments of each minor before one, by number.
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
			continue // the reason is the kind and version
		}
		d := diagnosticIn(f.Policy, f.exprs[i].Expr, 0, len(f.exprs[i].Src))
		d.Message = fmt.Sprintf("the oldest Kubernetes that accepts the policy is %s", m.Oldest)
		if found := wording.Problems(m.Why); len(found) > 0 {
			d.Message += "; older ones report: " + found[0].Message
		}
		p.report(d)
	}
}
