package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

const allowance = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: allowance}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  defaultParams: {data: {max: "1"}}
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}]
  validations:
  - expression: object.spec.replicas <= int(params.data.max)
    messageExpression: '"at most " + params.data.max'
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: allowance}
spec:
  policyName: allowance
  paramRef: {name: allowance, parameterNotFoundAction: Default}
`

// TestDefaultParams relaxes a policy with a param, and removes the param: the default params take effect again at once.
func TestDefaultParams(t *testing.T) {
	startManaged(t, 1)
	inForce(t, allowance)
	ask := func() *server.Answer { return deployment(t, 3) }
	awaitDenial(t, "at most 1", ask)
	const path = "/api/v1/namespaces/default/configmaps"
	for range 2 {
		good(t, apply(t, path, object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: allowance}, data: {max: "5"}}`)))
		awaitDenial(t, "", ask)
		remove(t, path+"/allowance")
		begun := time.Now()
		awaitDenial(t, "at most 1", ask)
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("a param that is gone was in force for %v", took)
		}
	}
	refused := strings.Replace(strings.Split(allowance, "---")[0], `{max: "1"}`, "{max: 1}", 1)
	status := do(t, server.Apply(dialectPath+"admissionpolicies/allowance", object(t, refused))).Status()
	if status == nil || !strings.Contains(status.Message, "spec.defaultParams: Invalid value: ") {
		t.Errorf("default params that are no ConfigMap: %+v", status)
	}
}
