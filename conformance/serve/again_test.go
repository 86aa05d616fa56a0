package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

// counting is a policy that counts its runs.
const counting = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  failurePolicy: FAILURE
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  matchConditions: [{name: counted, expression: "object.metadata.name.startsWith('counted')"}]
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: '[JSONPatch{op: "add", path: "/data/NAME", value: string(int(object.data.?NAME.orValue("0")) + 1)}]'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}
`

const other = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: other}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{data: {"other": "1"}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: other}
spec: {policyName: other}
`

// TestAgain counts how often policies run for which the API server calls celgate a second time: twice, as its own do.
func TestAgain(t *testing.T) {
	startManaged(t, 1)
	of := func(name, failure string) string {
		return strings.NewReplacer("NAME", name, "FAILURE", failure).Replace(counting)
	}
	round := 0
	counts := func(t *testing.T, want map[string]any) {
		t.Helper()
		eventually(t, 10*time.Second, func() string {
			round++
			tree, err := do(t, server.Call{
				Method: http.MethodPost, Path: "/api/v1/namespaces/default/configmaps",
				Query: map[string][]string{"dryRun": {"All"}},
				Body: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
					"metadata": map[string]any{"name": fmt.Sprint("counted", round)}, "data": map[string]any{"k": "v"}},
			}).Object()
			if err != nil {
				t.Fatal(err)
			}
			data, _ := tree["data"].(map[string]any)
			delete(data, "k")
			if fmt.Sprint(data) != fmt.Sprint(want) {
				return fmt.Sprint(data, ", not ", want)
			}
			return ""
		})
	}
	inForce(t, of("c1", "Fail"))
	counts(t, map[string]any{"c1": "2"})
	inForce(t, of("c2", "Ignore"))
	counts(t, map[string]any{"c1": "2", "c2": "2"})

	foreign(t, other)
	counts(t, map[string]any{"c1": "2", "c2": "2", "other": "1"})
}
