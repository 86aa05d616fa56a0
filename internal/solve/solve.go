package solve

import (
	"context"
	"errors"
	"math"
	"math/big"
	"slices"

	"github.com/crillab/gophersat/solver"
)

// ErrSize reports a formula that is too large to decide.
var ErrSize = errors.New("the formula is too large")

// mostRounds is the maximum number of models of the SAT solver that the theories may refuse.
const mostRounds = 3000

// A Model is a set of values that satisfies a formula.
type Model struct {
	store *Store
	bools map[int]bool // by node
	ints  map[Int]int64
	texts map[Text]string
}

// Bool returns the value of a variable of NewBool.
func (m *Model) Bool(f Formula) bool { return m.bools[f.node()] != f.isNegated() }

// Int returns the value of an integer.
func (m *Model) Int(x Int) int64 {
	if v, ok := m.ints[x]; ok {
		return v
	}
	b := m.store.ints[x]
	return max(b.least, min(b.most, m.store.wishes[x]))
}

// Text returns the value of a string.
func (m *Model) Text(x Text) string {
	if word, ok := m.texts[x]; ok {
		return word
	}
	return m.store.hints[x]
}

// Holds reports whether a formula is true in the model.
func (m *Model) Holds(f Formula) bool { return m.store.Evaluate(m, f)[0] }

// Leaves returns the formula of the values of the leaves in the model: it is true in the models with the same leaves.
func (m *Model) Leaves(f Formula) Formula {
	s := m.store
	out := True
	for _, i := range s.nodesOf(f) {
		if n := s.nodes[i]; n.kind != conjunction && n.kind != constant {
			leaf := Formula(i << 1)
			if !m.Holds(leaf) {
				leaf = leaf.Negate()
			}
			out = s.Conjoin(out, leaf)
		}
	}
	return out
}

// nodesOf returns the nodes of formulas, parts before their parents.
func (s *Store) nodesOf(formulas ...Formula) []int {
	seen := map[int]bool{}
	var all []int
	var visit func(f Formula)
	visit = func(f Formula) {
		i := f.node()
		if seen[i] {
			return
		}
		seen[i] = true
		if n := s.nodes[i]; n.kind == conjunction {
			visit(n.a)
			visit(n.b)
		}
		all = append(all, i)
	}
	for _, f := range formulas {
		visit(f)
	}
	return all
}

// Variables are the variables of a formula.
type Variables struct {
	Bools map[Formula]bool
	Ints  map[Int]bool
	Texts map[Text]bool
}

// Variables returns the variables of a formula.
func (s *Store) Variables(of Formula) Variables {
	v := Variables{map[Formula]bool{}, map[Int]bool{}, map[Text]bool{}}
	for _, i := range s.nodesOf(of) {
		switch n := s.nodes[i]; n.kind {
		case boolean:
			v.Bools[Formula(i<<1)] = true
		case difference:
			v.Ints[Int(n.x)], v.Ints[Int(n.y)] = true, true
		case membership:
			v.Texts[Text(n.x)] = true
		case equality:
			v.Texts[Text(n.x)], v.Texts[Text(n.y)] = true, true
		}
	}
	return v
}

// Solve returns a model of formulas and of all assumptions; nil if they are unsatisfiable. The error is ErrSize or the
// error of the context.
func (s *Store) Solve(ctx context.Context, formulas ...Formula) (*Model, error) {
	roots := append(slices.Clone(s.facts), formulas...)
	if slices.Contains(roots, False) {
		return nil, nil
	}
	nodes := s.nodesOf(roots...)
	number := map[int]int{}
	for i, n := range nodes {
		number[n] = i + 1
	}
	literal := func(f Formula) int {
		if f.isNegated() {
			return -number[f.node()]
		}
		return number[f.node()]
	}
	var clauses [][]int
	for _, i := range nodes {
		switch n := s.nodes[i]; n.kind {
		case constant:
			clauses = append(clauses, []int{number[i]})
		case conjunction:
			self, a, b := number[i], literal(n.a), literal(n.b)
			clauses = append(clauses, []int{-self, a}, []int{-self, b}, []int{self, -a, -b})
		}
	}
	for _, f := range roots {
		clauses = append(clauses, []int{literal(f)})
	}
	for _, lemma := range s.orders(nodes) {
		clauses = append(clauses, []int{literal(lemma[0]), literal(lemma[1])})
	}
	for range mostRounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.budget != 0 {
			if s.budget -= len(clauses); s.budget <= 0 {
				s.budget = -1
				return nil, ErrSize
			}
		}
		problem := solver.ParseSlice(slices.Clone(clauses))
		sat := solver.New(problem)
		if sat.Solve() != solver.Sat {
			return nil, nil
		}
		values := sat.Model()
		m, conflicts, gaveUp := s.check(nodes, func(i int) bool { return values[number[i]-1] })
		if gaveUp {
			return nil, ErrSize
		}
		if m != nil {
			return m, nil
		}
		for _, conflict := range conflicts {
			var clause []int
			for _, f := range conflict {
				clause = append(clause, -literal(f))
			}
			clauses = append(clauses, clause)
		}
	}
	return nil, ErrSize
}

// orders returns clauses of two literals that follow from comparisons of the same variables: x - y <= 1 implies x - y
// <= 2.
func (s *Store) orders(nodes []int) (lemmas [][2]Formula) {
	byVars := map[[2]int][]int{}
	var pairs [][2]int
	for _, i := range nodes {
		if n := s.nodes[i]; n.kind == difference {
			pair := [2]int{n.x, n.y}
			if byVars[pair] == nil {
				pairs = append(pairs, pair)
			}
			byVars[pair] = append(byVars[pair], i)
		}
	}
	for _, pair := range pairs {
		list := byVars[pair]
		slices.SortFunc(list, func(a, b int) int {
			if s.nodes[a].c < s.nodes[b].c {
				return -1
			}
			return 1
		})
		for k := 1; k < len(list); k++ {
			lemmas = append(lemmas, [2]Formula{Formula(list[k-1] << 1).Negate(), Formula(list[k] << 1)})
		}
	}
	return lemmas
}

// check runs the theories on an assignment of all nodes: it returns a model, or conflicting literals.
func (s *Store) check(nodes []int, holds func(int) bool) (m *Model, conflicts [][]Formula, gaveUp bool) {
	m = &Model{store: s, bools: map[int]bool{}}
	var edges []edge
	var texts []textLiteral
	for _, i := range nodes {
		yes, f := holds(i), Formula(i<<1)
		if !yes {
			f = f.Negate()
		}
		switch n := s.nodes[i]; n.kind {
		case boolean:
			m.bools[i] = yes
		case difference:
			e := edge{x: n.x, y: n.y, c: big.NewInt(n.c), literal: f}
			if !yes { // y - x <= -c - 1
				e.x, e.y = n.y, n.x
				e.c = new(big.Int).Sub(big.NewInt(-1), e.c)
			}
			edges = append(edges, e)
		case membership:
			texts = append(texts, textLiteral{literal: f, x: Text(n.x), member: member{n.lang, !yes}})
		case equality:
			texts = append(texts, textLiteral{literal: f, x: Text(n.x), y: Text(n.y), equal: true, not: !yes})
		}
	}
	ints, conflict := s.solveInts(edges)
	if conflict != nil {
		conflicts = append(conflicts, conflict)
	}
	words := s.solveTexts(texts)
	if words.gaveUp {
		return nil, nil, true
	}
	if words.conflict != nil {
		conflicts = append(conflicts, words.conflict)
	}
	if len(conflicts) > 0 {
		return nil, conflicts, false
	}
	m.ints, m.texts = ints, words.words
	return m, nil, false
}

// Range returns the range of integers with a width in bits.
func Range(bits int) (least, most int64) {
	if bits <= 0 || bits >= 64 {
		return math.MinInt64, math.MaxInt64
	}
	return -1 << (bits - 1), 1<<(bits-1) - 1
}
