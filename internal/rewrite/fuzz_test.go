package rewrite_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/manifest"
)

// A mutator changes JSON trees at random.
type mutator struct{ *rand.Rand }

func newMutator(seed uint64) mutator { return mutator{rand.New(rand.NewPCG(seed, 1))} }

var someText = []string{"", "x", "yes", "a: b", "# c", "two words", "one\ntwo\n", "'", `"\`, "grüß", "1", "-", "*a",
	"\ttab", "nginx:1.27", "line\n\n\nend", " lead", "trail ", "\u0001", "a, b"}

func (m mutator) scalar() any {
	switch m.IntN(6) {
	case 0:
		return m.IntN(2) == 0
	case 1:
		return int64(m.IntN(1000) - 500)
	case 2:
		return 1.5
	}
	return someText[m.IntN(len(someText))]
}

// value returns a new value.
func (m mutator) value(depth int) any {
	switch m.IntN(4 + depth) {
	case 0:
		list := make([]any, m.IntN(3))
		for i := range list {
			list[i] = m.value(depth + 1)
		}
		return list
	case 1:
		out := map[string]any{}
		for range m.IntN(3) {
			out[m.name()] = m.value(depth + 1)
		}
		return out
	}
	return m.scalar()
}

func (m mutator) name() string {
	return []string{"a", "b", "name", "yes", "1", "a.b/c", "with space", "x:y", "", "<<"}[m.IntN(9)]
}

// change returns a copy of a tree with some values changed.
func (m mutator) change(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range sortedKeys(v) {
			switch m.IntN(12) {
			case 0:
			case 1:
				out[k] = m.value(1)
			default:
				out[k] = m.change(v[k])
			}
		}
		if m.IntN(5) == 0 {
			out[m.name()] = m.value(1)
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			if m.IntN(8) == 0 {
				out = append(out, m.value(1))
			}
			if m.IntN(8) > 0 {
				out = append(out, m.change(item))
			}
		}
		if m.IntN(6) == 0 {
			out = append(out, m.value(1))
		}
		return append([]any{}, out...)
	}
	if m.IntN(10) == 0 {
		return m.scalar()
	}
	return v
}

func sortedKeys(m map[string]any) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// FuzzText changes the objects of any text at random: the new text always has the requested meaning, and unchanged
// objects keep their bytes.
func FuzzText(f *testing.F) {
	files, _ := filepath.Glob("testdata/text/*.txtar")
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for seed := range uint64(20) {
			f.Add(string(archive.Files[0].Data), seed)
			f.Add(strings.ReplaceAll(string(archive.Files[0].Data), "\n", "\r\n"), seed)
		}
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		docs, _ := manifest.Read(strings.NewReader(text), "")
		if len(docs) == 0 {
			return
		}
		m := newMutator(seed)
		source := docs[0].Source
		// A List can hold items that are no objects. They stay as they are, and so do their problems.
		_, broken := manifest.Read(strings.NewReader(source.Text), "")
		var edits []rewrite.Edit
		for _, d := range docs {
			if d.Source != source {
				break
			}
			next, _ := m.change(d.Object).(map[string]any)
			next["apiVersion"], next["kind"] = d.Object["apiVersion"], d.Object["kind"]
			edits = append(edits, rewrite.Edit{Item: d.Item, Old: d.Object, New: next})
		}
		same := slices.Clone(edits)
		for i := range same {
			same[i].New = same[i].Old
		}
		if got, err := rewrite.Text(source.Text, same); err != nil || got != source.Text {
			t.Fatalf("unchanged, yet %v:\n%s", err, got)
		}
		got, err := rewrite.Text(source.Text, edits)
		if err != nil && countErrors(broken) > 0 {
			return // would be lost
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, source.Text)
		}
		again, problems := manifest.Read(strings.NewReader(got), "")
		if countErrors(problems) != countErrors(broken) || len(again) < len(edits) {
			t.Fatalf("%v\n%s", problems, got)
		}
		for i := range edits {
			if diff := cmp.Diff(plainJSON(t, edits[i].New), plainJSON(t, again[i].Object)); diff != "" {
				t.Errorf("(-want +got)\n%s\nfrom\n%s\nto\n%s", diff, source.Text, got)
			}
		}
	})
}

func countErrors(problems []manifest.Problem) (n int) {
	for _, p := range problems {
		if !p.Warning {
			n++
		}
	}
	return n
}

// plainJSON makes numbers comparable.
func plainJSON(t *testing.T, v any) (out any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzObject mutates prepared objects at random, as policies do: preparing the rewritten manifest gives the mutated
// object again, and the input does not change.
func FuzzObject(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	text, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		f.Fatal(err)
	}
	types := registry(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		docs, problems := manifest.Read(strings.NewReader(string(text)), "objects.yaml")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		m := newMutator(seed)
		d := docs[m.IntN(len(docs))]
		kind := kindOf(d.Object)
		resource := types.ResourceFor(kind)
		prepared := func(object map[string]any) (map[string]any, error) {
			r, err := prepare.Object(
				prepare.Input{
					Types:     types,
					Resource:  resource,
					Operation: "CREATE",
					Namespace: "default",
					Object:    object,
				},
			)
			return r.Object, err
		}
		before, err := prepared(d.Object)
		if err != nil {
			t.Fatal(err)
		}
		changed, _ := m.mutate(before, "").(map[string]any)
		after, err := prepare.Normalise(changed, types, kind)
		if err != nil {
			return // a value of the wrong type
		}
		copied := plainJSON(t, d.Object)
		object := rewrite.Object(
			rewrite.Mutation{Author: d.Object, Before: before, After: after, Type: types.Type(kind), Prepare: prepared},
		)
		if !reflect.DeepEqual(copied, plainJSON(t, d.Object)) {
			t.Fatal("the author's object changed")
		}
		got, err := prepared(object)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(after, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", kind.Kind, diff)
		}
		out, err := rewrite.Text(
			d.Source.Text,
			[]rewrite.Edit{{Item: d.Item, Old: d.Object, New: object, Type: types.Type(kind)}},
		)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(d.Source.Text) {
			if _, comment, ok := strings.Cut(line, "# keep"); ok && !strings.Contains(out, "# keep"+comment) {
				t.Errorf("lost the comment %q:\n%s", comment, out)
			}
		}
	})
}

// mutate returns a copy of a prepared object with changes that policies make: new and changed labels, scalars, items.
func (m mutator) mutate(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range sortedKeys(v) {
			if out[k] = m.mutate(v[k], k); k == "apiVersion" || k == "kind" || k == "name" || k == "namespace" ||
				k == "generateName" {
				out[k] = v[k]
			}
		}
		switch {
		case key == "metadata" && m.IntN(2) == 0:
			out["labels"] = map[string]any{"env": someText[m.IntN(3)], "tier": "x"}
		case (key == "annotations" || key == "labels" || key == "data") && m.IntN(2) == 0:
			out["k"+strconv.Itoa(m.IntN(3))] = "dmFsdWU="
		case out["containers"] != nil && m.IntN(3) == 0:
			out["tolerations"] = []any{map[string]any{"key": "x", "operator": "Exists"}}
			out["volumes"] = []any{map[string]any{"name": "v", "emptyDir": map[string]any{}}}
		}
		return out
	case []any:
		var out []any
		for _, item := range v {
			if m.IntN(10) > 0 {
				out = append(out, m.mutate(item, ""))
			}
		}
		if key == "containers" && m.IntN(3) == 0 {
			at := m.IntN(len(out) + 1)
			out = slices.Insert(out, at, any(map[string]any{
				"name": "sidecar", "image": []string{"s", "s:1", "s@sha256:0"}[m.IntN(3)],
				"ports": []any{map[string]any{"containerPort": int64(80)}},
			}))
		}
		return append([]any{}, out...)
	case int64:
		if m.IntN(8) == 0 {
			return v + 1
		}
	case bool:
		if m.IntN(8) == 0 {
			return !v
		}
	}
	return v
}
