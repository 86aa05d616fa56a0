package check_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/proofs"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// run checks the policies of files, with the CustomResourceDefinitions beside them.
func run(t testing.TB, paths ...string) []check.Diagnostic {
	t.Helper()
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	docs, problems := manifest.Load(paths...)
	for _, p := range problems {
		t.Errorf("%v", p)
	}
	bundle := manifest.NewBundle(docs...)
	if err := bundle.Err(); err != nil {
		t.Error(err)
	}
	in := check.Input{Set: &bundle.Set, KubeVersion: "1.37"}
	if slices.Contains(paths, "testdata/limits.yaml") {
		in.Sizes = policy.Limits{Bindings: 1, Rules: 2, Validations: 1, Mutations: 1}
	}
	if in.Types, err = custom(types, manifest.Trees(bundle.Definitions())); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(paths, "testdata/proved.yaml") {
		in.Prove = func(ctx context.Context, found []check.Diagnostic) ([]check.Diagnostic, error) {
			all, undecided, err := proofs.Check(ctx, in, nil, found)
			if undecided > 0 {
				t.Errorf("%d questions are undecided", undecided)
			}
			return all, err
		}
	}
	found, err := check.Run(t.Context(), in, check.Analyzers()...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func custom(types *schema.Registry, crds []map[string]any) (*schema.Registry, error) {
	if len(crds) == 0 {
		return types, nil
	}
	return types.WithCustomResources(crds...)
}

// wanted finds expectations: a comment of YAML, or of CEL inside a block scalar.
var (
	wanted = regexp.MustCompile(`(?:#|//) want((?: "(?:[^"\\]|\\.)*")+)`)
	quoted = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)
)

// TestAnalyzers compares diagnostics and the want comments of testdata one to one.
func TestAnalyzers(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	reported := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			type want struct {
				line    int
				pattern *regexp.Regexp
			}
			var wants []want
			for i, line := range strings.Split(string(text), "\n") {
				if m := wanted.FindStringSubmatch(line); m != nil {
					for _, q := range quoted.FindAllStringSubmatch(m[1], -1) {
						wants = append(wants, want{i + 1, regexp.MustCompile(strings.ReplaceAll(q[1], `\"`, `"`))})
					}
				}
			}
			for _, d := range run(t, file) {
				if d.Ignored != "" {
					continue
				}
				reported[d.Code] = true
				line := fmt.Sprintf("%s %s: %s", d.Code, d.Severity, d.Message)
				i := slices.IndexFunc(wants, func(w want) bool {
					return w.line == d.Position.Line &&
						w.pattern.MatchString(line)
				})
				if i < 0 {
					t.Errorf("%v: unexpected %s (%s)", d.Position, line, d.Suggestion)
					continue
				}
				wants = slices.Delete(wants, i, i+1)
			}
			for _, w := range wants {
				t.Errorf("%s:%d: no diagnostic matches %q", file, w.line, w.pattern)
			}
		})
	}
	for _, a := range check.Analyzers() {
		if !reported[a.Code] {
			t.Errorf("nothing in testdata shows %s %s", a.Code, a.Name)
		}
	}
}

// TestTexts tests the texts of the reference page.
func TestTexts(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range check.Analyzers() {
		if seen[a.Code] || seen[a.Name] {
			t.Errorf("%s %s is not alone", a.Code, a.Name)
		}
		seen[a.Code], seen[a.Name] = true, true
		if a.Title == "" || a.Text == "" || a.Severity == "" || (a.Before == "") != (a.After == "") {
			t.Errorf("%s is not complete", a.Code)
		}
	}
}

var update = flag.Bool("update", false, "write docs/checks.md")

// TestReference compares docs/checks.md with the analyzers.
func TestReference(t *testing.T) {
	const file = "../../../docs/checks.md"
	var b bytes.Buffer
	if err := check.Reference(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s is not what the analyzers say: run go generate ./cmd/internal/check (%v)", file, err)
	}
}

// TestExamples tests the findings about the examples of this repository: they are clean except for the listed findings.
func TestExamples(t *testing.T) {
	expected := map[string][]string{
		"warn-then-deny": {"CG502 pods/resize writes object.spec.containers[].resources, but the rules do not match it"},
		// only webhooks without the expression get it, as its annotation says
		"mutating-webhooks": {
			"CG403 webhooks[].namespaceSelector.matchExpressions is computed from itself: a second run changes it again"},
		"crd-versions": {
			"CG302 object.spec may be absent",
			"CG302 object.spec may be absent",
		}, // the definition does not require spec
	}
	files, err := filepath.Glob("../../../examples/*/policy.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			paths := []string{file}
			if state := filepath.Join(dir, "state.yaml"); exists(state) {
				paths = append(paths, state)
			}
			var got []string
			for _, d := range run(t, paths...) {
				if d.Severity != check.Note {
					got = append(got, d.Code+" "+d.Message)
				}
			}
			if want := expected[filepath.Base(dir)]; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
