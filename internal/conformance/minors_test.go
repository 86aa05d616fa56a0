package conformance

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
)

// TestReplayMinors replays every case with each older minor for which it is recorded, and compares the answers.
func TestReplayMinors(t *testing.T) {
	known, err := KnownDifferences(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range corpus(t) {
		for _, w := range c.wants() {
			for _, minor := range w.Minors {
				switch {
				case minor == celgate.Newest, w.Unable != "":
					continue
				case (testing.Short() || raced) && w == c.Want: // most of which the newest minor has in common with it
					continue
				}
				t.Run(minor+"/"+c.Name, func(t *testing.T) {
					t.Parallel()
					got, err := Replay(t.Context(), c, minor)
					if err != nil {
						t.Fatal(err)
					}
					what := known[minor][c.Name]
					if what == "" {
						what = unvalidated[c.Name]
					}
					report(t, c, "engine", unexpectedOn(w, got, what))
				})
			}
		}
	}
}

// unexpectedOn returns the test message for a difference between an answer and that of a minor.
func unexpectedOn(recorded, got *Want, what string) string {
	switch diff := Compare(recorded, got); {
	case what == "":
		return diff
	case diff == "":
		return "agrees now, but is known to differ: " + what
	}
	return ""
}

// TestPut checks that minors share an answer as long as it is the same.
func TestPut(t *testing.T) {
	yes, no := true, false
	c := &Case{}
	check := func(what, want string) {
		t.Helper()
		var all []string
		for _, w := range c.wants() {
			verdict := "no"
			if *w.Allowed {
				verdict = "yes"
			}
			all = append(all, verdict+" "+strings.Join(w.Minors, " "))
		}
		if got := strings.Join(all, ", "); got != want {
			t.Errorf("%s: %s, not %s", what, got, want)
		}
		if (c.Want == nil) != (c.WantOf(celgate.Newest) == nil) {
			t.Errorf("%s: the answer of the newest is not in its place", what)
		}
	}
	put := func(minor string, allowed *bool) { c.Put(minor, &Want{Allowed: allowed}) }
	put("1.36", &yes)
	check("an older one alone", "yes 1.36")
	put("1.37", &yes)
	check("the same", "yes 1.37 1.36")
	put("1.9", &no)
	check("another", "yes 1.37 1.36, no 1.9")
	put("1.36", &no)
	check("one changes", "yes 1.37, no 1.36 1.9")
	put("1.37", &no)
	check("the newest follows", "no 1.37 1.36 1.9")
	if !slices.Equal(c.WantOf("1.9").Minors, c.Want.Minors) {
		t.Error("not shared")
	}
}
