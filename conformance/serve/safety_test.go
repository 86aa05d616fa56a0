package serve

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

const nothing = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: nothing}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"], operations: ["*"]}]
  validations: [{expression: "false", message: nothing may be written}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: nothing}
spec: {policyName: nothing, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: everything}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"], operations: [CREATE, UPDATE]}]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "replace", path: "/metadata/name", value: "other"}]'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: everything}
spec: {policyName: everything}
`

// TestSafety forbids or breaks every write: the requests that are needed to revert this still work, with celgate and
// without.
func TestSafety(t *testing.T) {
	r := startManaged(t, 1)
	inForce(t, nothing)
	write := func() *server.Answer { return configMap(t, nil) }
	eventually(t, 10*time.Second, func() string {
		if write().Status() == nil {
			return "something may be written"
		}
		return ""
	})

	for name, call := range map[string]server.Call{
		"a review of rights": {Method: http.MethodPost, Path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
			Body: object(t,
				"{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: dev, resourceAttributes: {verb: get, resource: pods}}}")},
		"a review of a token": {Method: http.MethodPost, Path: "/apis/authentication.k8s.io/v1/tokenreviews",
			Body: object(t,
				"{apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {token: x}}")},
		"the definition of an own kind": {
			Method: http.MethodPatch, Path: definitionPath + "/validatingadmissionpolicies.policy.celgate.dev",
			ContentType: "application/merge-patch+json",
			Body:        map[string]any{"metadata": map[string]any{"annotations": map[string]any{"test": "x"}}},
			Query:       map[string][]string{"dryRun": {"All"}},
		},
		"a policy": {
			Method: http.MethodPatch, Path: "/apis/policy.celgate.dev/v1/validatingadmissionpolicies/nothing",
			ContentType: "application/merge-patch+json",
			Body:        map[string]any{"metadata": map[string]any{"annotations": map[string]any{"test": "x"}}},
			Query:       map[string][]string{"dryRun": {"All"}},
		},
		"a policy's end": {Method: http.MethodDelete,
			Path:  "/apis/policy.celgate.dev/v1/validatingadmissionpolicybindings/nothing",
			Query: map[string][]string{"dryRun": {"All"}}},
	} {
		if status := do(t, call).Status(); status != nil {
			t.Errorf("%s: %s", name, status.Message)
		}
	}
	renewed := func() string {
		tree, err := do(t, server.Call{Method: http.MethodGet,
			Path: "/apis/coordination.k8s.io/v1/namespaces/celgate-system/leases/celgate"}).Object()
		if err != nil {
			t.Fatal(err)
		}
		time, _ := tree["spec"].(map[string]any)["renewTime"].(string)
		return time
	}
	last := renewed()
	eventually(t, 10*time.Second, func() string {
		if renewed() == last {
			return "celgate cannot renew its own lease"
		}
		return ""
	})

	// Its annotation disables the policy that forbids to disable it.
	disable := func(value any) {
		for _, resource := range []string{"validatingadmissionpolicies/nothing",
			"mutatingadmissionpolicies/everything"} {
			good(t, do(t, server.Call{
				Method: http.MethodPatch, Path: "/apis/policy.celgate.dev/v1/" + resource,
				ContentType: "application/merge-patch+json",
				Body: map[string]any{"metadata": map[string]any{
					"annotations": map[string]any{"celgate.dev/disabled": value}}},
			}))
		}
	}
	disable("true")
	awaitDenial(t, "", write)
	disable(nil)
	eventually(t, 10*time.Second, func() string {
		if write().Status() == nil {
			return "something may be written"
		}
		return ""
	})

	// Without celgate nothing can be written, but the two configurations can be deleted.
	r.gates[0].stop(t)
	eventually(t, 10*time.Second, func() string {
		if status := write().Status(); status == nil || !strings.Contains(status.Message, "failed calling webhook") {
			return "a request was admitted without celgate"
		}
		return ""
	})
	for _, kind := range []string{"mutating", "validating"} {
		good(t, do(t, server.Call{Method: http.MethodDelete,
			Path: webhookPath + kind + "webhookconfigurations/celgate"}))
	}
	awaitDenial(t, "", write)
}

// TestShadow serves policies that are evaluated and never acted on.
func TestShadow(t *testing.T) {
	folder := t.TempDir()
	write(t, folder+"/policies.yaml", []byte(policies))
	g := serveAlone(t, "--shadow", "--policy-dir="+folder, "--metrics-listen=127.0.0.1:0")
	handWritten(t, g)
	eventually(t, 5*time.Second, func() string {
		answer := configMap(t, map[string]any{"password": "x"})
		if status := answer.Status(); status != nil {
			t.Fatal(status.Message)
		}
		if got := label(t, answer, "owner"); got != nil {
			t.Fatalf("label %v", got)
		}
		metrics := g.metrics(t)
		for _, want := range []string{`celgate_shadow_disagreements_total{policy="no-passwords",would="deny"} `,
			`celgate_shadow_disagreements_total{policy="label",would="change"} `} {
			if !strings.Contains(metrics, want) {
				return "no metric " + want
			}
		}
		return ""
	})
}
