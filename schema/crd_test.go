package schema_test

import (
	"os"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func registry(t testing.TB) *schema.Registry {
	t.Helper()
	r, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tree reads YAML as a JSON tree.
func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func file(t testing.TB, name string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return tree(t, string(raw))
}

func widget(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"}
}

func TestCustomType(t *testing.T) {
	crd := file(t, "widgets.yaml")
	r, err := registry(t).WithCustomResources(crd)
	if err != nil {
		t.Fatal(err)
	}
	root := r.Type(widget("v1"))
	if root == nil || !root.Embedded || root.PreserveUnknown {
		t.Fatalf("root: %+v", root)
	}
	if meta := root.Field("metadata").Type; meta.Name != "k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta" {
		t.Errorf("metadata is %q", meta.Name)
	}
	spec := root.Field("spec")
	wantDefault := tree(t, `{replicas: 1, parts: [{name: a}], open: {k: {}}, free: {stays: 1}}`)
	if diff := cmp.Diff(any(wantDefault), spec.Default); diff != "" || !spec.Required {
		t.Errorf("spec: required %v, default (-want +got)\n%s", spec.Required, diff)
	}
	if crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)["spec"].(map[string]any)["default"].(map[string]any)["unknown"] != "x" {
		t.Error("the definition was changed")
	}

	type looks struct {
		Kind             shape.Kind
		Bits             uint8
		Merge            shape.Merge
		Keys, Format     string
		Preserve, Null   bool
		Embedded         bool
		Elem             shape.Kind
		Required         bool
		Default          any
		Members          int
		ElemDefault      any
		ElementsPreserve bool
	}
	for name, want := range map[string]looks{
		"color":    {Kind: shape.String, Required: true, Default: "red"},
		"replicas": {Kind: shape.Integer, Bits: 64, Format: "int32"},
		"weight":   {Kind: shape.Number},
		"enabled":  {Kind: shape.Boolean},
		"until":    {Kind: shape.String, Format: "date-time"},
		"port":     {Kind: shape.IntOrString},
		"maybe":    {Kind: shape.String, Null: true},
		"free":     {Kind: shape.Struct, Preserve: true},
		"anything": {Kind: shape.Any, Preserve: true},
		"open":     {Kind: shape.Map, Elem: shape.Any},
		"labels":   {Kind: shape.Map, Merge: shape.Atomic, Elem: shape.String, ElemDefault: "none"},
		"closed":   {Kind: shape.Struct, Merge: shape.Atomic},
		"tags":     {Kind: shape.List, Merge: shape.Set, Elem: shape.String},
		"plain":    {Kind: shape.List, Merge: shape.Atomic, Elem: shape.Integer},
		"parts":    {Kind: shape.List, Merge: shape.Keyed, Keys: "name,port", Elem: shape.Struct},
		"template": {Kind: shape.Struct, Embedded: true, Members: 4},
	} {
		f := spec.Type.Field(name)
		if f == nil {
			t.Errorf("%s is not declared", name)
			continue
		}
		got := looks{
			Kind: f.Type.Kind, Bits: f.Type.Bits, Merge: f.Type.Merge, Keys: strings.Join(f.Type.Keys, ","),
			Format: f.Type.Format, Preserve: f.Type.PreserveUnknown,
			Null: f.Type.Nullable, Embedded: f.Type.Embedded, Required: f.Required, Default: f.Default,
			Members: len(f.Type.Fields),
		}
		if f.Type.Elem != nil {
			got.Elem, got.ElemDefault, got.ElementsPreserve = f.Type.Elem.Kind, f.Type.Elem.Default,
				f.Type.Elem.PreserveUnknown
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if port := spec.Type.Field("parts").Type.Elem.Field("port"); port.Default != int64(80) || !port.Required {
		t.Errorf("parts[].port: %+v", port)
	}
	if alpha := r.Type(widget("v1alpha1")); !alpha.PreserveUnknown || alpha.Field("metadata") == nil {
		t.Errorf("v1alpha1: %+v", alpha)
	}
}

func TestCustomResource(t *testing.T) {
	plain := registry(t)
	r, err := plain.WithCustomResources(file(t, "widgets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	res := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	if got := r.Resource(res); got == nil || !got.Namespaced || got.NotServed || got.Definition == nil ||
		got != r.ResourceFor(widget("v1")) {
		t.Errorf("widgets: %+v", got)
	}
	if old := r.ResourceFor(widget("v1alpha1")); old == nil || !old.NotServed {
		t.Errorf("v1alpha1: %+v", old)
	}
	for sub, want := range map[string]string{"": "v1 v1alpha1", "status": "v1 v1alpha1", "scale": "v1", "other": ""} {
		var got []string
		for _, e := range r.Equivalents(res, sub) {
			got = append(got, e.Version)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("equivalents with %q: %q, want %q", sub, text, want)
		}
	}
	for sub, want := range map[string]schema.GroupVersionKind{"": widget("v1"), "status": widget("v1"),
		"scale": {Group: "autoscaling", Version: "v1", Kind: "Scale"}} {
		if got, ok := r.KindFor(res, sub); !ok || got != want {
			t.Errorf("kind of %q: %v", sub, got)
		}
	}
	if plain.Resource(res) != nil || plain.Type(widget("v1")) != nil {
		t.Error("the registry was changed")
	}
	if r.ResourceFor(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) == nil {
		t.Error("pods are gone")
	}
}

func TestCustomResourceReplaced(t *testing.T) {
	r, err := registry(t).WithCustomResources(file(t, "widgets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := file(t, "widgets.yaml")
	spec := crd["spec"].(map[string]any)
	spec["versions"] = spec["versions"].([]any)[1:]
	if r, err = r.WithCustomResources(crd); err != nil {
		t.Fatal(err)
	}
	if r.Type(widget("v1")) != nil || r.ResourceFor(widget("v1")) != nil || r.Type(widget("v1alpha1")) == nil {
		t.Error("the versions are not those of the last definition")
	}
}

func TestCustomResourceOfNothing(t *testing.T) {
	r, err := new(schema.Registry).WithCustomResources(file(t, "widgets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Type(widget("v1")) == nil {
		t.Error("no type")
	}
	if r.Type(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) != nil {
		t.Error("pods have a type")
	}
}

func TestBrokenDefinition(t *testing.T) {
	// A path that starts with a dot is in the schema of the first version, and the input is that schema alone.
	const inSchema = "spec.versions[0].schema.openAPIV3Schema"
	for _, test := range []struct{ name, crd, want string }{
		{"version of the definition", `{apiVersion: apiextensions.k8s.io/v1beta1}`,
			`apiVersion: only apiextensions.k8s.io/v1 is supported, not apiextensions.k8s.io/v1beta1`},
		{"no spec", `{}`, `spec: is required`},
		{"spec of another type", `{spec: []}`, `spec: must be an object`},
		{"no group", `{spec: {}}`, `spec.group: is required`},
		{"no names", `{spec: {group: g}}`, `spec.names: is required`},
		{"no kind", `{spec: {group: g, names: {plural: p}}}`, `spec.names.kind: is required`},
		{"scope", `{spec: {group: g, names: {plural: p, kind: K}, scope: Other}}`,
			`spec.scope: unsupported value "Other": Namespaced or Cluster`},
		{"no versions", `{spec: {group: g, names: {plural: p, kind: K}, scope: Cluster, versions: []}}`,
			`spec.versions: must have at least one version`},
		{"no schema", `{spec: {group: g, names: {plural: p, kind: K}, scope: Cluster, versions: [{name: v1}]}}`,
			`spec.versions[0].schema: is required`},
		{"served", `{spec: {group: g, names: {plural: p, kind: K}, scope: Cluster, versions: [{name: v1, served: "yes"}]}}`, `spec.versions[0].served: must be true or false`},
		{"built in", `{spec: {group: apps, names: {plural: deployments, kind: K}, scope: Cluster, versions: [{name: v1}]}}`, `the resource deployments.apps is built in`},
		{"root", `{type: string}`, `.type: must be object at the root`},
		{"no type", `{}`, `.type: is required`},
		{"no type below", `{type: object, properties: {spec: {}}}`, `.properties[spec].type: is required`},
		{"unknown type", `{type: object, properties: {spec: {type: text}}}`,
			`.properties[spec].type: unsupported value "text": array, boolean, integer, number, object or string`},
		{"schema of another type", `{type: object, properties: {spec: 1}}`, `.properties[spec]: must be an object`},
		{"no items", `{type: object, properties: {l: {type: array}}}`, `.properties[l].items: is required`},
		{"list of items", `{type: object, properties: {l: {type: array, items: [{type: string}]}}}`,
			`.properties[l].items: must be a schema, not a list of schemas`},
		{"items", `{type: object, properties: {l: {type: array, items: {type: x}}}}`,
			`.properties[l].items.type: unsupported value "x": array, boolean, integer, number, object or string`},
		{"list type", `{type: object, properties: {l: {type: array, x-kubernetes-list-type: bag, items: {type: string}}}}`, `.properties[l].x-kubernetes-list-type: unsupported value "bag": atomic, map or set`},
		{"no keys", `{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, items: {type: object}}}}`, `.properties[l].x-kubernetes-list-map-keys: is required for lists of type map`},
		{"keys of a set", `{type: object, properties: {l: {type: array, x-kubernetes-list-map-keys: [a], items: {type: object}}}}`, `.properties[l].x-kubernetes-list-map-keys: is for lists of type map`},
		{"map type", `{type: object, x-kubernetes-map-type: odd}`,
			`.x-kubernetes-map-type: unsupported value "odd": atomic or granular`},
		{"both", `{type: object, properties: {m: {type: object, properties: {a: {type: string}}, additionalProperties: {type: string}}}}`, `.properties[m].additionalProperties: must not be used with properties`},
		{"values", `{type: object, properties: {m: {type: object, additionalProperties: {type: x}}}}`,
			`.properties[m].additionalProperties.type: unsupported value "x": array, boolean, integer, number, object or string`},
		{"no values", `{type: object, properties: {m: {type: object, additionalProperties: false}}}`,
			`.properties[m].additionalProperties: must not be false`},
		{"reference", `{type: object, properties: {m: {$ref: "#/x"}}}`, `.properties[m].$ref: is not supported`},
		{"preserve", `{type: object, x-kubernetes-preserve-unknown-fields: false}`,
			`.x-kubernetes-preserve-unknown-fields: must be true or undefined`},
		{"int or string", `{type: object, properties: {p: {type: string, x-kubernetes-int-or-string: true}}}`,
			`.properties[p].type: must be empty if x-kubernetes-int-or-string is true`},
		{"embedded", `{type: object, properties: {p: {type: string, x-kubernetes-embedded-resource: true}}}`,
			`.properties[p].x-kubernetes-embedded-resource: is for type object`},
		{"required", `{type: object, required: [1]}`, `.required[0]: must be a string`},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, want := test.crd, test.want
			if strings.HasPrefix(want, ".") {
				text = `{spec: {group: g, names: {plural: p, kind: K}, scope: Cluster, versions: [{name: v1, served: true, schema: {openAPIV3Schema: ` + text + `}}]}}`
				want = inSchema + want
			}
			crd := tree(t, text)
			crd["metadata"] = map[string]any{"name": "broken.example.com"}
			if crd["apiVersion"] == nil {
				crd["apiVersion"] = "apiextensions.k8s.io/v1"
			}
			_, err := registry(t).WithCustomResources(crd)
			if want = `CustomResourceDefinition "broken.example.com": ` + want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}
