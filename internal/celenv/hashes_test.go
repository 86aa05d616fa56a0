package celenv

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
)

func extendedEnv(t *testing.T, d Declared) (*Set, *cel.Env, *plan.Functions) {
	t.Helper()
	set, err := New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	scope := set.Scope(Run, true)
	defer scope.Close()
	env, err := scope.Env(d)
	if err != nil {
		t.Fatal(err)
	}
	fns, err := scope.Functions(d)
	if err != nil {
		t.Fatal(err)
	}
	return set, env, fns
}

// TestExtended evaluates the functions of the dialect with their costs. The sums are those of other programs.
func TestExtended(t *testing.T) {
	_, env, fns := extendedEnv(t, Declared{Extended: true})
	long := "'" + strings.Repeat("a", 1000) + "'"
	for src, want := range map[string]struct {
		value any
		cost  uint64
	}{
		"hash.fnv32a('')":                                         {int64(2166136261), 1},
		"hash.fnv32a('foobar')":                                   {int64(3214735720), 2},
		"hash.sha256('')":                                         {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 1},
		"hash.sha256('abc')":                                      {"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 2},
		"hash.sha256(b'abc')":                                     {"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", 2},
		"hash.fnv32a(" + long + ") % 3":                           {int64(0), 102},
		"[1, 2, 3].reduce(sum, 0, x, sum + x)":                    {int64(6), 0},
		"lists.reduce([1, 2, 3], sum, 10, x, sum + x)":            {int64(16), 0},
		"['a', 'b'].reduce(all, '', x, all + x)":                  {"ab", 0},
		"[].reduce(n, 7, x, n + 1)":                               {int64(7), 0},
		"[[1], [2, 3]].reduce(n, 0, l, l.reduce(m, n, x, m + x))": {int64(6), 0},
		"{'a': 1, 'b': 2}.reduce(n, '', k, n + k).size()":         {int64(2), 0},
	} {
		checked, issues := Compile(env, src)
		if issues != nil {
			t.Errorf("%s: %v", src, issues)
			continue
		}
		prog, err := Program(env, checked, fns.Bound())
		if err != nil {
			t.Fatal(err)
		}
		got, details, err := prog.Eval(map[string]any{})
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if got.Value() != want.value && !(strings.Contains(src, "% 3") && got.Type() == cel.IntType) {
			t.Errorf("%s: %v, want %v", src, got.Value(), want.value)
		}
		if cost := *details.ActualCost(); want.cost > 0 && cost != want.cost {
			t.Errorf("%s costs %d, want %d", src, cost, want.cost)
		}
		estimate, err := Estimate(env, checked, Sizes{Items: 10, Text: 2000})
		if err != nil || estimate < *details.ActualCost() {
			t.Errorf("%s costs %d, more than the estimate of %d (%v)", src, *details.ActualCost(), estimate, err)
		}
		if p := plan.New(env, fns, checked, ExpressionLimit); p != nil {
			value, cost, ok := p.Eval(nil, nil, nil)
			if ok && (value.Equal(got) != got.Equal(got) || cost != *details.ActualCost()) {
				t.Errorf("%s is planned as %v for %d, not %v for %d", src, value, cost, got, *details.ActualCost())
			}
		}
	}
	for _, src := range []string{"[1].reduce(x, 0, x, x)", "[1].reduce(a.b, 0, x, x)", "hash.fnv32a(1)",
		"other.reduce([1], a, 0, x, a)"} {
		if _, issues := Compile(env, src); issues == nil {
			t.Errorf("%s compiles", src)
		}
	}
}

// TestReleased shows that released policies do not have the functions of the dialect.
func TestReleased(t *testing.T) {
	for _, d := range []Declared{{}, {Params: true, Authorizer: true}, {Params: true, Authorizer: true, Patch: true}} {
		for _, mode := range []Mode{Run, Write} {
			set, _, _ := extendedEnv(t, Declared{Extended: true})
			scope := set.Scope(mode, false)
			env, err := scope.Env(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, src := range []string{"hash.fnv32a('a') == 1", "hash.sha256('a') == ''",
				"[1].reduce(sum, 0, x, sum + x) == 1", "lists.reduce([1], sum, 0, x, sum + x) == 1"} {
				if _, issues := Compile(env, src); issues == nil {
					t.Errorf("%s compiles for %v", src, d)
				}
			}
			scope.Close()
		}
	}
}

// TestReduceBounded stops a result that grows with each item.
func TestReduceBounded(t *testing.T) {
	_, env, fns := extendedEnv(t, Declared{Extended: true})
	checked, issues := Compile(env,
		"lists.range(60).reduce(all, 'aaaaaaaaaaaaaaaa', x, all + all).size() > 0")
	if issues != nil {
		t.Fatal(issues)
	}
	prog, err := Program(env, checked, fns.Bound())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = prog.Eval(map[string]any{}); err == nil || !strings.Contains(err.Error(), "evaluation stopped") &&
		!strings.Contains(err.Error(), "cost limit") {
		t.Errorf("got %v", err)
	}
}
