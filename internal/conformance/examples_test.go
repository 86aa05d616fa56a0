package conformance

import (
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/celgate/celgate/manifest"
)

// TestExamples compares the examples with mutations with their cases: they show the answers of a real server.
func TestExamples(t *testing.T) {
	cases := corpus(t)
	recorded := map[string]*Case{}
	for i := range cases {
		recorded[cases[i].Name] = cases[i]
	}
	folders, err := filepath.Glob("../../examples/mutating-*")
	if err != nil || len(folders) == 0 {
		t.Fatal("no examples: ", err)
	}
	for _, folder := range folders {
		objects := func(file string) (all []map[string]any) {
			if _, err := os.Stat(filepath.Join(folder, file)); os.IsNotExist(err) {
				return nil // such as the state of a story that has none
			}
			docs, problems := manifest.Load(filepath.Join(folder, file))
			for _, p := range problems {
				t.Error(p)
			}
			for _, d := range docs {
				all = append(all, d.Object)
			}
			return all
		}
		name := path.Join("examples", filepath.Base(folder))
		t.Run(name, func(t *testing.T) {
			c := recorded[name]
			if c == nil {
				t.Fatal("there is no case")
			}
			if diff := cmp.Diff(c.Policies, objects("policy.yaml")); diff != "" {
				t.Errorf("policy.yaml: -case +example:\n%s", diff)
			}
			if diff := cmp.Diff(c.State, objects("state.yaml")); diff != "" {
				t.Errorf("state.yaml: -case +example:\n%s", diff)
			}
			if !slices.ContainsFunc(objects("input.yaml"),
				func(o map[string]any) bool { return reflect.DeepEqual(o, c.Object) }) {
				t.Error("the object is none of input.yaml")
			}
		})
	}
}
