package typed

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

const minor = "1.37"

var (
	deployment = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	pod        = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
)

func builtIn(t testing.TB) *schema.Registry {
	t.Helper()
	all, err := builtin.Registry(minor)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func newChecker(t testing.TB) *Checker {
	t.Helper()
	envs, err := celenv.New(minor, quirks.SetOf(minor))
	if err != nil {
		t.Fatal(err)
	}
	return NewChecker(envs)
}

// newMutating returns a policy with one ApplyConfiguration.
func newMutating(src string, variables ...policy.NamedExpr) *policy.Policy {
	return &policy.Policy{Kind: policy.Mutating, Variables: variables, Mutations: []policy.Mutation{{
		PatchType: policy.ApplyConfiguration,
		Expr:      policy.Expr{Src: src, Field: "spec.mutations[0].applyConfiguration.expression"},
	}}}
}

func variable(name, src string) policy.NamedExpr {
	return policy.NamedExpr{Name: name, Expr: policy.Expr{Src: src, Field: "spec.variables[0].expression"}}
}

func kinds(t testing.TB, of ...schema.GroupVersionKind) []Kind {
	all := make([]Kind, len(of))
	for i, k := range of {
		all[i] = Kind{k, builtIn(t).Type(k)}
	}
	return all
}

// TestRefused tests the messages about refused expressions and their positions.
func TestRefused(t *testing.T) {
	spec := func(s string) string { return "Object{spec: Object.spec{" + s + "}}" }
	pod := func(s string) string {
		return spec("template: Object.spec.template{spec: Object.spec.template.spec{" + s + "}}")
	}
	tests := []struct{ src, want string }{
		{spec("replicas: '3'"), "expected type of field 'replicas' is 'int' but provided type is 'string'"},
		{spec("replica: 3"), "undefined field 'replica' (did you mean replicas?)"},
		{spec("replicas: object.metadata.name"), "'replicas' is 'int' but provided type is 'string'"},
		{spec("replicas: object.metadata.generation > 3 ? 1 : 2"), ""},
		{spec("replicas: object.spec.replcas"), "undefined field 'replcas'"},
		{spec("replicas: true"), "'int' but provided type is 'bool'"},
		{spec("replicas: [1]"), "'int' but provided type is 'list(int)'"},
		{spec("replicas: 1.5"), "'int' but provided type is 'double'"},
		{spec("replicas: 3u"), "'int' but provided type is 'uint'"},
		{spec("replicas: null"), "null, which does not unset it"},
		{spec("replicas: object.spec.?replicas"), "'int' but provided type is 'optional_type(int)'"},
		{spec("?replicas: object.spec.?replicas"), ""},
		{spec("?replicas: object.metadata.?name"), "'int' but provided type is 'string'"},
		{spec("template: {'spec': 1}"), "'Object.spec.template' but provided type is 'map(string, int)'"},
		{spec("template: Object.template{}"), `unexpected type name "Object.template", expected "Object.spec.template"`},
		{spec("template: object.spec.selector"),
			"'Object.spec.template' but provided type is 'Object.spec.selector'"},
		{spec("template: [object.spec.template]"),
			"'Object.spec.template' but provided type is 'list(Object.spec.template)'"},
		{"Object{metadata: Object.metadata{labels: {'a': 1}}}", "field 'a' is 'string' but provided type is 'int'"},
		{"Object{metadata: Object.metadata{labels: Object.metadata.labels{a: 1}}}",
			"field 'a' is 'string' but provided type is 'int'"},
		{"Object{metadata: Object.metadata{labels: ['a']}}", "'map(string, string)' but provided type is 'list(string)'"},
		{"Object{metadata: Object.metadata{labels: {1: 'a'}}}", ""}, // the server does not convert such a key, see fits
		{"Object{metadata: Object.metadata{labels: object.spec.template.metadata.labels}}", ""},
		{pod("containers: [Object.spec.template.spec.containers{name: 'a', imag: 'b'}]"),
			"undefined field 'imag' (did you mean image?)"},
		{pod("containers: [Object.spec.template.spec.containers.item{name: 'a'}]"), "unexpected type name"},
		{pod("containers: [true]"),
			"an item of 'containers' is 'Object.spec.template.spec.containers' but provided type is 'bool'"},
		{pod("containers: Object.spec.template.spec.containers{name: 'a'}"),
			"'list(Object.spec.template.spec.containers)' but provided type is 'Object.spec.template.spec.containers'"},
		{pod("containers: object.spec.template.spec.containers.map(c, " +
			"Object.spec.template.spec.containers{name: c.name, image: c.ports})"),
			"'image' is 'string' but provided type is 'list(Object.spec.template.spec.containers.ports)'"},
		{pod("containers: object.spec.template.spec.containers.map(c, c.name)"),
			"an item of 'containers' is 'Object.spec.template.spec.containers' but provided type is 'string'"},
		{pod("containers: object.spec.template.spec.initContainers"), ""},
		{pod("initContainers: [Object.spec.template.spec.initContainers{name: 'a'}] + " +
			"object.spec.template.spec.initContainers"), ""},
		{pod("initContainers: [Object.spec.template.spec.initContainers{name: 'a'}] + [true]"), "provided type is 'bool'"},
		{pod("containers: object.spec.template.spec.containers.filter(c, c.nam != 'x')"), "undefined field 'nam'"},
		{pod("volumes: [Object.spec.template.spec.volumes{name: 'a', emptyDir: " +
			"Object.spec.template.spec.volumes.emptyDir{sizeLimit: 1}}]"), ""},
		{pod("volumes: [Object.spec.template.spec.volumes{name: 'a', emptyDir: " +
			"Object.spec.template.spec.volumes.emptyDir{sizeLimit: true}}]"),
			"'sizeLimit' is 'quantity' but provided type is 'bool'"},
		{spec("strategy: Object.spec.strategy{rollingUpdate: Object.spec.strategy.rollingUpdate{maxSurge: 1}}"), ""},
		{spec("strategy: Object.spec.strategy{rollingUpdate: Object.spec.strategy.rollingUpdate{maxSurge: '1%'}}"), ""},
		{spec("strategy: Object.spec.strategy{rollingUpdate: Object.spec.strategy.rollingUpdate{maxSurge: [1]}}"),
			"'maxSurge' is 'int or string' but provided type is 'list(int)'"},
		{spec("replicas: params.x"), ""},
		{spec("replicas: dyn('3')"), ""},
		{"Object{metadata: Object.metadata{creationTimestamp: timestamp('2020-01-01T00:00:00Z')}}",
			"'string' but provided type is 'timestamp'"},
		{"Object{}", ""},
		{"true ? Object{} : Object{spec: Object.spec{paused: 'a'}}", "'paused' is 'bool' but provided type is 'string'"},
		{pod("hostname: object.metadata.labels.app, nodeName: object.metadata.labels"),
			"'nodeName' is 'string' but provided type is 'map(string, string)'"},
	}
	c := newChecker(t)
	all := kinds(t, deployment)
	for _, tt := range tests {
		p := newMutating(tt.src)
		p.ParamKind = &policy.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		found, err := c.Policy(p, all, nil, Enforce)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case tt.want == "" && len(found) > 0:
			t.Errorf("%s\nis refused: %s", tt.src, found[0].Detail)
		case tt.want != "" && (len(found) == 0 || !strings.Contains(found[0].Detail, tt.want) || !found[0].Refused):
			t.Errorf("%s\nwant %q, got %v", tt.src, tt.want, found)
		}
	}
}

// TestText tests the whole text of a complaint, and the effect of the modes.
func TestText(t *testing.T) {
	p := newMutating(`Object{spec: Object.spec{replicas: "3", template: Object.spec.template{spc: Object.spec.template.spec{}}}}`)
	c := newChecker(t)
	found, err := c.Policy(p, kinds(t, deployment), nil, Enforce)
	if err != nil {
		t.Fatal(err)
	}
	want := "compilation failed for apps/v1 Deployment: " +
		"ERROR: <input>:1:36: expected type of field 'replicas' is 'int' but provided type is 'string' " +
		"(write a number, or wrap it in int(…))\n" +
		` | Object{spec: Object.spec{replicas: "3", template: Object.spec.template{spc: Object.spec.template.spec{}}}}` +
		"\n | ...................................^\n" +
		"ERROR: <input>:1:75: undefined field 'spc' (did you mean spec?)\n" +
		` | Object{spec: Object.spec{replicas: "3", template: Object.spec.template{spc: Object.spec.template.spec{}}}}` +
		"\n | ..........................................................................^"
	if diff := cmp.Diff(want, found[0].Detail); diff != "" {
		t.Error(diff)
	}
	of := func(mode Mode, all ...schema.GroupVersionKind) (refused, warned int) {
		found, err := c.Policy(p, kinds(t, all...), nil, mode)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Refused {
				refused++
			} else {
				warned++
			}
		}
		return refused, warned
	}
	for _, tt := range []struct {
		mode            Mode
		of              []schema.GroupVersionKind
		refused, warned int
	}{
		{Enforce, []schema.GroupVersionKind{deployment}, 1, 0},
		{Enforce, []schema.GroupVersionKind{deployment, pod}, 2, 0},
		{Enforce, []schema.GroupVersionKind{deployment, {Group: "x", Version: "v1", Kind: "Unknown"}}, 0, 1},
		{Warn, []schema.GroupVersionKind{deployment}, 0, 1},
		{Off, []schema.GroupVersionKind{deployment}, 0, 0},
	} {
		if refused, warned := of(tt.mode, tt.of...); refused != tt.refused || warned != tt.warned {
			t.Errorf("%s %v: %d refused, %d warned", tt.mode, tt.of, refused, warned)
		}
	}
	fits := newMutating("Object{spec: Object.spec{replicas: 3}}") // Pods do not have it
	found, err = c.Policy(fits, kinds(t, deployment, pod), nil, Enforce)
	if err != nil || len(found) != 1 || found[0].Kind != pod || found[0].Refused {
		t.Errorf("wrong for one of two kinds: %v %v", found, err)
	}
}

// TestVariables tests that objects keep their types in variables.
func TestVariables(t *testing.T) {
	c := newChecker(t)
	src := "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{" +
		"containers: variables.made}}}}"
	for made, want := range map[string]string{
		"object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name})": "",
		"object.spec.template.spec.containers.map(c, true)":                                               "provided type is 'list(bool)'",
		"[Object.spec.template.spec.containers{imag: 'a'}]":                                               "undefined field 'imag'",
	} {
		found, err := c.Policy(newMutating(src, variable("made", made)), kinds(t, deployment), nil, Enforce)
		if err != nil {
			t.Fatal(err)
		}
		if (len(found) == 0) != (want == "") || want != "" && !strings.Contains(found[0].Detail, want) {
			t.Errorf("%s: want %q, got %v", made, want, found)
		}
	}
}

// TestCustom checks a custom kind, with params of the same kind.
func TestCustom(t *testing.T) {
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              weight: {type: number}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              things: {type: object, additionalProperties: {type: object, properties: {a: {type: integer}}}}
`
	var object map[string]any
	if err := yaml.Unmarshal([]byte(crd), &object); err != nil {
		t.Fatal(err)
	}
	all, err := builtIn(t).WithCustomResources(object)
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	c := newChecker(t)
	for src, want := range map[string]string{
		"size: params.spec.size":  "",
		"size: params.spec.tags":  "'int' but provided type is 'list(string)'",
		"size: params.spec.sizes": "undefined field 'sizes'",
		"siz: 1":                  "undefined field 'siz' (did you mean size?)",
		"weight: 1":               "",
		"weight: 1.5":             "",
		"weight: '1'":             "'double' but provided type is 'string'",
		"tags: ['a', 'b']":        "",
		"tags: [1]":               "an item of 'tags' is 'string' but provided type is 'int'",
		"free: {'a': 'b'}":        "",
		"free: Object.spec.free{a: 1, b: Object.spec.free.b{c: true}}":        "",
		"free: Object.spec.free{a: null}":                                     "null, which does not unset it",
		"things: {'x': Object.spec.things{a: 1}}":                             "",
		"things: {'x': Object.spec.things{a: 'b'}}":                           "'a' is 'int' but provided type is 'string'",
		"things: Object.spec.things{x: Object.spec.things.x{b: 1}}":           "undefined field 'b'",
		"things: object.spec.things":                                          "",
		"?size: object.spec.?things.x.a":                                      "",
		"?size: object.spec.?things.x.b":                                      "undefined field 'b'",
		"size: object.spec.free.x, tags: object.spec.tags, weight: dyn('no')": "",
	} {
		p := newMutating("Object{spec: Object.spec{" + src + "}}")
		p.ParamKind = &policy.ParamKind{APIVersion: "example.com/v1", Kind: "Widget"}
		found, err := c.Policy(p, []Kind{{kind, all.Type(kind)}}, all.Type(kind), Enforce)
		if err != nil {
			t.Fatal(err)
		}
		if (len(found) == 0) != (want == "") || want != "" && !strings.Contains(found[0].Detail, want) {
			t.Errorf("%s: want %q, got %v", src, want, found)
		}
	}
}

// BenchmarkDeployment checks a policy of several expressions, with a new environment.
func BenchmarkDeployment(b *testing.B) {
	p := newMutating("Object{metadata: Object.metadata{labels: {'a': object.metadata.name}}, spec: Object.spec{replicas: 3, "+
		"template: Object.spec.template{spec: Object.spec.template.spec{containers: variables.made + ["+
		"Object.spec.template.spec.containers{name: 'proxy', image: 'p'}]}}}}",
		variable("made", "object.spec.template.spec.containers.map(c, Object.spec.template.spec.containers{name: c.name, "+
			"env: [Object.spec.template.spec.containers.env{name: 'A', value: c.image}]})"))
	all := kinds(b, deployment)
	c := newChecker(b)
	for b.Loop() {
		if found, err := c.Policy(p, all, nil, Enforce); err != nil || len(found) > 0 {
			b.Fatal(found, err)
		}
	}
}
