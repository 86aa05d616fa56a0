package serve

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

const owned = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: owned}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}]
  reinvocationPolicy: Never
  mutationValidationPolicy: Fail
  mutations:
  - name: owner
    patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"owner": "us"}}}'}
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: owned}
spec: {policyName: owned}
`

// disowning is the effect of another webhook.
const disowning = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: disowning}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '"owner" in object.metadata.?labels.orValue({}) ? [JSONPatch{op: "replace", path: "/metadata/labels/owner", value: "them"}] : []'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: disowning}
spec: {policyName: disowning}
`

// foreign registers another webhook, which is called after celgate, and answers with policies.
func foreign(t *testing.T, policies string) {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "policies.yaml"), []byte(policies))
	g := serveAlone(t, "--policy-dir="+folder)
	create(t, webhookPath+"mutatingwebhookconfigurations", map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
		"metadata": map[string]any{"name": "zz-foreign"},
		"webhooks": []any{map[string]any{
			"name": "foreign.example.com", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None",
			"clientConfig": map[string]any{"url": g.URL + "/mutate", "caBundle": g.CA},
			"rules": []any{map[string]any{
				"operations": []any{"CREATE"}, "apiGroups": []any{""}, "apiVersions": []any{"v1"},
				"resources": []any{"configmaps"},
			}},
		}},
	})
}

// TestLost has another webhook undo a label: the request is denied, with the names of the policy and of its mutation,
// or the client is warned.
func TestLost(t *testing.T) {
	startManaged(t, 1)
	inForce(t, owned)
	eventually(t, 10*time.Second, func() string {
		if a := configMap(t, nil); a.Status() != nil || label(t, a, "owner") != "us" {
			return string(a.Body)
		}
		return ""
	})
	foreign(t, disowning)
	const lost = `mutation owner no longer holds: made again, it changes metadata.labels.owner from "them" to "us"`
	awaitDenial(t, "AdmissionPolicy 'owned' with binding 'owned' denied request: "+lost,
		func() *server.Answer { return configMap(t, nil) })
	if status := configMap(t, nil).Status(); status == nil || status.Code != http.StatusUnprocessableEntity {
		t.Errorf("%+v", status)
	}
	update := func(old, new string) {
		t.Helper()
		good(t, apply(t, dialectPath+"admissionpolicies", object(t, strings.Replace(strings.Split(owned, "---")[0], old, new, 1))))
	}
	update(": Fail", ": Warn")
	eventually(t, 10*time.Second, func() string {
		a := configMap(t, nil)
		if status := a.Status(); status != nil {
			return status.Message
		}
		if got := strings.Join(a.Warnings, "\n"); !strings.Contains(got, lost) || label(t, a, "owner") != "them" {
			return "warnings: " + got
		}
		return ""
	})
	update("name: owner\n", "name: owner\n    validation: {expression: '\"owner\" in object.metadata.labels'}\n")
	eventually(t, 10*time.Second, func() string {
		a := configMap(t, nil)
		if status := a.Status(); status != nil {
			return status.Message
		}
		if len(a.Warnings) > 0 || label(t, a, "owner") != "them" {
			return "warnings: " + strings.Join(a.Warnings, "\n")
		}
		return ""
	})
}
