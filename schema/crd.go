package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
)

// WithCustomResources returns a registry that also knows the resources of CustomResourceDefinitions
// (apiextensions.k8s.io/v1, as JSON trees), in all their versions, served or not. A definition replaces an earlier one
// of the same resource. The error has the name of the definition and the path of the mistake.
func (r *Registry) WithCustomResources(crds ...map[string]any) (*Registry, error) {
	out := &Registry{
		tables:    r.tables,
		resources: makeIfNil(maps.Clone(r.resources)),
		byKind:    makeIfNil(maps.Clone(r.byKind)),
		classes:   makeIfNil(maps.Clone(r.classes)),
		custom:    makeIfNil(maps.Clone(r.custom)),
	}
	for _, crd := range crds {
		if err := out.addDefinition(crd); err != nil {
			return nil, fmt.Errorf("CustomResourceDefinition %q: %w", tree.Object(crd).Name(), err)
		}
	}
	return out, nil
}

func makeIfNil[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

// addDefinition adds the versions of one definition, in the order in which the server registers them (as
// apiextensions-apiserver pkg/apiserver/customresource_handler.go v0.37.2).
func (r *Registry) addDefinition(crd map[string]any) error {
	root := node{value: crd}
	if v := crd["apiVersion"]; v != "apiextensions.k8s.io/v1" {
		return fmt.Errorf("apiVersion: only apiextensions.k8s.io/v1 is supported, not %v", v)
	}
	spec, err := root.object("spec")
	if err != nil {
		return err
	}
	group, err := spec.text("group")
	if err != nil {
		return err
	}
	names, err := spec.object("names")
	if err != nil {
		return err
	}
	plural, err := names.text("plural")
	if err != nil {
		return err
	}
	kind, err := names.text("kind")
	if err != nil {
		return err
	}
	scope, err := spec.text("scope")
	if err != nil {
		return err
	}
	if scope != "Namespaced" && scope != "Cluster" {
		return spec.child("scope").errorf("unsupported value %q: Namespaced or Cluster", scope)
	}
	versions, err := spec.list("versions")
	if err != nil {
		return err
	}
	if len(versions) == 0 {
		return spec.child("versions").errorf("must have at least one version")
	}

	storage := plural + "." + group
	for _, res := range r.resources {
		if res.Definition == nil && res.Group == group && res.Resource == plural {
			return fmt.Errorf("the resource %s is built in", storage)
		}
	}
	r.remove(storage)
	builder := typeBuilder{objectMeta: r.objectMeta()}
	for _, version := range versions {
		res := &Resource{
			GroupVersionResource: GroupVersionResource{Group: group, Resource: plural},
			Kind:                 kind, Namespaced: scope == "Namespaced", Definition: crd, Storage: storage,
		}
		typ, err := builder.version(version, res)
		if err != nil {
			return err
		}
		if r.resources[res.GroupVersionResource] != nil {
			return version.child("name").errorf("duplicate value %q", res.Version)
		}
		r.add(res)
		r.custom[res.GroupVersionKind()] = typ
	}
	return nil
}

func (r *Registry) remove(storage string) {
	for _, res := range r.classes[storage] {
		delete(r.resources, res.GroupVersionResource)
		delete(r.byKind, res.GroupVersionKind())
		delete(r.custom, res.GroupVersionKind())
	}
	delete(r.classes, storage)
}

// objectMeta is the type of metadata in custom objects.
func (r *Registry) objectMeta() *shape.Type {
	if secret := r.Type(GroupVersionKind{Version: "v1", Kind: "Secret"}); secret != nil {
		return secret.Field("metadata").Type
	}
	return &shape.Type{Kind: shape.Any, PreserveUnknown: true}
}

// A typeBuilder converts structural schemas to types.
type typeBuilder struct{ objectMeta *shape.Type }

var (
	stringType = scalars["string"]
	prunedType = &shape.Type{Kind: shape.Any}
)

// version reads one entry of spec.versions into res and returns the type of its objects.
func (b typeBuilder) version(version node, res *Resource) (*shape.Type, error) {
	var err error
	if res.Version, err = version.text("name"); err != nil {
		return nil, err
	}
	served, err := version.flag("served")
	if err != nil {
		return nil, err
	}
	res.NotServed = !served
	schema, err := version.object("schema")
	if err != nil {
		return nil, err
	}
	if schema, err = schema.object("openAPIV3Schema"); err != nil {
		return nil, err
	}
	typ, err := b.typ(schema)
	if err != nil {
		return nil, err
	}
	if typ.Kind != shape.Struct && typ.Kind != shape.Map {
		return nil, schema.child("type").errorf("must be object at the root")
	}
	typ = b.embeddedObject(typ)
	pruneDefaults(typ)
	subresources, err := version.mapValues("subresources")
	if err != nil {
		return nil, err
	}
	if subresources["scale"].value != nil {
		res.Subresources = append(res.Subresources,
			Subresource{Name: "scale", Kind: GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}})
	}
	if subresources["status"].value != nil {
		res.Subresources = append(res.Subresources, Subresource{Name: "status", Kind: res.GroupVersionKind()})
	}
	return typ, nil
}

// embeddedObject returns an object type with the apiVersion, kind and metadata of every object.
func (b typeBuilder) embeddedObject(t *shape.Type) *shape.Type {
	out := *t
	fields := []shape.Field{{Name: "apiVersion", Type: stringType}, {Name: "kind", Type: stringType},
		{Name: "metadata", Type: b.objectMeta}}
	for _, f := range t.Fields {
		switch f.Name {
		case "apiVersion", "kind", "metadata":
			// The schema's constraints on them limit their values, not their shape.
		default:
			fields = append(fields, f)
		}
	}
	out.Embedded = true
	out.SetFields(fields)
	return &out
}

// typ returns the type that a structural schema describes (as apiextensions-apiserver pkg/apiserver/schema v0.37.2).
func (b typeBuilder) typ(s node) (*shape.Type, error) {
	m, err := s.members()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems",
		"definitions"} {
		if v, ok := m[name]; ok && v != nil && v != "" {
			return nil, s.child(name).errorf("is not supported")
		}
	}
	t := &shape.Type{Default: m["default"]}
	for name, into := range map[string]*bool{"nullable": &t.Nullable, "x-kubernetes-embedded-resource": &t.Embedded,
		"x-kubernetes-preserve-unknown-fields": &t.PreserveUnknown} {
		if *into, err = s.flag(name); err != nil {
			return nil, err
		}
	}
	if m["x-kubernetes-preserve-unknown-fields"] == false {
		return nil, s.child("x-kubernetes-preserve-unknown-fields").errorf("must be true or undefined")
	}
	if t.Format, err = s.optionalText("format"); err != nil {
		return nil, err
	}
	intOrString, err := s.flag("x-kubernetes-int-or-string")
	if err != nil {
		return nil, err
	}
	typeName, err := s.optionalText("type")
	if err != nil {
		return nil, err
	}
	switch {
	case intOrString && typeName == "":
		t.Kind = shape.IntOrString
		return t, nil
	case intOrString:
		return nil, s.child("type").errorf("must be empty if x-kubernetes-int-or-string is true")
	}
	switch typeName {
	case "object":
		err = b.object(t, s)
	case "array":
		err = b.array(t, s)
	case "string":
		t.Kind = shape.String
	case "integer":
		t.Kind, t.Bits = shape.Integer, 64
	case "number":
		t.Kind = shape.Number
	case "boolean":
		t.Kind = shape.Boolean
	case "":
		if !t.PreserveUnknown {
			return nil, s.child("type").errorf("is required")
		}
		t.Kind = shape.Any
		if m["properties"] != nil || m["additionalProperties"] != nil {
			err = b.object(t, s)
		}
	default:
		return nil, s.child("type").
			errorf("unsupported value %q: array, boolean, integer, number, object or string", typeName)
	}
	if err != nil {
		return nil, err
	}
	if t.Embedded {
		if t.Kind != shape.Struct && t.Kind != shape.Any {
			return nil, s.child("x-kubernetes-embedded-resource").errorf("is for type object")
		}
		t.Kind = shape.Struct
		t = b.embeddedObject(t)
	}
	return t, nil
}

func (b typeBuilder) object(t *shape.Type, s node) error {
	t.Kind = shape.Struct
	switch mapType, err := s.optionalText("x-kubernetes-map-type"); {
	case err != nil:
		return err
	case mapType == "atomic":
		t.Merge = shape.Atomic
	case mapType != "" && mapType != "granular":
		return s.child("x-kubernetes-map-type").errorf("unsupported value %q: atomic or granular", mapType)
	}
	properties, err := s.mapValues("properties")
	if err != nil {
		return err
	}
	switch additional := s.value.(map[string]any)["additionalProperties"].(type) {
	case nil:
	case bool:
		if !additional {
			return s.child("additionalProperties").errorf("must not be false")
		}
		t.Kind, t.Elem = shape.Map, prunedType
	default:
		if t.Elem, err = b.typ(s.child("additionalProperties")); err != nil {
			return err
		}
		t.Kind = shape.Map
	}
	if t.Kind == shape.Map {
		if len(properties) > 0 {
			return s.child("additionalProperties").errorf("must not be used with properties")
		}
		return nil
	}
	required, err := s.texts("required")
	if err != nil {
		return err
	}
	var fields []shape.Field
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		typ, err := b.typ(properties[name])
		if err != nil {
			return err
		}
		fields = append(fields, shape.Field{Name: name, Type: typ, Default: typ.Default,
			Required: slices.Contains(required, name)})
	}
	t.SetFields(fields)
	return nil
}

func (b typeBuilder) array(t *shape.Type, s node) error {
	t.Kind, t.Merge = shape.List, shape.Atomic
	listType, err := s.optionalText("x-kubernetes-list-type")
	if err != nil {
		return err
	}
	if t.Keys, err = s.texts("x-kubernetes-list-map-keys"); err != nil {
		return err
	}
	switch listType {
	case "", "atomic":
	case "set":
		t.Merge = shape.Set
	case "map":
		t.Merge = shape.Keyed
		if len(t.Keys) == 0 {
			return s.child("x-kubernetes-list-map-keys").errorf("is required for lists of type map")
		}
	default:
		return s.child("x-kubernetes-list-type").errorf("unsupported value %q: atomic, map or set", listType)
	}
	if t.Merge != shape.Keyed && len(t.Keys) > 0 {
		return s.child("x-kubernetes-list-map-keys").errorf("is for lists of type map")
	}
	switch s.value.(map[string]any)["items"].(type) {
	case nil:
		return s.child("items").errorf("is required")
	case []any:
		return s.child("items").errorf("must be a schema, not a list of schemas")
	}
	t.Elem, err = b.typ(s.child("items"))
	return err
}

// pruneDefaults drops undeclared members from the defaults in a type (as apiextensions-apiserver
// pkg/apiserver/schema/defaulting/prune.go v0.37.2). Custom types are trees: a type never contains itself.
func pruneDefaults(t *shape.Type) {
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Type.Name != "" {
			continue
		}
		f.Default = prune(f.Default, f.Type)
		pruneDefaults(f.Type)
	}
	if t.Default != nil { // shared scalars do not have defaults, and must not be changed
		t.Default = prune(t.Default, t)
	}
	if t.Elem != nil && t.Elem != prunedType {
		pruneDefaults(t.Elem)
	}
}

// prune returns a copy of v without the members that t does not declare.
func prune(v any, t *shape.Type) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, member := range v {
			if f := t.Field(k); f != nil {
				out[k] = prune(member, f.Type)
			} else if t.Kind == shape.Map {
				out[k] = prune(member, t.Elem)
			} else if t.PreserveUnknown || t.Name != "" {
				out[k] = member
			}
		}
		return out
	case []any:
		elem := t.Elem
		if elem == nil {
			elem = t // a value of another type than declared, or of any type
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = prune(item, elem)
		}
		return out
	}
	return v
}

// A node is a value in a CustomResourceDefinition with its path.
type node struct {
	path  string
	value any
}

func (n node) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %s", n.path, fmt.Sprintf(format, args...))
}

// child returns a member; its value is nil if there is none.
func (n node) child(name string) node {
	m, _ := n.value.(map[string]any)
	path := name
	if n.path != "" {
		path = n.path + "." + name
	}
	return node{path: path, value: m[name]}
}

func (n node) members() (map[string]any, error) {
	m, ok := n.value.(map[string]any)
	switch {
	case n.value == nil:
		return nil, n.errorf("is required")
	case !ok:
		return nil, n.errorf("must be an object")
	}
	return m, nil
}

func (n node) object(name string) (node, error) {
	c := n.child(name)
	_, err := c.members()
	return c, err
}

// mapValues returns the values of a map; none if it is missing. Their paths read name[key].
func (n node) mapValues(name string) (map[string]node, error) {
	c := n.child(name)
	if c.value == nil {
		return nil, nil
	}
	m, err := c.members()
	out := make(map[string]node, len(m))
	for key, value := range m {
		out[key] = node{path: c.path + "[" + key + "]", value: value}
	}
	return out, err
}

func (n node) text(name string) (string, error) {
	text, err := n.optionalText(name)
	if err == nil && text == "" {
		err = n.child(name).errorf("is required")
	}
	return text, err
}

func (n node) optionalText(name string) (string, error) {
	c := n.child(name)
	if c.value == nil {
		return "", nil
	}
	text, ok := c.value.(string)
	if !ok {
		return "", c.errorf("must be a string")
	}
	return text, nil
}

func (n node) flag(name string) (bool, error) {
	c := n.child(name)
	if c.value == nil {
		return false, nil
	}
	flag, ok := c.value.(bool)
	if !ok {
		return false, c.errorf("must be true or false")
	}
	return flag, nil
}

func (n node) list(name string) ([]node, error) {
	c := n.child(name)
	if c.value == nil {
		return nil, nil
	}
	items, ok := c.value.([]any)
	if !ok {
		return nil, c.errorf("must be a list")
	}
	out := make([]node, len(items))
	for i, item := range items {
		out[i] = node{path: c.path + "[" + strconv.Itoa(i) + "]", value: item}
	}
	return out, nil
}

func (n node) texts(name string) ([]string, error) {
	items, err := n.list(name)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, item := range items {
		text, ok := item.value.(string)
		if !ok {
			return nil, item.errorf("must be a string")
		}
		out = append(out, text)
	}
	return out, nil
}
