package differ

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
)

// A generator makes everything that is random.
type generator struct {
	*rand.Rand
	world *World

	// The fields and values that a policy mentions, for nearby random values; empty for a policy that is generated for
	// its objects.
	texts   []string
	numbers []int64
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// chance is true n times of a hundred.
func (g *generator) chance(n int) bool { return g.IntN(100) < n }

var words = []string{
	"", "a", "app", "web", "shop", "v1", "latest", "web:latest", "registry.example.test:5000/web", "Always", "Never",
	"RollingUpdate", "OnDelete",
	"User", "Group", "None", "ClusterIP", "NodePort", "Retain", "10.0.0.1", "10.0.0.0/8", "1.2.3",
	"https://example.com/x", "1h", "5", "true", "é<&>", "a b", "a/b~c",
}

var mapKeys = []string{"app", "team", "cpu", "memory", "a", "example.com/x", "kubernetes.io/hostname", "b-c",
	"with.dot", "in"}

var quantities = []any{"1", "100m", "0", "1.5", "1Gi", "1024Mi", "5n", "1e3", int64(2), "-1"}

// makeWord makes a text, with luck one that the policy speaks of.
func (g *generator) makeWord() string {
	if len(g.texts) == 0 || g.chance(35) {
		return pick(g, words...)
	}
	if text := pick(g, g.texts...); g.chance(85) {
		return text
	} else if g.chance(50) {
		return text + pick(g, words...)
	} else {
		return pick(g, words...) + text
	}
}

// key makes the key of a map.
func (g *generator) key() string {
	if len(g.texts) > 0 && g.chance(50) {
		if text := pick(g, g.texts...); len(validation.IsQualifiedName(text)) == 0 {
			return text
		}
	}
	return pick(g, mapKeys...)
}

// integer makes a whole number.
func (g *generator) integer() int64 {
	if len(g.numbers) > 0 && g.chance(60) {
		return pick(g, g.numbers...) + int64(g.IntN(3)) - 1
	}
	return pick[int64](g, 0, 1, 2, 5, 80, -1)
}

// value makes a value that fits a type.
func (g *generator) value(t *shape.Type, depth int) any {
	switch t.Kind {
	case shape.Any:
		return pick[any](g, "x", int64(3), 1.5, true, map[string]any{"a": int64(1), "b": []any{"x"}},
			[]any{int64(1), "y"})
	case shape.Boolean:
		return g.chance(50)
	case shape.Integer:
		return g.integer()
	case shape.Number:
		return pick[any](g, int64(3), 1.5, -0.25, 2.0)
	case shape.String:
		if t.Format == "date-time" {
			return "2024-02-03T04:05:06Z"
		}
		return g.makeWord()
	case shape.Bytes:
		return base64.StdEncoding.EncodeToString([]byte(g.makeWord()))
	case shape.Quantity:
		return pick(g, quantities...)
	case shape.Time:
		return pick(g, "2024-02-03T04:05:06Z", "2023-12-31T23:59:59+02:00")
	case shape.MicroTime:
		return "2024-02-03T04:05:06.000007Z"
	case shape.Duration:
		return pick(g, "5s", "90m")
	case shape.IntOrString:
		return pick[any](g, int64(0), int64(80), "http", "25%")
	case shape.Union:
		return g.value(pick(g, t.OneOf...), depth)
	case shape.Map:
		m := map[string]any{}
		for range g.IntN(3) {
			m[g.key()] = g.value(t.Elem, depth+1)
		}
		return m
	case shape.List:
		list := make([]any, 0, 2)
		for range g.IntN(3) {
			list = append(list, g.value(t.Elem, depth+1))
		}
		return g.dropDuplicates(t, list)
	case shape.Struct:
		return g.members(t, depth)
	}
	return nil
}

// dropDuplicates leaves one of the items that are the same to a list.
func (g *generator) dropDuplicates(t *shape.Type, list []any) []any {
	if t.Merge != shape.Keyed || g.chance(10) { // duplicates are legal in a live object
		return list
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(item any) bool {
		m, _ := item.(map[string]any)
		key := ""
		for _, k := range t.Keys {
			key += literal(m[k]) + ","
		}
		again := seen[key]
		seen[key] = true
		return again
	})
}

func (g *generator) members(t *shape.Type, depth int) map[string]any {
	m := map[string]any{}
	for i := range t.Fields {
		f := &t.Fields[i]
		share := 45 - 7*depth
		if depth > 2 && (f.Type.Kind == shape.Struct || f.Type.Kind == shape.List) {
			share /= 2
		}
		if f.Required {
			share += 50
		}
		if f.Name == "managedFields" || depth > 8 || !g.chance(max(share, 3)) {
			continue
		}
		m[f.Name] = g.value(f.Type, depth+1)
	}
	return m
}

// decorate changes a few members of a copy of a tree, deep or not.
func (g *generator) decorate(t *shape.Type, tree map[string]any, changes int) map[string]any {
	out := runtime.DeepCopyJSON(tree)
	for range changes {
		g.change(t, out, 0)
	}
	return out
}

func (g *generator) change(t *shape.Type, m map[string]any, depth int) {
	if t == nil {
		return
	}
	names := slices.Sorted(maps.Keys(m))
	if len(names) > 0 && depth < 8 && g.chance(75) { // further down
		name := pick(g, names...)
		inner := t.Elem
		if t.Kind == shape.Struct {
			if f := t.Field(name); f != nil {
				inner = f.Type
			}
		}
		switch v := m[name].(type) {
		case map[string]any:
			if inner != nil && (inner.Kind == shape.Struct || inner.Kind == shape.Map) {
				g.change(inner, v, depth+1)
				return
			}
		case []any:
			if inner != nil && inner.Kind == shape.List && inner.Elem.Kind == shape.Struct && len(v) > 0 {
				if item, ok := v[g.IntN(len(v))].(map[string]any); ok {
					g.change(inner.Elem, item, depth+1)
					return
				}
			}
		}
	}
	switch t.Kind {
	case shape.Struct:
		if len(t.Fields) == 0 {
			return
		}
		f := &t.Fields[g.IntN(len(t.Fields))]
		switch {
		case f.Name == "managedFields" || depth == 0 &&
			(f.Name == "apiVersion" || f.Name == "kind" || f.Name == "metadata"):
		case m[f.Name] != nil && g.chance(30):
			delete(m, f.Name)
		default:
			m[f.Name] = g.value(f.Type, 3)
		}
	case shape.Map:
		m[g.key()] = g.value(t.Elem, 3)
	}
}

// fill makes the pool of a kind anew.
func (g *generator) fill(k *kind, size int) error {
	k.pool = k.pool[:0]
	for tries := 0; len(k.pool) < size; tries++ {
		if tries > 100*size {
			return fmt.Errorf("no objects of kind %s: the server would take none", k.resource.Kind)
		}
		tree := pick(g, k.templates...)
		switch {
		case len(k.pool) == 0:
		case g.chance(60):
			tree = g.decorate(k.typ, tree, g.IntN(6))
		default:
			random := g.members(k.typ, 0)
			random["apiVersion"], random["kind"] = tree["apiVersion"], tree["kind"]
			metadata, _ := random["metadata"].(map[string]any)
			if metadata == nil {
				metadata = map[string]any{}
				random["metadata"] = metadata
			}
			own, _ := tree["metadata"].(map[string]any)
			metadata["name"], metadata["namespace"] = own["name"], own["namespace"]
			tree = random
		}
		if o := g.world.prepare(k, tree); o != nil {
			k.pool = append(k.pool, o)
		}
	}
	return nil
}

// prepare returns an object in the form that policies see, nil if the server would not accept it.
func (w *World) prepare(k *kind, tree map[string]any) *object {
	metadata, _ := tree["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	if !k.resource.Namespaced {
		delete(metadata, "namespace")
		namespace = ""
	} else if namespace == "" {
		namespace = "default"
	}
	result, err := prepare.Object(prepare.Input{Types: w.types, Resource: k.resource, Operation: "CREATE",
		Namespace: namespace, Object: tree})
	if err != nil {
		return nil
	}
	o, err := newObject(result.Object, k.resource)
	if err != nil {
		return nil
	}
	return o
}

// request makes a question about a kind, often with the object that the policy was written with.
func (g *generator) request(k *kind, sample *object) *request {
	from := func() *object {
		if g.chance(25) {
			return sample
		}
		return pick(g, k.pool...)
	}
	r := &request{resource: k.resource, Request: &celgate.Request{
		Kind: k.resource.GroupVersionKind(), Resource: k.resource.GroupVersionResource,
		Operation: pick(g, celgate.Create, celgate.Create, celgate.Create, celgate.Create, celgate.Update,
			celgate.Update, celgate.Update, celgate.Delete),
		UserInfo: pick(g, users...), DryRun: g.chance(20),
	}}
	if r.Operation != celgate.Delete {
		r.object = from()
		r.Object = r.object.tree
	}
	if r.Operation != celgate.Create {
		r.old = from()
		r.OldObject = r.old.tree
	}
	main := r.object
	if main == nil {
		main = r.old
	}
	metadata, _ := main.tree["metadata"].(map[string]any)
	r.Name, _ = metadata["name"].(string)
	r.Namespace, _ = metadata["namespace"].(string)
	switch {
	case k.resource.Resource == "namespaces":
		r.Namespace = r.Name
	case k.resource.Namespaced && g.chance(3):
		r.Namespace = "gone"
	}
	r.complete()
	return r
}

// complete sets the options.
func (r *request) complete() {
	r.Options = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": map[celgate.Operation]string{
		celgate.Create: "CreateOptions", celgate.Update: "UpdateOptions", celgate.Delete: "DeleteOptions"}[r.Operation]}
	if r.DryRun {
		r.Options["dryRun"] = []any{"All"}
	}
}

var users = []celgate.UserInfo{
	{Username: "alice", Groups: []string{"devs", "system:authenticated"}},
	{Username: "bob", UID: "7", Groups: []string{"system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{"scope": {"a", "b"}}},
	{Username: "system:serviceaccount:shop:robot", Groups: []string{"system:serviceaccounts"}},
	{},
}
