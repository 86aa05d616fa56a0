package live

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

// TestStored stores policies in etcd that the server would refuse now: both the server and celgate enforce them.
func TestStored(t *testing.T) {
	const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}}"
	for _, expression := range []string{"[1].includes(2)", "objekt.foo(1"} {
		policy := objects(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ratchet}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - expression: "`+expression+`"
`)[0]
		t.Run(expression, func(t *testing.T) {
			if err := api.Store(t.Context(), plurals["ValidatingAdmissionPolicy"], policy); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := api.Do(context.Background(),
					server.Call{Method: http.MethodDelete, Path: pathOf(policy)}); err != nil {
					t.Error(err)
				}
			})
			put(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ratchet}
spec: {policyName: ratchet, validationActions: [Deny]}
`)
			var message string
			eventually(t, func() string {
				if status := try(t, api, objects(t, configMap)[0]).Status(); status != nil && strings.Contains(status.Message, expression) {
					message = status.Message
					return ""
				}
				return "not in force"
			})
			got := celgate(t, configMap, "apply", "--kubeconfig", api.Kubeconfig, "-o", "json", "-")
			_, said, _ := strings.Cut(message, "denied request: ")
			said, _, _ = strings.Cut(said, "\n")
			if got.code != 1 || !strings.Contains(got.stdout, said) {
				t.Errorf("celgate ended with %d, not with %q:\n%s%s", got.code, said, got.stdout, got.stderr)
			}
		})
	}
}
