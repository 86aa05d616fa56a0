package lower_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/lower"
	"github.com/celgate/celgate/policy"
)

func lowerMutation(t *testing.T, rule, failurePolicy, mutation string) ([]map[string]any, []lower.Refusal) {
	t.Helper()
	o := object(t, fmt.Sprintf(`
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [%s]}
  reinvocationPolicy: Never
  failurePolicy: %s
  mutations:
  - %s
`, rule, failurePolicy, strings.ReplaceAll(mutation, "\n", "\n    ")))
	p, _, err := policy.FromObject(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if errs := policy.ValidatePolicy(p, nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	return newLowering(t, &policy.Set{Policies: []*policy.Policy{p}}).Policy(o, p)
}

const (
	ofPods = `{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}`
	ofAll  = `{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: ["*"]}`
)

func apply(scope, expression string) string {
	return fmt.Sprintf("scope: %s\npatchType: ApplyConfiguration\napplyConfiguration: {expression: %q}", scope, expression)
}

func jsonPatch(scope, expression string) string {
	return fmt.Sprintf("scope: %s\npatchType: JSONPatch\njsonPatch: {expression: %q}", scope, expression)
}

// TestMutations has the native forms of mutations with a scope, a condition and a list of items.
func TestMutations(t *testing.T) {
	for name, c := range map[string]struct {
		mutation string
		want     []string
	}{
		"items": {apply("spec.containers[*]", `Item{imagePullPolicy: "Always"}`),
			[]string{`object.?spec.?containers.orValue([]).transformList(key, item, [JSONPatch{op: "add", path: "/spec/containers/" + string(key) + "/imagePullPolicy", value: "Always"}]).flatten()`}},
		"condition": {"condition: item.name == 'a' || key > 1\n" + apply("spec.containers[name=a].env[name=X]", `objects.unset()`),
			[]string{`object.?spec.?containers.orValue([]).transformList(at1, in1, in1.?name.orValue("") == "a", in1.?env.orValue([]).transformList(key, item, item.?name.orValue("") == "X" && (item.name == "a" || key > 1), [JSONPatch{op: "remove", path: "/spec/containers/" + string(at1) + "/env/" + string(key)}]).flatten()).flatten().reverse()`}},
		"types by the server": {apply("spec.containers[*]", `Item{tty: item.x, ports: [Item.ports{containerPort: 1, protocol: item.y}]}`),
			[]string{`Object{?spec: object.?spec.optMap(in1, Object.spec{?containers: in1.?containers.optMap(in2, in2.transformList(key, item, Object.spec.containers{name: item.name, tty: item.x, ports: [Object.spec.containers.ports{containerPort: 1, protocol: item.y}]}))})}`}},
		"members": {apply("metadata", `Item{labels: {"a/b~": scopePath.field}}`),
			[]string{`object.?metadata.optMap(item, item.?labels.orValue(null) != null ? [JSONPatch{op: "add", path: "/metadata/labels/a~1b~0", value: "metadata"}] : [JSONPatch{op: "add", path: "/metadata/labels", value: {"a/b~": "metadata"}}]).orValue([])`}},
		"keys": {"condition: item.tty\n" + apply("spec.containers[*]", `Item{env: [Item.env{name: "X"}]}`),
			[]string{`Object{?spec: object.?spec.optMap(in1, Object.spec{?containers: in1.?containers.optMap(in2, in2.transformList(key, item, item.tty, Object.spec.containers{name: item.name, env: [Object.spec.containers.env{name: "X"}]}))})}`}},
		"JSON patch": {jsonPatch("spec.containers[c].ports[p]", `[JSONPatch{op: "add", path: "/name", value: "p" + string(scopePath.c)}]`),
			[]string{`object.?spec.?containers.orValue([]).transformList(at1, in1, in1.?ports.orValue([]).transformList(key, item, [JSONPatch{op: "add", path: "/spec/containers/" + string(at1) + "/ports/" + string(key) + "/name", value: "p" + string(at1)}]).flatten()).flatten()`}},
		"names that are taken": {apply("spec.containers[*].env[*]", `object.metadata.name == "x" && [1].all(in1, in1 > 0) ? objects.replace(Item{name: "a"}) : null`),
			[]string{`object.?spec.?containers.orValue([]).transformList(at1, in2, in2.?env.orValue([]).transformList(key, item, (object.metadata.name == "x" && [1].all(in1, in1 > 0)) ? [JSONPatch{op: "replace", path: "/spec/containers/" + string(at1) + "/env/" + string(key), value: Object.spec.containers.env{name: "a"}}] : []).flatten()).flatten()`}},
		"for each": {"forEach: {name: label, expression: '[\"a\", params.b]'}\ncondition: label != 'x'\npatchType: ApplyConfiguration\n" +
			`applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {label: "1"}}}'}`,
			[]string{`("a" != "x") ? Object{metadata: Object.metadata{labels: {"a": "1"}}} : Object{}`,
				`(params.b != "x") ? Object{metadata: Object.metadata{labels: {params.b: "1"}}} : Object{}`}},
		"nothing": {"patchType: JSONPatch\njsonPatch: {expression: 'has(object.spec) ? [JSONPatch{}] : mutations.skip()'}",
			[]string{`has(object.spec) ? [JSONPatch{}] : []`}},
	} {
		t.Run(name, func(t *testing.T) {
			natives, refusals := lowerMutation(t, ofPods, "Fail", c.mutation)
			if len(refusals) > 0 {
				t.Fatal(refusals)
			}
			var got []string
			for _, m := range natives[0]["spec"].(map[string]any)["mutations"].([]any) {
				for _, field := range []string{"applyConfiguration", "jsonPatch"} {
					if in, ok := m.(map[string]any)[field].(map[string]any); ok {
						got = append(got, in["expression"].(string))
					}
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestMutationsRefused has mutations without an exact native equivalent.
func TestMutationsRefused(t *testing.T) {
	const expression = ".applyConfiguration.expression"
	for name, c := range map[string]struct{ mutation, field, reason string }{
		"atomic":        {apply("spec.containers[*]", `Item{args: ["x"]}`), expression, "write objects.replace(…)"},
		"duplicates":    {apply("spec.containers[*].env[*]", `Item{valueFrom: variables.x}`), expression, "valueFrom"},
		"computed":      {apply("spec.tolerations[*]", `variables.x`), expression, "not written as an Item{…}"},
		"denial":        {apply("spec.containers[*]", `item.tty ? false : null`), expression, "does not accept a verdict"},
		"removed item":  {apply("spec.containers[*]", `Item{env: [objects.remove(Item.env{name: "x"})]}`), expression, "env"},
		"test":          {jsonPatch("spec.containers[*]", `[JSONPatch{op: "test", path: "/a", value: 1}]`), ".jsonPatch.expression", "op test"},
		"value itself":  {jsonPatch("spec.containers[*]", `[JSONPatch{op: "remove", path: ""}]`), ".jsonPatch.expression", "begin with a /"},
		"unknown path":  {jsonPatch("spec.containers[*]", `[JSONPatch{op: "remove", path: variables.x}]`), ".jsonPatch.expression", "begin with a /"},
		"from nowhere":  {jsonPatch("spec.containers[*]", `variables.x`), ".jsonPatch.expression", "not literals"},
		"no such path":  {apply("spec.replicas", `objects.unset()`), ".scope", "none of the matched kinds has spec.replicas"},
		"items unknown": {"forEach: {name: x, expression: params.list}\n" + apply("spec.containers[*]", `Item{tty: x}`), ".forEach", "only at each request"},
		"items change": {"forEach: {name: x, expression: '[object.metadata.name, \"b\"]'}\n" + apply("spec.containers[*]", `Item{workingDir: x}`),
			".forEach", "the changes of the items before"},
		"merge patch":   {"scope: spec.containers[*]\npatchType: JSONMergePatch\njsonMergePatch: {expression: '{\"a\": null}'}", ".patchType", "does not support JSON merge patches"},
		"message":       {"message: m\n" + apply("spec.containers[*]", `Item{tty: true}`), ".message", "reports only the errors"},
		"several paths": {apply("kubernetes.allContainers", `Item{env: [Item.env{name: "x", value: object.metadata.name}]}`), expression, "env"},
	} {
		t.Run(name, func(t *testing.T) {
			_, refusals := lowerMutation(t, ofPods, "Fail", c.mutation)
			if len(refusals) != 1 || refusals[0].Field != "spec.mutations[0]"+c.field || !strings.Contains(refusals[0].Reason, c.reason) {
				t.Errorf("got %v", refusals)
			}
		})
	}
	whole := func(expression string) string {
		return strings.TrimPrefix(apply("", expression), "scope: \n")
	}
	for expression, reason := range map[string]string{
		`Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: "a"}] + object.spec.initContainers}}`:         "object.spec.initContainers, which may contain",
		`Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, env: c.env})}}`:  "c.env, which may contain",
		`Object{spec: Object.spec{containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, args: ["a"]})}}`: "has args, which merges as one value",
		`Object{spec: variables.spec}`:                                      "variables.spec, which may contain",
		`Object{metadata: Object.metadata{labels: {"a": objects.unset()}}}`: "objects.unset",
		`Object{metadata: Object.metadata{labels: variables.labels}, spec: Object.spec{?hostname: object.spec.?nodeName,
			containers: object.spec.containers.filter(c, c.tty).map(c, Object.spec.containers{name: c.name, image: c.image})}}`: "",
	} {
		_, refusals := lowerMutation(t, ofPods, "Fail", whole(expression))
		if reason == "" && len(refusals) > 0 ||
			reason != "" && (len(refusals) != 1 || !strings.Contains(refusals[0].Reason, reason)) {
			t.Errorf("%s: %v", expression, refusals)
		}
	}
	for expression, reason := range map[string]string{
		`Object{metadata: Object.metadata{labels: {"a": "b"}}}`: "",
		`Object{spec: Object.spec{size: 3}}`:                    "has spec, and whether it merges",
	} {
		if _, refusals := lowerMutation(t, ofAll, "Fail", whole(expression)); (len(refusals) > 0) != (reason != "") ||
			reason != "" && !strings.Contains(refusals[0].Reason, reason) {
			t.Errorf("%s: %v", expression, refusals)
		}
	}
	if _, refusals := lowerMutation(t, ofAll, "Fail", apply("spec.containers[*]", `Item{tty: true}`)); len(refusals) != 1 {
		t.Errorf("all kinds: %v", refusals)
	}
	for mutation, field := range map[string]string{
		apply("spec.containers[*].env[*]", `Item{value: item.x}`):                                         expression,
		jsonPatch("spec.containers[*]", `[JSONPatch{op: "add", path: "/tty", value: item.x}]`):            ".jsonPatch.expression",
		jsonPatch("spec.containers[*]", `[JSONPatch{op: "copy", from: "/name", path: "/image"}]`):         ".jsonPatch.expression",
		"forEach: {name: x, expression: '[true, false]'}\n" + apply("spec.containers[*]", `Item{tty: x}`): ".forEach",
	} {
		_, refusals := lowerMutation(t, ofPods, "Ignore", mutation)
		if len(refusals) != 1 || refusals[0].Field != "spec.mutations[0]"+field || !strings.Contains(refusals[0].Reason, "failurePolicy Ignore") {
			t.Errorf("%s: %v", mutation, refusals)
		}
	}
	for _, mutation := range []string{
		apply("spec.containers[*]", `Item{tty: true, workingDir: "/" + item.name}`),
		jsonPatch("spec.containers[*]", `[JSONPatch{op: "add", path: "/tty", value: true}, JSONPatch{op: "remove", path: "/env"},
			JSONPatch{op: "replace", path: "/ports/0/name", value: "p" + string(key)}]`),
	} {
		if _, refusals := lowerMutation(t, ofPods, "Ignore", mutation); len(refusals) > 0 {
			t.Errorf("%s: %v", mutation, refusals)
		}
	}
}
