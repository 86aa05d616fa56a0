package live

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const judged = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.judged.example.com}
spec:
  group: judged.example.com
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  scope: Namespaced
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
            required: [size]
            x-kubernetes-validations:
            - {rule: "self.size <= self.limit", messageExpression: "self.size > 10 ? 'far too big' : 'too big'"}
            - {rule: "!has(self.color) || self.color != 'green' || self.size == 1", reason: FieldValueForbidden, fieldPath: .color}
            - {rule: "!has(self.at) || duration(self.at) < duration('1h')"}
            properties:
              size: {type: integer, minimum: 0}
              limit: {type: integer, default: 10}
              color: {type: string, enum: [red, green]}
              at: {type: string, maxLength: 5}
              tags: {type: array, x-kubernetes-list-type: set, maxItems: 3, items: {type: string, pattern: "^[a-z]+$"}}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, port: {x-kubernetes-int-or-string: true}}}
`

// TestRegistry compares the objects that the server and celgate refuse to store: objects of a definition, and metadata
// of built-in kinds.
func TestRegistry(t *testing.T) {
	put(t, judged)
	put(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: judged-as-well}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: ["*"]}]}
  validations: [{expression: "true"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: judged-as-well}
spec: {policyName: judged-as-well, validationActions: [Deny]}
`)
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	var manifests []string
	for range 150 {
		spec := "size: " + pick("1", "5", "11", "-1", "x", "1.5", "null")
		for _, member := range []string{
			"color: " + pick("red", "green", "blue", "null"), "limit: " + pick("3", "100", "null"),
			"at: " + pick("1m", "2h", "soon", "10000s"), "tags: " + pick("[a]", "[a, a]", "[A]", "[a, b, c, d]", "[1]"),
			"parts: " + pick("[{name: a}, {name: b}]", "[{name: a}, {name: a}]", "[{port: 1}]", "[{name: a, port: x}]",
				"[{name: a, port: 1.5}]"),
		} {
			if r.IntN(3) == 0 {
				spec += ", " + member
			}
		}
		manifests = append(manifests, fmt.Sprintf(
			"{apiVersion: judged.example.com/v1, kind: Widget, metadata: {name: %s}, spec: {%s}}",
			pick("a", "a", "a", "A", "a_b"), spec))
	}
	kinds := []string{
		"apiVersion: v1, kind: ConfigMap", "apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}",
		"apiVersion: v1, kind: Namespace",
		"apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, rules: []",
		"apiVersion: v1, kind: ServiceAccount",
		"apiVersion: batch/v1, kind: CronJob, spec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}",
		"apiVersion: apps/v1, kind: Deployment, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
	}
	for range 150 {
		metadata := "name: " + pick("web", "web", "Web", "w.b", "1w", "w_b", "w-", "system:x", strings.Repeat("a", 60), strings.Repeat("a", 64))
		for _, member := range []string{
			"labels: {" + pick("a: b", "a: 'not ok!'", "/a: b", "a/b/c: d", "A.b/c: d", "example.com/a: ''") + "}",
			"annotations: {" + pick("a: 'not ok!'", "a b: c", "example.com/a: '{}'") + "}",
			"finalizers: [" + pick("orphan", "mine", "example.com/f", "a b") + "]",
			"ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: " + pick("u", "''") + "}]",
		} {
			if r.IntN(4) == 0 {
				metadata += ", " + member
			}
		}
		manifests = append(manifests, fmt.Sprintf("{metadata: {%s}, %s}", metadata, pick(kinds...)))
	}
	var wanted []string
	for _, text := range manifests {
		message := ""
		if status := try(t, api, objects(t, text)[0]).Status(); status != nil {
			message = status.Message
		}
		wanted = append(wanted, message)
	}
	result := celgate(t, strings.Join(manifests, "\n---\n"), "apply", "-o", "json", "--no-workloads", "--kubeconfig", api.Kubeconfig, "-")
	var list struct{ Items []decision }
	if err := json.Unmarshal([]byte(result.stdout), &list); err != nil || len(list.Items) != len(manifests) {
		t.Fatalf("%v: %d answers\n%s", err, len(list.Items), result.stderr)
	}
	refused := 0
	for i, want := range wanted {
		if want != "" {
			refused++
		}
		if got := list.Items[i].Response.Status.Message; !sameSentences(got, want) {
			t.Errorf("%s\nserver:  %s\ncelgate: %s", manifests[i], want, got)
		}
	}
	t.Logf("%d of %d were refused", refused, len(manifests))
	if refused < 100 {
		t.Errorf("only %d were refused", refused)
	}
}

// sameSentences compares messages whose parts the server has in the random order of maps.
func sameSentences(a, b string) bool {
	count := func(text string) map[string]int {
		parts := map[string]int{}
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("[], ", r) }) {
			parts[part]++
		}
		return parts
	}
	return fmt.Sprint(count(a)) == fmt.Sprint(count(b))
}
