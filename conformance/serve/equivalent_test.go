package serve

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

const scalers = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: a-converted}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [autoscaling], apiVersions: [v1], resources: [horizontalpodautoscalers], operations: [CREATE]}]
  validations:
  - expression: >-
      request.kind.version == "v1" && request.resource.version == "v1" &&
      object.apiVersion == "autoscaling/v1" && object.spec.targetCPUUtilizationPercentage == 50
    message: not converted
  - expression: request.requestKind.version == "v2" && request.requestResource.version == "v2"
    message: made to v1
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: a-converted}
spec: {policyName: a-converted, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: b-exact}
spec:
  matchConstraints:
    matchPolicy: Exact
    resourceRules: [{apiGroups: [autoscaling], apiVersions: [v1], resources: [horizontalpodautoscalers], operations: [CREATE]}]
  validations:
  - expression: "false"
    message: exactly v1
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b-exact}
spec: {policyName: b-exact, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: mark}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [autoscaling], apiVersions: [v1], resources: [horizontalpodautoscalers], operations: [CREATE]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"made": request.requestKind.version}}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mark}
spec: {policyName: mark}
`

// TestEquivalent sends a request in another version than the rules name: the API server converts it for the webhook,
// and policies see the same as in the server: the converted object, the original request, and only policies that match
// equivalent versions.
func TestEquivalent(t *testing.T) {
	startManaged(t, 1)
	inForce(t, scalers)
	create := func(version, spec string) *server.Answer {
		return do(t, server.Call{
			Method: http.MethodPost, Path: "/apis/autoscaling/" + version + "/namespaces/default/horizontalpodautoscalers", Query: map[string][]string{"dryRun": {"All"}},
			Body: object(t, "{apiVersion: autoscaling/"+version+", kind: HorizontalPodAutoscaler, metadata: {name: h}, spec: {maxReplicas: 3, "+
				"scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, "+spec+"}}",
			),
		})
	}
	awaitDenial(t, "denied request: made to v1", func() *server.Answer {
		return create("v1", "targetCPUUtilizationPercentage: 50")
	})
	const half = "metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]"
	awaitDenial(t, "", func() *server.Answer { return create("v2", half) })
	eventually(t, 5*time.Second, func() string {
		if got := label(t, create("v2", half), "made"); got != "v2" {
			return fmt.Sprintf("label %v", got)
		}
		return ""
	})
	awaitDenial(t, "denied request: not converted", func() *server.Answer {
		return create("v2", "metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]")
	})
}
