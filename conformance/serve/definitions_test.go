package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

// whole are objects with every member.
const whole = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: whole}
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    matchPolicy: Exact
    namespaceSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}
    objectSelector: {matchLabels: {a: b}}
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE], scope: Namespaced, resourceNames: [web]}]
    excludeResourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE], scope: "*"}]
  matchConditions: [{name: c, expression: "true"}]
  variables: [{name: v, expression: "1"}]
  validations: [{expression: "true", message: refused, messageExpression: "'no'", reason: Invalid}]
  auditAnnotations: [{key: k, valueExpression: "'v'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: whole}
spec:
  policyName: whole
  validationActions: [Deny, Audit]
  paramRef: {namespace: default, parameterNotFoundAction: Deny, selector: {matchLabels: {a: b}}}
  matchResources:
    matchPolicy: Exact
    namespaceSelector: {matchLabels: {a: b}}
    objectSelector: {matchExpressions: [{key: a, operator: Exists}]}
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE], scope: Namespaced, resourceNames: [web]}]
    excludeResourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE], scope: "*"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: whole}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: IfNeeded
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    matchPolicy: Exact
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE], scope: Namespaced, resourceNames: [web]}]
    excludeResourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE], scope: "*"}]
  matchConditions: [{name: c, expression: "true"}]
  variables: [{name: v, expression: "1"}]
  mutations:
  - {patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/data/x"}]'}}
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{}"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: whole}
spec:
  policyName: whole
  paramRef: {name: p, namespace: default, parameterNotFoundAction: Allow}
  matchResources:
    matchPolicy: Exact
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE], scope: "*"}]
`

// variants calls do with trees in which one member after the other is removed or replaced.
func variants(tree any, path string, do func(path string)) {
	with := func(set func(any), was any, others ...any) {
		for _, other := range others {
			set(other)
			do(fmt.Sprintf("%s = %v", path, other))
		}
		set(was)
	}
	descend := func(value any, set func(any)) {
		switch value := value.(type) {
		case string:
			with(set, value, "", "Bogus", "Unauthorized", "*")
		case []any:
			with(set, value, []any{}, []any{"Bogus"}, append([]any{"*"}, value...), append([]any{value[0]}, value...))
		case map[string]any:
			with(set, value, map[string]any{})
		}
		variants(value, path, do)
	}
	outer := path
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			path = outer + "." + name
			delete(tree, name)
			do("without " + path)
			tree[name] = value
			descend(value, func(v any) { tree[name] = v })
		}
	case []any:
		for i, value := range tree {
			path = fmt.Sprintf("%s[%d]", outer, i)
			descend(value, func(v any) { tree[i] = v })
		}
	}
}

// TestDefinitions writes malformed objects of celgate's own kinds, without calls to celgate, and of the server's kinds.
// The definitions refuse every object that the server refuses, except for mistakes that a schema cannot express:
// celgate finds those in calls and when it compiles.
func TestDefinitions(t *testing.T) {
	if *minor != "" {
		t.Skip("the server has no native MutatingAdmissionPolicies v1")
	}
	installDefinitions(t)
	try := func(path string, tree map[string]any) *server.Answer {
		return do(t, server.Call{Method: http.MethodPost, Path: path,
			Query: map[string][]string{"dryRun": {"All"}, "fieldValidation": {"Strict"}}, Body: tree})
	}
	tried := 0
	for _, tree := range documents(t, []byte(whole)) {
		resource := resources[tree["kind"].(string)]
		compare := func(what string) {
			tried++
			native := try(webhookPath+resource, tree)
			tree["apiVersion"] = "policy.celgate.dev/v1"
			own := try(ownPath+resource, tree)
			tree["apiVersion"] = "admissionregistration.k8s.io/v1"
			if what == "as it is" && (native.Status() != nil || own.Status() != nil) {
				t.Fatal(native.Status(), own.Status())
			}
			switch n, o := native.Status(), own.Status(); {
			case n == nil && o != nil:
				t.Errorf("%s %s: refused, but not by the server: %s", resource, what, o.Message)
			case n != nil && o == nil && !beyondSchemas(n.Message):
				t.Errorf("%s %s: taken, but not by the server: %s", resource, what, n.Message)
			}
		}
		compare("as it is")
		variants(tree["spec"], "spec", compare)
	}
	t.Log(tried, "objects")
}

// beyondSchemas reports a mistake that a schema cannot express: CEL, the syntax of names, and duplicates.
func beyondSchemas(message string) bool {
	for _, part := range []string{
		"compilation failed", "undeclared reference", "Syntax error", "must evaluate to", "must consist of",
		"must be a valid", "name part must",
		// of atomic lists
		"must be specified for an", "a lowercase RFC", "is not a valid CEL identifier", "resourceVersion",
		"subresource", "a valid label", "Duplicate value",
	} {
		if strings.Contains(message, part) {
			return true
		}
	}
	return false
}
