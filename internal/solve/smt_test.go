package solve

import (
	"context"
	"errors"
	"math/big"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A reading is an interpreter of scripts, for given constants.
type reading struct {
	t         *testing.T
	functions map[string]sexpr
	bools     map[string]bool
	ints      map[string]int64
	texts     map[string]string
}

// holds reports whether all assertions of a script are true.
func (r *reading) holds(script string) bool {
	r.functions = map[string]sexpr{}
	yes := true
	for rest := script; strings.TrimSpace(rest) != ""; {
		var v sexpr
		var err error
		if v, rest, err = readSexpr(rest); err != nil {
			r.t.Fatal(err)
		}
		switch v.list[0].atom {
		case "define-fun":
			r.functions[v.list[1].atom] = v.list[4]
		case "assert":
			yes = r.bool(v.list[1]) && yes
		}
	}
	return yes
}

func (r *reading) bool(v sexpr) bool {
	if !v.isList {
		if f, ok := r.functions[v.atom]; ok {
			return r.bool(f)
		}
		return v.atom == "true" || r.bools[v.atom]
	}
	switch v.list[0].atom {
	case "and":
		return r.bool(v.list[1]) && r.bool(v.list[2])
	case "not":
		return !r.bool(v.list[1])
	case "<=":
		for i := 1; i+1 < len(v.list); i++ {
			if r.int(v.list[i]).Cmp(r.int(v.list[i+1])) > 0 {
				return false
			}
		}
		return true
	case "=":
		return r.string(v.list[1]) == r.string(v.list[2])
	case "str.prefixof":
		return strings.HasPrefix(r.string(v.list[2]), r.string(v.list[1]))
	case "str.suffixof":
		return strings.HasSuffix(r.string(v.list[2]), r.string(v.list[1]))
	case "str.contains":
		return strings.Contains(r.string(v.list[1]), r.string(v.list[2]))
	case "str.in_re":
		word := []rune(r.string(v.list[1]))
		return slices.Contains(r.ends(v.list[2], word, 0), len(word))
	}
	r.t.Fatalf("an unknown operator: %s", v.list[0].atom)
	return false
}

func (r *reading) int(v sexpr) *big.Int {
	switch {
	case !v.isList:
		if n, ok := r.ints[v.atom]; ok {
			return big.NewInt(n)
		}
		n, ok := new(big.Int).SetString(v.atom, 10)
		if !ok {
			r.t.Fatalf("an unknown number: %s", v.atom)
		}
		return n
	case v.list[0].atom == "str.len":
		return big.NewInt(int64(len([]rune(r.string(v.list[1])))))
	case len(v.list) == 2:
		return new(big.Int).Neg(r.int(v.list[1]))
	}
	return new(big.Int).Sub(r.int(v.list[1]), r.int(v.list[2]))
}

func (r *reading) string(v sexpr) string {
	switch {
	case v.isString:
		text, err := v.text()
		if err != nil {
			r.t.Fatal(err)
		}
		return text
	case !v.isList:
		return r.texts[v.atom]
	}
	var all string
	for _, part := range v.list[1:] {
		all += r.string(part)
	}
	return all
}

// ends returns where matches of a language may end that start at an index of a word.
func (r *reading) ends(v sexpr, word []rune, from int) []int {
	if !v.isList {
		switch v.atom {
		case "re.none":
			return nil
		case "re.all":
			var all []int
			for i := from; i <= len(word); i++ {
				all = append(all, i)
			}
			return all
		case "re.allchar":
			if from < len(word) {
				return []int{from + 1}
			}
			return nil
		}
		return r.ends(r.functions[v.atom], word, from)
	}
	after := func(v sexpr, starts []int) (all []int) {
		for _, i := range starts {
			all = append(all, r.ends(v, word, i)...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	repeat := func(v sexpr, least, most int) (all []int) {
		at := []int{from}
		for n := 0; len(at) > 0 && (most < 0 || n <= most); n++ {
			if n >= least {
				known := len(all)
				all = slices.Compact(slices.Sorted(slices.Values(append(all, at...))))
				if most < 0 && len(all) == known {
					break
				}
			}
			at = after(v, at)
		}
		return all
	}
	if op := v.list[0]; op.isList { // (_ re.loop 1 2)
		least, _ := strconv.Atoi(op.list[2].atom)
		most, _ := strconv.Atoi(op.list[len(op.list)-1].atom)
		return repeat(v.list[1], least, most)
	}
	switch args := v.list[1:]; v.list[0].atom {
	case "str.to_re":
		part := []rune(r.string(args[0]))
		if len(part) <= len(word)-from && slices.Equal(word[from:from+len(part)], part) {
			return []int{from + len(part)}
		}
		return nil
	case "re.range":
		least, most := []rune(r.string(args[0]))[0], []rune(r.string(args[1]))[0]
		if from < len(word) && word[from] >= least && word[from] <= most {
			return []int{from + 1}
		}
		return nil
	case "re.++":
		at := []int{from}
		for _, part := range args {
			at = after(part, at)
		}
		return at
	case "re.union":
		var all []int
		for _, part := range args {
			all = append(all, r.ends(part, word, from)...)
		}
		return slices.Compact(slices.Sorted(slices.Values(all)))
	case "re.*":
		return repeat(args[0], 0, -1)
	case "re.+":
		return repeat(args[0], 1, -1)
	case "re.opt":
		return repeat(args[0], 0, 1)
	}
	r.t.Fatalf("an unknown operator: %s", v.list[0].atom)
	return nil
}

// TestScriptAgainstEvaluate compares the values of formulas with those of their scripts, in random worlds.
func TestScriptAgainstEvaluate(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	tally := map[bool]int{}
	for range 300 {
		s, w := newWorld()
		f := randomFormula(t, rng, s, w, 4)
		script, err := s.NewScript(f)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			r := &reading{t: t, bools: map[string]bool{}, ints: map[string]int64{}, texts: map[string]string{}}
			for _, b := range w.bools {
				w.bool[b] = rng.IntN(2) == 0
				r.bools["b"+strconv.Itoa(b.node())] = w.bool[b]
			}
			for _, x := range w.ints {
				w.int[x] = rng.Int64N(5) - 2
				r.ints["i"+strconv.Itoa(int(x))] = w.int[x]
			}
			for _, x := range w.texts {
				w.text[x] = words[rng.IntN(len(words))]
				r.texts["t"+strconv.Itoa(int(x))] = w.text[x]
			}
			got, want := r.holds(script.Text), !slices.Contains(s.Evaluate(w, script.roots...), false)
			tally[want]++
			if got != want {
				t.Fatalf("%v, not %v, with %v in\n%s", got, want, w.text, script.Text)
			}
		}
	}
	t.Log(tally)
	if tally[true] < 500 || tally[false] < 500 {
		t.Error(tally)
	}
}

// FuzzScript compares languages of scripts with package regexp.
func FuzzScript(f *testing.F) {
	for _, p := range append(patterns, `^registry\.example\.com/[a-z]+`, `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`,
		`(?m)^a$`, `\Ba`, `^a|b$`, `(^|,)a(,|$)`, `^(a$|b)`, `(?i)k+`, `a{2,}`, `[^\n"\\]+$`, `(a|^)*b`, `(a$)?`) {
		for _, word := range []string{"", "a", "ab", "b\na\n", "registry.example.com/x", "ä", "A", `"\u{61}`, ",a", "K"} {
			f.Add(p, word)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, word string) {
		compiled, err := regexp.Compile(pattern)
		if err != nil || len(pattern) > 60 || len(word) > 60 || word != string([]rune(word)) {
			return
		}
		s := NewStore()
		lang, err := s.Matching(pattern)
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		x := s.NewText("")
		script, err := s.NewScript(s.Member(x, lang))
		if errors.Is(err, ErrUnwritable) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range word {
			if r >= endOfSMTRunes {
				return
			}
		}
		r := &reading{t: t, texts: map[string]string{"t0": word}}
		if got, want := r.holds(script.Text), compiled.MatchString(word); got != want {
			t.Errorf("%q has %q: %v, not %v:\n%s", pattern, word, got, want, script.Text)
		}
	})
}

// TestScriptsWithSolvers asks installed solvers about random formulas.
func TestScriptsWithSolvers(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	type question struct {
		script *Script
		model  *Model
	}
	var all []question
	for range 60 {
		s, w := newWorld()
		f := randomFormula(t, rng, s, w, 5)
		script, err := s.NewScript(f)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.Solve(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, question{script, m})
	}
	for _, command := range [][]string{{"z3", "-in", "-T:30"}, {"cvc5", "--lang=smt2", "--tlimit=30000"}} {
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Logf("%s is not installed: it is not asked", command[0])
			continue
		}
		tally := map[string]int{}
		for _, q := range all {
			run := exec.Command(command[0], command[1:]...)
			run.Stdin = strings.NewReader(q.script.Text)
			output, _ := run.Output()
			m, err := q.script.Read(string(output))
			switch {
			case err != nil:
				tally["open"]++
				t.Logf("%s: %v", command[0], err)
			case (m != nil) != (q.model != nil):
				t.Errorf("%s has a model: %v, and ours: %v:\n%s", command[0], m != nil, q.model != nil, q.script.Text)
			default:
				tally[strconv.FormatBool(m != nil)]++
			}
		}
		t.Logf("%s: %v", command[0], tally)
		if tally["open"] > len(all)/10 {
			t.Errorf("%s has no answer to %d of %d", command[0], tally["open"], len(all))
		}
	}
}
