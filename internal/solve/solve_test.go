package solve

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"testing"
)

// A world assigns variables values from small ranges, one combination after the other.
type world struct {
	bools []Formula
	ints  []Int
	texts []Text
	bool  map[Formula]bool
	int   map[Int]int64
	text  map[Text]string
}

func (w *world) Bool(f Formula) bool { return w.bool[f] }
func (w *world) Int(x Int) int64     { return w.int[x] }
func (w *world) Text(x Text) string  { return w.text[x] }

var words = []string{"", "a", "b", "ab", "ba", "aa"}

// visit visits all worlds until visit returns true.
func (w *world) visit(i int, visit func() bool) bool {
	switch {
	case i < len(w.bools):
		for _, v := range []bool{false, true} {
			w.bool[w.bools[i]] = v
			if w.visit(i+1, visit) {
				return true
			}
		}
	case i < len(w.bools)+len(w.ints):
		for v := int64(-2); v <= 2; v++ {
			w.int[w.ints[i-len(w.bools)]] = v
			if w.visit(i+1, visit) {
				return true
			}
		}
	case i < len(w.bools)+len(w.ints)+len(w.texts):
		for _, v := range words {
			w.text[w.texts[i-len(w.bools)-len(w.ints)]] = v
			if w.visit(i+1, visit) {
				return true
			}
		}
	default:
		return visit()
	}
	return false
}

// newWorld returns a store with two booleans, two integers from -2 to 2 and two strings from six words.
func newWorld() (*Store, *world) {
	s := NewStore()
	w := &world{bool: map[Formula]bool{}, int: map[Int]int64{}, text: map[Text]string{}}
	for range 2 {
		w.bools = append(w.bools, s.NewBool())
		w.ints = append(w.ints, s.NewInt(-2, 2, 0))
		x := s.NewText("")
		w.texts = append(w.texts, x)
		one := False
		for _, word := range words {
			one = s.Disjoin(one, s.Member(x, s.Word(word)))
		}
		s.Assume(one)
	}
	return s, w
}

// TestSolveAgainstAllWorlds compares Solve with an exhaustive search.
func TestSolveAgainstAllWorlds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	possible, not := 0, 0
	for range 400 {
		s, w := newWorld()
		f := randomFormula(t, rng, s, w, 5)
		found := w.visit(0, func() bool { return s.Evaluate(w, f)[0] })
		m, err := s.Solve(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		if (m != nil) != found {
			t.Fatalf("a model: %v, a world: %v", m != nil, found)
		}
		if m == nil {
			not++
			continue
		}
		possible++
		if !m.Holds(f) {
			t.Fatal("the formula is false in its model")
		}
		for _, fact := range s.Facts() {
			if !m.Holds(fact) {
				t.Fatal("a fact is false in the model")
			}
		}
	}
	t.Logf("%d possible, %d not", possible, not)
	if possible < 50 || not < 50 {
		t.Errorf("%d possible, %d not", possible, not)
	}
}

var patterns = []string{"^a", "b$", "^(ab)*$", "a|b", "^$", "^.$", "(?i)^A", `\bb`}

func randomFormula(t *testing.T, rng *rand.Rand, s *Store, w *world, depth int) Formula {
	if depth > 0 && rng.IntN(8) > 0 {
		a, b := randomFormula(t, rng, s, w, depth-1), randomFormula(t, rng, s, w, depth-1)
		if rng.IntN(3) == 0 {
			return s.Disjoin(a, b)
		}
		return s.Conjoin(a, b)
	}
	var f Formula
	x := w.texts[rng.IntN(2)]
	switch rng.IntN(6) {
	case 0:
		f = w.bools[rng.IntN(2)]
	case 1:
		f = s.Difference(w.ints[0], w.ints[1], int64(rng.IntN(5)-2))
	case 2:
		f = s.Difference(w.ints[rng.IntN(2)], 0, int64(rng.IntN(5)-2))
	case 3:
		lang, err := s.Matching(patterns[rng.IntN(len(patterns))])
		if err != nil {
			t.Fatal(err)
		}
		switch rng.IntN(3) {
		case 0:
			lang = s.Enclose(lang, "a", "b")
		case 1:
			lang = s.Fold(lang, rng.IntN(2) == 0)
		}
		f = s.Member(x, lang)
	case 4:
		f = s.Equal(w.texts[0], w.texts[1])
	default:
		f = s.Member(x, []*Lang{s.Word("ab"), s.Prefix("a"), s.Suffix("a"), s.Containing("b"), s.UpTo(1)}[rng.IntN(5)])
	}
	if rng.IntN(2) == 0 {
		f = f.Negate()
	}
	return f
}

// FuzzLanguage compares automata with package regexp.
func FuzzLanguage(f *testing.F) {
	for _, p := range append(patterns, `^registry\.example\.com/[a-z]+`, `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, `(?m)^a$`, `\Ba`) {
		for _, word := range []string{"", "a", "ab", "b\na\n", "registry.example.com/x", "ä", "A"} {
			f.Add(p, word)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, word string) {
		compiled, err := regexp.Compile(pattern)
		if err != nil || len(pattern) > 200 || len(word) > 200 {
			return
		}
		lang, err := NewStore().Matching(pattern)
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		if got, want := lang.Has(word), compiled.MatchString(word); got != want && word == string([]rune(word)) {
			t.Errorf("%q has %q: %v, not %v", pattern, word, got, want)
		}
	})
}

// TestShortestWord tests languages that are contained in others.
func TestShortestWord(t *testing.T) {
	for _, q := range []struct {
		in, not, word string
		none          bool
	}{
		{in: `^registry\.example\.com/[a-z]+`, not: `^registry\.example\.com/`, none: true},
		{in: `^registry\.example\.com/`, not: `^registry\.example\.com/[a-z]+`, word: "registry.example.com/"},
		{in: `^registry\.example\.com`, not: `^registry\.example\.com/`, word: "registry.example.com"},
		{in: `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, not: `^[a-z0-9-]{1,63}$`, none: true},
		{in: `^[a-z0-9-]{1,63}$`, not: `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, word: "-"},
	} {
		s := NewStore()
		in, err := s.Matching(q.in)
		not, other := s.Matching(q.not)
		if err != nil || other != nil {
			t.Fatal(err, other)
		}
		x := s.NewText("")
		m, err := s.Solve(context.Background(), s.Member(x, in), s.Member(x, not).Negate())
		switch {
		case err != nil:
			t.Error(err)
		case m == nil != q.none:
			t.Errorf("%s without %s: a word: %v", q.in, q.not, m != nil)
		case m != nil && m.Text(x) != q.word:
			t.Errorf("%s without %s: %q, not %q", q.in, q.not, m.Text(x), q.word)
		}
	}
}

// A search for a word takes from the budget, and the error names the regular expression.
func TestLargeRegularExpressions(t *testing.T) {
	const large = `^(a|b)*a(a|b){40}$`
	s := NewStore()
	x := s.NewText("")
	all, err := s.Matching(large)
	if err != nil {
		t.Fatal(err)
	}
	short, err := s.Matching(`^[ab]{0,40}$`)
	if err != nil {
		t.Fatal(err)
	}
	s.Limit(1000)
	_, err = s.Solve(t.Context(), s.Member(x, all), s.Member(x, short))
	want := "the formula is too large: the regular expression " + large + " has too many states"
	if !errors.Is(err, ErrSize) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if states := len(all.auto.(*search).states); states > mostStates/10 {
		t.Errorf("%d states within a budget of 1000 clauses", states)
	}
}

// A search that gave up for want of budget is made again with a new one.
func TestNewBudget(t *testing.T) {
	s := NewStore()
	x := s.NewText("")
	l, err := s.Matching(`^(a|b)*a(a|b){8}$`)
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Matching(`^(a|b)*a(a|b){8}$|^c$`)
	if err != nil {
		t.Fatal(err)
	}
	goal := []Formula{s.Member(x, l), s.Member(x, other).Negate()}
	s.Limit(100)
	if _, err := s.Solve(t.Context(), goal...); !errors.Is(err, ErrSize) {
		t.Fatalf("with little budget: %v", err)
	}
	s.Limit(2_000_000)
	if m, err := s.Solve(t.Context(), goal...); m != nil || err != nil {
		t.Errorf("with a new budget: %v, %v", m, err)
	}
}
