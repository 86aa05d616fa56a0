package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/policy"
)

// A Problem is a reason why policies do not run in the order that they request.
type Problem struct {
	Reason  Reason
	Policy  *policy.Policy   // the policy concerned; of a cycle the first
	Of      []*policy.Policy // all policies concerned
	Field   string           // of the policy; empty: none
	Value   string           // in the field
	Message string
}

// A Reason is the kind of a problem.
type Reason string

// Reasons.
const (
	Unknown      Reason = "UnknownPolicy" // order names a missing policy
	Contradicted Reason = "Contradiction" // order is impossible, given the orders of others
	Cycle        Reason = "Cycle"         // each reads fields that another one writes
	OtherWebhook Reason = "OtherWebhook"  // failurePolicy determines the order, against reads and writes
)

// IsError reports whether the author's request is impossible; otherwise the policies may be intended.
func (r Reason) IsError() bool { return r == Unknown || r == Contradicted }

// An Order is an order of mutating policies.
type Order struct {
	Policies []*policy.Policy
	Why      map[*policy.Policy][]string // the reasons why a policy runs behind others, in words
	Problems []Problem
}

// Problem returns the first problem of a policy; nil if there is none.
func (o *Order) Problem(p *policy.Policy) *Problem {
	for i := range o.Problems {
		if slices.Contains(o.Problems[i].Of, p) {
			return &o.Problems[i]
		}
	}
	return nil
}

// Static is the rank of static policies.
const Static = -1

// Rank is the fixed part of the order: the API server evaluates static policies before all others, calls one webhook
// for each failurePolicy, Fail first, and runs native policies before webhooks.
func Rank(p *policy.Policy) int {
	if p.Static {
		return Static
	}
	rank := 0
	if p.FailurePolicy == policy.Ignore {
		rank = 2
	}
	if p.Kind == policy.Admission {
		rank++
	}
	return rank
}

// CompareReleased compares native policies: by rank, then by name.
func CompareReleased(a, b *policy.Policy) int {
	return cmp.Or(cmp.Compare(Rank(a), Rank(b)), strings.Compare(a.Name, b.Name),
		strings.Compare(string(a.Kind), string(b.Kind)))
}

// An edge requires one policy to run before another, with the reason.
type edge struct {
	from, to int
	what     string // such as "writes spec.replicas", which to reads; empty: an order
	by       int    // the policy with the order
	path     string // the path of that order
}

// sorter sorts the policies of a set.
type sorter struct {
	of      []*policy.Policy // in the default order
	effects func(*policy.Policy) *Effects
	edges   []edge
	out     *Order
}

// Find returns the order of mutating policies with distinct references. It calls effectsOf only for policies of the
// dialect.
func Find(policies []*policy.Policy, effectsOf func(*policy.Policy) *Effects) *Order {
	s := &sorter{of: slices.SortedStableFunc(slices.Values(policies), CompareReleased), effects: effectsOf,
		out: &Order{Why: map[*policy.Policy][]string{}}}
	s.addAsked()
	s.contradictions()
	s.addDerived()
	s.cycles()
	s.sort()
	return s.out
}

// addAsked adds the edges that policies request.
func (s *sorter) addAsked() {
	for i, p := range s.of {
		for j, name := range p.After {
			s.ask(i, name, fmt.Sprintf("spec.order.after[%d]", j), func(other int) edge { return edge{from: other, to: i} })
		}
		for j, name := range p.Before {
			s.ask(i, name, fmt.Sprintf("spec.order.before[%d]", j), func(other int) edge { return edge{from: i, to: other} })
		}
	}
}

func (s *sorter) ask(i int, name, path string, make func(other int) edge) {
	wrong := func(reason Reason, format string, args ...any) {
		s.out.Problems = append(s.out.Problems, Problem{Reason: reason, Policy: s.of[i], Of: []*policy.Policy{s.of[i]},
			Field: path, Value: name, Message: fmt.Sprintf(format, args...)})
	}
	found := false
	for other, p := range s.of {
		if p.Name != name || other == i {
			continue
		}
		found = true
		e := make(other)
		e.by, e.path = i, path
		from, to := s.of[e.from], s.of[e.to]
		switch {
		case Rank(from) <= Rank(to):
			s.edges = append(s.edges, e)
		case from.FailurePolicy != to.FailurePolicy:
			wrong(Contradicted, "%s has failurePolicy Ignore and %s Fail, which runs first", from.Name, to.Name)
		default:
			wrong(Contradicted, "%s is a %s, and those run before policies of the dialect", to.Name, to.Kind)
		}
	}
	if !found {
		wrong(Unknown, "a mutating policy of this name is not in force")
	}
}

// contradictions removes requested edges that close a cycle.
func (s *sorter) contradictions() {
	kept := s.edges[:0:0]
	for _, e := range s.edges {
		if !reaches(kept, e.to, e.from) {
			kept = append(kept, e)
			continue
		}
		s.out.Problems = append(s.out.Problems, Problem{Reason: Contradicted, Policy: s.of[e.by],
			Of: []*policy.Policy{s.of[e.from], s.of[e.to]}, Field: e.path, Value: s.edgeName(e),
			Message: fmt.Sprintf("%s is already after %s", s.of[e.from].Name, s.of[e.to].Name)})
	}
	s.edges = kept
}

// edgeName returns the name in the order field behind a requested edge.
func (s *sorter) edgeName(e edge) string {
	if e.by == e.to {
		return s.of[e.from].Name
	}
	return s.of[e.to].Name
}

// reaches reports whether edges lead from a to b.
func reaches(edges []edge, a, b int) bool {
	seen, open := map[int]bool{a: true}, []int{a}
	for len(open) > 0 {
		at := open[0]
		open = open[1:]
		if at == b {
			return true
		}
		for _, e := range edges {
			if e.from == at && !seen[e.to] {
				seen[e.to] = true
				open = append(open, e.to)
			}
		}
	}
	return false
}

// addDerived adds an edge from each policy of the dialect to the readers of its writes, unless an order overrides it.
func (s *sorter) addDerived() {
	asked := slices.Clone(s.edges)
	for i, writer := range s.of {
		for j, reader := range s.of {
			if i == j || writer.Kind != policy.Admission || reader.Kind != policy.Admission ||
				!mayMeet(writer.MatchConstraints, reader.MatchConstraints) {
				continue
			}
			what, meets := Meet(s.effects(writer), s.effects(reader))
			switch {
			case !meets || reaches(asked, j, i):
			case Rank(writer) > Rank(reader):
				s.out.Problems = append(s.out.Problems, Problem{Reason: OtherWebhook, Policy: reader,
					Of: []*policy.Policy{writer, reader}, Message: fmt.Sprintf(
						"%s: failurePolicy Fail runs before Ignore", reads(reader, writer, what))})
			default:
				s.edges = append(s.edges, edge{from: i, to: j, what: what})
			}
		}
	}
}

// cycles removes the derived edges between policies that lead to each other.
func (s *sorter) cycles() {
	groups := s.groups()
	for _, group := range groups {
		if len(group) < 2 {
			continue
		}
		in := func(e edge) bool { return slices.Contains(group, e.from) && slices.Contains(group, e.to) }
		problem := Problem{Reason: Cycle, Policy: s.of[group[0]]}
		for _, i := range group {
			problem.Of = append(problem.Of, s.of[i])
		}
		var said []string
		for _, e := range s.shortest(group) {
			said = append(said, s.sentence(e))
		}
		problem.Message = strings.Join(said, "; ")
		s.out.Problems = append(s.out.Problems, problem)
		s.edges = slices.DeleteFunc(s.edges, func(e edge) bool { return e.what != "" && in(e) })
	}
}

func (s *sorter) sentence(e edge) string {
	if e.what == "" {
		return fmt.Sprintf("%s is after %s by %s of %s", s.of[e.to].Name, s.of[e.from].Name, e.path, s.of[e.by].Name)
	}
	return reads(s.of[e.to], s.of[e.from], e.what)
}

// reads describes that one policy reads a field that another one writes.
func reads(reader, writer *policy.Policy, what string) string {
	at := strings.LastIndexByte(what, ' ')
	return fmt.Sprintf("%s reads %s, which %s %s", reader.Name, what[at+1:], writer.Name, what[:at])
}

// groups returns the policies that lead to each other, by the first of each group.
func (s *sorter) groups() [][]int {
	next := make([][]int, len(s.of))
	for _, e := range s.edges {
		next[e.from] = append(next[e.from], e.to)
	}
	t := tarjan{next: next, index: make([]int, len(s.of)), low: make([]int, len(s.of)), on: make([]bool, len(s.of))}
	for i := range s.of {
		if t.index[i] == 0 {
			t.visit(i)
		}
	}
	for _, g := range t.groups {
		slices.Sort(g)
	}
	slices.SortFunc(t.groups, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return t.groups
}

// tarjan finds the strongly connected components of a graph. The depth is that of a chain of policies.
type tarjan struct {
	next       [][]int
	index, low []int
	on         []bool
	stack      []int
	count      int
	groups     [][]int
}

func (t *tarjan) visit(i int) {
	t.count++
	t.index[i], t.low[i] = t.count, t.count
	t.stack, t.on[i] = append(t.stack, i), true
	for _, j := range t.next[i] {
		if t.index[j] == 0 {
			t.visit(j)
			t.low[i] = min(t.low[i], t.low[j])
		} else if t.on[j] {
			t.low[i] = min(t.low[i], t.index[j])
		}
	}
	if t.low[i] != t.index[i] {
		return
	}
	var group []int
	for {
		j := t.stack[len(t.stack)-1]
		t.stack, t.on[j] = t.stack[:len(t.stack)-1], false
		group = append(group, j)
		if j == i {
			break
		}
	}
	t.groups = append(t.groups, group)
}

// shortest returns the edges of a shortest cycle through the first policy of a group that is on one.
func (s *sorter) shortest(group []int) []edge {
	from := group[0]
	before := map[int]edge{}
	open := []int{from}
	for len(open) > 0 {
		at := open[0]
		open = open[1:]
		for _, e := range s.edges {
			if e.from != at || !slices.Contains(group, e.to) {
				continue
			}
			if _, seen := before[e.to]; seen {
				continue
			}
			before[e.to] = e
			if e.to == from {
				all := []edge{e}
				for e.from != from {
					e = before[e.from]
					all = append(all, e)
				}
				slices.Reverse(all)
				return all
			}
			open = append(open, e.to)
		}
	}
	return nil
}

// sort puts the policies into an order that keeps all edges: of those that may run next the first without reasons.
func (s *sorter) sort() {
	waits := make([]int, len(s.of))
	for _, e := range s.edges {
		waits[e.to]++
	}
	done := make([]bool, len(s.of))
	for range s.of {
		i := -1
		for j := range s.of {
			if !done[j] && waits[j] == 0 && (i < 0 || Rank(s.of[j]) < Rank(s.of[i])) {
				i = j
			}
		}
		done[i] = true
		s.out.Policies = append(s.out.Policies, s.of[i])
		for _, e := range s.edges {
			if e.from == i {
				waits[e.to]--
				s.addReason(e)
			}
		}
	}
}

func (s *sorter) addReason(e edge) {
	from, to := s.of[e.from], s.of[e.to]
	why := fmt.Sprintf("after %s, which %s", from.Name, e.what)
	switch {
	case e.what != "":
	case e.by == e.to:
		why = fmt.Sprintf("after %s, by %s", from.Name, e.path)
	default:
		why = fmt.Sprintf("after %s, by its %s", from.Name, e.path)
	}
	s.out.Why[to] = append(s.out.Why[to], why)
}

// mayMeet reports whether two policies may be for one request, as far as their rules tell.
func mayMeet(a, b *policy.MatchResources) bool {
	if a == nil || b == nil {
		return false
	}
	for _, x := range a.ResourceRules {
		for _, y := range b.ResourceRules {
			if share(x.Operations, y.Operations) && share(x.APIGroups, y.APIGroups) &&
				shareResources(x.Resources, y.Resources) {
				return true
			}
		}
	}
	return false
}

func share(a, b []string) bool {
	return slices.Contains(a, "*") || slices.Contains(b, "*") ||
		slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func shareResources(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool {
			resource, sub, _ := strings.Cut(x, "/")
			other, otherSub, _ := strings.Cut(y, "/")
			same := func(a, b string) bool { return a == b || a == "*" || b == "*" }
			return same(resource, other) && same(sub, otherSub)
		})
	})
}
