package cli_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/cli"
	"github.com/celgate/celgate/cmd/internal/suite"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
)

const recipesDir = "../../../recipes"

// A recipe is a folder of recipes: two forms of one policy, and the suite that both pass.
type recipe struct {
	folder  string
	title   string
	Group   string `json:"group"`
	Native  string `json:"native"` // the minors that the form works on, such as "1.30+"
	Dialect string `json:"dialect"`
}

// folderLink matches a link from the README of a recipe to another one.
var folderLink = regexp.MustCompile(`\]\(\.\./([^)]*)\)`)

// frontMatter is the text between the lines of dashes that a README begins with, and the title behind it.
var frontMatter = regexp.MustCompile(`(?s)\A---\n(.*?)---\n# ([^\n]+)\n`)

func readRecipes(t *testing.T) []*recipe {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(recipesDir, "*", "README.md"))
	if err != nil || len(files) == 0 {
		t.Fatal("no recipes: ", err)
	}
	var all []*recipe
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := frontMatter.FindSubmatch(text)
		if parts == nil {
			t.Fatalf("%s does not begin with front matter and a title", file)
		}
		r := &recipe{folder: filepath.Dir(file), title: string(parts[2])}
		if err := yaml.UnmarshalStrict(parts[1], r); err != nil || r.Group == "" {
			t.Fatalf("%s: front matter: %v", file, err)
		}
		for _, link := range folderLink.FindAllSubmatch(text, -1) {
			if !isFile(filepath.Join(recipesDir, string(link[1]), "README.md")) {
				t.Errorf("%s: there is no recipe %s", file, link[1])
			}
		}
		all = append(all, r)
	}
	return all
}

// TestRecipes tests the claims of every recipe's README: celgate check does not find anything in its forms, both pass
// the suite on exactly the named minors, both and the native policies of celgate lower give the same answers, the suite
// covers every outcome of the native expressions, and mutated objects would be refused without the mutation.
func TestRecipes(t *testing.T) {
	for i, r := range readRecipes(t) {
		if raced && i%8 != 0 {
			continue // .ci/run tests all without the detector
		}
		t.Run(filepath.Base(r.folder), func(t *testing.T) {
			t.Parallel()
			native, dialect := r.read(t, "native.yaml"), r.read(t, "dialect.yaml")
			lowered := r.lower(t)
			r.check(t)
			r.claims(t, "native", r.Native, native)
			r.claims(t, "dialect", r.Dialect, dialect)
			coverage := &suite.Coverage{}
			of := r.ask(t, suite.Options{Set: native, Coverage: coverage})
			compareForms(t, "native", of, "dialect", r.ask(t, suite.Options{Set: dialect}))
			compareForms(t, "native", of, "lowered", r.ask(t, suite.Options{Set: lowered}))
			r.guards(t, native, coverage)
			for _, p := range coverage.Policies {
				for _, e := range p.Entries {
					if missing := e.MissingOutcomes(); len(missing) > 0 {
						t.Errorf("%s: %s %s, %s: never %s", e.Place, p.Kind, p.Name, e.Name, strings.Join(missing, ", "))
					}
				}
			}
		})
	}
}

// read returns the policies of a file of the recipe.
func (r *recipe) read(t *testing.T, name string) *policy.Set {
	t.Helper()
	docs, problems := manifest.Load(filepath.Join(r.folder, name))
	bundle := manifest.NewBundle(docs...)
	if len(problems) > 0 || bundle.Err() != nil {
		t.Fatal(problems, bundle.Err())
	}
	return &bundle.Set
}

// lower returns the native policies that celgate makes of the form in the dialect.
func (r *recipe) lower(t *testing.T) *policy.Set {
	t.Helper()
	var stdout, stderr bytes.Buffer
	file := filepath.Join(r.folder, "dialect.yaml")
	if code := cli.Main([]string{"lower", file}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("celgate lower: %s", &stderr)
	}
	docs, problems := manifest.Read(&stdout, "lowered.yaml")
	bundle := manifest.NewBundle(docs...)
	if len(problems) > 0 || bundle.Err() != nil {
		t.Fatal(problems, bundle.Err())
	}
	return &bundle.Set
}

// check expects that celgate check does not report anything about either form.
func (r *recipe) check(t *testing.T) {
	t.Helper()
	for _, name := range []string{"native.yaml", "dialect.yaml"} {
		args := []string{"check", filepath.Join(r.folder, name)}
		if params := filepath.Join(r.folder, "params.yaml"); isFile(params) {
			args = append(args, "-c", params)
		}
		var out bytes.Buffer
		if code := cli.Main(args, nil, &out, &out); code != 0 {
			t.Errorf("celgate check: %s", &out)
		}
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ask runs the suite of the recipe.
func (r *recipe) ask(t *testing.T, opts suite.Options) []suite.Result {
	t.Helper()
	suites, problems := suite.Load(r.folder)
	for _, p := range problems {
		t.Fatal(p)
	}
	return slices.Collect(suite.Run(t.Context(), suites, opts))
}

// claims expects that a form passes the suite on each minor from the claimed one, and on none before.
func (r *recipe) claims(t *testing.T, form, claim string, set *policy.Set) {
	t.Helper()
	oldest, found := strings.CutSuffix(claim, "+")
	if !found || !slices.Contains(builtin.Minors(), oldest) {
		t.Fatalf("%s: %q is not a minor that celgate knows with a plus behind it", form, claim)
	}
	for _, minor := range builtin.Minors() {
		if (testing.Short() || raced) && minor != celgate.Newest {
			continue
		}
		results := r.ask(t, suite.Options{Set: set, KubeVersion: minor})
		wrong := slices.DeleteFunc(results, func(x suite.Result) bool { return x.Status == suite.Passed })
		claimed := version.MustParseGeneric(minor).AtLeast(version.MustParseGeneric(oldest))
		switch {
		case claimed && len(wrong) > 0:
			t.Errorf("the %s form fails %d cases on %s, such as: %s", form, len(wrong), minor, tell(wrong[0]))
		case !claimed && len(wrong) == 0:
			t.Errorf("the %s form is not claimed for %s, but passes", form, minor)
		}
	}
}

// tell describes why a case failed.
func tell(r suite.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s", r.Place, r.Name, r.Status)
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "\n%s: expected %s, got %s", f.Place, f.Expected, f.Got)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "\n%s", p)
	}
	return b.String()
}

// guards expects that the validations of a mutating recipe alone refuse every object that a case expects to be mutated.
func (r *recipe) guards(t *testing.T, native *policy.Set, coverage *suite.Coverage) {
	t.Helper()
	guards := policy.Set{Policies: slices.DeleteFunc(slices.Clone(native.Policies), (*policy.Policy).Mutates)}
	if len(guards.Policies) == len(native.Policies) {
		return
	}
	for _, b := range native.Bindings {
		if b.Kind != policy.Mutating {
			guards.Bindings = append(guards.Bindings, b)
		}
	}
	mutates := map[policy.Position]bool{}
	for _, result := range r.ask(t, suite.Options{Set: native}) {
		mutates[result.Place] = result.Decision.Mutated
	}
	for _, result := range r.ask(t, suite.Options{Set: guards.Link(nil), Coverage: coverage}) {
		if mutates[result.Place] && result.Decision.Allowed {
			t.Errorf("%s: %s: allowed without the mutation", result.Place, result.Name)
		}
	}
}

// placeOfTemplate matches the path that the dialect puts before the message of a rule for a template.
var placeOfTemplate = regexp.MustCompile(`^(spec\.jobTemplate\.spec\.template|spec\.template|template): `)

// compareForms expects the same answers of two forms.
func compareForms(t *testing.T, first string, a []suite.Result, second string, b []suite.Result) {
	t.Helper()
	if len(a) != len(b) {
		t.Fatalf("%d results of the %s form, %d of the %s one", len(a), first, len(b), second)
	}
	for i := range a {
		if a[i].Decision == nil || b[i].Decision == nil {
			t.Errorf("%s: %s did not run: %v%v", a[i].Place, a[i].Name, a[i].Problems, b[i].Problems)
			continue
		}
		if diff := gocmp.Diff(answersOf(a[i]), answersOf(b[i])); diff != "" {
			t.Errorf("%s: %s: -%s +%s\n%s", a[i].Place, a[i].Name, first, second, diff)
		}
	}
}

// An answerOf holds the parts of an answer that all forms share: not the names of their kinds.
type answerOf struct {
	Of, Denied, Reason string
	Code               int32
	Warnings           []string
	Object             map[string]any
}

func answersOf(r suite.Result) []answerOf {
	all := []answerOf{answerTo("the object", r.Decision)}
	for _, c := range r.Created {
		a := answerTo(c.Kind, c.Decision)
		a.Object = map[string]any{"spec": a.Object["spec"]} // the Job of a CronJob has the time in its metadata
		all = append(all, a)
	}
	return all
}

func answerTo(of string, d *celgate.Decision) answerOf {
	a := answerOf{Of: of, Object: d.MutatedObject}
	if d.Status != nil {
		a.Reason, a.Code, a.Denied = string(d.Status.Reason), d.Status.Code, d.Status.Message
	}
	if d.Denial != nil {
		a.Denied = placeOfTemplate.ReplaceAllString(d.Denial.Message, "")
	}
	for _, w := range d.Warnings {
		a.Warnings = append(a.Warnings, w.Text)
	}
	return a
}

const (
	indexBegin = "<!-- generated: go test ./cmd/internal/cli -run TestRecipeIndex -args -update -->\n"
	indexEnd   = "<!-- end -->\n"
)

// TestRecipeIndex compares the table of recipes/README.md with the folders.
func TestRecipeIndex(t *testing.T) {
	file := filepath.Join(recipesDir, "README.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), indexBegin)
	_, after, closed := strings.Cut(rest, indexEnd)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	recipes := readRecipes(t)
	slices.SortStableFunc(recipes, func(a, b *recipe) int { return cmp.Compare(a.Group, b.Group) })
	var table strings.Builder
	table.WriteString("\n| | recipe | rule | native | dialect |\n|---|---|---|---|---|\n")
	group := ""
	for _, r := range recipes {
		name, shown := filepath.Base(r.folder), r.Group
		if r.Group == group {
			shown = ""
		}
		group = r.Group
		fmt.Fprintf(&table, "| %s | [%s](%s) | %s | %s | %s |\n", shown, name, name, r.title, r.Native, r.Dialect)
	}
	want := before + indexBegin + table.String() + "\n" + indexEnd + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the folders say: run go test ./cmd/internal/cli -run TestRecipeIndex -args -update", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}
