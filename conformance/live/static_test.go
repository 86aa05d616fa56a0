package live

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/tree"
)

// Static policies: one for configmaps, one that guards policies, and one for reviews that are exempt from policies.
const staticValidating = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: z-team.static.k8s.io}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations: [{expression: "!has(object.data) || !('team' in object.data)", message: "static says no"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: z-team.static.k8s.io}
spec: {policyName: z-team.static.k8s.io, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: guard.static.k8s.io}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}
  matchConditions: [{name: ours, expression: "request.resource.group in ['admissionregistration.k8s.io', 'authorization.k8s.io']"}]
  validations: [{expression: "object == null || !object.metadata.name.startsWith('guarded')", message: "policies are guarded"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: guard.static.k8s.io}
spec: {policyName: guard.static.k8s.io, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: unbound.static.k8s.io}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations: [{expression: "false", message: "only a binding of the API names it"}]
`

const staticMutating = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: z-first.static.k8s.io}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", admissionregistration.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [configmaps, validatingadmissionpolicies]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'order': 'static'}}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: z-first.static.k8s.io}
spec: {policyName: z-first.static.k8s.io}
`

// The policies of the API beside them.
const besideStatic = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: a-team}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations: [{expression: "!has(object.data)", message: "the API says no"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: a-team}
spec: {policyName: a-team, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: reaches-for-static}
spec: {policyName: unbound.static.k8s.io, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: a-second}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'order': object.metadata.?labels.order.orValue('none') + '-api'}}}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: a-second}
spec: {policyName: a-second}
`

// TestStatic compares the answers of a server with static policies with those of celgate for the same files.
func TestStatic(t *testing.T) {
	validating, mutating, config := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "config.yaml")
	write(t, filepath.Join(validating, "p.yaml"), staticValidating)
	write(t, filepath.Join(mutating, "p.yaml"), staticMutating)
	plugin := "- name: %[1]s\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: %[1]sConfiguration, staticManifestsDir: %[2]s}\n"
	write(t, config, "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"+
		fmt.Sprintf(plugin, "ValidatingAdmissionPolicy", validating)+fmt.Sprintf(plugin, "MutatingAdmissionPolicy", mutating))
	guarded, err := server.Start(t.Context(), server.Options{Args: []string{"--admission-control-config-file=" + config}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := guarded.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, object := range objects(t, besideStatic) {
		answer, err := guarded.Do(t.Context(), server.Apply(pathOf(object), object))
		if err != nil {
			t.Fatal(err)
		}
		if status := answer.Status(); status != nil {
			t.Fatal(status.Message)
		}
	}
	ask := func(text string) (string, map[string]any) {
		answer := try(t, guarded, objects(t, text)[0])
		if status := answer.Status(); status != nil {
			return status.Message, nil
		}
		made, err := answer.Object()
		if err != nil {
			t.Fatal(err)
		}
		return "", made
	}
	const plain = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}}"
	eventually(t, func() string {
		if _, made := ask(plain); tree.Object(made).Labels()["order"] != "static-api" {
			return fmt.Sprintf("the policies of the API are not in force: %v", made)
		}
		return ""
	})
	eventually(t, func() string {
		if message, _ := ask(strings.Replace(plain, "}}", "}, data: {a: b}}", 1)); message == "" {
			return "a-team is not in force"
		}
		return ""
	})
	for _, text := range []string{
		plain,
		strings.Replace(plain, "}}", "}, data: {a: b}}", 1),
		strings.Replace(plain, "}}", "}, data: {team: b}}", 1), // both deny: the static one runs first
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: guarded},
		  spec: {policyName: x, validationActions: [Deny]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: free},
		  spec: {policyName: x, validationActions: [Deny]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: guarded},
		  spec: {policyName: x}}`, // the registry refuses it before a validating policy runs
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: free},
		  spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
		  validations: [{expression: "true"}]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: free.static.k8s.io},
		  spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]},
		  validations: [{expression: "true"}]}}`,
	} {
		message, made := ask(text)
		r := celgate(t, text, "apply", "-o", "json", "--kubeconfig", guarded.Kubeconfig,
			"--admission-control-config-file", config, "-")
		var list struct{ Items []decision }
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || len(list.Items) != 1 {
			t.Fatalf("%v: %+v", err, r)
		}
		got := list.Items[0]
		if !strings.Contains(r.stderr, "only a static binding") {
			t.Errorf("nothing is said about the binding of a static policy: %s", r.stderr)
		}
		if got.Response.Status.Message != message || got.Response.Allowed != (message == "") {
			t.Errorf("%s\nserver:  %s\ncelgate: %v %s", text, message, got.Response.Allowed, got.Response.Status.Message)
		}
		want, labels := tree.Object(made).Labels(), tree.Object(got.Object).Labels()
		if message == "" && fmt.Sprint(want) != fmt.Sprint(labels) {
			t.Errorf("%s\nserver:  %v\ncelgate: %v", text, want, labels)
		}
	}
}
