package prove

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// TestRecipes proves that the native and the dialect form of recipes deny the same requests, where it can be decided;
// with -comparisons also of recipes about many kinds.
func TestRecipes(t *testing.T) {
	const recipes = "../../../recipes"
	folders, err := os.ReadDir(recipes)
	if err != nil {
		t.Fatal(err)
	}
	r := room(t)
	proved, undecided := 0, []string{}
	for _, f := range folders {
		if !f.IsDir() {
			continue
		}
		native := boundSide(t, r, filepath.Join(recipes, f.Name(), "native.yaml"))
		dialect := boundSide(t, r, filepath.Join(recipes, f.Name(), "dialect.yaml"))
		if native == nil || dialect == nil || len(native.mutators)+len(dialect.mutators) > 0 {
			continue
		}
		if *comparisonCount == 0 && len(casesOf(r.Types, []*policy.Policy{native.programs[0].Policy})) > 4 {
			continue
		}
		for _, pair := range [][2]*Side{{native, dialect}, {dialect, native}} {
			got, err := r.Stricter(context.Background(), pair[0], pair[1])
			switch {
			case err != nil:
				t.Fatal(err)
			case got.Answer == Proved:
				proved++
			case got.Answer == Counterexample:
				t.Errorf("%s: %v %v", f.Name(), got.Found.Request.Object, got.Case)
			default:
				undecided = append(undecided, f.Name())
			}
		}
	}
	t.Logf("%d proved, undecided: %s", proved, strings.Join(slices.Compact(undecided), ", "))
	if proved < 30 {
		t.Errorf("only %d proofs", proved)
	}
}

// boundSide returns the policies of a file, in force everywhere; nil: the file does not exist.
func boundSide(t *testing.T, r *Room, file string) *Side {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	docs, _ := (&manifest.Loader{}).Load(file)
	set, written := &policy.Set{}, map[policy.Ref]map[string]any{}
	for _, d := range docs {
		if policy.IsRecognised(d.Object) {
			if err := set.Add(d.Object, d.Place); err != nil {
				t.Fatal(err)
			}
			written[policy.RefOf(d.Object)] = d.Object
		}
	}
	for _, p := range set.Policies {
		if !set.Binds(p.Ref()) {
			set.Bindings = append(set.Bindings, &policy.Binding{Kind: p.Kind, APIVersion: p.APIVersion, Name: p.Name,
				PolicyName: p.Name, Actions: []policy.Action{policy.Deny}, MutationActions: mutationActions(p)})
		}
	}
	s, err := r.NewSide(set, func(ref policy.Ref) map[string]any { return written[ref] })
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range s.Outside() {
		t.Logf("%s: %s", file, reason.Message)
	}
	return s
}

func mutationActions(p *policy.Policy) []policy.Action {
	if p.Kind == policy.Admission {
		return []policy.Action{policy.Apply}
	}
	return nil
}

// TestDialect asks about policies of the dialect that differ from native ones, and that do not have a native form.
func TestDialect(t *testing.T) {
	folder := t.TempDir()
	side := func(r *Room, text string) *Side {
		file := filepath.Join(folder, "p.yaml")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return boundSide(t, r, file)
	}
	dialect := func(spec string) string {
		return "apiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicy\nmetadata: {name: p}\nspec:\n" +
			"  matchConstraints:\n    resourceRules:\n    - {apiGroups: [apps], apiVersions: [v1], " +
			"operations: [CREATE, UPDATE], resources: [deployments]}\n" + spec
	}
	r := room(t)
	native := sideOf(t, r, one("apps", "v1", "deployments", "object.spec.replicas < 5"))
	for _, test := range []struct {
		spec        string
		looser, are Answer // whether the native one is as strict as the dialect's, and the other way round
	}{
		{"  validations:\n  - expression: object.spec.replicas <= 4\n", Proved, Proved},
		{"  validations:\n  - expression: object.spec.replicas <= 5\n", Proved, Counterexample},
		{"  validations:\n  - expression: object.spec.replicas <= 3\n", Counterexample, Proved},
		{"  combine: Any\n  validations:\n  - expression: object.spec.replicas <= 4\n", Proved, Proved},
		{"  mutations:\n  - patchType: JSONMergePatch\n    condition: object.spec.replicas > 3\n" +
			"    jsonMergePatch: {expression: \"{'spec': {'replicas': 3}}\"}\n", Undecided, Undecided},
	} {
		other := side(r, dialect(test.spec))
		for _, ask := range []struct {
			old, now *Side
			want     Answer
		}{{other, native, test.looser}, {native, other, test.are}} {
			got, err := r.Stricter(context.Background(), ask.old, ask.now)
			if err != nil {
				t.Fatal(err)
			}
			if got.Answer != ask.want {
				t.Errorf("%s: %s, want %s %+v", test.spec, got.Answer, ask.want, got.Reasons)
			}
		}
	}
}
