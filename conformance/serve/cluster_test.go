package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/conformance"
)

// documents reads YAML documents.
func documents(t *testing.T, text []byte) []map[string]any {
	t.Helper()
	trees, err := conformance.Documents(text)
	if err != nil {
		t.Fatal(err)
	}
	return trees
}

// apply creates or changes an object on the server.
func apply(t *testing.T, path string, tree map[string]any) *server.Answer {
	t.Helper()
	name := tree["metadata"].(map[string]any)["name"].(string)
	return do(t, server.Apply(path+"/"+name, tree))
}

func good(t *testing.T, a *server.Answer) {
	t.Helper()
	if status := a.Status(); status != nil {
		t.Fatal(status.Message)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if _, err := api.Do(context.Background(), server.Call{Method: http.MethodDelete, Path: path}); err != nil {
		t.Error(err)
	}
}

const definitionPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

var installed = map[*server.Server]bool{}

// installDefinitions creates celgate's own kinds.
func installDefinitions(t *testing.T) {
	t.Helper()
	if !installed[api] {
		installed[api] = true
		files, err := filepath.Glob("../../deploy/crds/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, tree := range documents(t, text) {
				good(t, apply(t, definitionPath, tree))
			}
		}
	}
	for _, resource := range []string{"v1/validatingadmissionpolicies", "v1/validatingadmissionpolicybindings",
		"v1/mutatingadmissionpolicies", "v1/mutatingadmissionpolicybindings", "v1alpha1/admissionpolicies",
		"v1alpha1/admissionpolicybindings", "v1alpha1/namespacedadmissionpolicybindings"} {
		eventually(t, 20*time.Second, func() string {
			a := do(t, server.Call{Method: http.MethodGet, Path: "/apis/policy.celgate.dev/" + resource})
			if a.Code != 200 {
				return fmt.Sprintf("%s: %d %s", resource, a.Code, a.Body)
			}
			return ""
		})
	}
}

var resources = map[string]string{
	"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"MutatingAdmissionPolicy":          "mutatingadmissionpolicies",
	"MutatingAdmissionPolicyBinding":   "mutatingadmissionpolicybindings",
	"AdmissionPolicy":                  "admissionpolicies",
	"AdmissionPolicyBinding":           "admissionpolicybindings",
	"AdmissionPolicyLibrary":           "admissionpolicylibraries",
}

// toOwnGroup returns policies in celgate's own group: one line changes.
func toOwnGroup(t *testing.T, text string) []map[string]any {
	t.Helper()
	return documents(t, bytes.ReplaceAll([]byte(text), []byte("admissionregistration.k8s.io/v1"),
		[]byte("policy.celgate.dev/v1")))
}

// inForce creates policies of celgate's own group and removes them when the test ends.
func inForce(t *testing.T, text string) {
	t.Helper()
	for _, tree := range toOwnGroup(t, text) {
		path := "/apis/" + tree["apiVersion"].(string) + "/" + resources[tree["kind"].(string)]
		good(t, apply(t, path, tree))
		t.Cleanup(func() { remove(t, path+"/"+tree["metadata"].(map[string]any)["name"].(string)) })
	}
}

const limits = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: limit}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}]
  validations:
  - expression: object.spec.replicas <= int(params.data.max)
    messageExpression: '"at most " + params.data.max'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: limit}
spec:
  policyName: limit
  validationActions: [Deny]
  paramRef: {name: limit, namespace: default, parameterNotFoundAction: Deny}
`

func deployment(t *testing.T, replicas int64) *server.Answer {
	t.Helper()
	tree := object(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
`)
	tree["spec"].(map[string]any)["replicas"] = replicas
	return do(t, server.Call{
		Method: http.MethodPost, Path: "/apis/apps/v1/namespaces/default/deployments",
		Query: map[string][]string{"dryRun": {"All"}}, Body: tree,
	})
}

// awaitDenial waits until an answer is a denial with a message, or none for "".
func awaitDenial(t *testing.T, message string, ask func() *server.Answer) {
	t.Helper()
	eventually(t, 10*time.Second, func() string {
		status := ask().Status()
		switch {
		case message == "" && status != nil:
			return "denied: " + status.Message
		case message != "" && status == nil:
			return "allowed, not denied: " + message
		case message != "" && !strings.HasSuffix(status.Message, message):
			return fmt.Sprintf("%s\nnot %s", status.Message, message)
		}
		return ""
	})
}

// TestCluster puts policies in force as objects of the cluster: mutation, validation, params that are added, changed
// and removed, status, refused writes, and deletion of a policy.
func TestCluster(t *testing.T) {
	r := startManaged(t, 1)
	inForce(t, policies)
	awaitDenial(t, "denied request: passwords belong into Secrets",
		func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	eventually(t, 5*time.Second, func() string {
		if got := label(t, configMap(t, nil), "owner"); got != "admin" {
			return fmt.Sprintf("label %v", got)
		}
		return ""
	})

	inForce(t, limits)
	awaitDenial(t, "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
		func() *server.Answer { return deployment(t, 1) })
	const params = "/api/v1/namespaces/default/configmaps"
	limit := func(n string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "limit"},
			"data": map[string]any{"max": n}}
	}
	good(t, apply(t, params, limit("2")))
	awaitDenial(t, "denied request: at most 2", func() *server.Answer { return deployment(t, 3) })
	good(t, deployment(t, 2))
	good(t, apply(t, params, limit("5")))
	awaitDenial(t, "", func() *server.Answer { return deployment(t, 3) })
	remove(t, params+"/limit")
	awaitDenial(t, "parameterNotFoundAction", func() *server.Answer { return deployment(t, 1) })

	eventually(t, 5*time.Second, func() string {
		tree, err := do(t, server.Call{Method: http.MethodGet,
			Path: "/apis/policy.celgate.dev/v1/validatingadmissionpolicies/limit"}).Object()
		if err != nil {
			t.Fatal(err)
		}
		text, _ := yaml.Marshal(tree["status"])
		for _, want := range []string{"observedGeneration: 1", "type: Compiled", "type: ParamsReadable"} {
			if !strings.Contains(string(text), want) || strings.Contains(string(text), `"False"`) {
				return "status\n" + string(text)
			}
		}
		return ""
	})

	bad := toOwnGroup(t,
		strings.ReplaceAll(limits, "object.spec.replicas <=", "object.spec.replicas <"+"="+"=")) // never in force
	if status := apply(t, "/apis/policy.celgate.dev/v1/validatingadmissionpolicies", bad[0]).Status(); status == nil ||
		!strings.Contains(status.Message, "spec.validations[0].expression: Invalid value") ||
		!strings.Contains(status.Message, "compilation failed: ERROR: <input>:1:") {
		t.Errorf("a policy that does not compile: %+v", status)
	}
	bad[0]["spec"].(map[string]any)["failurePolicy"] = "Maybe"
	if status := apply(t, "/apis/policy.celgate.dev/v1/validatingadmissionpolicies", bad[0]).Status(); status == nil ||
		!strings.Contains(status.Message, `spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"`) {
		t.Errorf("a failurePolicy that there is not: %+v", status)
	}

	metrics := r.gates[0].metrics(t)
	for _, want := range []string{
		`celgate_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="no-passwords",policy_binding="no-passwords"}`,
		`celgate_mutating_admission_policy_check_total{error_type="no_error",policy="label",policy_binding="label"}`,
		"celgate_leader 1", "celgate_ready 1", "celgate_watches_failing 0",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
	remove(t, "/apis/policy.celgate.dev/v1/validatingadmissionpolicies/no-passwords")
	awaitDenial(t, "", func() *server.Answer { return configMap(t, map[string]any{"password": "x"}) })
	// A request that was being decided may have counted once more: its series goes with the next change.
	remove(t, "/apis/policy.celgate.dev/v1/validatingadmissionpolicybindings/no-passwords")
	eventually(t, 10*time.Second, func() string {
		if strings.Contains(r.gates[0].metrics(t), `policy="no-passwords",policy_binding`) {
			return "metrics of a policy that is gone"
		}
		return ""
	})
}

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {color: {type: string}, size: {type: integer}}}
`

const widgetPolicies = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: paint}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: [v1], resources: [widgets], operations: [CREATE]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{spec: Object.spec{color: "blue"}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: paint}
spec: {policyName: paint}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: allowed}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [example.com], apiVersions: [v1], resources: [widgets], operations: [CREATE]}]
  validations:
  - expression: authorizer.group("example.com").resource("widgets").namespace(request.namespace).check("paint").allowed()
    message: may not paint
  - expression: namespaceObject.metadata.name == "default"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: allowed}
spec: {policyName: allowed, validationActions: [Deny]}
`

// TestKindLater creates a kind after the policies for it, and checks permissions with the server's authorizer.
func TestKindLater(t *testing.T) {
	startManaged(t, 1)
	inForce(t, widgetPolicies)
	good(t, apply(t, definitionPath, documents(t, []byte(widgets))[0]))
	t.Cleanup(func() { remove(t, definitionPath+"/widgets.example.com") })
	good(t, apply(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles", object(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: widgets}
rules: [{apiGroups: [example.com], resources: [widgets], verbs: [create]}]
`)))
	good(t, apply(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", object(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: widgets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: widgets}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dev}]
`)))
	create := func(user string) *server.Answer {
		return do(t, server.Call{
			Method: http.MethodPost, Path: "/apis/example.com/v1/namespaces/default/widgets",
			Query: map[string][]string{"dryRun": {"All"}},
			Body:  object(t, `{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {size: 3}}`),
			User:  user,
		})
	}
	eventually(t, 20*time.Second, func() string {
		a := create("")
		tree, err := a.Object()
		spec, _ := tree["spec"].(map[string]any)
		if err != nil || spec["color"] != "blue" || spec["size"] != int64(3) {
			return fmt.Sprintf("%d %s", a.Code, a.Body)
		}
		return ""
	})
	awaitDenial(t, "denied request: may not paint", func() *server.Answer { return create("dev") })
}

// TestDeployment runs celgate with the rights that deploy/ grants and no more, its certificate kept by itself.
func TestDeployment(t *testing.T) {
	installDefinitions(t)
	text, err := os.ReadFile("../../deploy/celgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../../deploy/examples/params.yaml")
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{
		"Namespace": "/api/v1/namespaces", "ServiceAccount": "/api/v1/namespaces/celgate-system/serviceaccounts",
		"ClusterRole":         "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		"ClusterRoleBinding":  "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"Role":                "/apis/rbac.authorization.k8s.io/v1/namespaces/celgate-system/roles",
		"RoleBinding":         "/apis/rbac.authorization.k8s.io/v1/namespaces/celgate-system/rolebindings",
		"Service":             "/api/v1/namespaces/celgate-system/services",
		"Deployment":          "/apis/apps/v1/namespaces/celgate-system/deployments",
		"PodDisruptionBudget": "/apis/policy/v1/namespaces/celgate-system/poddisruptionbudgets",
		"NetworkPolicy":       "/apis/networking.k8s.io/v1/namespaces/celgate-system/networkpolicies",
		"ConfigMap":           "/api/v1/namespaces/default/configmaps",
	}
	for _, tree := range append(documents(t, text), documents(t, example)...) {
		good(t, apply(t, paths[tree["kind"].(string)], tree))
	}
	// The controller that aggregates does not run here.
	aggregated := documents(t, example)[0]
	aggregated["metadata"] = map[string]any{"name": "celgate-params"}
	good(t, apply(t, paths["ClusterRole"], aggregated))

	answer := do(t, server.Call{
		Method: http.MethodPost, Path: paths["ServiceAccount"] + "/celgate/token",
		Body: map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
			"spec": map[string]any{}},
	})
	good(t, answer)
	tree, err := answer.Object()
	if err != nil {
		t.Fatal(err)
	}
	token := tree["status"].(map[string]any)["token"].(string)
	config, err := os.ReadFile(api.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, bytes.ReplaceAll(config, []byte(api.Token), []byte(token)), 0o600); err != nil {
		t.Fatal(err)
	}
	// This replaces the network: the name of the Service resolves to this machine.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(address)
	good(t, apply(t, paths["Service"], object(t, `
apiVersion: v1
kind: Service
metadata: {name: celgate}
spec: {type: ExternalName, externalName: localhost}
`)))
	g := startWebhook(t, "--kubeconfig="+kubeconfig, "--manage", "--service=celgate", "--service-port="+port,
		"--listen="+address,
		"--namespace=celgate-system",
		"--metrics-listen=127.0.0.1:0",
	)
	g.awaitReady(t)

	text = bytes.ReplaceAll([]byte(limits), []byte("spec:\n  paramKind"),
		[]byte("spec:\n  failurePolicy: Ignore\n  paramKind"))
	inForce(t, string(text))
	t.Cleanup(func() {
		for _, kind := range []string{"mutating", "validating"} {
			remove(t, webhookPath+kind+"webhookconfigurations/celgate")
		}
	})
	var bundle string
	eventually(t, 10*time.Second, func() string {
		tree, err := do(t, server.Call{Method: http.MethodGet,
			Path: webhookPath + "validatingwebhookconfigurations/celgate"}).Object()
		webhooks, _ := tree["webhooks"].([]any)
		if err != nil || len(webhooks) != 3 {
			return fmt.Sprintf("%d webhooks, %v\n%s", len(webhooks), err, g.log())
		}
		bundle, _ = webhooks[0].(map[string]any)["clientConfig"].(map[string]any)["caBundle"].(string)
		return ""
	})
	eventually(t, 10*time.Second, func() string {
		tree, err := do(t,
			server.Call{Method: http.MethodGet, Path: "/apis/policy.celgate.dev/v1/validatingadmissionpolicies/limit"}).Object()
		text, _ := yaml.Marshal(tree["status"])
		if err != nil || strings.Count(string(text), `status: "True"`) != 3 {
			return fmt.Sprintf("status %s\n%s", text, g.log())
		}
		return ""
	})
	pem, err := base64.StdEncoding.DecodeString(bundle)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(g.URL, "https://"),
		&tls.Config{RootCAs: trusted, ServerName: "celgate.celgate-system.svc"})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if log := g.log(); strings.Contains(log, "forbidden") {
		t.Error("a right is missing:\n" + log)
	}
}
