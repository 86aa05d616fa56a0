package solve

import (
	"context"
	"errors"
	"fmt"
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

// Leaves returns a formula of some leaves with their values in the model, which suffice for the value of f.
func (m *Model) Leaves(f Formula) Formula {
	s := m.store
	nodes := s.nodesOf(f)
	values := make(partial, len(s.nodes))
	all := make([]Formula, len(nodes))
	for i, n := range nodes {
		all[i] = Formula(n << 1)
	}
	for i, holds := range s.Evaluate(m, all...) {
		if values[nodes[i]] = -1; holds {
			values[nodes[i]] = 1
		}
	}
	out := True
	needed := s.relevant([]Formula{f}, nodes, values)
	for _, i := range nodes {
		n := s.nodes[i]
		if !needed[i] || n.kind == conjunction || n.kind == constant {
			continue
		}
		leaf := Formula(i << 1)
		if values[i] == -1 {
			leaf = leaf.Negate()
		}
		out = s.Conjoin(out, leaf)
	}
	return out
}

// nodesOf returns the nodes of formulas, parts before their parents.
func (s *Store) nodesOf(formulas ...Formula) []int {
	seen := make([]bool, len(s.nodes))
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

// Solve returns a model of formulas and of all assumptions; nil if they are unsatisfiable. The error is ErrSize, which
// may be wrapped, or the error of the context.
func (s *Store) Solve(ctx context.Context, formulas ...Formula) (*Model, error) {
	s.large = ""
	roots := append(slices.Clone(s.facts), formulas...)
	nodes := s.nodesOf(roots...)
	fixed := s.propagate(roots, nodes)
	if fixed == nil {
		return nil, nil
	}
	e := &encoding{Store: s, fixed: fixed, number: make([]int, len(s.nodes))}
	e.encode(nodes)
	if e.isFalse {
		return nil, nil
	}
	if !s.spend(len(e.clauses)) {
		return nil, ErrSize
	}
	sat := solver.New(solver.ParseSliceNb(e.clauses, e.variables))
	for range mostRounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		known := sat.Stats.NbConflicts
		if sat.Solve() != solver.Sat {
			return nil, nil
		}
		if !s.spend(e.variables/variablesAsClause + clausesAsConflict*(sat.Stats.NbConflicts-known)) {
			return nil, ErrSize
		}
		values := e.values(sat.Model())
		m, conflicts, gaveUp := s.check(nodes, s.relevant(roots, nodes, values), values)
		if gaveUp {
			return nil, s.explainSize()
		}
		if m != nil {
			return m, nil
		}
		for _, conflict := range conflicts {
			var clause []solver.Lit
			for _, f := range conflict {
				if e.fixed.valueOf(f) == 0 {
					clause = append(clause, solver.IntToLit(int32(-e.literal(f))))
				}
			}
			if len(clause) == 0 {
				return nil, nil
			}
			sat.AppendClause(solver.NewClause(clause))
		}
	}
	return nil, ErrSize
}

// explainSize returns ErrSize with its cause, if it is known.
func (s *Store) explainSize() error {
	if s.large == "" {
		return ErrSize
	}
	return fmt.Errorf("%w: the regular expression %s has too many states", ErrSize, s.large)
}

// The work of a round, in clauses: a model with so many variables costs as much time as one clause, and a conflict of
// the SAT solver as much as so many clauses.
const (
	variablesAsClause = 8
	clausesAsConflict = 50
)

// spend takes work from the budget, and reports whether it was enough.
func (s *Store) spend(work int) bool {
	if s.budget == 0 {
		return true
	}
	if s.budget -= work; s.budget <= 0 {
		s.budget = -1
	}
	return s.budget > 0
}

// A partial is an assignment of some nodes, by node: 1 is true, -1 false, 0 unknown.
type partial []int8

func (p partial) valueOf(f Formula) int8 {
	if f.isNegated() {
		return -p[f.node()]
	}
	return p[f.node()]
}

// propagate returns the values that follow from true roots by single steps; nil if they contradict each other.
func (s *Store) propagate(roots []Formula, nodes []int) partial {
	fixed := make(partial, len(s.nodes))
	parents := make([][]int, len(s.nodes))
	for _, i := range nodes {
		if n := s.nodes[i]; n.kind == conjunction {
			a, b := n.a.node(), n.b.node()
			parents[a], parents[b] = append(parents[a], i), append(parents[b], i)
		}
	}
	var open []int
	set := func(f Formula) bool {
		if fixed.valueOf(f) == 0 {
			fixed[f.node()] = 1
			if f.isNegated() {
				fixed[f.node()] = -1
			}
			open = append(open, f.node())
		}
		return fixed.valueOf(f) == 1
	}
	step := func(i int) bool {
		n := s.nodes[i]
		if n.kind != conjunction {
			return true
		}
		a, b := fixed.valueOf(n.a), fixed.valueOf(n.b)
		switch {
		case fixed[i] == 1:
			return set(n.a) && set(n.b)
		case a == -1 || b == -1:
			return set(Formula(i << 1).Negate())
		case a == 1 && b == 1:
			return set(Formula(i << 1))
		case fixed[i] == -1 && a == 1:
			return set(n.b.Negate())
		case fixed[i] == -1 && b == 1:
			return set(n.a.Negate())
		}
		return true
	}
	set(True)
	for _, f := range roots {
		if !set(f) {
			return nil
		}
	}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		for _, at := range append(parents[i], i) {
			if !step(at) {
				return nil
			}
		}
	}
	return fixed
}

// An encoding is the propositional part of formulas for a SAT solver. The fixed nodes are not a part of it, and neither
// are those that do not matter because of them.
type encoding struct {
	*Store
	fixed     partial
	number    []int // of the variable of a node; 0: it does not have one
	variables int
	clauses   [][]int
	isFalse   bool // a clause is false
}

func (e *encoding) literal(f Formula) int {
	i := f.node()
	if e.number[i] == 0 {
		e.variables++
		e.number[i] = e.variables
	}
	if f.isNegated() {
		return -e.number[i]
	}
	return e.number[i]
}

// add adds a clause without its false literals, if none of them is true.
func (e *encoding) add(all ...Formula) {
	if slices.ContainsFunc(all, func(f Formula) bool { return e.fixed.valueOf(f) == 1 }) {
		return
	}
	var clause []int
	for _, f := range all {
		if e.fixed.valueOf(f) == 0 {
			clause = append(clause, e.literal(f))
		}
	}
	if e.clauses = append(e.clauses, clause); len(clause) == 0 {
		e.isFalse = true
	}
}

func (e *encoding) encode(nodes []int) {
	for _, i := range slices.Backward(nodes) { // parents before their parts
		n := e.nodes[i]
		if n.kind != conjunction {
			continue
		}
		self := Formula(i << 1)
		switch {
		case e.fixed[i] == -1:
			e.add(n.a.Negate(), n.b.Negate())
		case e.fixed[i] == 0 && e.number[i] != 0:
			e.add(self.Negate(), n.a)
			e.add(self.Negate(), n.b)
			e.add(self, n.a.Negate(), n.b.Negate())
		}
	}
	for _, lemma := range e.orders(nodes) {
		if e.hasValue(lemma[0]) && e.hasValue(lemma[1]) {
			e.add(lemma[0], lemma[1])
		}
	}
}

func (e *encoding) hasValue(f Formula) bool {
	return e.fixed.valueOf(f) != 0 || e.number[f.node()] != 0
}

// values returns the assignment of a model of the SAT solver.
func (e *encoding) values(model []bool) partial {
	out := slices.Clone(e.fixed)
	for i, number := range e.number {
		switch {
		case number == 0:
		case model[number-1]:
			out[i] = 1
		default:
			out[i] = -1
		}
	}
	return out
}

// relevant returns, by node, what suffices to make roots true under an assignment: both parts of a true conjunction,
// and one part of a false one. The other nodes may have any value, so the theories need not agree with them.
func (s *Store) relevant(roots []Formula, nodes []int, values partial) []bool {
	needed := make([]bool, len(s.nodes))
	for _, f := range roots {
		needed[f.node()] = true
	}
	for _, i := range slices.Backward(nodes) { // parents before their parts
		n := s.nodes[i]
		if !needed[i] || n.kind != conjunction {
			continue
		}
		a, b := n.a.node(), n.b.node()
		isA, isB := values.valueOf(n.a) == -1, values.valueOf(n.b) == -1
		switch {
		case values[i] == 1:
			needed[a], needed[b] = true, true
		case needed[a] && isA || needed[b] && isB:
		case !isB || isA && s.nodes[a].kind == boolean:
			needed[a] = true
		case !isA || s.nodes[b].kind == boolean:
			needed[b] = true
		default:
			needed[min(a, b)] = true
		}
	}
	return needed
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

// check runs the theories on an assignment of the needed nodes: it returns a model, or conflicting literals.
func (s *Store) check(nodes []int, needed []bool, values partial) (m *Model, conflicts [][]Formula, gaveUp bool) {
	m = &Model{store: s, bools: map[int]bool{}}
	var edges []edge
	var texts []textLiteral
	for _, i := range nodes {
		yes, f := values[i] == 1, Formula(i<<1)
		if !yes {
			f = f.Negate()
		}
		n := s.nodes[i]
		if n.kind == boolean {
			m.bools[i] = yes
		}
		if !needed[i] {
			continue
		}
		switch n.kind {
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
	conflicts = append(conflicts, words.conflicts...)
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
