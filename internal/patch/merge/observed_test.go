package merge_test

import (
	"errors"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/patch/merge/mergetest"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// foreign are the CEL values that are not JSON, by their placeholders in testdata.
var foreign = map[string]any{
	"<null>":      structpb.NullValue_NULL_VALUE,
	"<uint>":      uint64(2),
	"<bytes>":     []byte("a"),
	"<duration>":  time.Minute,
	"<timestamp>": time.Unix(0, 0).UTC(),
	"<map>":       map[string]string{"a": "b"},
	"<error>":     errors.New("fail to convert field"),
}

func value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = value(v[k])
		}
	case []any:
		for i := range v {
			v[i] = value(v[i])
		}
	case float64: // of sigs.k8s.io/yaml
		if v == float64(int64(v)) {
			return int64(v)
		}
	case string:
		if f, ok := foreign[v]; ok {
			return f
		}
	}
	return v
}

func read(t testing.TB, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func deployment(t testing.TB) *shape.Type {
	t.Helper()
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return types.Type(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
}

// TestObserved repeats the merges of a real server for a Deployment; testdata/observed.yaml has the objects.
func TestObserved(t *testing.T) {
	typ := deployment(t)
	var file struct {
		Live  map[string]any
		Cases []struct {
			Name  string
			Live  map[string]any // over the members of Live
			Patch map[string]any
			Want  map[string]any // members of the result, by path
			Err   string
		}
	}
	read(t, "testdata/observed.yaml", &file)
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			live := value(mergetest.Copy(file.Live)).(map[string]any)
			maps.Copy(live, value(c.Live).(map[string]any))
			before := mergetest.Copy(live)
			patch := value(c.Patch).(map[string]any)
			got, err := merge.Apply(live, patch, typ)
			if text(err) != c.Err {
				t.Fatalf("got error  %v\nwant error %v", err, c.Err)
			}
			if _, serverErr := mergetest.Apply(live, patch, typ); text(serverErr) != c.Err {
				t.Errorf("the server's error is %v", serverErr)
			}
			if !reflect.DeepEqual(before, any(live)) {
				t.Error("the live object was modified")
			}
			for path, want := range c.Want {
				if diff := cmp.Diff(value(want), valueAt(got, strings.Split(path, "."))); diff != "" {
					t.Errorf("%s: -want +got:\n%s", path, diff)
				}
			}
		})
	}
}

// valueAt returns the value at a path; a name picks the item of a list that has it, and "names" the names of all items.
func valueAt(v any, path []string) any {
	for _, name := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			v = nil
			var names []any
			for _, item := range x {
				m := item.(map[string]any)
				names = append(names, m["name"])
				if m["name"] == name {
					v = item
				}
			}
			if name == "names" {
				v = names
			}
		default:
			return nil
		}
	}
	return v
}

func TestErrorsCanBeTakenApart(t *testing.T) {
	typ := deployment(t)
	live := withIdentity(map[string]any{})
	_, err := merge.Apply(live, map[string]any{"spec": map[string]any{"foo": int64(1)}}, typ)
	var problems merge.Problems
	if !errors.As(err, &problems) ||
		!slices.Equal(problems, merge.Problems{{Path: ".spec.foo", Message: "field not declared in schema"}}) {
		t.Errorf("got %#v", err)
	}
	_, err = merge.Apply(live, map[string]any{
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{}}}}, typ)
	var atomic *merge.AtomicError
	if !errors.As(err, &atomic) || !slices.Equal(atomic.Paths, []string{".spec.selector"}) {
		t.Errorf("got %#v", err)
	}
}

func TestKindWithoutSchema(t *testing.T) {
	for apiVersion, want := range map[string]string{
		"v1":             "failed to convert patch object to typed object: no corresponding type for /v1, Kind=Scale",
		"autoscaling/v1": "failed to convert patch object to typed object: no corresponding type for autoscaling/v1, Kind=Scale",
	} {
		if _, err := merge.Apply(map[string]any{"apiVersion": apiVersion, "kind": "Scale"}, nil,
			nil); text(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestPatchThatChangesNothingReturnsLive(t *testing.T) {
	typ := deployment(t)
	live := withIdentity(map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "finalizers": []any{"x/y"}},
		"spec": map[string]any{"replicas": int64(2),
			"template": map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{"name": "a", "image": "i"}, map[string]any{"name": "b"}}}}},
	})
	for name, patch := range map[string]map[string]any{
		"empty": {},
		"same":  mergetest.Copy(live).(map[string]any),
		"partial": {"spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "b"}}}}}},
	} {
		got, err := merge.Apply(live, patch, typ)
		if err != nil {
			t.Fatal(err)
		}
		if reflect.ValueOf(got).Pointer() != reflect.ValueOf(live).Pointer() {
			t.Errorf("%s: the result is a copy", name)
		}
	}
}

func TestDepthIsLimited(t *testing.T) {
	typ := object(shape.Field{Name: "free", Type: &shape.Type{Kind: shape.Any}})
	var deep any = map[string]any{}
	for range 100_000 {
		deep = map[string]any{"a": deep}
	}
	thing := withIdentity(map[string]any{"free": deep})
	for _, objects := range [][2]map[string]any{{thing, {}}, {{}, thing}} {
		if _, err := merge.Apply(objects[0], objects[1], typ); !strings.HasSuffix(text(err), ": exceeded max depth") {
			t.Errorf("got an error of %d bytes", len(text(err)))
		}
	}
}

// The input may have any type.
func TestApplySurvivesOddInput(t *testing.T) {
	odd := []map[string]any{nil, {}, {"spec": nil}, {"a": foreign["<null>"]}, {"spec": []any{nil}}}
	types := []*shape.Type{
		nil, {}, {Kind: shape.List}, {Kind: shape.List, Merge: shape.Keyed}, {Kind: shape.Map},
		{Kind: shape.Struct}, {Kind: 255}, {Kind: shape.String},
		{Kind: shape.Struct, Fields: []shape.Field{{Name: "spec"},
			{Name: "a", Type: &shape.Type{Kind: shape.List, Merge: shape.Set}}}},
		{Kind: shape.Struct, Fields: []shape.Field{
			{Name: "spec", Type: &shape.Type{Kind: shape.List, Merge: shape.Keyed, Keys: []string{"a", "b"}}}}},
	}
	for _, live := range odd {
		for _, patch := range odd {
			for _, typ := range types {
				_, _ = merge.Apply(live, patch, typ) // must not panic
			}
		}
	}
}

// A Merger returns the same result as Apply for objects of built-in kinds.
func TestMerger(t *testing.T) {
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	var m merge.Merger
	serviceAccount := types.Type(schema.GroupVersionKind{Version: "v1", Kind: "ServiceAccount"})
	definition := types.Type(
		schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	) // recursive
	labels := map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}
	for _, c := range []struct {
		live, patch map[string]any
		typ         *shape.Type
		err         string
	}{
		{withIdentity(map[string]any{"secrets": []any{map[string]any{"name": "a"}}}), labels, serviceAccount, ""},
		{withIdentity(map[string]any{"secrets": []any{map[string]any{}}}), labels, serviceAccount,
			`failed to convert original object to typed object: .secrets: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)`},
		{withIdentity(map[string]any{}), labels, definition, ""},
		{withIdentity(map[string]any{}), map[string]any{"spec": map[string]any{"a": int64(1)}}, definition,
			"failed to convert patch object to typed object: .spec.a: field not declared in schema"},
		{withIdentity(map[string]any{"a": int64(1)}), map[string]any{"a": "b"},
			&shape.Type{Kind: shape.Struct, Fields: object(shape.Field{Name: "a", Type: stringType}).Fields},
			"failed to convert original object to typed object: .a: expected string, got &value.valueUnstructured{Value:1}"},
	} {
		got, err := m.Apply(c.live, c.patch, c.typ)
		want, wantErr := merge.Apply(c.live, c.patch, c.typ)
		if text(err) != c.err || text(wantErr) != c.err {
			t.Errorf("%s: got errors\n%v\n%v\nwant\n%v", c.typ.Name, err, wantErr, c.err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", c.typ.Name, got, want)
		}
	}
}

// Setting one label copies only the object, its metadata and its labels.
func TestMergerAllocations(t *testing.T) {
	const ceiling = 8
	typ := deployment(t)
	var file struct {
		Live  map[string]any
		Patch map[string]map[string]any
	}
	read(t, "testdata/bench.yaml", &file)
	live, patch := value(file.Live).(map[string]any), file.Patch["label"]
	var m merge.Merger
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := m.Apply(live, patch, typ); err != nil {
			t.Error(err)
		}
	})
	if allocations > ceiling {
		t.Errorf("%v allocations, at most %d", allocations, ceiling)
	}
}

func BenchmarkApply(b *testing.B) {
	typ := deployment(b)
	var file struct {
		Live  map[string]any
		Patch map[string]map[string]any
	}
	read(b, "testdata/bench.yaml", &file)
	live := value(file.Live).(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(file.Patch)) {
		patch := value(file.Patch[name]).(map[string]any)
		var m merge.Merger
		for how, apply := range map[string]func(live, patch map[string]any, t *shape.Type) (map[string]any,
			error){"function": merge.Apply, "merger": m.Apply} {
			b.Run(name+"/"+how, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := apply(live, patch, typ); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
