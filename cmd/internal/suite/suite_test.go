package suite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/suite"
)

// TestExamples runs the suites of the examples: each story has one, all pass, and together they see every outcome.
func TestExamples(t *testing.T) {
	policies, err := filepath.Glob("../../../examples/*/policy.yaml")
	if err != nil || len(policies) == 0 {
		t.Fatal("no examples", err)
	}
	var paths []string
	for _, p := range policies {
		paths = append(paths, filepath.Join(filepath.Dir(p), "suite.yaml"))
	}
	suites, problems := suite.Load(paths...)
	for _, p := range problems {
		t.Error(p)
	}
	coverage := &suite.Coverage{}
	for r := range suite.Run(t.Context(), suites, suite.Options{Coverage: coverage}) {
		if r.Status == suite.Passed {
			continue
		}
		t.Errorf("%s: %s/%s: %s", r.Place, r.Suite, r.Name, r.Status)
		for _, f := range r.Failures {
			t.Logf("%s: expected %s, got %s", f.Place, f.Expected, f.Got)
		}
		for _, p := range r.Problems {
			t.Log(p)
		}
	}
	for _, p := range coverage.Policies {
		for _, e := range p.Entries {
			if missing := e.MissingOutcomes(); len(missing) > 0 {
				t.Errorf("%s: policy %s, %s: never %s", e.Place, p.Name, e.Name, strings.Join(missing, ", "))
			}
		}
	}
}

func TestVersions(t *testing.T) {
	var c suite.Comparison
	for _, version := range []string{"1.36", "1.37"} {
		c.Add(version, suite.Result{Suite: "s", Name: "same", Status: suite.Passed,
			Decision: &celgate.Decision{Allowed: true}})
		c.Add(version, suite.Result{Suite: "s", Name: "other", Status: suite.Passed,
			Decision: &celgate.Decision{Allowed: true, Mutated: version == "1.37"}})
	}
	got := c.Differences()
	if len(got) != 1 || got[0].Name != "s/other" || got[0].Answers[0].Text != "allowed" ||
		got[0].Answers[1] != (suite.Answer{Version: "1.37", Text: "allowed, mutated"}) {
		t.Errorf("%+v", got)
	}
}

// FuzzLoad: no text makes loading panic, and every problem has a place in the file.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("../../../examples/*/suite.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("apiVersion: celgate.dev/v1alpha1\nkind: Suite\ncases: {table: [[]], expect: {mutated: {fields: {'[': 1}}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "suite.yaml")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		suites, problems := suite.Load(file)
		if len(suites) == 0 && len(problems) == 0 {
			t.Error("neither a suite nor a problem")
		}
		for _, p := range problems {
			if p.Position.File == "" || p.Message == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}

// FuzzKyverno tests that a conversion never panics, that its result can be loaded, and that omitted parts have a
// position in a file.
func FuzzKyverno(f *testing.F) {
	f.Add("apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: x}\npolicies: [policy.yaml]\nresources: [policy.yaml]\n" +
		"results:\n- {policy: replica-limit.example.com, kind: ValidatingAdmissionPolicy, result: skip}\n",
	)
	f.Add("apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nvalues: {namespaceSelector: [{name: x, labels: 3}], subresources: x, policies: {}}\nresults: 3\n")
	given, err := os.ReadFile("../../../examples/replica-limit/policy.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		file := filepath.Join(dir, "kyverno-test.yaml")
		for name, text := range map[string]string{file: text, filepath.Join(dir, "policy.yaml"): string(given)} {
			if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		c := suite.FromKyverno(file)
		for _, p := range c.Left {
			if p.Position.File == "" || p.Message == "" {
				t.Errorf("%+v", p)
			}
		}
		if len(c.Suites) == 0 {
			return
		}
		path, err := c.WriteSuites()
		if err != nil {
			t.Fatal(err)
		}
		suites, problems := suite.Load(path)
		for _, p := range problems {
			t.Error(p)
		}
		n := 0
		for _, s := range suites {
			n += len(s.Cases)
		}
		if n != c.Cases {
			t.Errorf("%d cases were written, %d read", c.Cases, n)
		}
	})
}
