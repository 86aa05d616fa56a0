package schema

import (
	"encoding/json"
	"fmt"
	"github.com/celgate/celgate/internal/shape"
	"maps"
	"slices"
	"strings"
)

// OpenAPITypes returns the types of the kinds in an OpenAPI v3 document, which servers publish for each version of a
// group below /openapi/v3.
//
// Members and the merging of lists come from the document. Facts that documents lack (which members a server omits when
// they are empty, quantities, defaults that are Go code) come from the registry's type of the same kind; members that
// only the document has are kept as they are written.
func (r *Registry) OpenAPITypes(document []byte) (map[GroupVersionKind]*shape.Type, error) {
	var doc struct {
		Components struct {
			Schemas map[string]*openAPISchema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	b := &openAPIBuilder{schemas: doc.Components.Schemas, objectMeta: r.objectMeta(),
		built: map[openAPIPlace]*shape.Type{}}
	types := map[GroupVersionKind]*shape.Type{}
	for name, s := range b.schemas {
		if s == nil || len(s.Kinds) == 0 || !s.isObject() {
			continue
		}
		for _, k := range s.Kinds {
			kind := GroupVersionKind(k)
			var known *shape.Type
			if r.tables != nil {
				known = r.tables.typeOf(kind)
			}
			types[kind] = b.lookUp(name, known)
		}
	}
	return types, nil
}

// An openAPISchema has the used members of a schema.
type openAPISchema struct {
	Ref                  string                    `json:"$ref"`
	AllOf                []*openAPISchema          `json:"allOf"`
	Type                 string                    `json:"type"`
	Format               string                    `json:"format"`
	Properties           map[string]*openAPISchema `json:"properties"`
	AdditionalProperties *openAPIAdditional        `json:"additionalProperties"`
	Items                *openAPISchema            `json:"items"`
	Required             []string                  `json:"required"`
	ListType             string                    `json:"x-kubernetes-list-type"`
	ListMapKeys          []string                  `json:"x-kubernetes-list-map-keys"`
	MapType              string                    `json:"x-kubernetes-map-type"`
	PreserveUnknown      bool                      `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString          bool                      `json:"x-kubernetes-int-or-string"`
	Kinds                []openAPIKind             `json:"x-kubernetes-group-version-kind"`
}

type openAPIKind struct{ Group, Version, Kind string }

// openAPIAdditional is a schema, or nil for true and false.
type openAPIAdditional struct{ schema *openAPISchema }

func (a *openAPIAdditional) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '{' {
		return json.Unmarshal(text, &a.schema)
	}
	return nil
}

func (s *openAPISchema) isObject() bool { return s.Type == "object" || len(s.Properties) > 0 }

// target returns the name that a schema refers to; "" if it is not a reference.
func (s *openAPISchema) target() string {
	ref := s.Ref
	if ref == "" && len(s.AllOf) == 1 && s.AllOf[0] != nil {
		ref = s.AllOf[0].Ref
	}
	return strings.TrimPrefix(ref, "#/components/schemas/")
}

// The types of these names differ from their schemas.
var openAPINames = map[string]*shape.Type{
	"io.k8s.apimachinery.pkg.api.resource.Quantity":   scalars["quantity"],
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":       scalars["time"],
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":  scalars["microtime"],
	"io.k8s.apimachinery.pkg.apis.meta.v1.Duration":   scalars["duration"],
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": scalars["intorstring"],
	"io.k8s.apimachinery.pkg.runtime.RawExtension":    scalars["raw"],
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":   scalars["raw"],
	"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": nil, // the registry's type
}

type openAPIBuilder struct {
	schemas    map[string]*openAPISchema
	objectMeta *shape.Type
	built      map[openAPIPlace]*shape.Type // including unfinished types, for types that contain themselves
}

// An openAPIPlace is a schema in the place of a known type, or nil.
type openAPIPlace struct {
	name  string
	known *shape.Type
}

func (b *openAPIBuilder) typ(s *openAPISchema, known *shape.Type) *shape.Type {
	name := s.target()
	if name == "" {
		return b.inline(s, known, "")
	}
	if special, ok := openAPINames[name]; ok {
		switch {
		case known != nil:
			return known
		case special == nil:
			return b.objectMeta
		}
		return special
	}
	return b.lookUp(name, known)
}

func (b *openAPIBuilder) lookUp(name string, known *shape.Type) *shape.Type {
	s := b.schemas[name]
	if s == nil {
		return typeOrAny(known)
	}
	place := openAPIPlace{name, known}
	if t := b.built[place]; t != nil {
		return t
	}
	t := &shape.Type{}
	b.built[place] = t
	*t = *b.inline(s, known, name)
	return t
}

func typeOrAny(known *shape.Type) *shape.Type {
	if known != nil {
		return known
	}
	return scalars["any"]
}

// inline returns the type of a schema that is not a reference. A known type of another shape is kept: documents
// describe some types incompletely.
func (b *openAPIBuilder) inline(s *openAPISchema, known *shape.Type, name string) *shape.Type {
	switch {
	case len(s.Properties) > 0:
		if known == nil || known.Kind == shape.Struct {
			return b.object(s, known, name)
		}
	case s.Type == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.schema != nil:
		if known == nil {
			known = &shape.Type{Kind: shape.Map, Merge: atomicIf(s.MapType == "atomic")}
		}
		if known.Kind == shape.Map {
			t := *known
			t.Elem = b.typ(s.AdditionalProperties.schema, known.Elem)
			return &t
		}
	case s.Type == "array" && s.Items != nil:
		if known == nil {
			known = &shape.Type{Kind: shape.List}
		}
		if known.Kind == shape.List {
			t := *known
			t.Merge, t.Keys = shape.Atomic, nil
			switch {
			case s.ListType == "set":
				t.Merge = shape.Set
			case s.ListType == "map" && len(s.ListMapKeys) > 0:
				t.Merge, t.Keys = shape.Keyed, s.ListMapKeys
			}
			t.Elem = b.typ(s.Items, known.Elem)
			return &t
		}
	}
	if known != nil {
		return known
	}
	switch {
	case s.IntOrString || s.Format == "int-or-string":
		return scalars["intorstring"]
	case s.Type == "object" && name != "" && !s.PreserveUnknown: // an empty struct
		return &shape.Type{Name: name, Kind: shape.Struct}
	case s.Type == "object":
		return scalars["raw"]
	case s.Type == "string" && s.Format == "byte":
		return scalars["bytes"]
	case s.Type == "string":
		return scalars["string"]
	case s.Type == "integer" && s.Format == "int32":
		return scalars["int32"]
	case s.Type == "integer":
		return scalars["int64"]
	case s.Type == "number":
		return scalars["number"]
	case s.Type == "boolean":
		return scalars["bool"]
	}
	return scalars["any"]
}

func atomicIf(atomic bool) shape.Merge {
	if atomic {
		return shape.Atomic
	}
	return shape.Granular
}

// object returns a struct with the members of the schema, the known ones first and in their order.
func (b *openAPIBuilder) object(s *openAPISchema, known *shape.Type, name string) *shape.Type {
	t := shape.Type{Name: name, Kind: shape.Struct, Merge: atomicIf(s.MapType == "atomic")}
	var fields []shape.Field
	if known != nil {
		t = *known
		for _, f := range known.Fields {
			if member := s.Properties[f.Name]; member != nil {
				f.Type = b.typ(member, f.Type)
				fields = append(fields, f)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		member := s.Properties[name]
		if member == nil || known != nil && known.Field(name) != nil {
			continue
		}
		typ := b.typ(member, nil)
		if member.MapType == "granular" && typ.Merge == shape.Atomic { // only in this place
			granular := *typ
			granular.Merge, typ = shape.Granular, &granular
		}
		fields = append(fields, shape.Field{
			Name: name, Type: typ, Pointer: true, OmitEmpty: true,
			Atomic: member.MapType == "atomic", Required: slices.Contains(s.Required, name),
		})
	}
	t.SetFields(fields)
	return &t
}

// WithServed returns a registry of the resources that a server serves, with the given types where they differ from the
// registry's. Built-in resources that the server does not serve are NotServed; those of definitions do not change.
// Resources of kinds without a type are left out.
func (r *Registry) WithServed(served []Resource, types map[GroupVersionKind]*shape.Type) *Registry {
	out := &Registry{
		tables: r.tables, custom: makeIfNil(maps.Clone(r.custom)),
		resources: map[GroupVersionResource]*Resource{}, byKind: map[GroupVersionKind]*Resource{},
		classes: map[string][]*Resource{},
	}
	listed := map[GroupVersionResource]*Resource{}
	for i := range served {
		listed[served[i].GroupVersionResource] = &served[i]
	}
	for kind, t := range types {
		if known := r.byKind[kind]; known == nil || known.Definition == nil {
			out.custom[kind] = t
		}
	}
	for _, storage := range slices.Sorted(maps.Keys(r.classes)) {
		for _, res := range r.classes[storage] {
			if res.Definition == nil {
				known := *res
				live := listed[res.GroupVersionResource]
				known.NotServed, known.OffByDefault = live == nil, live == nil
				if live != nil {
					known.Subresources = subresources(res, live)
				}
				res = &known
			}
			out.add(res)
		}
	}
	for i := range served {
		res := served[i]
		if out.resources[res.GroupVersionResource] != nil || out.Type(res.GroupVersionKind()) == nil {
			continue
		}
		res.Storage = res.Resource + "." + res.Group
		out.add(&res)
	}
	return out
}

// subresources returns the served subresources, with the kinds that they accept if known: discovery lists the kinds
// that they return.
func subresources(known, live *Resource) []Subresource {
	all := slices.Clone(live.Subresources)
	for i := range all {
		if s := known.Subresource(all[i].Name); s != nil {
			all[i].Kind = s.Kind
		}
	}
	return all
}
