package differ

import (
	"flag"
	"strings"
	"testing"
)

var (
	policies = flag.Int("policies", 100, "how many random policies")
	seed     = flag.Uint64("seed", 1, "of everything random")
)

// TestDiffer compares a few random policies with the server's plugins, and that these had something to do.
func TestDiffer(t *testing.T) {
	world, err := NewWorld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	run := Run{Seed: *seed, Policies: *policies, Requests: 10, Out: &out, Limit: 3}
	totals, err := run.Do(t.Context(), world)
	if err != nil {
		t.Fatal(err)
	}
	if totals.Differences > 0 {
		t.Error(out.String())
	}
	if totals.Denied == 0 || totals.Mutated == 0 || totals.Annotated == 0 {
		t.Errorf("the policies do nothing: %+v", *totals)
	}
	if kinds := len(world.kinds); kinds < 30 {
		t.Errorf("objects of %d kinds only", kinds)
	}
}

// TestSeed checks that a seed always makes the same policies.
func TestSeed(t *testing.T) {
	world, err := NewWorld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []Totals
	for range 2 {
		for _, k := range world.kinds {
			k.age = 0
		}
		run := Run{Seed: *seed, Policies: 50, Requests: 2, Out: &strings.Builder{}, Limit: 100}
		totals, err := run.Do(t.Context(), world)
		if err != nil {
			t.Fatal(err)
		}
		totals.Unordered = 0
		all = append(all, *totals)
	}
	if all[0] != all[1] {
		t.Errorf("%+v and then %+v", all[0], all[1])
	}
}

// TestShrink checks that expressions become smaller.
func TestShrink(t *testing.T) {
	const e = "(has(object.x) && [1, 2].all(i, i > 0)) ? Object{a: 'b)', c: 1} : Object{}"
	found := map[string]bool{}
	for _, s := range smallerExpressions(e) {
		if len(s) >= len(e) {
			t.Errorf("%s is not smaller", s)
		}
		found[s] = true
	}
	for _, want := range []string{"Object{}", "has(object.x) && [1, 2].all(i, i > 0)",
		"(has(object.x) && [1, 2].all(i, i > 0)) ? Object{a: 'b)'} : Object{}"} {
		if !found[want] {
			t.Errorf("no %s", want)
		}
	}
}
