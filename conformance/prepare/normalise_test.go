package prepare

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// mutate returns the server's form of a mutated object: a typed object with defaults, encoded again (as
// k8s.io/apiserver pkg/admission/plugin/policy/mutating/dispatcher.go v0.37.2).
func (s server) mutate(obj map[string]any, kind schema.GroupVersionKind) (map[string]any, error) {
	typed, err := s.scheme.ConvertToVersion(&unstructured.Unstructured{Object: obj}, kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	s.scheme.Default(typed)
	typed.GetObjectKind().SetGroupVersionKind(kind)
	return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
}

// TestNormalise compares mutated objects, right and wrong ones, and that a second time changes nothing.
func TestNormalise(t *testing.T) {
	eachKind(t, func(t *testing.T, types *schema.Registry, kind schema.GroupVersionKind, typ *shape.Type) {
		for pass, g := range []*generator{{unknown: 0.02}, {wrong: 0.01}} {
			g.Rand = rand.New(rand.NewPCG(*seed, uint64(pass)))
			for i := range *count {
				in := g.object(typ, 0)
				in["apiVersion"], in["kind"] = kind.GroupVersion().String(), kind.Kind
				normalise(t, i, types, kind, in)
				if t.Failed() {
					return
				}
			}
		}
	})
}

func normalise(t *testing.T, i int, types *schema.Registry, kind schema.GroupVersionKind, in map[string]any) {
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	want, wantErr := serverOf(kind).mutate(in, kind)
	got, gotErr := prepare.Normalise(in, types, kind)
	if wantErr != nil || gotErr != nil {
		w, g := text(wantErr), text(gotErr)
		// The server visits maps in random order, and reports the first problem: one of its answers must be celgate's.
		// Problems in the schemas of a CustomResourceDefinition have too many orders to wait for.
		inMaps := kind.Kind == "CustomResourceDefinition" && w != "" && g != ""
		for try := 0; w != g && w != "" && g != "" && !inMaps && try < 100; try++ {
			_, wantErr = serverOf(kind).mutate(in, kind)
			w = text(wantErr)
		}
		if w != g && !inMaps {
			t.Errorf("object %d: %s\n got error %s\nwant error %s", i, body, g, w)
		}
		return
	}
	if !reflect.DeepEqual(got, want) {
		if found := difference("", got, want); len(found) > 0 {
			t.Errorf("object %d: %s\n%s", i, body, strings.Join(found, "\n"))
		}
		return
	}
	again, err := prepare.Normalise(got, types, kind)
	if err != nil {
		t.Fatalf("object %d: %v", i, err)
	}
	if reflect.ValueOf(again).Pointer() != reflect.ValueOf(got).Pointer() && len(difference("", again, got)) == 0 {
		t.Errorf("object %d: %s\nwas copied without a change", i, body)
	}
	if after, _ := json.Marshal(in); string(after) != string(body) {
		t.Errorf("object %d was changed", i)
	}
}

// TestNormaliseByDifference mutates objects several times: normalising only the parts that a mutation changed must have
// the same result as normalising the whole object.
func TestNormaliseByDifference(t *testing.T) {
	eachKind(t, func(t *testing.T, types *schema.Registry, kind schema.GroupVersionKind, typ *shape.Type) {
		g := &generator{unknown: 0.01, wrong: 0.002, Rand: rand.New(rand.NewPCG(*seed, 7))}
		for range *count / 4 {
			in := g.object(typ, 0)
			in["apiVersion"], in["kind"] = kind.GroupVersion().String(), kind.Kind
			first, err := prepare.Normalise(in, types, kind)
			if err != nil {
				continue
			}
			n := prepare.Settle(first, in, types, kind)
			for range 4 {
				mutated, ok := g.mutate(typ, n.Object, 0).(map[string]any)
				if !ok {
					continue
				}
				want, wantErr := prepare.Normalise(mutated, types, kind)
				got, err := n.Continue(mutated, types, kind)
				if (err == nil) != (wantErr == nil) {
					t.Errorf("%s: error %v, want %v", kind, err, wantErr)
				}
				if err != nil {
					break
				}
				if !reflect.DeepEqual(got.Object, want) && kind.Kind != "DeviceTaintRule" { // which has a time
					t.Errorf("%s: %v\n%s", kind, mutated, strings.Join(difference("", got.Object, want), "\n"))
					return
				}
				n = got
			}
		}
	})
}

// mutate returns v with something in it changed, and the rest shared.
func (g *generator) mutate(t *shape.Type, v any, depth int) any {
	if g.Float64() < 0.15 {
		return g.value(t, depth)
	}
	switch old := v.(type) {
	case map[string]any:
		out := maps.Clone(old)
		for range 1 + g.IntN(2) {
			switch {
			case t.Kind == shape.Struct && len(t.Fields) > 0:
				f := &t.Fields[g.IntN(len(t.Fields))]
				if f.Name != "apiVersion" && f.Name != "kind" {
					out[f.Name] = g.mutate(f.Type, old[f.Name], depth+1)
				}
			case t.Kind == shape.Map:
				for name := range old {
					out[name] = g.mutate(t.Elem, old[name], depth+1)
					break
				}
			}
		}
		if len(out) > 2 && g.Float64() < 0.1 {
			for _, name := range slices.Sorted(maps.Keys(out)) {
				if name != "apiVersion" && name != "kind" {
					delete(out, name)
					break
				}
			}
		}
		return out
	case []any:
		out := slices.Clone(old)
		if t.Kind != shape.List {
			return out
		}
		if i := g.IntN(len(out) + 1); i < len(out) && g.Float64() < 0.6 {
			out[i] = g.mutate(t.Elem, out[i], depth+1)
		} else {
			out = slices.Insert(out, i, g.value(t.Elem, depth+1))
		}
		return out
	}
	return g.value(t, depth)
}
