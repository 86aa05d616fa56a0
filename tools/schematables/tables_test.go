package main

import (
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	apitesting "k8s.io/kubernetes/pkg/api/testing"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// TestMergeRules compares the merge rules, keys and defaults of every type with the schema that the server makes
// of its OpenAPI documents for structured merges.
func TestMergeRules(t *testing.T) {
	r := registry(t)
	want := mergeSchema(t)
	seen := map[*shape.Type]bool{}
	for _, g := range groups(t) {
		for _, res := range g.resources {
			kind := g.WithKind(res.Kind)
			typ := r.Type(kind)
			if def, ok := want.FindNamedType(openAPIName(typ.Name)); ok {
				compareMerge(t, want, typ, def.Atom, kind.Kind, seen)
			}
		}
	}
	if len(seen) < 500 {
		t.Errorf("only %d types were compared", len(seen))
	}
}

func compareMerge(t *testing.T, s *smd.Schema, typ *shape.Type, atom smd.Atom, path string,
	seen map[*shape.Type]bool) {
	if typ.Name != "" {
		if seen[typ] {
			return
		}
		seen[typ] = true
	}
	resolve := func(ref smd.TypeRef) smd.Atom {
		a, ok := s.Resolve(ref)
		if !ok {
			t.Errorf("%s: unresolved", path)
		}
		return a
	}
	switch typ.Kind {
	case shape.Struct:
		if atom.Map == nil {
			t.Fatalf("%s: not a map for the server", path)
		}
		if got := atom.Map.ElementRelationship == smd.Atomic; got != (typ.Merge == shape.Atomic) {
			t.Errorf("%s: atomic is %v for the server", path, got)
		}
		for i := range typ.Fields {
			f := &typ.Fields[i]
			member, ok := atom.Map.FindField(f.Name)
			if !ok {
				t.Errorf("%s.%s: unknown to the server", path, f.Name)
				continue
			}
			if !sameJSON(t, member.Default, f.Default) {
				t.Errorf("%s.%s: default %v, the server has %v", path, f.Name, f.Default, member.Default)
			}
			a := resolve(member.Type)
			if f.Atomic {
				if member.Type.ElementRelationship == nil || *member.Type.ElementRelationship != smd.Atomic {
					t.Errorf("%s.%s: not atomic for the server", path, f.Name)
				}
				continue // Resolve has copied the override into a, which does not have a name
			}
			compareMerge(t, s, f.Type, a, path+"."+f.Name, seen)
		}
	case shape.Map:
		if atom.Map == nil || (atom.Map.ElementRelationship == smd.Atomic) != (typ.Merge == shape.Atomic) {
			t.Errorf("%s: the server has %+v", path, atom.Map)
			return
		}
		compareMerge(t, s, typ.Elem, resolve(atom.Map.ElementType), path+"{}", seen)
	case shape.List:
		rule := shape.Atomic
		if atom.List != nil && atom.List.ElementRelationship == smd.Associative {
			rule = shape.Set
			if len(atom.List.Keys) > 0 {
				rule = shape.Keyed
			}
		}
		if atom.List == nil || rule != typ.Merge || !slices.Equal(atom.List.Keys, typ.Keys) {
			t.Errorf("%s: %v %v, the server has %+v", path, typ.Merge, typ.Keys, atom.List)
			return
		}
		compareMerge(t, s, typ.Elem, resolve(atom.List.ElementType), path+"[]", seen)
	case shape.Any:
		if atomic := atom.Map != nil && atom.Map.ElementRelationship == smd.Atomic; atomic != (typ.Merge == shape.Atomic) {
			t.Errorf("%s: atomic is %v for the server", path, atomic)
		}
	case shape.String, shape.Bytes, shape.Duration:
		if atom.Scalar == nil || *atom.Scalar != smd.String {
			t.Errorf("%s: %v is %+v for the server", path, typ.Kind, atom)
		}
	case shape.Boolean:
		if atom.Scalar == nil || *atom.Scalar != smd.Boolean {
			t.Errorf("%s: %v is %+v for the server", path, typ.Kind, atom)
		}
	case shape.Integer, shape.Number:
		if atom.Scalar == nil || *atom.Scalar != smd.Numeric {
			t.Errorf("%s: %v is %+v for the server", path, typ.Kind, atom)
		}
	case shape.Quantity, shape.Time, shape.MicroTime, shape.IntOrString, shape.Union:
		if atom.Scalar == nil || *atom.Scalar != "untyped" {
			t.Errorf("%s: %v is %+v for the server", path, typ.Kind, atom)
		}
	}
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}

func mergeSchema(t *testing.T) *smd.Schema {
	t.Helper()
	source, err := kubernetes()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(source.Dir, "api", "openapi-spec", "v3", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]*spec.Schema{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc spec3.OpenAPI
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Components != nil {
			for name, model := range doc.Components.Schemas {
				models[name] = model
			}
		}
	}
	out, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func openAPIName(goName string) string {
	host, rest, _ := strings.Cut(goName, "/")
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(rest, "/", ".")
}

// TestTypesDescribeObjects tests that the types of all kinds describe the JSON form of random objects: every member is
// declared, has the declared form, and exists if it is always encoded.
func TestTypesDescribeObjects(t *testing.T) {
	r := registry(t)
	fill := fuzzer.FuzzerFor(apitesting.FuzzerFuncs, rand.NewSource(1), legacyscheme.Codecs)
	kinds := 0
	for _, g := range groups(t) {
		for name, goType := range legacyscheme.Scheme.KnownTypes(g.GroupVersion) {
			typ := r.Type(g.WithKind(name))
			hubKind := schema.GroupVersionKind{Group: g.Group, Version: runtime.APIVersionInternal, Kind: name}
			if goType.PkgPath() == metaPackage || !legacyscheme.Scheme.Recognizes(hubKind) {
				continue
			}
			kinds++
			for range 20 {
				hub := newObject(t, hubKind)
				fill.Fill(hub)
				describes(t, typ, tree(t, convertTo(t, hub, g.WithKind(name))), g.String()+" "+name)
			}
		}
	}
	if kinds < 150 {
		t.Errorf("only %d kinds", kinds)
	}
}

func describes(t *testing.T, typ *shape.Type, v any, path string) {
	if typ == nil {
		t.Errorf("%s has no type", path)
		return
	}
	if v == nil {
		return
	}
	var ok bool
	switch typ.Kind {
	case shape.Struct:
		var m map[string]any
		if m, ok = v.(map[string]any); ok {
			for name, member := range m {
				f := typ.Field(name)
				if f == nil {
					t.Errorf("%s.%s is not declared", path, name)
					continue
				}
				if f.OmitEmpty && !f.Pointer &&
					(member == "" && f.Type.Kind == shape.String || member == false || member == int64(0) &&
						f.Type.Kind == shape.Integer) {
					t.Errorf("%s.%s is written though it is empty", path, name)
				}
				describes(t, f.Type, member, path+"."+name)
			}
			for i := range typ.Fields {
				if f := &typ.Fields[i]; !f.OmitEmpty && !f.OmitZero {
					if _, written := m[f.Name]; !written {
						t.Errorf("%s.%s is not written", path, f.Name)
					}
				}
			}
		}
	case shape.Map:
		var m map[string]any
		if m, ok = v.(map[string]any); ok {
			for k, member := range m {
				describes(t, typ.Elem, member, path+"["+k+"]")
			}
		}
	case shape.List:
		var items []any
		if items, ok = v.([]any); ok {
			for _, item := range items {
				describes(t, typ.Elem, item, path+"[]")
			}
		}
	case shape.Boolean:
		_, ok = v.(bool)
	case shape.Integer:
		var n int64
		n, ok = v.(int64)
		ok = ok && (typ.Bits == 64 || n == int64(int32(n)))
	case shape.Number:
		_, isInt := v.(int64)
		_, isFloat := v.(float64)
		ok = isInt || isFloat
	case shape.String, shape.Bytes, shape.Quantity, shape.Time, shape.MicroTime, shape.Duration:
		_, ok = v.(string)
	case shape.IntOrString:
		_, isInt := v.(int64)
		_, isText := v.(string)
		ok = isInt || isText
	default:
		ok = true
	}
	if !ok {
		t.Errorf("%s: %v is not of kind %d", path, reflect.TypeOf(v), typ.Kind)
	}
}

func registry(t *testing.T) *schema.Registry {
	t.Helper()
	r, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func groups(t *testing.T) []*group {
	t.Helper()
	source, err := kubernetes()
	if err != nil {
		t.Fatal(err)
	}
	all, err := readGroups(filepath.Join(source.Dir, "api", "discovery"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}
