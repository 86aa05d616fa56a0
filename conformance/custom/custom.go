// Package custom makes random CustomResourceDefinitions, and objects that may break their schemas.
package custom

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// A Generator makes definitions and objects.
type Generator struct {
	*rand.Rand
	Fits bool // objects fit their schemas, as far as these are types alone
}

// names are the names of properties.
var names = []string{"a", "cpu", "memory", "app", "example.test/x", "kubernetes.io/hostname"}

func pick[T any](g *Generator, from []T) T { return from[g.IntN(len(from))] }

// Schema returns a structural schema of types and defaults, without constraints.
func (g *Generator) Schema(depth int) map[string]any {
	s := map[string]any{}
	kinds := []string{"object", "object", "object", "array", "map", "string", "integer", "any", "intorstring",
		"embedded", "free"}
	if depth > 4 {
		kinds = []string{"string", "integer"}
	}
	switch kind := pick(g, kinds); kind {
	case "object", "embedded":
		s["type"] = "object"
		properties := map[string]any{}
		for range g.IntN(4) {
			properties[pick(g, names)] = g.Schema(depth + 1)
		}
		if len(properties) > 0 {
			s["properties"] = properties
		}
		if g.IntN(4) == 0 || kind == "embedded" && len(properties) == 0 {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
		if kind == "embedded" {
			s["x-kubernetes-embedded-resource"] = true
		}
	case "map":
		s["type"] = "object"
		s["additionalProperties"] = g.Schema(depth + 1)
	case "free":
		s["type"] = "object"
		s["additionalProperties"] = true
	case "array":
		s["type"] = "array"
		s["items"] = g.Schema(depth + 1)
	case "any":
		s["x-kubernetes-preserve-unknown-fields"] = true
	case "intorstring":
		s["x-kubernetes-int-or-string"] = true
	default:
		s["type"] = kind
	}
	if g.IntN(4) == 0 {
		s["nullable"] = true
	}
	if g.IntN(4) == 0 && depth > 0 {
		g.Fits = true // the server refuses other defaults
		if d := g.Instance(s, depth+2); d != nil {
			s["default"] = d
		}
		g.Fits = false
	}
	return s
}

// Instance returns a value that may fit a schema.
func (g *Generator) Instance(s map[string]any, depth int) any {
	if depth > 0 && !g.Fits && g.IntN(8) == 0 {
		return pick(g, []any{nil, "x", int64(1), map[string]any{"a": map[string]any{"b": "c"}},
			[]any{map[string]any{"a": "b"}}, []any{nil}})
	}
	switch s["type"] {
	case "object":
		m := map[string]any{}
		if properties, ok := s["properties"].(map[string]any); ok {
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				if p, ok := properties[name].(map[string]any); ok && g.IntN(2) == 0 {
					m[name] = g.Instance(p, depth+1)
				}
			}
		}
		if inner, ok := s["additionalProperties"].(map[string]any); ok {
			m["k"] = g.Instance(inner, depth+1)
		}
		if g.IntN(3) == 0 {
			m["unknown"] = map[string]any{"a": "b"}
		}
		if s["x-kubernetes-embedded-resource"] == true {
			m["apiVersion"], m["kind"] = "v1", "Pod"
			m["metadata"] = map[string]any{"name": "a", "odd": "x"}
		}
		return m
	case "array":
		inner, _ := s["items"].(map[string]any)
		list := []any{}
		for range g.IntN(3) {
			list = append(list, g.Instance(inner, depth+1))
			if item, ok := list[0].(map[string]any); ok && s["x-kubernetes-list-type"] == "map" && g.IntN(4) > 0 {
				item["key"] = pick(g, []string{"x", "y"})
			}
		}
		return list
	case "string":
		return "text"
	case "integer":
		return int64(3)
	}
	return pick(g, []any{"x", int64(1), 1.5, map[string]any{"a": nil}, []any{int64(1)}})
}

// Constrain adds rules that instances may break to a schema and those below it. With withCEL, they may be expressions.
func (g *Generator) Constrain(s map[string]any, withCEL bool) {
	switch s["type"] {
	case "object":
		properties, _ := s["properties"].(map[string]any)
		names := slices.Sorted(maps.Keys(properties))
		if len(names) > 0 && g.IntN(3) == 0 {
			s["required"] = []any{pick(g, names)}
		}
		for _, name := range names {
			if p, ok := properties[name].(map[string]any); ok {
				g.Constrain(p, withCEL && s["x-kubernetes-embedded-resource"] == nil)
			}
		}
		if inner, ok := s["additionalProperties"].(map[string]any); ok {
			g.Constrain(inner, false)
		}
		switch g.IntN(6) {
		case 0:
			s["maxProperties"] = int64(g.IntN(3))
		case 1:
			s["minProperties"] = int64(g.IntN(3))
		}
		if withCEL && len(names) > 0 && g.IntN(2) == 0 {
			name := pick(g, names)
			g.addRule(s, "has(self."+name+")", "self == oldSelf", "!has(self."+name+") || has(oldSelf."+name+")", "false")
		}
	case "array":
		if inner, ok := s["items"].(map[string]any); ok {
			g.Constrain(inner, false)
			if inner["type"] == "string" || inner["type"] == "integer" {
				if inner["nullable"] == nil && g.IntN(2) == 0 {
					s["x-kubernetes-list-type"] = "set"
				}
			}
			if inner["type"] == "object" && inner["additionalProperties"] == nil && g.IntN(2) == 0 {
				g.addKey(s, inner)
			}
		}
		s["maxItems"] = int64(1 + g.IntN(2))
		if withCEL && g.IntN(3) == 0 {
			g.addRule(s, "size(self) == 1", "size(self) >= size(oldSelf)")
		}
	case "string":
		switch g.IntN(8) {
		case 0:
			s["enum"] = []any{"text", "other"}
		case 1:
			s["maxLength"] = int64(g.IntN(6))
		case 4:
			s["minLength"] = int64(g.IntN(6))
		case 5:
			s["not"] = map[string]any{"enum": []any{pick(g, []string{"text", "other"})}}
		case 6:
			s[pick(g, []string{"oneOf", "anyOf", "allOf"})] = []any{map[string]any{"maxLength": int64(g.IntN(6))},
				map[string]any{"pattern": pick(g, []string{"^t", "^x"})}}
		case 2:
			s["pattern"] = pick(g, []string{"^t", "^x", "t{2}"})
		case 3:
			s["format"] = pick(g, []string{"date", "ipv4", "uuid", "k8s-short-name", "date-time", "duration", "cidr",
				"hostname", "uri", "byte", "k8s-long-name", "email", "unknown"})
		}
	case "integer":
		switch g.IntN(5) {
		case 0:
			s["minimum"], s["exclusiveMinimum"] = int64(g.IntN(6)), g.IntN(2) == 0
		case 1:
			s["multipleOf"] = float64(2)
		case 2:
			s["maximum"], s["exclusiveMaximum"] = int64(3), g.IntN(2) == 0
		case 3:
			s["enum"] = []any{int64(3), int64(4)}
		}
		if withCEL && g.IntN(3) == 0 {
			g.addRule(s, "self > 3", "self == oldSelf", "self / 0 == 1")
		}
	}
	delete(s, "default") // which would have to keep the rules
}

// addKey makes a list of objects one with a key.
func (g *Generator) addKey(s, inner map[string]any) {
	properties, _ := inner["properties"].(map[string]any)
	properties = maps.Clone(properties)
	if properties == nil {
		properties = map[string]any{}
	}
	key := map[string]any{"type": "string"}
	properties["key"], inner["properties"] = key, properties
	if g.IntN(2) == 0 {
		key["default"] = "x"
	} else {
		inner["required"] = []any{"key"}
	}
	delete(inner, "nullable")
	s["x-kubernetes-list-type"], s["x-kubernetes-list-map-keys"] = "map", []any{"key"}
}

func (g *Generator) addRule(s map[string]any, expressions ...string) {
	rule := map[string]any{"rule": pick(g, expressions)}
	switch g.IntN(6) {
	case 0:
		rule["message"] = "not so"
	case 1:
		rule["messageExpression"] = pick(g, []string{"'not ' + string(1)", "''", "'a\nb'"})
	case 2:
		rule["reason"] = pick(g, []string{"FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"})
	case 3:
		if text := rule["rule"].(string); text == "self == oldSelf" {
			rule["rule"], rule["optionalOldSelf"] = "!oldSelf.hasValue() || self == oldSelf.value()", true
		}
	}
	if properties, ok := s["properties"].(map[string]any); ok && g.IntN(3) == 0 {
		for _, name := range []string{"a", "cpu"} {
			if properties[name] != nil {
				rule["fieldPath"] = "." + name
			}
		}
	}
	s["x-kubernetes-validations"] = []any{rule}
}

// A Definition is a CustomResourceDefinition of one version, v1.
type Definition struct {
	Group, Kind, Plural string
	Lax                 map[string]any // its schema without constraints
	Schema              map[string]any
	subresources        map[string]any
}

// NewDefinition returns a definition with constraints, about namespaced objects with the subresource status.
func (g *Generator) NewDefinition(group, kind, plural string) *Definition {
	s := g.Schema(0)
	for _, member := range []string{"x-kubernetes-embedded-resource", "nullable", "default", "x-kubernetes-int-or-string",
		"items", "additionalProperties", "x-kubernetes-preserve-unknown-fields"} {
		delete(s, member)
	}
	s["type"] = "object"
	spec := g.Schema(1)
	number := map[string]any{"type": "integer"}
	s["properties"] = map[string]any{"spec": spec, "status": map[string]any{"type": "object",
		"properties": map[string]any{"n": number}}}
	d := &Definition{Group: group, Kind: kind, Plural: plural, Lax: runtime.DeepCopyJSON(s), Schema: s,
		subresources: map[string]any{"status": map[string]any{}}}
	g.Constrain(spec, true)
	number["maximum"] = int64(4)
	if g.IntN(3) == 0 {
		g.addRule(s, "has(self.spec)", "self.metadata.name != 'b'", "self.spec == oldSelf.spec")
	}
	if g.IntN(3) == 0 {
		d.subresources["scale"] = map[string]any{
			"specReplicasPath": ".spec." + pick(g, names), "statusReplicasPath": ".status.n"}
	}
	return d
}

// Object returns the definition with one of its schemas.
func (d *Definition) Object(schema map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": d.Plural + "." + d.Group},
		"spec": map[string]any{"group": d.Group, "scope": "Namespaced",
			"names":    map[string]any{"plural": d.Plural, "kind": d.Kind},
			"versions": []any{d.Version(schema)}},
	}
}

// Version returns the version of the definition, with one of its schemas.
func (d *Definition) Version(schema map[string]any) map[string]any {
	return map[string]any{"name": "v1", "served": true, "storage": true,
		"schema": map[string]any{"openAPIV3Schema": schema}, "subresources": d.subresources}
}

// NewObject returns an object of a definition, which may break its schema.
func (g *Generator) NewObject(d *Definition, namespace string) map[string]any {
	in, ok := g.Instance(d.Schema, 0).(map[string]any)
	if !ok {
		panic(fmt.Sprintf("%v has not the type object", d.Schema))
	}
	in["apiVersion"], in["kind"] = d.Group+"/v1", d.Kind
	in["metadata"] = map[string]any{"name": pick(g, []string{"a", "a", "a", "b", "B"}), "namespace": namespace}
	if g.IntN(2) == 0 {
		in["status"] = map[string]any{"n": pick(g, []any{int64(3), int64(9), "x", int64(-1)})}
	}
	return in
}
