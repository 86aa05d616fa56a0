// Package mergetest has the oracle of package merge, the API server's own merge of ApplyConfiguration patches, and
// generates types and objects for it.
package mergetest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/celgate/celgate/internal/shape"
)

// Apply is the server's own function with a structured-merge-diff schema that is equivalent to t. Errors list members
// in their order, which is random on the server.
func Apply(live, patch map[string]any, t *shape.Type) (map[string]any, error) {
	types, root := Schema(t)
	liveObject := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(live)}
	patchObject := &unstructured.Unstructured{Object: Copy(patch).(map[string]any)}
	patchObject.SetGroupVersionKind(liveObject.GroupVersionKind())
	result, err := upstream.ApplyStructuredMergeDiff(converter{types, root}, liveObject, patchObject)
	if err != nil {
		return nil, err
	}
	return result.(*unstructured.Unstructured).Object, nil
}

// Copy copies the JSON values of a patch and keeps other values.
func Copy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = Copy(v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Copy(v[i])
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
	return typed.AsTyped(ordered{value.NewValueInterface(obj.(*unstructured.Unstructured).Object)}, c.schema, c.root,
		opts...)
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

func (m orderedMap) ZipUsing(_ value.Allocator, other value.Map, _ value.MapTraverseOrder,
	fn func(string, value.Value, value.Value) bool) bool {
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

// Schema returns the structured-merge-diff schema that kube-openapi/pkg/schemaconv derives from the OpenAPI schema of a
// type. It does not share code with package merge.
func Schema(t *shape.Type) (*smd.Schema, smd.TypeRef) {
	w := schemaWriter{names: map[*shape.Type]string{}}
	root := w.ref(t, false)
	return &smd.Schema{Types: append(w.types, freeTypes...)}, root
}

type schemaWriter struct {
	types []smd.TypeDef
	names map[*shape.Type]string
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

func (w *schemaWriter) ref(t *shape.Type, open bool) smd.TypeRef {
	if t == nil {
		return deduced
	}
	if t.Name == "" {
		return w.inline(t, open)
	}
	if name, ok := w.names[t]; ok {
		return smd.TypeRef{NamedType: &name}
	}
	switch t.Kind {
	case shape.Any, shape.IntOrString, shape.Union:
		return w.inline(t, false)
	}
	name := fmt.Sprintf("%s-%d", t.Name, len(w.names))
	w.names[t] = name
	w.types = append(w.types, smd.TypeDef{Name: name, Atom: w.inline(t, false).Inlined})
	return smd.TypeRef{NamedType: &name}
}

func (w *schemaWriter) inline(t *shape.Type, open bool) smd.TypeRef {
	open = open || t.PreserveUnknown
	relationship := smd.ElementRelationship("")
	if t.Merge == shape.Atomic {
		relationship = smd.Atomic
	}
	var atom smd.Atom
	switch t.Kind {
	case shape.Any:
		if t.Merge == shape.Atomic {
			return smd.TypeRef{NamedType: &untypedName}
		}
		return deduced
	case shape.IntOrString, shape.Union:
		return deduced
	case shape.Boolean:
		atom.Scalar = scalar(smd.Boolean)
	case shape.Integer, shape.Number:
		atom.Scalar = scalar(smd.Numeric)
	case shape.String:
		atom.Scalar = scalar(smd.String)
		if t.Format != "" && t.Format != "byte" {
			atom.Scalar = scalar(smd.Untyped)
		}
	case shape.Bytes, shape.Duration:
		atom.Scalar = scalar(smd.String)
	case shape.Quantity, shape.Time, shape.MicroTime:
		atom.Scalar = scalar(smd.Untyped)
	case shape.Map:
		atom.Map = &smd.Map{ElementType: w.ref(t.Elem, open), ElementRelationship: relationship}
	case shape.Struct:
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
	case shape.List:
		atom.List = &smd.List{ElementType: w.ref(t.Elem, open), ElementRelationship: smd.Atomic}
		if t.Elem == nil {
			atom.List.ElementType = smd.TypeRef{NamedType: &untypedName}
		}
		switch t.Merge {
		case shape.Set:
			atom.List.ElementRelationship = smd.Associative
		case shape.Keyed:
			atom.List.ElementRelationship = smd.Associative
			atom.List.Keys = t.Keys
		}
	}
	return smd.TypeRef{Inlined: atom}
}
