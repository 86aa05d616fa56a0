// Package solve decides whether a formula over booleans, bounded integers and strings is satisfiable, and returns
// satisfying values.
//
// A [Store] holds formulas as graphs that share equal parts. Their leaves are booleans, comparisons of integers (x - y
// <= c), memberships of strings in regular languages, and equalities of strings. [Store.Solve] gives the propositional
// part to a SAT solver, and checks its models with a theory of differences and with automata. Each conflict becomes
// another clause, until both agree or the clauses are unsatisfiable. For these leaves the answer is complete: Solve
// gives up only because of size, with an error.
package solve

import "math"

// A Formula is a formula of a Store: a node of its graph, with the lowest bit set for its negation.
type Formula int32

// The constant formulas.
const (
	True  Formula = 0
	False Formula = 1
)

// Negate returns the negation.
func (f Formula) Negate() Formula { return f ^ 1 }

func (f Formula) node() int { return int(f >> 1) }

func (f Formula) isNegated() bool { return f&1 == 1 }

// An Int is an integer variable of a Store. The zero value is the number 0.
type Int int

// A Text is a string variable of a Store.
type Text int

type kind uint8

const (
	constant kind = iota
	boolean
	conjunction // of a and b
	difference  // x - y <= c
	membership  // text x is in lang
	equality    // texts x and y are equal
)

// A node is comparable, so that equal nodes are shared.
type node struct {
	kind kind
	a, b Formula
	x, y int
	c    int64
	lang *Lang
}

// A Store creates formulas. It is for one goroutine.
type Store struct {
	nodes  []node
	known  map[node]Formula
	ints   []bounds // by Int; the first is 0
	wishes []int64  // by Int: the preferred value
	texts  int
	langs  map[string]*Lang
	facts  []Formula
	words  map[string]found // by the languages of a search
	hints  []string         // by Text: the preferred word
	budget int              // the work that is left for Solve, in clauses; 0: any amount
	work   int              // that of searches for words which the budget does not have yet
	large  string           // a regular expression with too many states; "": none is known
}

type bounds struct{ least, most int64 }

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{known: map[node]Formula{}, langs: map[string]*Lang{}, words: map[string]found{}}
	s.nodes = append(s.nodes, node{kind: constant})
	s.ints, s.wishes = append(s.ints, bounds{}), append(s.wishes, 0)
	return s
}

// Limit bounds the work of all later calls of Solve together, in clauses: a clause takes about a microsecond. Then they
// give up with ErrSize. The work for a formula is always the same.
func (s *Store) Limit(clauses int) { s.budget, s.work = clauses, 0 }

func (s *Store) add(n node) Formula {
	if f, ok := s.known[n]; ok {
		return f
	}
	f := Formula(len(s.nodes) << 1)
	s.nodes = append(s.nodes, n)
	s.known[n] = f
	return f
}

// NewBool returns a new boolean variable.
func (s *Store) NewBool() Formula { return s.add(node{kind: boolean, x: len(s.nodes)}) }

// NewInt returns an integer variable with bounds and a preferred value.
func (s *Store) NewInt(least, most, wish int64) Int {
	s.ints, s.wishes = append(s.ints, bounds{least, most}), append(s.wishes, wish)
	return Int(len(s.ints) - 1)
}

// NewText returns a string variable with a preferred word.
func (s *Store) NewText(wish string) Text {
	s.hints = append(s.hints, wish)
	s.texts++
	return Text(s.texts - 1)
}

// Assume adds a formula that every model must satisfy.
func (s *Store) Assume(f Formula) {
	if f != True {
		s.facts = append(s.facts, f)
	}
}

// Facts returns the assumed formulas.
func (s *Store) Facts() []Formula { return s.facts }

// Conjoin returns the conjunction of two formulas.
func (s *Store) Conjoin(a, b Formula) Formula {
	switch {
	case a == False || b == False || a == b.Negate():
		return False
	case a == True || a == b:
		return b
	case b == True:
		return a
	case a > b:
		a, b = b, a
	}
	return s.add(node{kind: conjunction, a: a, b: b})
}

// Disjoin returns the disjunction of two formulas.
func (s *Store) Disjoin(a, b Formula) Formula { return s.Conjoin(a.Negate(), b.Negate()).Negate() }

// All returns the conjunction of formulas.
func (s *Store) All(all ...Formula) Formula {
	f := True
	for _, g := range all {
		f = s.Conjoin(f, g)
	}
	return f
}

// Any returns the disjunction of formulas.
func (s *Store) Any(all ...Formula) Formula {
	f := False
	for _, g := range all {
		f = s.Disjoin(f, g)
	}
	return f
}

// If returns the formula that is a if c is true, and b otherwise.
func (s *Store) If(c, a, b Formula) Formula {
	switch {
	case c == True || a == b:
		return a
	case c == False:
		return b
	}
	return s.Disjoin(s.Conjoin(c, a), s.Conjoin(c.Negate(), b))
}

// Iff returns the formula that two formulas are equal.
func (s *Store) Iff(a, b Formula) Formula { return s.If(a, b, b.Negate()) }

// Difference returns x - y <= c.
func (s *Store) Difference(x, y Int, c int64) Formula {
	if x == y {
		return newBool(c >= 0)
	}
	bx, by := s.ints[x], s.ints[y]
	if most, ok := minus(bx.most, by.least); ok && most <= c {
		return True
	}
	if least, ok := minus(bx.least, by.most); ok && least > c {
		return False
	}
	if x < y && c < math.MaxInt64 { // x - y <= c and y - x <= -c-1 are opposites: only one of them is a node
		return s.add(node{kind: difference, x: int(y), y: int(x), c: -c - 1}).Negate()
	}
	return s.add(node{kind: difference, x: int(x), y: int(y), c: c})
}

// minus returns a - b if it fits int64.
func minus(a, b int64) (int64, bool) {
	d := a - b
	return d, (d < a) == (b > 0)
}

func newBool(b bool) Formula {
	if b {
		return True
	}
	return False
}

// Member returns the formula that a string is a word of a language.
func (s *Store) Member(x Text, lang *Lang) Formula {
	return s.add(node{kind: membership, x: int(x), lang: lang})
}

// Equal returns the formula that two strings are equal.
func (s *Store) Equal(x, y Text) Formula {
	if x == y {
		return True
	}
	if x > y {
		x, y = y, x
	}
	return s.add(node{kind: equality, x: int(x), y: int(y)})
}

// An Assignment has values for the leaves of formulas.
type Assignment interface {
	Bool(Formula) bool // of a result of NewBool
	Int(Int) int64
	Text(Text) string
}

// Evaluate returns the values of formulas under an assignment.
func (s *Store) Evaluate(under Assignment, formulas ...Formula) []bool {
	values := make([]int8, len(s.nodes)) // 0: not known
	values[0] = 1
	var value func(f Formula) bool
	value = func(f Formula) bool {
		i := f.node()
		if values[i] == 0 {
			values[i] = -1
			if s.holds(i, under, value) {
				values[i] = 1
			}
		}
		return (values[i] == 1) != f.isNegated()
	}
	out := make([]bool, len(formulas))
	for i, f := range formulas {
		out[i] = value(f)
	}
	return out
}

func (s *Store) holds(i int, under Assignment, value func(Formula) bool) bool {
	switch n := s.nodes[i]; n.kind {
	case boolean:
		return under.Bool(Formula(i << 1))
	case conjunction:
		return value(n.a) && value(n.b)
	case difference:
		var x, y int64
		if n.x != 0 {
			x = under.Int(Int(n.x))
		}
		if n.y != 0 {
			y = under.Int(Int(n.y))
		}
		d, ok := minus(x, y)
		if !ok {
			return x < y
		}
		return d <= n.c
	case membership:
		return n.lang.Has(under.Text(Text(n.x)))
	case equality:
		return under.Text(Text(n.x)) == under.Text(Text(n.y))
	}
	return true
}
