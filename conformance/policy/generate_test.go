package policy

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

var (
	rounds = flag.Int("rounds", 1000, "how many objects to generate")
	seed   = flag.Uint64("seed", 1, "the first of their seeds")
)

// The objects that generated ones start from; every member that the API knows is in one of them.
var seeds = []string{`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p, labels: {a: b}, annotations: {c: d}, finalizers: [example.com/f], ownerReferences: [{apiVersion: v1, kind: Pod, name: o, uid: u}]}
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: &match
    matchPolicy: Exact
    namespaceSelector: {matchLabels: {a: b}}
    objectSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods, pods/log], operations: [CREATE, UPDATE], scope: Namespaced, resourceNames: [x]}]
    excludeResourceRules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"], operations: ["*"]}]
  matchConditions: [{name: m, expression: "true"}, {name: a/m, expression: "params != null"}]
  variables: [{name: x, expression: "1"}, {name: w, expression: "[variables.x]"}]
  validations: [{expression: "variables.x == 1", message: m, reason: Forbidden, messageExpression: "'a' + string(variables.x)"}, {expression: "authorizer.path('/x').check('get').allowed()"}]
  auditAnnotations: [{key: a, valueExpression: "'v'"}, {key: b, valueExpression: "null"}]
status: {observedGeneration: 1, conditions: [], typeChecking: {expressionWarnings: [{fieldRef: a, warning: b}]}}
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec:
  policyName: p
  paramRef: {name: x, namespace: n1, parameterNotFoundAction: Deny}
  matchResources:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: ["*"], operations: [CREATE, DELETE]}]
  validationActions: [Deny, Audit]
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: p}
spec:
  paramKind: {apiVersion: example.com/v1, kind: Foo}
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]
  matchConditions: [{name: m, expression: "object != oldObject"}]
  variables: [{name: x, expression: "'1'"}]
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': variables.x}}}"}}
  - {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b'), value: Object.spec{}}]"}}
  reinvocationPolicy: IfNeeded
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: b}
spec:
  policyName: p
  paramRef: {selector: {matchLabels: {a: b}}, parameterNotFoundAction: Allow}
  matchResources: {matchPolicy: Equivalent, resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}
`}

// Replacement values. Maps have at most one entry if the server visits maps in random order.
var values = []string{
	`null`, `{}`, `[]`, `1`, `1.5`, `-1`, `true`, `""`, `" "`, `"\n"`, `[null]`, `[""]`, `[[]]`, `{"a":1}`,
	`{"a b":"c d"}`, `["*"]`, `["*","*"]`, `["a","a"]`,
	`"*"`, `"*/*"`, `"pods/*"`, `"*/log"`, `"pods"`, `"a/b/c"`, `"/"`, `"."`, `".."`, `"a%b"`, `"a b"`, `"A"`, `"1a"`,
	`"a.b"`, `"é"`, `"<&>"`, `"a\nb"`, `"a\r"`, `"\u2028"`,
	`"Fail"`, `"Ignore"`, `"Exact"`, `"Never"`, `"Deny"`, `"Warn"`, `"Audit"`, `"Allow"`, `"CREATE"`, `"DELETE"`,
	`"CONNECT"`, `"create"`, `"Cluster"`, `"Invalid"`, `"Unauthorized"`,
	`"RequestEntityTooLarge"`, `"In"`, `"NotIn"`, `"Exists"`, `"ApplyConfiguration"`, `"JSONPatch"`,
	`"x.static.k8s.io"`, `"in"`, `"_x"`, `"apps/v1"`, `"a/"`, `"/v1"`,
	`{"expression":"true"}`, `{"expression":" \n"}`,
	`{"patchType":"JSONPatch","applyConfiguration":{},"jsonPatch":{"expression":"[]"}}`,
	`{"patchType":"ApplyConfiguration","jsonPatch":{}}`,
	`{"name":"x","expression":"1"}`, `{"key":"a","valueExpression":"'x'"}`,
	`"true"`, `" true "`, `"1"`, `"object.x"`, `"object.x == 1"`, `"variables.x"`, `"variables.nope == 1"`,
	`"params.y == 1"`, `"authorizer.requestResource.check('get').allowed()"`,
	`"has(object.x) && 'a' == 1"`, `"\n  é ==\n"`, `"'a'.find('[') == ''"`, `"'a'.matches('[')"`,
	`"namespaceObject.metadata.name == 'a'"`, `"request.nope"`, `"Object{}"`, `"JSONPatch{}"`,
	`"[JSONPatch{op: 1}]"`, `"quantity('1').includes(1)"`, `"[1].includes(1)"`, `"object.?a.orValue('b')"`,
	`"'é' + (1)"`, `"{'a': 1, 'b': 'c'}"`, `"string(1)"`, `"null"`, `"size(variables) == 0"`,
	`"cel.bind(a, 1, a == 1)"`, `"[1, 2].all(i, i > 0)"`, `"oldObject == null"`, `"duration('x') == duration('1s')"`,
	`"ip('::1') == ip('::1')"`, `"1 / 0 == 1"`, `"("`, `"'"`, "\"`a`\"",
}

var keys = []string{"unknown", "name", "expression", "message", "reason", "selector", "matchLabels", "scope",
	"jsonPatch", "applyConfiguration", "generateName", "namespace", "labels", "variables", "paramRef"}

// TestGenerated compares the answers to objects with random faults.
func TestGenerated(t *testing.T) {
	var pool []any
	for _, text := range values {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(text, err)
		}
		pool = append(pool, v)
	}
	pool = append(pool, strings.Repeat("a", 64), strings.Repeat("a.b", 90), "'"+strings.Repeat("a", 5119)+"'",
		strings.Repeat("1 +", 300)+" 1")
	stored, failed := 0, 0
	for n := range *rounds {
		s := *seed + uint64(n)
		r := rand.New(rand.NewPCG(s, s))
		data, err := yaml.ToJSON([]byte(seeds[r.IntN(len(seeds))]))
		if err != nil {
			t.Fatal(err)
		}
		var obj map[string]any
		if err := json.Unmarshal(data, &obj); err != nil {
			t.Fatal(err)
		}
		if r.IntN(4) == 0 {
			obj["apiVersion"] = "admissionregistration.k8s.io/" + []string{"v1beta1", "v1alpha1"}[r.IntN(2)]
		}
		for range 1 + r.IntN(4) {
			member := []string{"spec", "spec", "spec", "metadata"}[r.IntN(4)]
			obj[member] = change(r, obj[member], pool, r.IntN(8))
		}
		if repeatsVariable(obj) {
			continue // the one rule that is not the server's
		}
		if data, err = json.Marshal(obj); err != nil {
			t.Fatal(err)
		}
		answer := serverAnswer(t, data)
		if answer == nil {
			stored++
		}
		if answer != nil && answer.Details != nil && strings.HasPrefix(answer.Details.Name, "gen-") {
			continue // the suffix is random
		}
		if diff := cmp.Diff(answer, ourAnswer(t, data)); diff != "" {
			t.Errorf("seed %d: (-server +celgate):\n%s\n%s", s, diff, data)
			if failed++; failed == 5 {
				break
			}
		}
	}
	t.Logf("%d of %d were accepted", stored, *rounds)
}

// change returns v with one change somewhere at or below depth.
func change(r *rand.Rand, v any, pool []any, depth int) any {
	replacement := func() any { return runtime.DeepCopyJSONValue(pool[r.IntN(len(pool))]) }
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if depth == 0 || len(names) == 0 {
			switch r.IntN(4) {
			case 0:
				return replacement()
			case 1:
				if len(names) > 0 {
					delete(v, names[r.IntN(len(names))])
				}
			default:
				if len(names) > 1 { // not the maps of labels
					v[keys[r.IntN(len(keys))]] = replacement()
				}
			}
			return v
		}
		name := names[r.IntN(len(names))]
		v[name] = change(r, v[name], pool, depth-1)
		return v
	case []any:
		if depth == 0 || len(v) == 0 {
			switch r.IntN(5) {
			case 0:
				return replacement()
			case 1:
				if len(v) > 0 {
					i := r.IntN(len(v))
					return slices.Delete(v, i, i+1)
				}
			case 2:
				if len(v) > 0 {
					return append(v, runtime.DeepCopyJSONValue(v[r.IntN(len(v))]))
				}
			case 3:
				if len(v) > 0 {
					for range []int{2, 21, 65}[r.IntN(3)] {
						v = append(v, runtime.DeepCopyJSONValue(v[0]))
					}
				}
			default:
				return slices.Insert(v, r.IntN(len(v)+1), replacement())
			}
			return v
		}
		i := r.IntN(len(v))
		v[i] = change(r, v[i], pool, depth-1)
		return v
	}
	return replacement()
}

func repeatsVariable(obj map[string]any) bool {
	spec, _ := obj["spec"].(map[string]any)
	list, _ := spec["variables"].([]any)
	seen := map[string]bool{}
	for _, v := range list {
		variable, _ := v.(map[string]any)
		name := fmt.Sprint(variable["name"])
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}
