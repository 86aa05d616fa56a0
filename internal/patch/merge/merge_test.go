package merge_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/patch/merge/mergetest"
	"github.com/celgate/celgate/internal/shape"
)

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func show(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// outcome counts the results of a comparison.
type outcome struct{ merged, refused int }

func compare(t *testing.T, live, patch map[string]any, typ *shape.Type) (o outcome) {
	t.Helper()
	liveBefore, patchBefore := mergetest.Copy(live), mergetest.Copy(patch)
	want, wantErr := mergetest.Apply(live, patch, typ)
	got, err := merge.Apply(live, patch, typ)

	report := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("type %s\nlive  %s\npatch %#v\n"+format, append([]any{show(typ), show(live), patch}, args...)...)
	}
	if !reflect.DeepEqual(liveBefore, any(live)) || !reflect.DeepEqual(patchBefore, any(patch)) {
		report("the input was modified")
	}
	if text(err) != text(wantErr) {
		report("got error %v\nwant      %v", err, wantErr)
	}
	if err != nil {
		return outcome{refused: 1}
	}
	if !reflect.DeepEqual(want, got) {
		report("-want +got:\n%s", cmp.Diff(want, got))
	}
	again, err := merge.Apply(got, patch, typ)
	if err != nil {
		report("the second application: %v", err)
	}
	if !reflect.DeepEqual(got, again) {
		report("the second application changes the result:\n%s", cmp.Diff(got, again))
	}
	if path := firstLost(typ, live, patch, got); path != "" {
		report("%s is not in the patch and has changed", path)
	}
	return outcome{merged: 1}
}

// firstLost returns the first path that live has, the patch does not have, and at which the result differs from live.
// Values below one that merges atomically are not preserved; the check for atomic values does not find them in maps.
func firstLost(t *shape.Type, live, patch, got any) string {
	if t != nil && t.Merge == shape.Atomic {
		return ""
	}
	switch patch := patch.(type) {
	case map[string]any:
		live, _ := live.(map[string]any)
		merged, ok := got.(map[string]any)
		if !ok {
			return "{}"
		}
		for _, name := range slices.Sorted(maps.Keys(live)) {
			member, ok := patch[name]
			if !ok && !reflect.DeepEqual(live[name], merged[name]) {
				return "." + name
			}
			child, atomic := memberType(t, name)
			if path := firstLost(child, live[name], member, merged[name]); path != "" && !atomic {
				return "." + name + path
			}
		}
	case []any:
		if t == nil || t.Merge != shape.Set && t.Merge != shape.Keyed {
			return ""
		}
		live, _ := live.([]any)
		merged, ok := got.([]any)
		if !ok {
			return "[]"
		}
		inLive, inPatch, inMerged := byKey(t, live), byKey(t, patch), byKey(t, merged)
		others := func(items []any) []any {
			return slices.DeleteFunc(append([]any{}, items...),
				func(item any) bool { return inPatch[keyText(t, item)] != nil })
		}
		if !reflect.DeepEqual(others(live), others(merged)) {
			return "[]"
		}
		for key, item := range inPatch {
			if len(inLive[key]) != 1 { // of several, the patch's takes the place
				continue
			}
			if len(inMerged[key]) != 1 {
				return "[" + key + "]"
			}
			if path := firstLost(t.Elem, inLive[key][0], item[0], inMerged[key][0]); path != "" {
				return "[" + key + "]" + path
			}
		}
	}
	return ""
}

func memberType(t *shape.Type, name string) (member *shape.Type, atomic bool) {
	if t == nil {
		return nil, false
	}
	if f := t.Field(name); f != nil {
		return f.Type, f.Atomic
	}
	return t.Elem, false
}

func byKey(list *shape.Type, items []any) map[string][]any {
	found := map[string][]any{}
	for _, item := range items {
		found[keyText(list, item)] = append(found[keyText(list, item)], item)
	}
	return found
}

// keyText returns the identity of an item of a list.
func keyText(list *shape.Type, item any) string {
	if list.Merge == shape.Set {
		return show(item)
	}
	var keys []any
	members, _ := item.(map[string]any)
	for _, name := range list.Keys {
		value, ok := members[name]
		if f := list.Elem.Field(name); !ok && f != nil {
			value, ok = f.Default, f.Default != nil
		}
		keys = append(keys, ok, value)
	}
	return show(keys)
}

func TestApplyAgainstServer(t *testing.T) {
	random := rand.NewChaCha8([32]byte([]byte(strings.Repeat("celgate ", 4))))
	var total outcome
	for range 6_000 {
		choices := make([]byte, 256)
		random.Read(choices)
		g := mergetest.Generator{Choices: choices}
		live, patch, typ := g.Scenario()
		o := compare(t, live, patch, typ)
		total.merged += o.merged
		total.refused += o.refused
	}
	t.Logf("%+v", total)
	if total.merged < 1000 || total.refused < 1000 {
		t.Errorf("the scenarios are one-sided: %+v", total)
	}
}

// Lists that are too long to look through are indexed.
func TestLongListsAgainstServer(t *testing.T) {
	random := rand.NewChaCha8([32]byte([]byte(strings.Repeat("celgate ", 4))))
	item := &shape.Type{Kind: shape.Struct,
		Fields: []shape.Field{{Name: "name", Type: stringType}, {Name: "a", Type: stringType}}}
	for _, list := range []*shape.Type{
		{Kind: shape.List, Merge: shape.Keyed, Keys: []string{"name"}, Elem: item},
		{Kind: shape.List, Merge: shape.Set, Elem: stringType},
	} {
		typ := object(shape.Field{Name: "list", Type: list})
		merged := 0
		for range 500 {
			choices := make([]byte, 256)
			random.Read(choices)
			g := mergetest.Generator{Choices: choices}
			merged += compare(t, withIdentity(map[string]any{"list": g.LongList(list, 2, -1)}),
				map[string]any{"list": g.LongList(list, 2, -1)}, typ).merged
		}
		if merged < 100 {
			t.Errorf("only %d lists of 500 were merged", merged)
		}
	}
}

var stringType = &shape.Type{Kind: shape.String}

func object(fields ...shape.Field) *shape.Type {
	return &shape.Type{Kind: shape.Struct, Name: "test.Thing",
		Fields: append(fields, shape.Field{Name: "apiVersion", Type: stringType},
			shape.Field{Name: "kind", Type: stringType})}
}

// withIdentity gives an object its identity.
func withIdentity(o map[string]any) map[string]any {
	o["apiVersion"], o["kind"] = "example.com/v1", "Thing"
	return o
}

// FuzzMerge compares Apply with structured-merge-diff for types, live objects and patches of all shapes: the same
// result or the same refusal.
func FuzzMerge(f *testing.F) {
	f.Add([]byte("structs, maps, lists"))
	f.Fuzz(func(t *testing.T, choices []byte) {
		g := mergetest.Generator{Choices: choices}
		live, patch, typ := g.Scenario()
		compare(t, live, patch, typ)
	})
}
