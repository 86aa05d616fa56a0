package conformance

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
)

// TestProposalsInDialect evaluates the examples of the proposals as policies of the dialect: testdata/proposals.yaml
// holds the answers, beside those that a released server recorded in the cases.
func TestProposalsInDialect(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus once more")
	}
	cases := corpus(t)
	type answer struct {
		Case     string   `json:"case"`
		Idea     string   `json:"idea"`
		Released string   `json:"released"`
		Dialect  string   `json:"dialect"`
		Without  string   `json:"without,omitempty"` // the answer without policies, unless it is allowed
		Changes  []string `json:"changes,omitempty"` // of the object as it is without policies, if that is allowed
	}
	say := func(w *Want) string {
		switch {
		case len(w.Rejected) > 0:
			return "refused: " + w.Rejected[0].Status.Message
		case w.Status != nil:
			return "denied: " + w.Status.Message
		}
		return "allowed"
	}
	var answers []answer
	for _, c := range cases {
		if !strings.HasPrefix(c.Name, "proposals/mutating-") {
			continue
		}
		turned := *c
		turned.Policies, turned.Stored = inDialect(c.Policies), inDialect(c.Stored)
		got, err := Replay(t.Context(), &turned, celgate.Newest)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		a := answer{Case: strings.TrimPrefix(c.Name, "proposals/mutating-"), Idea: c.Idea, Released: say(c.Want), Dialect: say(got)}
		if got.Allowed != nil && *got.Allowed {
			without := *c
			without.Policies = nil
			plain, err := Replay(t.Context(), &without, celgate.Newest)
			if err != nil {
				t.Fatal(err)
			}
			if a.Without = say(plain); a.Without == "allowed" {
				a.Without = ""
				changes(&a.Changes, "", plain.Object, got.Object)
			}
		}
		answers = append(answers, a)
	}
	text, err := yaml.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "proposals.yaml")
	if *update {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != string(text) {
		t.Errorf("%s is not what the proposals come to: run the test with -update (%v)", path, err)
	}
	if len(answers) != 86 {
		t.Errorf("there are %d answers, not one for each input that was made of what the proposals write", len(answers))
	}
}

// changes lists the differences between two trees.
func changes(list *[]string, at string, before, after any) {
	b, wasMap := before.(map[string]any)
	a, isMap := after.(map[string]any)
	if !wasMap || !isMap {
		if !reflect.DeepEqual(before, after) {
			text, _ := json.Marshal(after) // of JSON
			*list = append(*list, at+": "+string(text))
		}
		return
	}
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		below := strings.TrimPrefix(at+"."+name, ".")
		if _, ok := a[name]; !ok {
			*list = append(*list, below+" is gone")
			continue
		}
		changes(list, below, b[name], a[name])
	}
}
