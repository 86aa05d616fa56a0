package merge_test

import (
	"errors"
	"hash/fnv"
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

// mark puts marks into a patch, where chance has it.
func mark(chance *rand.Rand, v any, item bool) any {
	switch n := chance.IntN(12); {
	case n == 0 && !item:
		return merge.Unset{}
	case n <= 2 && item:
		return merge.Remove{Item: v}
	case n == 3:
		return merge.Replace{Value: v}
	}
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		out := map[string]any{}
		for _, name := range names {
			out[name] = mark(chance, v[name], false)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = mark(chance, v[i], true)
		}
		return out
	}
	return v
}

func holdsMark(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if holdsMark(member) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, holdsMark)
	}
	return merge.IsMark(v)
}

// compareOwn compares a patch of the dialect with the same patch in a released policy, and tests the guarantees of the
// dialect.
func compareOwn(t *testing.T, choices []byte) (o outcome) {
	t.Helper()
	g := mergetest.Generator{Choices: choices}
	live, patch, typ := g.Scenario()
	seed := fnv.New64a()
	_, _ = seed.Write(choices)
	var m merge.Merger
	report := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("type %s\nlive  %s\npatch %#v\n"+format, append([]any{show(typ), show(live), patch}, args...)...)
	}
	want, wantErr := m.Apply(live, patch, typ)
	got, err := m.ApplyOwn(live, patch, typ, nil)
	var atomic *merge.AtomicError
	var consent *merge.ConsentError
	switch {
	case wantErr == nil && (err != nil || !reflect.DeepEqual(want, got)):
		report("released: %s\ndialect: %s, %v", show(want), show(got), err)
	case errors.As(wantErr, &atomic):
		if err != nil && !errors.As(err, &consent) && !strings.HasPrefix(err.Error(), "failed to convert original") {
			report("released: %v\ndialect: %v", wantErr, err)
		}
	case wantErr != nil && text(err) != text(wantErr):
		report("released: %v\ndialect: %v", wantErr, err)
	}

	patch, _ = mark(rand.New(rand.NewPCG(seed.Sum64(), 1)), patch, true).(map[string]any)
	if patch == nil {
		return outcome{}
	}
	liveBefore, patchBefore := mergetest.Copy(live), clone(patch)
	got, err = m.ApplyOwn(live, patch, typ, nil)
	if !reflect.DeepEqual(liveBefore, any(live)) || !reflect.DeepEqual(patchBefore, any(patch)) {
		report("the input was modified")
	}
	if err != nil {
		return outcome{refused: 1}
	}
	if holdsMark(got) {
		report("a mark is left in %#v", got)
	}
	again, err := m.ApplyOwn(got, patch, typ, nil)
	if err != nil {
		report("the second application of %s: %v", show(got), err)
	}
	if !reflect.DeepEqual(got, again) {
		report("the second application changes the result:\n%s", cmp.Diff(got, again))
	}
	return outcome{merged: 1}
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			out[name] = clone(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = clone(v[i])
		}
		if v == nil {
			return []any(nil)
		}
		return out
	case merge.Remove:
		return merge.Remove{Item: clone(v.Item)}
	case merge.Replace:
		return merge.Replace{Value: clone(v.Value)}
	}
	return v
}

func TestOwnTwice(t *testing.T) {
	random := rand.NewChaCha8([32]byte([]byte(strings.Repeat("celgate ", 4))))
	var total outcome
	for range 6_000 {
		choices := make([]byte, 256)
		random.Read(choices)
		o := compareOwn(t, choices)
		total.merged += o.merged
		total.refused += o.refused
	}
	t.Logf("%+v", total)
	if total.merged < 1000 || total.refused < 500 {
		t.Errorf("the scenarios are one-sided: %+v", total)
	}
}

// FuzzOwn applies patches with marks twice.
func FuzzOwn(f *testing.F) {
	f.Add([]byte("structs, maps, lists"))
	f.Fuzz(func(t *testing.T, choices []byte) { compareOwn(t, choices) })
}

func TestOwn(t *testing.T) {
	atomicList := &shape.Type{Kind: shape.List, Merge: shape.Atomic, Elem: stringType}
	env := &shape.Type{Kind: shape.Struct, Fields: []shape.Field{{Name: "name", Type: stringType},
		{Name: "value", Type: stringType}, {Name: "args", Type: atomicList}}}
	typ := object(
		shape.Field{Name: "text", Type: stringType},
		shape.Field{Name: "map", Type: &shape.Type{Kind: shape.Map, Elem: stringType}},
		shape.Field{Name: "whole", Type: &shape.Type{Kind: shape.Map, Merge: shape.Atomic, Elem: stringType}},
		shape.Field{Name: "list", Type: atomicList},
		shape.Field{Name: "set", Type: &shape.Type{Kind: shape.List, Merge: shape.Set, Elem: stringType}},
		shape.Field{Name: "env", Type: &shape.Type{Kind: shape.List, Merge: shape.Keyed, Keys: []string{"name"}, Elem: env}},
		shape.Field{Name: "metadata", Type: &shape.Type{Kind: shape.Struct, Fields: []shape.Field{{Name: "name", Type: stringType}}}},
	)
	type object = map[string]any
	type list = []any
	live := func() object {
		return withIdentity(object{"text": "t", "map": object{"a": "1", "b": "2"}, "whole": object{"a": "1"},
			"list": list{"x", "y"}, "set": list{"p", "q"},
			"env": list{object{"name": "A", "value": "1", "args": list{"z"}}, object{"name": "B"}}})
	}
	var unset merge.Unset
	with := func(name string, value any) object {
		o := live()
		if o[name] = value; value == nil {
			delete(o, name)
		}
		return o
	}
	for _, test := range []struct {
		name  string
		patch object
		want  object
		err   string
	}{
		{"a text", object{"text": unset}, with("text", nil), ""},
		{"an entry", object{"map": object{"a": unset, "x": unset}}, with("map", object{"b": "2"}), ""},
		{"a map", object{"map": unset}, with("map", nil), ""},
		{"an atomic map", object{"whole": unset}, with("whole", nil), ""},
		{"an atomic list", object{"list": unset}, with("list", nil), ""},
		{"what is in a new struct", object{"metadata": object{"name": unset}}, live(), ""},
		{"of a set", object{"set": list{merge.Remove{Item: "p"}, merge.Remove{Item: "none"}, "r"}}, with("set", list{"q", "r"}), ""},
		{"an item", object{"env": list{merge.Remove{Item: object{"name": "A"}}}}, with("env", list{object{"name": "B"}}), ""},
		{"a member of an item", object{"env": list{object{"name": "A", "value": unset}}},
			with("env", list{object{"name": "A", "args": list{"z"}}, object{"name": "B"}}), ""},
		{"a member of no item", object{"env": list{object{"name": "C", "value": unset}}}, live(), ""},
		{"a whole item", object{"env": list{merge.Replace{Value: object{"name": "A", "args": list{"new"}}}}},
			with("env", list{object{"name": "A", "args": list{"new"}}, object{"name": "B"}}), ""},
		{"a whole list", object{"list": merge.Replace{Value: list{"new"}}}, with("list", list{"new"}), ""},
		{"a whole map", object{"whole": merge.Replace{Value: object{"b": "2"}}, "map": merge.Replace{Value: object{}}},
			func() object { o := with("whole", object{"b": "2"}); o["map"] = object{}; return o }(), ""},
		{"a new item with a list", object{"env": list{object{"name": "C", "args": list{"n"}}}},
			with("env", append(live()["env"].(list), object{"name": "C", "args": list{"n"}})), ""},
		{"equal lists", object{"list": list{"x", "y"}, "whole": object{"a": "1"}}, live(), ""},
		{"another list", object{"list": list{"x"}, "env": list{object{"name": "A", "args": list{}}}}, nil,
			`invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .env[name="A"].args, .list: ` +
				"the object has other values there, objects.replace(…) consents"},
		{"another map", object{"whole": object{"b": "1"}}, nil, "invalid ApplyConfiguration: may not mutate atomic " +
			"arrays, maps or structs: .whole: the object has another value there, objects.replace(…) consents"},
		{"identity", object{"metadata": unset, "text": unset}, nil, ".metadata: objects.unset() would leave an object without it"},
		{"the kind", object{"kind": unset}, nil, ".kind: the patch cannot change it"},
		{"no list", object{"text": merge.Remove{Item: "t"}}, nil, ".text: objects.remove(…) is for items of lists: write objects.unset()"},
		{"an item of an atomic list", object{"list": list{merge.Remove{Item: "x"}}}, nil,
			".list: it is atomic and does not have keys: write objects.replace(…) with the whole list, as in objects.replace(list.filter(…))"},
		{"an entry of an atomic map", object{"whole": object{"a": unset}}, nil,
			".whole: it is atomic: write objects.replace(…) with the whole value"},
		{"no key", object{"env": list{merge.Remove{Item: object{"value": "1"}}}}, nil, ".env[0]: objects.remove(…) needs name"},
		{"an item twice", object{"env": list{merge.Remove{Item: object{"name": "A"}}, object{"name": "A"}}}, nil,
			`.env: duplicate entries for key [name="A"]`},
		{"the key of an item", object{"env": list{object{"name": unset, "value": "1"}}}, nil,
			".env[0]: name is the key of the item: it cannot be changed"},
		{"no such field", object{"txt": unset}, nil, ".txt: field not declared in schema"},
		{"a mark in a whole value", object{"map": merge.Replace{Value: object{"a": unset}}}, nil,
			".map: objects.replace(…) sets the whole value: it cannot contain objects.unset() and similar functions"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var m merge.Merger
			got, err := m.ApplyOwn(live(), test.patch, typ, nil)
			want := test.err
			if want != "" && !strings.HasPrefix(want, "invalid") {
				want = "failed to convert patch object to typed object: " + want
			}
			if text(err) != want {
				t.Fatalf("got  %v\nwant %s", err, want)
			}
			if d := cmp.Diff(test.want, got); d != "" && want == "" {
				t.Error(d)
			}
		})
	}

	var m merge.Merger
	part, _, err := m.Value(merge.RootOf(typ), live(), object{"metadata": unset}) // which objects here do not have
	if _, stays := part.(map[string]any)["metadata"]; err != nil || stays {
		t.Errorf("got %v, %v", part, err)
	}
	patch := object{"list": list{"X", "Y"}, "env": list{object{"name": "A", "args": list{"other"}}}}
	_, err = m.ApplyOwn(live(), patch, typ, func(merged map[string]any) (map[string]any, error) {
		held := clone(merged).(map[string]any)
		held["list"] = list{"x", "y"} // they are stored in lower case
		return held, nil
	})
	if err == nil || !strings.Contains(err.Error(), `structs: .env[name="A"].args:`) {
		t.Errorf("what is the same once it is stored needs no consent: %v", err)
	}
}
