package differ

import (
	"fmt"
)

// policy makes a policy about a kind, and its binding. Its author has a sample before its eyes.
func (g *generator) policy(k *kind, sample *object) *Case {
	a := &author{generator: g, kind: k, sample: sample.tree}
	mutating := g.chance(45) && g.world.mutating != ""
	name := "ValidatingAdmissionPolicy"
	if mutating {
		name = "MutatingAdmissionPolicy"
	}
	spec := map[string]any{"matchConstraints": g.match(k, false),
		"failurePolicy": pick(g, "Fail", "Fail", "Fail", "Fail", "Ignore")}
	bound := map[string]any{"policyName": "policy"}
	if g.chance(25) {
		bound["matchResources"] = g.match(k, true)
	}
	if g.chance(30) {
		a.params = g.paramsOf(spec, bound)
	}
	for i := range g.IntN(4) {
		c := pick(g, boolean, integer, text, list, dynamic)
		v := variable{fmt.Sprintf("v%d", i), c}
		spec["variables"] = appendItem(spec["variables"], map[string]any{"name": v.name, "expression": a.expression(c)})
		a.variables = append(a.variables, v)
	}
	if g.chance(22) {
		b := *a
		b.conditions = true
		for i := range 1 + g.IntN(2) {
			spec["matchConditions"] = appendItem(spec["matchConditions"],
				map[string]any{"name": fmt.Sprintf("c%d", i),
					"expression": pick(g, b.bool(1), "object != null", b.bool(0)+" || true")})
		}
	}
	if mutating {
		spec["reinvocationPolicy"] = pick(g, "Never", "IfNeeded")
		for range 1 + g.IntN(3) {
			m := map[string]any{"patchType": "ApplyConfiguration",
				"applyConfiguration": map[string]any{"expression": a.applyConfiguration()}}
			if g.chance(45) {
				m = map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": a.jsonPatch()}}
			}
			spec["mutations"] = appendItem(spec["mutations"], m)
		}
	} else {
		bound["validationActions"] = pick(g, []any{"Deny"}, []any{"Deny"}, []any{"Warn"}, []any{"Audit"},
			[]any{"Warn", "Audit"}, []any{"Audit", "Deny"})
		a.validations(spec)
	}
	api := g.world.policyVersion(mutating)
	return &Case{
		Policy: map[string]any{"apiVersion": api, "kind": name, "metadata": map[string]any{"name": "policy"},
			"spec": spec},
		Binding: map[string]any{"apiVersion": api, "kind": name + "Binding",
			"metadata": map[string]any{"name": "binding"}, "spec": bound},
	}
}

const policyGroup = "admissionregistration.k8s.io"

// policyVersion returns the API version of policies that the server takes.
func (w *World) policyVersion(mutating bool) string {
	if mutating {
		return policyGroup + "/" + w.mutating
	}
	return policyGroup + "/v1"
}

func appendItem(to any, item any) []any {
	list, _ := to.([]any)
	return append(list, item)
}

func (a *author) validations(spec map[string]any) {
	b := *a
	b.messages = true
	for range 1 + a.IntN(3) {
		v := map[string]any{"expression": a.bool(2)}
		if a.chance(30) {
			v["message"] = pick(a.generator, "no", " trimmed ", "<é&>")
		}
		if a.chance(30) {
			v["messageExpression"] = b.text()
		}
		if a.chance(25) {
			v["reason"] = pick(a.generator, "Forbidden", "Invalid", "RequestEntityTooLarge")
		}
		spec["validations"] = appendItem(spec["validations"], v)
	}
	if a.chance(35) {
		for i := range 1 + a.IntN(2) {
			spec["auditAnnotations"] = appendItem(spec["auditAnnotations"],
				map[string]any{"key": fmt.Sprintf("a%d", i),
					"valueExpression": pick(a.generator, b.text(), b.text(), "null", "''",
						"string(authorizer.path('/x').check('get').allowed())")})
		}
	}
}

// match makes match rules that mostly are for the kind.
func (g *generator) match(k *kind, binding bool) map[string]any {
	r := k.resource
	rule := func() map[string]any {
		version := r.Version
		group := r.Group
		if g.chance(25) { // another version of the resource
			all := g.world.types.Equivalents(r.GroupVersionResource, "")
			other := pick(g, all...)
			group, version = other.Group, other.Version
		}
		m := map[string]any{
			"apiGroups":   []any{pick(g, group, group, group, "*")},
			"apiVersions": []any{pick(g, version, version, version, "*")},
			"resources": []any{pick(g, r.Resource, r.Resource, r.Resource, r.Resource, "*", "*", "*/*", "*/*",
				r.Resource+"/*", r.Resource+"/*", "pods/log")},
			"operations": []any{"*"},
		}
		switch g.IntN(12) {
		case 0:
			m["scope"] = pick(g, "*", "Namespaced", "Cluster")
		case 1:
			m["operations"] = []any{pick(g, "CREATE", "UPDATE")}
		case 2:
			m["operations"] = []any{"CREATE", "UPDATE"}
		case 4:
			m["resourceNames"] = []any{pick(g, "web", "limits", "conf"), "w1"}
		}
		return m
	}
	m := map[string]any{}
	if !binding || g.chance(60) {
		m["resourceRules"] = []any{rule()}
	}
	if g.chance(15) {
		m["resourceRules"] = []any{rule(), rule()}
	}
	if g.chance(50) {
		m["matchPolicy"] = pick(g, "Exact", "Equivalent")
	}
	if g.chance(8) {
		excluded := rule()
		excluded["resourceNames"] = []any{pick(g, "web", "limits", "conf")}
		m["excludeResourceRules"] = []any{excluded}
	}
	if g.chance(12) {
		m["objectSelector"] = g.selector()
	}
	if g.chance(12) {
		m["namespaceSelector"] = g.selector()
	}
	return m
}

func (g *generator) selector() map[string]any {
	key := pick(g, "app", "team", "env", "kubernetes.io/metadata.name")
	value := pick(g, "web", "shop", "prod", "default")
	return pick(
		g,
		map[string]any{},
		map[string]any{"matchLabels": map[string]any{key: value}},
		map[string]any{"matchExpressions": []any{
			map[string]any{"key": key, "operator": pick(g, "In", "NotIn"), "values": []any{value, "x"}}}},
		map[string]any{"matchExpressions": []any{
			map[string]any{"key": key, "operator": pick(g, "Exists", "DoesNotExist")}}})
}

// paramsOf gives a policy and its binding params. It returns samples.
func (g *generator) paramsOf(spec, bound map[string]any) []map[string]any {
	object := pick(g, g.world.state...)
	kind := kindOf(object)
	spec["paramKind"] = map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind}
	if g.chance(3) {
		spec["paramKind"] = map[string]any{"apiVersion": "v1", "kind": "Nope"}
	}
	if g.chance(6) {
		return []map[string]any{object}
	}
	metadata, _ := object["metadata"].(map[string]any)
	ref := map[string]any{"parameterNotFoundAction": pick(g, "Allow", "Deny")}
	if g.chance(60) {
		ref["name"] = metadata["name"]
		if g.chance(10) {
			ref["name"] = "absent"
		}
	} else {
		ref["selector"] = pick(g, map[string]any{}, map[string]any{"matchLabels": map[string]any{"kind": "limits"}},
			map[string]any{"matchLabels": map[string]any{"extra": "yes"}})
	}
	if namespaced := g.world.types.ResourceFor(kind).Namespaced; namespaced && g.chance(60) ||
		!namespaced && g.chance(4) {
		ref["namespace"] = pick[any](g, "shop", "default", "shop")
	}
	bound["paramRef"] = ref
	return []map[string]any{object}
}
