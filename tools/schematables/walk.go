package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// leaves are the Go types with their own JSON form, in the notation of the tables. Raw values merge atomically, any
// values by their JSON types (kube-openapi pkg/schemaconv: __untyped_atomic_ and __untyped_deduced_).
var leaves = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():      "quantity",
	reflect.TypeFor[metav1.Time]():            "time",
	reflect.TypeFor[metav1.MicroTime]():       "microtime",
	reflect.TypeFor[metav1.Duration]():        "duration",
	reflect.TypeFor[intstr.IntOrString]():     "intorstring",
	reflect.TypeFor[runtime.RawExtension]():   "raw",
	reflect.TypeFor[metav1.FieldsV1]():        "any",
	reflect.TypeFor[apiextensionsv1.JSON]():   "any",
	reflect.TypeFor[metav1.GroupVersion]():    "string",
	reflect.TypeFor[[]byte]():                 "bytes",
	reflect.TypeFor[metav1.InternalEvent]():   "any",
	reflect.TypeFor[runtime.Unknown]():        "any",
	reflect.TypeFor[map[string]interface{}](): "map any",
}

// unions are the Go types with several JSON forms: the alternatives have different JSON types.
var unions = map[reflect.Type][]reflect.Type{
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool](): {
		reflect.TypeFor[apiextensionsv1.JSONSchemaProps](), reflect.TypeFor[bool]()},
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray](): {
		reflect.TypeFor[apiextensionsv1.JSONSchemaProps](), reflect.TypeFor[[]apiextensionsv1.JSONSchemaProps]()},
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): {
		reflect.TypeFor[apiextensionsv1.JSONSchemaProps](), reflect.TypeFor[[]string]()},
}

// A walk collects the types that the kinds of all groups reach.
type walk struct {
	scheme *runtime.Scheme
	defs   map[string]*definition
	used   map[string]bool // the definitions that were found as Go types
	types  map[reflect.Type]*named
}

// A named is a Go type with a name: a struct with fields, or a union.
type named struct {
	typ    reflect.Type
	atomic bool
	fields []tableField
	union  []string
}

type tableField struct {
	name, typ, flags, def string
}

func newWalk(defs map[string]*definition) *walk {
	w := &walk{scheme: runtime.NewScheme(), defs: defs, used: map[string]bool{}, types: map[reflect.Type]*named{}}
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme,
		apiregistrationv1.AddToScheme} {
		if err := add(w.scheme); err != nil {
			panic(err) // the API packages disagree about a kind
		}
	}
	return w
}

// addGroup walks every kind that the Go types register for a group and version, except for the kinds of meta/v1 that
// are registered everywhere.
func (w *walk) addGroup(g *group) error {
	known := w.scheme.KnownTypes(g.GroupVersion)
	if len(known) == 0 {
		return fmt.Errorf("no Go types for %s", g.GroupVersion)
	}
	return w.addKinds(g, known, func(t reflect.Type) bool { return t.PkgPath() != metaPackage })
}

const (
	metaPackage    = "k8s.io/apimachinery/pkg/apis/meta/v1"
	metaDefinition = "io.k8s.apimachinery.pkg.apis.meta.v1."
)

// addMeta returns the group meta.k8s.io/v1 with its kinds, which the server knows in every group.
func (w *walk) addMeta() (*group, error) {
	g := &group{GroupVersion: schema.GroupVersion{Group: "meta.k8s.io", Version: "v1"}}
	known := map[string]reflect.Type{}
	for _, t := range []reflect.Type{
		reflect.TypeFor[metav1.Status](), reflect.TypeFor[metav1.CreateOptions](),
		reflect.TypeFor[metav1.UpdateOptions](),
		reflect.TypeFor[metav1.PatchOptions](), reflect.TypeFor[metav1.DeleteOptions](),
		reflect.TypeFor[metav1.GetOptions](),
		reflect.TypeFor[metav1.ListOptions](), reflect.TypeFor[metav1.PartialObjectMetadata](),
		reflect.TypeFor[metav1.WatchEvent](),
		reflect.TypeFor[metav1.APIGroup](), reflect.TypeFor[metav1.APIGroupList](),
		reflect.TypeFor[metav1.APIResourceList](), reflect.TypeFor[metav1.APIVersions](),
	} {
		known[t.Name()] = t
	}
	return g, w.addKinds(g, known, func(reflect.Type) bool { return true })
}

// addAnnotations walks the types of JSON text in annotations: the fields of a HorizontalPodAutoscaler that
// autoscaling/v1 lacks (k8s.io/kubernetes pkg/apis/autoscaling/v1/conversion.go).
func (w *walk) addAnnotations() error {
	for _, t := range []reflect.Type{
		reflect.TypeFor[autoscalingv1.MetricSpec](), reflect.TypeFor[autoscalingv1.MetricStatus](),
		reflect.TypeFor[autoscalingv1.HorizontalPodAutoscalerCondition](),
	} {
		if err := w.addNamed(t); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) addKinds(g *group, known map[string]reflect.Type, keep func(reflect.Type) bool) error {
	for name, t := range known {
		if !keep(t) {
			continue
		}
		if err := w.addNamed(t); err != nil {
			return fmt.Errorf("%s %s: %w", g.GroupVersion, name, err)
		}
		g.kinds = append(g.kinds, kind{name: name, typ: qualifiedName(t)})
	}
	slices.SortFunc(g.kinds, func(a, b kind) int { return strings.Compare(a.name, b.name) })
	for _, r := range g.resources {
		if err := w.checkKind(g.GroupVersion, r.Kind); err != nil {
			return err
		}
		for _, s := range r.subresources {
			if err := w.checkKind(schema.GroupVersion{Group: s.Group, Version: s.Version}, s.Kind); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walk) checkKind(gv schema.GroupVersion, kind string) error {
	if !w.scheme.Recognizes(gv.WithKind(kind)) {
		return fmt.Errorf("discovery names %s %s, which the Go types do not have", gv, kind)
	}
	return nil
}

// addNamed adds a struct or union and everything it reaches.
func (w *walk) addNamed(t reflect.Type) error {
	if w.types[t] != nil {
		return nil
	}
	n := &named{typ: t}
	w.types[t] = n
	def := w.defs[definitionName(t)] // nil for types of query parameters, which no document describes
	if def != nil {
		w.used[definitionName(t)] = true
	} else {
		def = &definition{}
	}
	if alternatives := unions[t]; alternatives != nil {
		for _, a := range alternatives {
			expr, err := w.expr(a, &definition{})
			if err != nil {
				return fmt.Errorf("%s: %w", t, err)
			}
			n.union = append(n.union, expr)
		}
		return nil
	}
	if t.Kind() != reflect.Struct {
		return fmt.Errorf("%s is not a struct", t)
	}
	if marshals(t) {
		return fmt.Errorf("%s has a JSON form of its own that the tables do not know", t)
	}
	var err error
	if n.atomic, err = def.isAtomic(); err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	if err := w.fields(n, t, def); err != nil {
		return err
	}
	if def.Type == "" {
		return nil
	}
	for property := range def.Properties {
		if !slices.ContainsFunc(n.fields, func(f tableField) bool { return f.name == property }) {
			return fmt.Errorf("%s: the document has %q, the Go type has not", t, property)
		}
	}
	return nil
}

var (
	marshaler   = reflect.TypeFor[json.Marshaler]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

func marshals(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshaler) || p.Implements(unmarshaler)
}

// fields adds the members of a struct in the order of declaration; embedded structs without a name are inlined.
func (w *walk) fields(n *named, t reflect.Type, def *definition) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if f.Anonymous && name == "" {
			if f.Type.Kind() != reflect.Struct || marshals(f.Type) {
				return fmt.Errorf("%s: cannot inline %s", t, f.Type)
			}
			if err := w.fields(n, f.Type, def); err != nil {
				return err
			}
			continue
		}
		if name == "" {
			return fmt.Errorf("%s.%s has no JSON name", t, f.Name)
		}
		if slices.ContainsFunc(n.fields, func(other tableField) bool { return other.name == name }) {
			return fmt.Errorf("%s: two members are named %q", t, name)
		}
		field, err := w.field(f.Type, strings.Split(options, ","), def, name)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		n.fields = append(n.fields, field)
	}
	return nil
}

func (w *walk) field(t reflect.Type, options []string, def *definition, name string) (tableField, error) {
	out := tableField{name: name}
	property := def.Properties[name]
	if property == nil {
		if def.Type != "" {
			return out, fmt.Errorf("the Go type has %q, the document has not", name)
		}
		property = &definition{}
	}
	if t.Kind() == reflect.Pointer {
		out.flags += "p"
		t = t.Elem()
	}
	for _, option := range options {
		switch option {
		case "omitempty":
			out.flags += "e"
		case "omitzero":
			out.flags += "z"
		case "inline", "":
		default:
			return out, fmt.Errorf("unknown JSON option %q", option)
		}
	}
	if property.ref() != "" {
		atomic, err := property.isAtomic()
		if err != nil {
			return out, err
		}
		switch {
		case atomic:
			out.flags += "a"
		case property.MapType == "granular":
			out.flags += "g"
		}
	}
	if slices.Contains(def.Required, name) {
		out.flags += "r"
	}
	if property.Default != nil {
		raw, err := json.Marshal(property.Default)
		if err != nil {
			return out, err
		}
		out.def = string(raw)
	}
	var err error
	out.typ, err = w.expr(t, property)
	return out, err
}

// expr returns how the tables write a type: with its Go name where that does not follow from the rest.
func (w *walk) expr(t reflect.Type, def *definition) (string, error) {
	if leaf := leaves[t]; leaf != "" {
		w.used[definitionName(t)] = true
		switch leaf {
		case "any", "raw", "string": // each of the others is of one Go type
			return t.String() + "=" + leaf, nil
		}
		return leaf, nil
	}
	if unions[t] != nil {
		return qualifiedName(t), w.addNamed(t)
	}
	expr, err := w.plainType(t, def)
	if name := t.String(); name != plainName(t) {
		return name + "=" + expr, err
	}
	return expr, err
}

// plainName returns the Go name of a type if the name only repeats its kind and its elements.
func plainName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return t.String()
	case reflect.Slice:
		return "[]" + t.Elem().String()
	case reflect.Map:
		return "map[string]" + t.Elem().String()
	case reflect.Int:
		return reflect.Int64.String() // so that int has its name written
	}
	return t.Kind().String()
}

// plainType returns the notation of a type in the tables, without its name.
func (w *walk) plainType(t reflect.Type, def *definition) (string, error) {
	if t.Kind() != reflect.Struct && marshals(t) {
		return "", fmt.Errorf("%s has a JSON form of its own that the tables do not know", t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool", nil
	case reflect.Int, reflect.Int64:
		return "int64", nil
	case reflect.Int32:
		return "int32", nil
	case reflect.Float64:
		return "number", nil
	case reflect.String:
		if def.Format != "" {
			return "", fmt.Errorf("a string of format %q", def.Format)
		}
		return "string", nil
	case reflect.Pointer:
		return "", fmt.Errorf("pointer to pointer, or pointers in a list or map: %s", t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		rule, err := def.list()
		if err != nil {
			return "", err
		}
		elem, err := w.expr(t.Elem(), definitionOrEmpty(def.Items))
		return "[]" + rule + elem, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return "", fmt.Errorf("a map with keys of type %s", t.Key())
		}
		atomic, err := def.isAtomic()
		if err != nil {
			return "", err
		}
		rule := "map "
		if atomic {
			rule = "map! "
		}
		elem, err := w.expr(t.Elem(), definitionOrEmpty(def.AdditionalProperties))
		return rule + elem, err
	case reflect.Struct:
		return qualifiedName(t), w.addNamed(t)
	}
	return "", fmt.Errorf("the tables cannot say %s", t)
}

func definitionOrEmpty(d *definition) *definition {
	if d == nil {
		return &definition{}
	}
	return d
}

// qualifiedName returns the full name of a type.
func qualifiedName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// checkComplete reports documented types that no kind reached.
func (w *walk) checkComplete() error {
	var missing []string
	for name := range w.defs {
		if !w.used[name] && name != "io.k8s.apimachinery.pkg.version.Info" &&
			name != metaDefinition+"Patch" { // bodies of no object
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("documented, but not found in Go: %s", strings.Join(missing, ", "))
	}
	return nil
}
