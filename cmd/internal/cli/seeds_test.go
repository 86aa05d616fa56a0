package cli_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A promise is one row of docs/seeds.yaml: a promise of a proposal, and where it is implemented, or why not.
type promise struct {
	Seed, Promise, Where string
	Rows                 []string // of docs/seeds-rows.txt
	Tests                []string // file, or file#Test
	Example, Not         string
}

// TestSeeds compares docs/seeds.md with docs/seeds.yaml, and that with the tests and examples that it names.
func TestSeeds(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "seeds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all []promise
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	stories, err := os.ReadFile(filepath.Join(root, "docs", "guide", "stories.md"))
	if err != nil {
		t.Fatal(err)
	}
	covered := rowsOf(t, root)
	var b strings.Builder
	b.WriteString("# What the proposals promise, and where it is\n\n" +
		"<!-- made from seeds.yaml by TestSeeds -update -->\n\n" +
		"Rows are about the proposals 000 (KEP-3962), 001 (KEP-3775), 002 (an earlier design of KEP-3962), 003 (KEP-3488) and 004 (an earlier design of it).\n\n" +
		"| proposal | promise | where | tests |\n|---|---|---|---|\n")
	for _, p := range all {
		if (p.Where == "") != (p.Not != "") || p.Where != "" && len(p.Tests) == 0 {
			t.Errorf("%s: %s: a promise is somewhere, with a test, or there is a reason why not", p.Seed, p.Promise)
		}
		for _, id := range p.Rows {
			if _, ok := covered[id]; !ok {
				t.Errorf("%s: %s: there is no row %s", p.Seed, p.Promise, id)
			}
			covered[id] = true
		}
		var tests []string
		for _, named := range p.Tests {
			tests = append(tests, testOf(t, root, named))
		}
		where := p.Where
		if p.Not != "" {
			where = "**not**: " + p.Not
		}
		if p.Example != "" {
			if _, err := os.Stat(filepath.Join(root, "examples", p.Example, "suite.yaml")); err != nil {
				t.Error(err)
			}
			if strings.Contains(p.Seed, "Story") && strings.HasPrefix(p.Seed, "00") && p.Seed < "003" &&
				!strings.Contains(string(stories), "examples/"+p.Example+")") {
				t.Errorf("docs/guide/stories.md does not list %s, of %s", p.Example, p.Seed)
			}
			where += fmt.Sprintf("; [examples/%s](../examples/%[1]s)", p.Example)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.Seed, p.Promise, where, strings.Join(tests, ", "))
	}
	for _, id := range slices.Sorted(maps.Keys(covered)) {
		if !covered[id] {
			t.Errorf("the row %s of docs/seeds-rows.txt is in no promise", id)
		}
	}
	file := filepath.Join(root, "docs", "seeds.md")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("docs/seeds.md is not what docs/seeds.yaml makes: run the test with -update (%v)", err)
	}
}

// rowsOf returns the ids of docs/seeds-rows.txt, none of which is covered yet.
func rowsOf(t *testing.T, root string) map[string]bool {
	text, err := os.ReadFile(filepath.Join(root, "docs", "seeds-rows.txt"))
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if id, _, ok := strings.Cut(line, " "); ok && id != "#" {
			covered[id] = false
		}
	}
	return covered
}

// testOf checks that a test exists and returns a link to it.
func testOf(t *testing.T, root, named string) string {
	file, function, _ := strings.Cut(named, "#")
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		t.Error(err)
	}
	label := filepath.Base(file)
	if function != "" {
		if label = function; !strings.Contains(string(text), "\nfunc "+function+"(t *testing.T) {") {
			t.Errorf("%s has no %s", file, function)
		}
	}
	return fmt.Sprintf("[%s](../%s)", label, file)
}
