package conformance

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table in docs/semantics.md")

// TestRules compares the rules with the corpus, and the table in the documentation with the rules.
func TestRules(t *testing.T) {
	cases := corpus(t)
	text, err := os.ReadFile("testdata/rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	sections, err := ParseRules(string(text))
	if err != nil {
		t.Fatal("testdata/rules.txt:", err)
	}
	for _, problem := range CheckRules(sections, cases) {
		t.Error(problem)
	}

	const file, begin, end = "../../docs/semantics.md",
		"<!-- generated: go test ./internal/conformance -run Rules -update -->\n", "<!-- end -->\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no generated part", file)
	}
	want := before + begin + RulesTable(sections, cases) + end + after
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the rules say: go test ./internal/conformance -run Rules -update rewrites it", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestParseRules(t *testing.T) {
	sections, err := ParseRules("# a comment\n\n## M-2.5 Matching\n\nM-2.5.1 One | two.\n  a/b c/*\n  a/d\nM-2.5.2 Three.\n  no case: nobody knows\nM-2.5.3 Four.\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(sections) != 1 || len(sections[0].Rules) != 3 ||
		!slices.Equal(sections[0].Rules[0].Cases, []string{"a/b", "c/*", "a/d"}) {
		t.Fatalf("%+v", sections)
	}
	want := `
3 rules, 1 cases; 2 rules are without a case.

### M-2.5 Matching

| rule | what the server does | cases |
|---|---|---|
| M-2.5.1 | One \| two. | ` + "`a/b` `c/*` `a/d`" + ` |
| M-2.5.2 | Three. | **gap**: nobody knows |
| M-2.5.3 | Four. | **gap** |

`
	if got := RulesTable(sections, make([]*Case, 1)); got != want {
		t.Errorf("got\n%s", got)
	}
	for text, want := range map[string]string{
		"M-2.5.1 A rule.":                "line 1: the section is missing",
		"## M-2.5 X\n  a/b":              "line 2: the rule is missing",
		"## M-2.5 X\nM-2.6.1 A rule.":    "line 2: \"M-2.6.1 A rule.\" is not a rule of M-2.5",
		"## M-2.5 X\nM-2.5.1":            "line 2: \"M-2.5.1\" is not a rule of M-2.5",
		"## M-2.5 X\nM-2.5.x A rule.":    "line 2: \"M-2.5.x A rule.\" is not a rule of M-2.5",
		"## M-2.5 X\n\nSome other text.": "line 3: \"Some other text.\" is not a rule of M-2.5",
	} {
		if _, err := ParseRules(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCheckRules(t *testing.T) {
	cases := []*Case{{Name: "a/b"}, {Name: "a/c"}, {Name: "d/e"}}
	sections := []Section{{ID: "X-1", Rules: []Rule{
		{ID: "X-1.1", Cases: []string{"a/*", "a/b"}},
		{ID: "X-1.3", Cases: []string{"a/z"}, Gap: "because"},
	}}}
	want := []string{
		"X-1.1: a/b twice",
		"X-1.3: has cases, and a reason for having none",
		"X-1.3: its number should be X-1.2",
		"X-1.3: unknown case a/z",
		"d/e: not in any rule",
	}
	if got := CheckRules(sections, cases); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
