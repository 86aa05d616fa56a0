package serve

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/conformance/server"
)

const naming = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyLibrary
metadata: {name: naming}
spec:
  functions:
  - {name: fits, params: [{name: text, type: string}], type: bool, expression: 'text.startsWith("a-")'}
`

const namingPolicies = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: names}
spec:
  imports: [naming]
  singletonPolicy: true
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: naming.fits(object.metadata.name), message: another name}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: neighbour}
spec:
  singletonPolicy: true
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
  validations: [{expression: 'object.metadata.name.startsWith("a-")', message: another name}]
`

// createDry creates an object of core v1 in the namespace default, in a dry run.
func createDry(t *testing.T, resource, kind, name string) func() *server.Answer {
	return func() *server.Answer {
		return do(t, server.Call{Method: http.MethodPost, Path: "/api/v1/namespaces/default/" + resource,
			Query: map[string][]string{"dryRun": {"All"}},
			Body:  object(t, "{apiVersion: v1, kind: "+kind+", metadata: {name: "+name+"}}")})
	}
}

// TestLibrary changes a library: only the importing policy changes. Without the library, the failurePolicy of the
// policy decides about its requests, and it is not Ready.
func TestLibrary(t *testing.T) {
	startManaged(t, 1)
	inForce(t, naming)
	inForce(t, namingPolicies)
	const denial = "another name"
	awaitDenial(t, denial, createDry(t, "configmaps", "ConfigMap", "b-1"))
	awaitDenial(t, "", createDry(t, "configmaps", "ConfigMap", "a-1"))
	awaitDenial(t, denial, createDry(t, "secrets", "Secret", "b-1"))
	const ready = "reason: InForce\n  status: \"True\"\n  type: Ready\n"
	statusOf(t, "admissionpolicylibraries/naming", ready)
	statusOf(t, "admissionpolicies/names", ready)
	before := statusOf(t, "admissionpolicies/neighbour", ready)

	for _, c := range []struct{ name, old, new, want string }{
		{"an unknown field", "params:", "parameters: [], params:", `unknown field "spec.functions[0].parameters"`},
		{"an expression", "text.startsWith", "txt.startsWith", "undeclared reference to 'txt'"},
		{"a type", "type: bool", "type: int", "must evaluate to int but got bool"},
	} {
		tree := object(t, strings.Replace(naming, c.old, c.new, 1))
		for _, validation := range []string{"Ignore", "Strict"} {
			call := server.Apply(dialectPath+"admissionpolicylibraries/naming", tree)
			call.Query["fieldValidation"] = []string{validation}
			if status := do(t, call).Status(); status == nil || !strings.Contains(status.Message, c.want) {
				t.Errorf("%s, %s: %+v", c.name, validation, status)
			}
		}
	}
	awaitDenial(t, denial, createDry(t, "configmaps", "ConfigMap", "b-1"))

	inForce(t, strings.Replace(naming, `"a-"`, `"b-"`, 1))
	awaitDenial(t, "", createDry(t, "configmaps", "ConfigMap", "b-1"))
	awaitDenial(t, denial, createDry(t, "configmaps", "ConfigMap", "a-1"))
	awaitDenial(t, denial, createDry(t, "secrets", "Secret", "b-1"))

	remove(t, dialectPath+"admissionpolicylibraries/naming")
	eventually(t, 10*time.Second, func() string {
		status := createDry(t, "configmaps", "ConfigMap", "b-1")().Status()
		if status == nil || !strings.Contains(status.Message, `spec.imports[0]: Not found: "naming"`) {
			return "without the library: " + toText(status)
		}
		return ""
	})
	text := statusOf(t, "admissionpolicies/names", "reason: Imports\n  status: \"False\"\n  type: Compiled\n",
		"reason: Imports\n  status: \"False\"\n  type: Ready\n")
	if strings.Contains(text, "status: \"True\"\n  type: Ready") {
		t.Errorf("Ready without its library:\n%s", text)
	}
	awaitDenial(t, denial, createDry(t, "secrets", "Secret", "b-1"))
	if after := statusOf(t, "admissionpolicies/neighbour", ready); after != before {
		t.Errorf("a policy that imports nothing had the status\n%s\nand now has\n%s", before, after)
	}
	good(t, apply(t, dialectPath+"admissionpolicylibraries", object(t, naming)))
	awaitDenial(t, denial, createDry(t, "configmaps", "ConfigMap", "b-1"))
	statusOf(t, "admissionpolicies/names", ready)
}

func toText(v any) string {
	text, _ := yaml.Marshal(v)
	return string(text)
}

const abstractRule = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: owned}
spec:
  abstract: true
  validations: [{expression: '"owner" in object.metadata.?labels.orValue({})', message: nobody owns this}]
`

const abstractBinding = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: NAME}
spec:
  policyName: owned
  matchResources:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [RESOURCE]}]
`

// TestAbstract binds an abstract policy: the API server calls celgate only for the resources in the bindings, a binding
// without rules is refused, and the status of the policy lists the resources.
func TestAbstract(t *testing.T) {
	startManaged(t, 1)
	inForce(t, abstractRule)
	statusOf(t, "admissionpolicies/owned", "reason: Unbound\n  status: \"False\"\n  type: Ready\n")
	awaitDenial(t, "", createDry(t, "configmaps", "ConfigMap", "a"))

	path := dialectPath + "admissionpolicybindings"
	status := apply(t, path, object(t, "{apiVersion: policy.celgate.dev/v1alpha1, kind: AdmissionPolicyBinding, metadata: {name: all}, spec: {policyName: owned}}")).Status()
	if status == nil || !strings.Contains(status.Message, "spec.matchResources.resourceRules: Required value: the policy owned is abstract") {
		t.Errorf("a binding without rules: %+v", status)
	}
	binding := func(name, resource string) string {
		return strings.NewReplacer("NAME", name, "RESOURCE", resource).Replace(abstractBinding)
	}
	const denial, ready = "nobody owns this", "reason: InForce\n  status: \"True\"\n  type: Ready\n"
	inForce(t, binding("configmaps", "configmaps"))
	awaitDenial(t, denial, createDry(t, "configmaps", "ConfigMap", "a"))
	awaitDenial(t, "", createDry(t, "secrets", "Secret", "a"))
	statusOf(t, "admissionpolicies/owned", ready, "kind: ConfigMap")
	inForce(t, binding("secrets", "secrets"))
	awaitDenial(t, denial, createDry(t, "secrets", "Secret", "a"))
	statusOf(t, "admissionpolicies/owned", ready, "kind: ConfigMap", "kind: Secret")
	inForce(t, binding("none", "things"))
	statusOf(t, "admissionpolicybindings/none", "reason: NoResource\n  status: \"False\"\n  type: Ready\n")
	statusOf(t, "admissionpolicies/owned", ready)
	remove(t, path+"/configmaps")
	awaitDenial(t, "", createDry(t, "configmaps", "ConfigMap", "a"))
	awaitDenial(t, denial, createDry(t, "secrets", "Secret", "a"))
}
