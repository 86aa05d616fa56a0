package merge_test

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/celgate/celgate/schema"
)

// serverApply is the server's own function under a structured-merge-diff schema that says what t says.
func serverApply(live, patch map[string]any, t *schema.Type) (map[string]any, error) {
	s := &schemaWriter{names: map[*schema.Type]string{}}
	root := s.ref(t, false)
	s.schema.Types = append(s.schema.Types, freeTypes...)
	liveObject := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(live)}
	patchObject := &unstructured.Unstructured{Object: copyTree(patch).(map[string]any)}
	patchObject.SetGroupVersionKind(liveObject.GroupVersionKind())
	result, err := upstream.ApplyStructuredMergeDiff(converter{&s.schema, root}, liveObject, patchObject)
	if err != nil {
		return nil, err
	}
	return result.(*unstructured.Unstructured).Object, nil
}

// copyTree copies what is JSON in a patch and keeps the rest.
func copyTree(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = copyTree(v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = copyTree(v[i])
		}
		return out
	}
	return v
}

// A converter is the server's view of a schema.
type converter struct {
	schema *smd.Schema
	root   smd.TypeRef
}

func (c converter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	return typed.AsTyped(ordered{value.NewValueInterface(obj.(*unstructured.Unstructured).Object)}, c.schema, c.root, opts...)
}

func (c converter) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	object, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("failed to convert value to unstructured for type %T", v.AsValue().Unstructured())
	}
	return &unstructured.Unstructured{Object: object}, nil
}

// The wrappers below let the library see the members of maps in the order of their names, so that its errors have one
// order too. They print like the values that they wrap.
type (
	ordered     struct{ value.Value }
	orderedMap  struct{ value.Map }
	orderedList struct{ value.List }
)

func (v ordered) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), v.Value)
}

func (v ordered) AsMap() value.Map                       { return orderedMap{v.Value.AsMap()} }
func (v ordered) AsMapUsing(value.Allocator) value.Map   { return v.AsMap() }
func (v ordered) AsList() value.List                     { return orderedList{v.Value.AsList()} }
func (v ordered) AsListUsing(value.Allocator) value.List { return v.AsList() }

func (l orderedList) At(i int) value.Value                         { return ordered{l.List.At(i)} }
func (l orderedList) AtUsing(_ value.Allocator, i int) value.Value { return l.At(i) }

func (m orderedMap) Get(name string) (value.Value, bool) {
	v, ok := m.Map.Get(name)
	if !ok {
		return nil, false
	}
	return ordered{v}, true
}

func (m orderedMap) GetUsing(_ value.Allocator, name string) (value.Value, bool) { return m.Get(name) }

func (m orderedMap) names() []string {
	var names []string
	m.Map.Iterate(func(name string, _ value.Value) bool {
		names = append(names, name)
		return true
	})
	slices.Sort(names)
	return names
}

func (m orderedMap) Iterate(fn func(string, value.Value) bool) bool {
	for _, name := range m.names() {
		if v, _ := m.Get(name); !fn(name, v) {
			return false
		}
	}
	return true
}

func (m orderedMap) IterateUsing(_ value.Allocator, fn func(string, value.Value) bool) bool {
	return m.Iterate(fn)
}

func (m orderedMap) ZipUsing(_ value.Allocator, other value.Map, _ value.MapTraverseOrder, fn func(string, value.Value, value.Value) bool) bool {
	names := m.names()
	if other != nil {
		names = append(names, other.(orderedMap).names()...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		lhs, _ := m.Get(name)
		var rhs value.Value
		if other != nil {
			rhs, _ = other.Get(name)
		}
		if !fn(name, lhs, rhs) {
			return false
		}
	}
	return true
}

// A schemaWriter says in structured-merge-diff's words what kube-openapi/pkg/schemaconv would make of the OpenAPI schema of
// a type. It shares no code with the package.
type schemaWriter struct {
	schema smd.Schema
	names  map[*schema.Type]string
}

var (
	deducedName = "__untyped_deduced_"
	untypedName = "__untyped_atomic_"
	freeTypes   = []smd.TypeDef{
		{Name: untypedName, Atom: smd.Atom{
			Scalar: scalar(smd.Untyped),
			List:   &smd.List{ElementType: smd.TypeRef{NamedType: &untypedName}, ElementRelationship: smd.Atomic},
			Map:    &smd.Map{ElementType: smd.TypeRef{NamedType: &untypedName}, ElementRelationship: smd.Atomic},
		}},
		{Name: deducedName, Atom: smd.Atom{
			Scalar: scalar(smd.Untyped),
			List:   &smd.List{ElementType: smd.TypeRef{NamedType: &untypedName}, ElementRelationship: smd.Atomic},
			Map:    &smd.Map{ElementType: smd.TypeRef{NamedType: &deducedName}, ElementRelationship: smd.Separable},
		}},
	}
	deduced = smd.TypeRef{NamedType: &deducedName}
)

func scalar(s smd.Scalar) *smd.Scalar { return &s }

func (w *schemaWriter) ref(t *schema.Type, open bool) smd.TypeRef {
	if t == nil {
		return deduced
	}
	if t.Name == "" {
		return w.inline(t, open)
	}
	if name, ok := w.names[t]; ok {
		return smd.TypeRef{NamedType: &name}
	}
	name := fmt.Sprintf("%s-%d", t.Name, len(w.names))
	w.names[t] = name
	inline := w.inline(t, false)
	if inline.NamedType != nil {
		return inline
	}
	w.schema.Types = append(w.schema.Types, smd.TypeDef{Name: name, Atom: inline.Inlined})
	return smd.TypeRef{NamedType: &name}
}

func (w *schemaWriter) inline(t *schema.Type, open bool) smd.TypeRef {
	open = open || t.PreserveUnknown
	relationship := smd.ElementRelationship("")
	if t.Merge == schema.Atomic {
		relationship = smd.Atomic
	}
	var atom smd.Atom
	switch t.Kind {
	case schema.Any:
		if t.Merge == schema.Atomic {
			return smd.TypeRef{NamedType: &untypedName}
		}
		return deduced
	case schema.IntOrString, schema.Union:
		return deduced
	case schema.Boolean:
		atom.Scalar = scalar(smd.Boolean)
	case schema.Integer, schema.Number:
		atom.Scalar = scalar(smd.Numeric)
	case schema.String:
		atom.Scalar = scalar(smd.String)
		if t.Format != "" && t.Format != "byte" {
			atom.Scalar = scalar(smd.Untyped)
		}
	case schema.Bytes, schema.Duration:
		atom.Scalar = scalar(smd.String)
	case schema.Quantity, schema.Time, schema.MicroTime:
		atom.Scalar = scalar(smd.Untyped)
	case schema.Map:
		atom.Map = &smd.Map{ElementType: w.ref(t.Elem, open), ElementRelationship: relationship}
	case schema.Struct:
		atom.Map = &smd.Map{ElementRelationship: relationship}
		if open || len(t.Fields) == 0 {
			atom.Map.ElementType = deduced
		}
		for _, f := range t.Fields {
			field := smd.StructField{Name: f.Name, Type: w.ref(f.Type, open), Default: f.Default}
			if f.Atomic {
				override := smd.Atomic
				field.Type.ElementRelationship = &override
			}
			atom.Map.Fields = append(atom.Map.Fields, field)
		}
	case schema.List:
		atom.List = &smd.List{ElementType: w.ref(t.Elem, open), ElementRelationship: smd.Atomic}
		if t.Elem == nil {
			atom.List.ElementType = smd.TypeRef{NamedType: &untypedName}
		}
		switch t.Merge {
		case schema.Set:
			atom.List.ElementRelationship = smd.Associative
		case schema.Keyed:
			atom.List.ElementRelationship = smd.Associative
			atom.List.Keys = t.Keys
		}
	}
	return smd.TypeRef{Inlined: atom}
}

// A generator makes types, and objects and patches of a type, out of a stream of choices. The stream repeats.
type generator struct {
	choices []byte
	at      int
}

func (g *generator) choose(n int) int {
	if len(g.choices) == 0 {
		return 0
	}
	c := int(g.choices[g.at%len(g.choices)]) + g.at/len(g.choices)
	g.at++
	return c % n
}

func pick[T any](g *generator, from ...T) T { return from[g.choose(len(from))] }

var memberNames = []string{"a", "b", "key", "name", "port", "x/y"}

func (g *generator) root() *schema.Type {
	t := g.structure(3)
	t.Fields = append(t.Fields, schema.Field{Name: "apiVersion", Type: &schema.Type{Kind: schema.String}}, schema.Field{Name: "kind", Type: &schema.Type{Kind: schema.String}})
	t.Merge = schema.Granular
	return t
}

func (g *generator) typ(depth int) *schema.Type {
	if depth <= 0 {
		return g.leaf()
	}
	switch g.choose(8) {
	case 0, 1:
		return g.structure(depth)
	case 2, 3:
		t := &schema.Type{Kind: schema.Map, Merge: pick(g, schema.Granular, schema.Granular, schema.Atomic), PreserveUnknown: g.choose(10) == 0}
		if g.choose(5) != 0 {
			t.Elem = g.typ(depth - 1)
		}
		return t
	case 4, 5, 6:
		return g.list(depth)
	}
	return g.leaf()
}

func (g *generator) leaf() *schema.Type {
	return &schema.Type{
		Kind:   schema.Kind(g.choose(int(schema.IntOrString) + 1)),
		Merge:  pick(g, schema.Granular, schema.Granular, schema.Atomic),
		Format: pick(g, "", "", "", "date", "byte"),
	}
}

func (g *generator) structure(depth int) *schema.Type {
	t := &schema.Type{Kind: schema.Struct, Name: pick(g, "", "", "pkg.T"), Merge: pick(g, schema.Granular, schema.Granular, schema.Granular, schema.Granular, schema.Atomic)}
	t.PreserveUnknown = t.Name == "" && g.choose(6) == 0
	for _, name := range memberNames {
		if g.choose(3) == 0 {
			continue
		}
		f := schema.Field{Name: name, Type: g.typ(depth - 1)}
		if t.Name != "" && g.choose(12) == 0 {
			f.Type = t // recursive
		}
		switch f.Type.Kind {
		case schema.Struct, schema.Map, schema.Any:
			f.Atomic = g.choose(8) == 0
		case schema.String:
			f.Default = pick[any](g, nil, "", "TCP")
		case schema.Integer:
			f.Default = pick[any](g, nil, int64(0), 80.0)
		}
		t.Fields = append(t.Fields, f)
	}
	return t
}

func (g *generator) list(depth int) *schema.Type {
	t := &schema.Type{Kind: schema.List, Merge: pick(g, schema.Keyed, schema.Keyed, schema.Set, schema.Set, schema.Atomic, schema.Granular)}
	switch {
	case t.Merge == schema.Keyed && g.choose(8) != 0:
		t.Keys = pick(g, []string{"name"}, []string{"key"}, []string{"port", "name"}, []string{"name", "key"})
		t.Elem = g.structure(depth - 1)
		t.Elem.Merge = schema.Granular
		for _, name := range t.Keys {
			i := slices.IndexFunc(t.Elem.Fields, func(f schema.Field) bool { return f.Name == name })
			if i < 0 {
				t.Elem.Fields = append(t.Elem.Fields, schema.Field{Name: name})
				i = len(t.Elem.Fields) - 1
			}
			if g.choose(5) != 0 {
				t.Elem.Fields[i] = schema.Field{Name: name, Type: &schema.Type{Kind: pick(g, schema.String, schema.Integer, schema.IntOrString)}, Default: t.Elem.Fields[i].Default}
			} else if t.Elem.Fields[i].Type == nil {
				t.Elem.Fields[i].Type = g.leaf()
			}
		}
	case t.Merge == schema.Keyed:
		t.Keys = []string{"name"}
		t.Elem = g.typ(depth - 1)
	case t.Merge == schema.Set && g.choose(6) != 0:
		t.Elem = g.leaf()
	case g.choose(10) == 0:
	default:
		t.Elem = g.typ(depth - 1)
	}
	return t
}

// foreign is a type of no JSON value.
type foreign int

func (g *generator) odd() any {
	return pick[any](g, uint64(2), []byte("a"), foreign(1), map[string]string{"a": "b"}, nil, nil, nil, "text", int64(1), 2.5, true, map[string]any{"a": int64(1)}, []any{"a"}, []any{nil}, map[string]any{})
}

// value makes a value of a type; one in 'noise' is of another one.
func (g *generator) value(t *schema.Type, depth, noise int) any {
	if noise > 0 && g.choose(noise) == 0 {
		return g.odd()
	}
	if t == nil || t.Kind == schema.Any {
		return g.anything(2)
	}
	switch t.Kind {
	case schema.Boolean:
		return pick[any](g, true, false)
	case schema.Integer:
		return pick[any](g, int64(0), int64(80), int64(1), 80.0)
	case schema.Number:
		return pick[any](g, int64(0), 80.5, 1.0, 1e21)
	case schema.IntOrString:
		return pick[any](g, "a", "b", int64(80))
	case schema.Struct, schema.Map:
		return g.object(t, depth, noise)
	case schema.List:
		items := []any{}
		if depth > 0 {
			for range g.choose(6) {
				items = append(items, g.value(t.Elem, depth-1, noise))
			}
			if g.choose(40) == 0 {
				for i := range 12 {
					items = append(items, fmt.Sprint("item", i))
				}
			}
		}
		return items
	}
	return pick(g, "a", "b", "c", "", "TCP", "a\"b")
}

func (g *generator) object(t *schema.Type, depth, noise int) map[string]any {
	members := map[string]any{}
	if depth == 0 {
		return members
	}
	if t.Kind == schema.Map {
		for range g.choose(4) {
			members[pick(g, memberNames...)] = g.value(t.Elem, depth-1, noise)
		}
		return members
	}
	for _, f := range t.Fields {
		if g.choose(5) < 2 || slices.Contains([]string{"name", "port"}, f.Name) && g.choose(6) != 0 {
			members[f.Name] = g.value(f.Type, depth-1, noise)
		}
	}
	if noise > 0 && g.choose(noise) == 0 || (t.PreserveUnknown || len(t.Fields) == 0) && g.choose(2) == 0 {
		members[pick(g, "other", "another")] = g.anything(2)
	}
	return members
}

func (g *generator) anything(depth int) any {
	switch n := g.choose(7); {
	case n == 0 && depth > 0:
		out := map[string]any{}
		for range g.choose(4) {
			out[pick(g, memberNames...)] = g.anything(depth - 1)
		}
		return out
	case n == 1 && depth > 0:
		out := []any{}
		for range g.choose(3) {
			out = append(out, g.anything(depth-1))
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

// scenario makes a type, a live object that nearly always fits it, and a patch.
func (g *generator) scenario() (live, patch map[string]any, t *schema.Type) {
	noise := pick(g, 0, 0, 0, 60, 25)
	t = g.root()
	live = g.object(t, 5, pick(g, 0, 0, 0, 0, 0, 0, 0, 60))
	patch = g.object(t, 5, noise)
	if g.choose(2) == 0 {
		dropAtomics(t, patch)
	}
	for _, object := range []map[string]any{live, patch} {
		maps.Copy(object, map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"})
	}
	return jsonOnly(live).(map[string]any), patch, t
}

// dropAtomics removes from a patch most of what the atomics check would refuse, so that merges happen.
func dropAtomics(t *schema.Type, value any) {
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
			case f.Atomic, isMap && f.Type.Merge == schema.Atomic, isList && f.Type.Merge != schema.Set && f.Type.Merge != schema.Keyed:
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

// jsonOnly replaces what is no JSON.
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
