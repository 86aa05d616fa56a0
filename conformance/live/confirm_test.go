package live

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

// A confirmation is the server's confirmation of the answer for one object.
type confirmation struct {
	decision
	Request   struct{ Name string }
	Confirmed struct {
		Same        bool
		Differences []string
		Unasked     string
	}
}

// TestConfirm compares answers with those of a server with all its plugins, a quota, and an unreachable webhook.
func TestConfirm(t *testing.T) {
	whole := startWhole(t)
	createAll(t, whole, `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: baseline}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits, namespace: shop}
spec: {limits: [{type: Container, default: {cpu: 200m}, defaultRequest: {cpu: 100m}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: shop}
spec: {hard: {secrets: "0"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: named}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods, configmaps], operations: [CREATE, UPDATE]}]}
  validations: [{expression: "object.metadata.name != 'bad'", message: a bad name}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: named}
spec: {policyName: named, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: nobody}
webhooks:
- name: services.nobody.example
  sideEffects: None
  admissionReviewVersions: [v1]
  failurePolicy: Fail
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [services], operations: [CREATE]}]
`)
	// The controller that counts existing objects does not run.
	quota := objects(t, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: few, namespace: shop}
status: {hard: {secrets: "0"}, used: {secrets: "0"}}
`)[0]
	if answer, err := whole.Do(t.Context(), server.Call{Method: "PUT", Path: pathOf(quota) + "/status", Body: quota}); err != nil ||
		answer.Status() != nil {
		t.Fatal(err, answer.Status())
	}
	const manifests = `
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bad, namespace: shop}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: host, namespace: shop}, spec: {hostNetwork: true, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: "not valid", namespace: shop}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: here, namespace: soon}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: soon}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}
`
	ask := func() map[string]confirmation {
		t.Helper()
		r := celgate(t, manifests, "apply", "--kubeconfig", whole.Kubeconfig, "--confirm", "--no-workloads", "-o", "json", "-")
		var list struct{ Items []confirmation }
		if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || r.code != 1 {
			t.Fatalf("%v: %+v", err, r)
		}
		all := map[string]confirmation{}
		for i, it := range list.Items {
			object := objects(t, manifests)[i]
			all[object["kind"].(string)+" "+it.Request.Name] = it
		}
		return all
	}
	eventually(t, func() string { // until the policy and the webhook are in force
		all := ask()
		if !all["Pod bad"].Confirmed.Same || len(all["Service web"].Confirmed.Differences) == 0 ||
			len(all["Secret s"].Confirmed.Differences) == 0 {
			return "they are not in force"
		}
		return ""
	})
	all := ask()
	for name, want := range map[string]struct {
		allowed bool
		differs string // of the only difference; empty: none
		unasked string
	}{
		"Pod web":             {allowed: true},
		"Pod bad":             {},
		"Pod host":            {},
		"ConfigMap not valid": {},
		"ConfigMap here":      {allowed: true, unasked: "an object of the manifests is missing in the cluster"},
		"Namespace soon":      {allowed: true},
		"Service web":         {allowed: true, differs: `the server refuses it: Internal error occurred: failed calling webhook "services.nobody.example"`},
		"Secret s":            {allowed: true, differs: "the server refuses it: secrets \"s\" is forbidden: exceeded quota: few"},
		"Deployment web":      {allowed: true},
	} {
		got, known := all[name]
		if !known {
			t.Errorf("%s: no answer", name)
			continue
		}
		if got.Response.Allowed != want.allowed {
			t.Errorf("%s: allowed %v: %s", name, got.Response.Allowed, got.Response.Status.Message)
		}
		c := got.Confirmed
		differs := strings.Join(c.Differences, "\n")
		if c.Same != (want.differs == "" && want.unasked == "") || !strings.Contains(differs, want.differs) ||
			want.differs == "" && differs != "" || !strings.Contains(c.Unasked, want.unasked) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	r := celgate(t, "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}}", "apply", "--kubeconfig",
		whole.Kubeconfig, "--confirm", "-")
	if r.code != 1 || !strings.Contains(r.stdout, "differs: the server refuses it: secrets \"s\" is forbidden") {
		t.Errorf("%+v", r)
	}
}

// createAll creates objects for good.
func createAll(t *testing.T, on *server.Server, text string) {
	t.Helper()
	for _, object := range objects(t, text) {
		create(t, on, object)
	}
}

// create creates an object for good.
func create(t *testing.T, on *server.Server, object map[string]any) {
	t.Helper()
	path := pathIn(object)
	eventually(t, func() string { // objects of the server appear shortly after it is ready
		answer, err := on.Do(t.Context(), server.Call{Method: "POST", Path: path, Body: object})
		if err != nil {
			t.Fatal(err)
		}
		if status := answer.Status(); status != nil && answer.Code != 409 {
			return status.Message
		}
		return ""
	})
}

// pathIn is where objects of the kind and namespace of an object are.
func pathIn(object map[string]any) string {
	path := pathOf(object)
	return path[:strings.LastIndex(path, "/")]
}
