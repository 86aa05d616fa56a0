package prepare_test

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

// prepareAllWays prepares a tree in all ways, which must not panic, and reports a result that is not stable.
func prepareAllWays(t *testing.T, in prepare.Input) {
	kind := in.Resource.GroupVersionKind()
	for _, sub := range append([]schema.Subresource{{}}, in.Resource.Subresources...) {
		in.SubResource = sub.Name
		for _, operation := range []string{"CREATE", "UPDATE", "DELETE", "CONNECT"} {
			in.Operation = operation
			if _, err := prepare.Object(in); err != nil && err.Error() == "" {
				t.Error("an error without a text")
			}
			prepare.ObjectToValidate(in)
		}
	}
	if stored, _, err := prepare.ReadStored(in.Object, in.Types, kind); err == nil {
		again, warnings, err := prepare.ReadStored(stored, in.Types, kind)
		if err != nil || len(warnings) > 0 {
			t.Errorf("a stored object is decoded with %v, warnings %q", err, warnings)
		}
		// Nulls that the Go type of schemas writes for a wrong value are absent the second time.
		if !reflect.DeepEqual(stored, again) && in.Resource.Definition == nil && kind.Kind != "CustomResourceDefinition" {
			t.Errorf("a stored object changes: %v, then %v", stored, again)
		}
	}
	if normal, err := prepare.Normalise(in.Object, in.Types, kind); err == nil {
		if _, err := prepare.Normalise(normal, in.Types, kind); err != nil {
			t.Errorf("a normal object is refused: %v", err)
		}
		byDifference(t, in, prepare.Settle(normal, in.Object, in.Types, kind), kind)
	}
}

// byDifference mutates an object three times. Normalising only the changed parts must have the same result as
// normalising the whole.
func byDifference(t *testing.T, in prepare.Input, n prepare.Normal, kind schema.GroupVersionKind) {
	for depth := range 3 {
		mutated, _ := graft(n.Object, in.Old, depth).(map[string]any)
		want, wantErr := prepare.Normalise(mutated, in.Types, kind)
		strict, strictErr := n.CheckPatched(mutated, n.Object, in.Types, kind)
		wantStrict, wantStrictErr := prepare.Normal{Object: n.Object}.CheckPatched(mutated, n.Object, in.Types, kind)
		if fmt.Sprint(strictErr) != fmt.Sprint(wantStrictErr) || !reflect.DeepEqual(strict, wantStrict) {
			t.Errorf("%v decodes as %v, %v, want %v, %v", mutated, strict, strictErr, wantStrict, wantStrictErr)
		}
		got, err := n.Continue(mutated, in.Types, kind)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got.Object, want) {
			t.Errorf("%v becomes %v, %v, want %v, %v", mutated, got.Object, err, want, wantErr)
		}
		if err != nil {
			return
		}
		n = got
	}
}

// graft returns a tree that has the members and items of another from some depth on, and shares the rest.
func graft(tree, from any, depth int) any {
	switch from := from.(type) {
	case map[string]any:
		members, _ := tree.(map[string]any)
		out := maps.Clone(members)
		if out == nil {
			out = map[string]any{}
		}
		for name, v := range from {
			if depth == 0 {
				out[name] = v
			} else {
				out[name] = graft(members[name], v, depth-1)
			}
		}
		return out
	case []any:
		items, _ := tree.([]any)
		out := slices.Concat(from[:min(len(from), depth)], items, from[min(len(from), depth):])
		if depth > 0 && len(from) > 0 && len(items) > 0 {
			out[depth%len(out)] = graft(items[0], from[0], depth-1)
		}
		return out
	}
	return from
}

func FuzzEverything(f *testing.F) {
	types := registry(f)
	types, err := types.WithCustomResources(cases(&testing.T{},
		"object.yaml")[len(cases(&testing.T{}, "object.yaml"))-1].Definition)
	if err != nil {
		f.Fatal(err)
	}
	resources := types.Resources()
	find := func(resource string) uint {
		for i, r := range resources {
			if r.Resource == resource {
				return uint(i)
			}
		}
		return 0
	}
	for _, seed := range []struct{ resource, object, old string }{
		{"deployments", `{"spec":{"template":{"spec":{"containers":[null,{"image":"a","ports":[{"containerPort":1}]}],"volumes":[{"secret":{"items":[null]}}]}}}}`, `{"spec":1}`},
		{"pods", `{"metadata":{"ownerReferences":[{},{}]},"spec":{"resources":{"limits":{"cpu":"x"}},"hostNetwork":true,"containers":[{"ports":[{}]}]}}`, `{}`},
		{"customresourcedefinitions", `{"spec":{"versions":[{"storage":true,"schema":{"openAPIV3Schema":{"items":[{"items":true}],"additionalProperties":{}}}}]}}`, `null`},
		{"horizontalpodautoscalers", `{"spec":{"behavior":{"scaleUp":{"policies":[]}}},"status":{"currentCPUUtilizationPercentage":1}}`, `{"metadata":[]}`},
		{"secrets", `{"data":{"a":[1,2],"b":null},"stringData":{"c":""}}`, `{"metadata":{}}`},
		{"widgets", `{"metadata":{"labels":null},"spec":{"pods":[null,{"metadata":1}],"limits":[]},"status":{}}`,
			`{"status":[]}`},
	} {
		f.Add(find(seed.resource), []byte(seed.object), []byte(seed.old))
	}
	f.Fuzz(func(t *testing.T, resource uint, object, old []byte) {
		in := prepare.Input{Types: types, Resource: resources[resource%uint(len(resources))], Namespace: "shop"}
		if json.Unmarshal(object, &in.Object) != nil || json.Unmarshal(old, &in.Old) != nil {
			return
		}
		delete(in.Object, "apiVersion")
		delete(in.Object, "kind")
		prepareAllWays(t, in)
	})
}

// TestOddValues gives every resource trees that no JSON document is.
func TestOddValues(t *testing.T) {
	types := registry(t)
	odd := []any{nil, 1, uint64(1), math.NaN(), math.Inf(1), []byte("x"), map[string]string{"a": "b"}, []string{"x"},
		struct{}{}, map[string]any(nil), []any(nil), make(chan int), func() {}}
	for _, res := range types.Resources() {
		typ := types.Type(res.GroupVersionKind())
		for _, v := range odd {
			obj := map[string]any{}
			for i := range typ.Fields {
				obj[typ.Fields[i].Name] = v
			}
			prepareAllWays(t, prepare.Input{Types: types, Resource: res, Object: obj, Old: obj})
			for i := range typ.Fields {
				inner := map[string]any{}
				for k := range typ.Fields[i].Type.Fields {
					inner[typ.Fields[i].Type.Fields[k].Name] = []any{v, map[string]any{"a": v}}
				}
				obj[typ.Fields[i].Name] = inner
			}
			prepareAllWays(t, prepare.Input{Types: types, Resource: res, Object: obj, Old: map[string]any{"metadata": v}})
		}
	}
	prepareAllWays(t, prepare.Input{Types: types, Resource: types.Resources()[0]})
	if _, err := prepare.Object(prepare.Input{Object: map[string]any{}}); err == nil {
		t.Error("a request without a resource has no error")
	}
}
