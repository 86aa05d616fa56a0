package prepare_test

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
)

// TestKept updates random objects of all resources through all subresources: the parts that KeptBy returns are those of
// the stored object.
func TestKept(t *testing.T) {
	all := cases(t, "object.yaml")
	types, err := registry(t).WithCustomResources(all[len(all)-1].Definition)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 17))
	compared, changed := map[string]int{}, 0
	for _, res := range types.Resources() {
		for _, sub := range append([]schema.Subresource{{Kind: res.GroupVersionKind()}}, res.Subresources...) {
			kept := prepare.KeptBy(res, sub.Name)
			typ := types.Type(sub.Kind)
			if len(kept) == 0 || typ == nil {
				continue
			}
			for range 200 {
				old, _ := draw(rng, typ, 0).(map[string]any)
				object, _ := draw(rng, typ, 0).(map[string]any)
				for _, o := range []map[string]any{old, object} {
					o["metadata"] = withName(o["metadata"], res.Namespaced)
					o["apiVersion"], o["kind"] = sub.Kind.GroupVersion().String(), sub.Kind.Kind
				}
				stored, _, err := prepare.ReadStored(old, types, sub.Kind)
				if err != nil {
					continue
				}
				in := prepare.Input{Types: types, Resource: res, SubResource: sub.Name, Operation: "UPDATE",
					Object: object, Old: stored}
				if res.Namespaced {
					in.Namespace = "shop"
				}
				first, err := prepare.Object(in)
				if err != nil {
					continue
				}
				in.Object, in.SharesLabels = first.Object, first.SharesLabels
				last := prepare.ObjectToValidate(in)
				for _, k := range kept {
					got, want := without(last, k), without(stored, k)
					compared[res.Resource+"/"+sub.Name]++
					if !reflect.DeepEqual(got, want) {
						t.Fatalf("%v/%s: %v is %v, stored %v", res.GroupVersionResource, sub.Name, k, got, want)
					}
					if !reflect.DeepEqual(without(first.Object, k), want) {
						changed++
					}
				}
			}
		}
	}
	for _, name := range []string{"pods/", "pods/status", "pods/ephemeralcontainers", "deployments/scale", "services/",
		"widgets/status", "certificatesigningrequests/approval", "namespaces/finalize"} {
		if compared[name] == 0 {
			t.Errorf("%s is not compared", name)
		}
	}
	if t.Logf("%d resources and subresources, %d changes undone", len(compared), changed); changed < 1000 {
		t.Error("few objects differ")
	}
}

// without returns the part of an object that is kept.
func without(object map[string]any, k prepare.Kept) any {
	var v any = object
	for _, name := range k.Path {
		members, _ := v.(map[string]any)
		v = members[name]
	}
	if members, ok := v.(map[string]any); ok && len(k.Except) > 0 {
		members = maps.Clone(members)
		for _, name := range k.Except {
			delete(members, name)
		}
		return members
	}
	return v
}

// withName returns metadata with the name of an object.
func withName(metadata any, namespaced bool) map[string]any {
	meta, _ := metadata.(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	delete(meta, "namespace")
	if meta["name"] = "a"; namespaced {
		meta["namespace"] = "shop"
	}
	return meta
}

// draw returns a random value of a type.
func draw(rng *rand.Rand, t *shape.Type, depth int) any {
	switch t.Kind {
	case shape.Struct:
		out := map[string]any{}
		for i := range t.Fields {
			f := &t.Fields[i]
			likely := depth < 2 || f.Required || strings.HasSuffix(f.Name, "ontainers")
			if likely && rng.IntN(4) > 0 || rng.IntN(4) == 0 {
				out[f.Name] = draw(rng, f.Type, depth+1)
			}
		}
		return out
	case shape.Map:
		out := map[string]any{}
		for range rng.IntN(3) {
			out[pick(rng, "a", "b", "name")] = draw(rng, t.Elem, depth+1)
		}
		return out
	case shape.List:
		out := []any{}
		for range rng.IntN(3) {
			if depth < 7 {
				out = append(out, draw(rng, t.Elem, depth+1))
			}
		}
		return out
	case shape.Boolean:
		return rng.IntN(2) == 0
	case shape.Integer:
		return int64(rng.IntN(4))
	case shape.Number:
		return float64(rng.IntN(3))
	case shape.IntOrString:
		return []any{int64(1), "1"}[rng.IntN(2)]
	case shape.Quantity:
		return pick(rng, "1", "500m", "2Gi")
	case shape.Time:
		return pick(rng, "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")
	case shape.MicroTime:
		return "2026-01-01T00:00:00.000000Z"
	case shape.Duration:
		return "1m0s"
	case shape.Bytes:
		return "YQ=="
	case shape.String:
		return pick(rng, "a", "b", "Always", "Default", "ClusterIP", "")
	}
	return map[string]any{}
}

func pick(rng *rand.Rand, texts ...string) string { return texts[rng.IntN(len(texts))] }
