package policy

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/admission/plugin/policy/manifest/loader"

	"github.com/celgate/celgate/internal/static"
	"github.com/celgate/celgate/policy"
)

// serverLoads returns the names of the policies and bindings that the server reads of a directory, or its error.
func serverLoads(dir string, kind policy.Kind) (names []string, err error) {
	if kind == policy.Mutating {
		loaded, err := loader.LoadMutatingManifestsFromDirectory(dir)
		if err != nil {
			return nil, err
		}
		for _, p := range loaded.Policies {
			names = append(names, p.Name)
		}
		for _, b := range loaded.Bindings {
			names = append(names, b.Name+" of "+b.Spec.PolicyName)
		}
		return names, nil
	}
	loaded, err := loader.LoadValidatingManifestsFromDirectory(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range loaded.Policies {
		names = append(names, p.Name)
	}
	for _, b := range loaded.Bindings {
		names = append(names, b.Name+" of "+b.Spec.PolicyName)
	}
	return names, nil
}

func celgateLoads(dir string, kind policy.Kind) (names []string, err error) {
	set, err := static.Load("1.37", static.Dir{Path: dir, Kind: kind})
	if err != nil {
		return nil, err
	}
	for _, p := range set.Policies {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	var bindings []string
	for _, b := range set.Bindings {
		bindings = append(bindings, b.Name+" of "+b.PolicyName)
	}
	slices.Sort(bindings)
	return append(names, bindings...), nil
}

func sameLoad(t *testing.T, dir string, kind policy.Kind) (server error) {
	t.Helper()
	want, server := serverLoads(dir, kind)
	got, err := celgateLoads(dir, kind)
	if (server == nil) != (err == nil) || !slices.Equal(got, want) {
		t.Errorf("%s: server %v %v, celgate %v %v", dir, want, server, got, err)
	}
	return server
}

// Directories that people may write.
func TestStaticDirectories(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/static.txtar")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := txtar.Write(archive, root); err != nil {
		t.Fatal(err)
	}
	for _, verdict := range []string{"good", "bad"} {
		entries, err := os.ReadDir(filepath.Join(root, verdict))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			t.Run(verdict+"/"+entry.Name(), func(t *testing.T) {
				server := sameLoad(t, filepath.Join(root, verdict, entry.Name()), policy.Validating)
				if (server == nil) != (verdict == "good") {
					t.Errorf("the server says %v", server)
				}
			})
		}
	}
}

// TestStaticGenerated compares the loading of files with random mistakes in objects.
func TestStaticGenerated(t *testing.T) {
	var pool []any
	for _, text := range append(slices.Clone(values), `"p.static.k8s.io"`) {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(text, err)
		}
		pool = append(pool, v)
	}
	loaded := 0
	for n := range *rounds {
		s := *seed + uint64(n)
		r := rand.New(rand.NewPCG(s, 77))
		kind := policy.Validating
		pair := seeds[:2]
		if r.IntN(2) == 0 {
			kind, pair = policy.Mutating, seeds[2:]
		}
		dir := t.TempDir()
		for i, text := range pair {
			data, err := yaml.ToJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var obj map[string]any
			if err := json.Unmarshal(data, &obj); err != nil {
				t.Fatal(err)
			}
			obj["metadata"].(map[string]any)["name"] = "p.static.k8s.io"
			spec := obj["spec"].(map[string]any)
			delete(spec, "paramKind")
			delete(spec, "paramRef")
			if i == 0 {
				spec["matchConditions"] = []any{map[string]any{"name": "m", "expression": "true"}}
			} else {
				spec["policyName"] = "p.static.k8s.io"
			}
			if r.IntN(2) == 0 {
				member := []string{"spec", "spec", "spec", "metadata"}[r.IntN(4)]
				obj[member] = change(r, obj[member], pool, r.IntN(6))
			}
			if repeatsVariable(obj) {
				continue // the one rule that is not the server's
			}
			if data, err = json.Marshal(obj); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".json"), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if sameLoad(t, dir, kind) == nil {
			loaded++
		}
		if t.Failed() {
			for _, name := range []string{"a.json", "b.json"} {
				data, err := os.ReadFile(filepath.Join(dir, name))
				t.Logf("seed %d: %s %v", s, data, err)
			}
			return
		}
	}
	if loaded < *rounds/10 {
		t.Errorf("only %d of %d were loaded", loaded, *rounds)
	}
	t.Logf("%d of %d were loaded", loaded, *rounds)
}
