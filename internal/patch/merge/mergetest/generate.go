package mergetest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/celgate/celgate/internal/shape"
)

// A Generator makes types, and objects and patches of a type, out of a stream of choices. The stream repeats.
type Generator struct {
	Choices []byte
	at      int
}

func (g *Generator) choose(n int) int {
	if len(g.Choices) == 0 {
		return 0
	}
	c := int(g.Choices[g.at%len(g.Choices)]) + g.at/len(g.Choices)
	g.at++
	return c % n
}

func pick[T any](g *Generator, from ...T) T { return from[g.choose(len(from))] }

var memberNames = []string{"a", "b", "key", "name", "port", "x/y"}

func (g *Generator) root() *shape.Type {
	t := g.structure(3)
	t.Fields = append(t.Fields, shape.Field{Name: "apiVersion", Type: &shape.Type{Kind: shape.String}},
		shape.Field{Name: "kind", Type: &shape.Type{Kind: shape.String}})
	t.Merge = shape.Granular
	return t
}

func (g *Generator) typ(depth int) *shape.Type {
	if depth <= 0 {
		return g.leaf()
	}
	switch g.choose(8) {
	case 0, 1:
		return g.structure(depth)
	case 2, 3:
		t := &shape.Type{Kind: shape.Map, Merge: pick(g, shape.Granular, shape.Granular, shape.Atomic),
			PreserveUnknown: g.choose(10) == 0}
		if g.choose(5) != 0 {
			t.Elem = g.typ(depth - 1)
		}
		return t
	case 4, 5, 6:
		return g.list(depth)
	}
	return g.leaf()
}

func (g *Generator) leaf() *shape.Type {
	t := &shape.Type{Kind: shape.Kind(g.choose(int(shape.IntOrString) + 1)),
		Format: pick(g, "", "", "", "date", "byte")}
	if t.Kind == shape.Any {
		t.Merge = pick(g, shape.Granular, shape.Atomic)
	}
	return t
}

func (g *Generator) structure(depth int) *shape.Type {
	t := &shape.Type{Kind: shape.Struct, Name: pick(g, "", "", "pkg.T"),
		Merge: pick(g, shape.Granular, shape.Granular, shape.Granular, shape.Granular, shape.Atomic)}
	t.PreserveUnknown = t.Name == "" && g.choose(6) == 0
	for _, name := range memberNames {
		if g.choose(3) == 0 {
			continue
		}
		f := shape.Field{Name: name, Type: g.typ(depth - 1)}
		if t.Name != "" && g.choose(12) == 0 {
			f.Type = t // recursive
		}
		switch f.Type.Kind {
		case shape.Struct, shape.Map, shape.Any:
			f.Atomic = g.choose(8) == 0
		case shape.String:
			f.Default = pick[any](g, nil, "", "TCP")
		case shape.Integer:
			f.Default = pick[any](g, nil, int64(0), 80.0)
		}
		t.Fields = append(t.Fields, f)
	}
	return t
}

func (g *Generator) list(depth int) *shape.Type {
	t := &shape.Type{Kind: shape.List, Merge: pick(g, shape.Keyed, shape.Keyed, shape.Set, shape.Set,
		shape.Atomic, shape.Granular)}
	switch {
	case t.Merge == shape.Keyed && g.choose(8) != 0:
		t.Keys = pick(g, []string{"name"}, []string{"key"}, []string{"port", "name"}, []string{"name", "key"})
		t.Elem = g.structure(depth - 1)
		t.Elem.Merge = shape.Granular
		for _, name := range t.Keys {
			i := slices.IndexFunc(t.Elem.Fields, func(f shape.Field) bool { return f.Name == name })
			if i < 0 {
				t.Elem.Fields = append(t.Elem.Fields, shape.Field{Name: name})
				i = len(t.Elem.Fields) - 1
			}
			if g.choose(5) != 0 {
				t.Elem.Fields[i] = shape.Field{Name: name,
					Type:    &shape.Type{Kind: pick(g, shape.String, shape.Integer, shape.IntOrString)},
					Default: t.Elem.Fields[i].Default}
			} else if t.Elem.Fields[i].Type == nil {
				t.Elem.Fields[i].Type = g.leaf()
			}
		}
	case t.Merge == shape.Keyed:
		t.Keys = []string{"name"}
		t.Elem = g.typ(depth - 1)
	case t.Merge == shape.Set && g.choose(6) != 0:
		t.Elem = g.leaf()
	case g.choose(10) == 0:
	default:
		t.Elem = g.typ(depth - 1)
	}
	return t
}

// foreign is a type of no JSON value.
type foreign int

func (g *Generator) oddValue() any {
	return pick[any](g, uint64(2), []byte("a"), foreign(1), map[string]string{"a": "b"}, nil, nil, nil, "text",
		int64(1), 2.5, true, map[string]any{"a": int64(1)}, []any{"a"}, []any{nil}, map[string]any{})
}

// value makes a value of a type; if noise is positive, one in noise has another type. Members are sometimes null unless
// noise is negative.
func (g *Generator) value(t *shape.Type, depth, noise int) any {
	if noise > 0 && g.choose(noise) == 0 {
		return g.oddValue()
	}
	if t == nil || t.Kind == shape.Any {
		return g.anyValue(2)
	}
	switch t.Kind {
	case shape.Boolean:
		return pick[any](g, true, false)
	case shape.Integer:
		return pick[any](g, int64(0), int64(80), int64(1), 80.0)
	case shape.Number:
		return pick[any](g, int64(0), 80.5, 1.0, 1e21)
	case shape.IntOrString:
		return pick[any](g, "a", "b", int64(80))
	case shape.Struct, shape.Map:
		return g.object(t, depth, noise)
	case shape.List:
		items := []any{}
		if depth > 0 {
			for range g.choose(6) {
				items = append(items, g.value(t.Elem, depth-1, noise))
			}
			if g.choose(10) == 0 {
				items = g.LongList(t, depth, noise)
			}
		}
		return items
	}
	return pick(g, "a", "b", "c", "", "TCP", "a\"b")
}

// LongList makes a list with many different keys, half of the time without duplicates.
func (g *Generator) LongList(t *shape.Type, depth, noise int) []any {
	const length, prime = 14, 17
	items := []any{}
	step, unique := 1+g.choose(prime-1), g.choose(2) == 0
	for i := range length {
		name := any(fmt.Sprint("k", (i*step)%prime))
		if !unique && g.choose(4) == 0 {
			name = "k1"
		}
		if t.Merge != shape.Keyed {
			items = append(items, name)
			continue
		}
		item, ok := g.value(t.Elem, depth-1, noise).(map[string]any)
		if !ok {
			continue
		}
		for _, key := range t.Keys {
			item[key] = name
		}
		items = append(items, item)
	}
	return items
}

func (g *Generator) object(t *shape.Type, depth, noise int) map[string]any {
	members := map[string]any{}
	if depth == 0 {
		return members
	}
	if t.Kind == shape.Map {
		for range g.choose(4) {
			members[pick(g, memberNames...)] = g.value(t.Elem, depth-1, noise)
		}
		return members
	}
	for _, f := range t.Fields {
		if g.choose(5) < 2 || slices.Contains([]string{"name", "port"}, f.Name) && g.choose(6) != 0 {
			members[f.Name] = g.value(f.Type, depth-1, noise)
			if noise >= 0 && g.choose(12) == 0 {
				members[f.Name] = nil
			}
		}
	}
	if noise > 0 && g.choose(noise) == 0 || (t.PreserveUnknown || len(t.Fields) == 0) && g.choose(2) == 0 {
		members[pick(g, "other", "another")] = g.anyValue(2)
	}
	return members
}

func (g *Generator) anyValue(depth int) any {
	switch n := g.choose(7); {
	case n == 0 && depth > 0:
		out := map[string]any{}
		for range g.choose(4) {
			out[pick(g, memberNames...)] = g.anyValue(depth - 1)
		}
		return out
	case n == 1 && depth > 0:
		out := []any{}
		for range g.choose(3) {
			out = append(out, g.anyValue(depth-1))
		}
		return out
	case n == 2:
		return int64(7)
	case n == 3:
		return nil
	case n == 4:
		return true
	}
	return pick(g, "v", "w")
}

// Scenario makes a type, and a live object and a patch of it.
func (g *Generator) Scenario() (live, patch map[string]any, t *shape.Type) {
	t = g.root()
	live, patch = g.Objects(t)
	return live, patch, t
}

// Objects makes a live object that nearly always fits the type, and a patch that often does.
func (g *Generator) Objects(t *shape.Type) (live, patch map[string]any) {
	noise := pick(g, -1, 0, 0, 60, 25)
	live = g.object(t, 5, pick(g, -1, -1, -1, -1, -1, 0, 0, 60))
	patch = g.object(t, 5, noise)
	if g.choose(2) == 0 {
		dropAtomics(t, patch)
	}
	for _, object := range []map[string]any{live, patch} {
		maps.Copy(object, map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"})
	}
	return jsonOnly(live).(map[string]any), patch
}

// dropAtomics removes most of the values from a patch that the check for atomic values would refuse, so that merges
// happen.
func dropAtomics(t *shape.Type, value any) {
	if t == nil {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for _, f := range t.Fields {
			member, ok := value[f.Name]
			if !ok {
				continue
			}
			_, isMap := member.(map[string]any)
			list, isList := member.([]any)
			switch {
			case f.Atomic, isMap && f.Type.Merge == shape.Atomic, isList && f.Type.Merge != shape.Set &&
				f.Type.Merge != shape.Keyed:
				delete(value, f.Name)
			case isList:
				for _, item := range list {
					dropAtomics(f.Type.Elem, item)
				}
			default:
				dropAtomics(f.Type, member)
			}
		}
	}
}

// jsonOnly replaces values that are not JSON.
func jsonOnly(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = jsonOnly(v[k])
		}
	case []any:
		for i := range v {
			v[i] = jsonOnly(v[i])
		}
	case uint64, []byte, foreign, map[string]string:
		return nil
	}
	return v
}
