package serve

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/conformance/server"
)

const reported = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: exempt}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [policy.celgate.dev], apiVersions: ["*"], resources: ["*"], operations: ["*"]}
    - {apiGroups: [admissionregistration.k8s.io], apiVersions: [v1], resources: [validatingadmissionpolicies], operations: [DELETE]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: exempt}
spec: {policyName: exempt, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-kind}
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: example.com/v1, kind: Nothing}
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]
  validations: [{expression: "params == null"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-kind}
spec: {policyName: no-kind, validationActions: [Deny], paramRef: {name: none, namespace: default, parameterNotFoundAction: Allow}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: typo}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]
  validations:
  - expression: object.spec.replicas < 5
  - expression: object.spec.replica < 5
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: typo}
spec: {policyName: typo, validationActions: [Audit]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: secrets}
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: v1, kind: Secret}
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]
  validations: [{expression: params == null || object.spec.replicas < 5}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: secrets}
spec: {policyName: secrets, validationActions: [Audit], paramRef: {name: s, namespace: default, parameterNotFoundAction: Allow}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: a-later}
spec:
  failurePolicy: Ignore
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "b"}}}'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: a-later}
spec: {policyName: a-later}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: b-first}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "c"}}}'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: b-first}
spec: {policyName: b-first}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: c-alone}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"a": "c"}}}'}}]
`

// asCelgate grants the rights of deploy/celgate.yaml, and returns a kubeconfig of the service account that has them.
func asCelgate(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/celgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{
		"Namespace": "/api/v1/namespaces", "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"Role":               "/apis/rbac.authorization.k8s.io/v1/namespaces/celgate-system/roles",
		"RoleBinding":        "/apis/rbac.authorization.k8s.io/v1/namespaces/celgate-system/rolebindings",
	}
	for _, tree := range documents(t, text) {
		if path := paths[tree["kind"].(string)]; path != "" {
			good(t, apply(t, path, tree))
		}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, []byte(api.KubeconfigAs("system:serviceaccount:celgate-system:celgate", "celgate-system")))
	return path
}

// status returns the status of one of celgate's own objects as YAML without values that differ between runs.
func status(t *testing.T, resource, name string) (string, string) {
	t.Helper()
	tree, err := do(t, server.Call{Method: http.MethodGet,
		Path: "/apis/policy.celgate.dev/v1/" + resource + "/" + name}).Object()
	if err != nil {
		t.Fatal(err)
	}
	is, _ := tree["status"].(map[string]any)
	conditions, _ := is["conditions"].([]any)
	for _, c := range conditions {
		delete(c.(map[string]any), "lastTransitionTime")
	}
	text, err := yaml.Marshal(is)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), tree["metadata"].(map[string]any)["resourceVersion"].(string)
}

// TestStatus runs two replicas with only the permissions of the manifests, and reads the status of policies.
func TestStatus(t *testing.T) {
	managedAs(t, asCelgate(t), 2, "--allow-secret-params")
	inForce(t, reported)
	const ready = "reason: InForce\n  status: \"True\"\n  type: Ready\n"
	for object, wants := range map[string][]string{
		"validatingadmissionpolicies/typo": {
			"message: in force on 2 of 2 replicas\n  observedGeneration: 1\n  " + ready,
			"observedGeneration: 1\ntypeChecking:\n  expressionWarnings:\n  - fieldRef: spec.validations[1].expression\n",
			"undefined field 'replica'",
		},
		"validatingadmissionpolicybindings/typo":    {ready},
		"validatingadmissionpolicies/exempt":        {"reason: Exempt\n  status: \"False\"\n  type: Ready\n"},
		"validatingadmissionpolicybindings/exempt":  {"reason: Exempt\n  status: \"False\"\n  type: Ready\n"},
		"validatingadmissionpolicies/no-kind":       {"reason: NoParamKind\n  status: \"False\"\n  type: Ready\n"},
		"validatingadmissionpolicybindings/no-kind": {"reason: NoParamKind\n  status: \"False\"\n  type: Ready\n"},
		"validatingadmissionpolicies/secrets": {
			"message: 'celgate may not read v1 Secret: grant",
			"reason: Forbidden\n  status: \"False\"\n  type: ParamsReadable\n", "typeChecking: {}\n",
			"reason: ParamsUnreadable\n  status: \"False\"\n  type: Ready\n",
		},
		"validatingadmissionpolicybindings/secrets": {"reason: ParamsUnreadable\n  status: \"False\"\n  type: Ready\n"},
		"mutatingadmissionpolicies/a-later":         {"message: in force on 2 of 2 replicas\n", ready, "order: 2\n"},
		"mutatingadmissionpolicies/b-first":         {ready, "order: 1\n"},
		"mutatingadmissionpolicies/c-alone": {
			"message: it does not have a binding\n  observedGeneration: 1\n  reason: Unbound\n  status: \"False\"\n  type: Ready\n"},
	} {
		resource, name, _ := strings.Cut(object, "/")
		eventually(t, 45*time.Second, // a replica that an earlier test has killed counts for 30 s
			func() string {
				text, _ := status(t, resource, name)
				for _, want := range wants {
					if !strings.Contains(text, want) {
						return fmt.Sprintf("%s: not %q in\n%s", object, want, text)
					}
				}
				return ""
			})
	}

	_, before := status(t, "mutatingadmissionpolicies", "a-later")
	time.Sleep(3 * time.Second)
	if _, after := status(t, "mutatingadmissionpolicies", "a-later"); after != before {
		t.Error("a status was written though nothing had changed")
	}

	// One annotation takes a policy out of force, and another change back.
	annotate := func(value any) {
		good(t, do(t, server.Call{
			Method: http.MethodPatch, Path: "/apis/policy.celgate.dev/v1/mutatingadmissionpolicies/b-first",
			ContentType: "application/merge-patch+json",
			Body: map[string]any{"metadata": map[string]any{
				"annotations": map[string]any{"celgate.dev/disabled": value}}},
		}))
	}
	labelled := func(want any) {
		eventually(t, 10*time.Second, func() string {
			if got := label(t, configMap(t, nil), "a"); got != want {
				return fmt.Sprintf("label %v, not %v", got, want)
			}
			return ""
		})
	}
	annotate("true")
	eventually(t, 10*time.Second, func() string {
		if text, _ := status(t, "mutatingadmissionpolicies", "b-first"); !strings.Contains(text,
			"reason: Disabled\n") || strings.Contains(text, "order:") {
			return text
		}
		return ""
	})
	remove(t, "/apis/policy.celgate.dev/v1/mutatingadmissionpolicies/a-later")
	labelled(nil)
	annotate(nil)
	labelled("c")

	// A native policy of the same name takes nothing away as long as the server does not act on it, which it does not
	// here.
	t.Run("native", func(t *testing.T) {
		if do(t, server.Call{Method: http.MethodGet,
			Path: webhookPath + "mutatingadmissionpolicies"}).Code == http.StatusNotFound {
			t.Skip("this server has no native MutatingAdmissionPolicies v1")
		}
		for _, tree := range documents(t, []byte(reported)) {
			if name := tree["metadata"].(map[string]any)["name"]; name == "b-first" {
				create(t, webhookPath+resources[tree["kind"].(string)], tree)
			}
		}
		time.Sleep(2 * time.Second)
		labelled("c")
		if text, _ := status(t, "mutatingadmissionpolicies", "b-first"); !strings.Contains(text, ready) {
			t.Error(text)
		}
	})
}

const told = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: told}
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: example.com/v1, kind: Widget}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps, example.com], apiVersions: [v1], resources: [deployments, deployments/scale, widgets], operations: [CREATE]}
  validations: [{expression: 'params == null || object.metadata.name != "x"'}]
`

const toldBinding = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: told}
spec:
  policyName: told
  paramRef: {name: none, namespace: default, parameterNotFoundAction: Allow}
`

// row returns the row of kubectl get for an object of the dialect: the cells, and the wide ones behind them.
func row(t *testing.T, path string) string {
	t.Helper()
	answer, err := do(t, server.Call{Method: http.MethodGet, Path: dialectPath + path,
		Accept: "application/json;as=Table;v=v1;g=meta.k8s.io"}).Object()
	if err != nil {
		t.Fatal(err)
	}
	var cells []string
	columns := answer["columnDefinitions"].([]any)
	for i, cell := range answer["rows"].([]any)[0].(map[string]any)["cells"].([]any) {
		if name := columns[i].(map[string]any)["name"]; name != "Age" {
			cells = append(cells, fmt.Sprintf("%s=%v", name, cell))
		}
	}
	return strings.Join(cells, " ")
}

// TestDialectStatus follows the status of a policy while its objects come and go: it is first not reachable, with the
// reason, then it lists the matched kinds, and finally it is not reachable again.
func TestDialectStatus(t *testing.T) {
	startManaged(t, 1)
	const policy, binding = "admissionpolicies/told", "admissionpolicybindings/told"
	not := func(reason string) []string {
		return []string{"reason: " + reason + "\n  status: \"False\"\n  type: Reachable\n",
			"reason: " + reason + "\n  status: \"False\"\n  type: Ready\n"}
	}
	inForce(t, told)
	statusOf(t, policy, not("Unbound")...)
	inForce(t, toldBinding)
	statusOf(t, policy, append(not("NoParamKind"), "matchedKinds:\n- apiVersion: apps/v1\n  kind: Deployment\n- apiVersion: autoscaling/v1\n  kind: Scale\nmatchedKindsTotal: 2\n",
		"estimatedCost:\n- limit: 10000000\n  of: validations\n  units: ")...)
	statusOf(t, binding, not("NoParamKind")...)

	good(t, apply(t, definitionPath, documents(t, []byte(widgets))[0]))
	t.Cleanup(func() { remove(t, definitionPath+"/widgets.example.com") })
	statusOf(t, policy, "reason: Reachable\n  status: \"True\"\n  type: Reachable\n", "reason: InForce\n  status: \"True\"\n  type: Ready\n",
		"paramKind:\n  apiVersion: example.com/v1\n  generation: 1\n  kind: Widget\n",
		"- apiVersion: example.com/v1\n  generation: 1\n  kind: Widget\nmatchedKindsTotal: 3\n")
	statusOf(t, binding, "reason: Reachable\n  status: \"True\"\n  type: Reachable\n", "reason: InForce\n  status: \"True\"\n  type: Ready\n")
	if got := row(t, policy); got != "Name=told Failure=Ignore Order=<nil> Param=Widget Kinds=3 Reachable=True Ready=True Reason=InForce Message=in force on 1 of 1 replicas" {
		t.Error("kubectl get -o wide: " + got)
	}
	if got := row(t, binding); got != "Name=told Policy=told Policies=<nil> Mutations=<nil> Reachable=True Ready=True Reason=InForce Message=in force on 1 of 1 replicas" {
		t.Error("kubectl get -o wide: " + got)
	}

	good(t, apply(t, definitionPath, documents(t, []byte(strings.Replace(widgets, "size: {", "width: {type: integer}, size: {", 1)))[0]))
	statusOf(t, policy, "paramKind:\n  apiVersion: example.com/v1\n  generation: 2\n")
	good(t, apply(t, dialectPath+"admissionpolicies", documents(t, []byte(strings.Replace(told, "[apps, example.com]", "[app]", 1)))[0]))
	statusOf(t, policy, append(not("NoResource"), "the cluster does not serve any resource that matches the rules of AdmissionPolicy")...)
	statusOf(t, binding, not("NoResource")...)
}
