package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

const tags = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: tags}
spec:
  templates: [pods]
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]
  validations:
  - {scope: kubernetes.allContainers, expression: 'scope.image.contains(":")', message: has no tag}
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: tags}
spec: {policyName: tags}
`

// TestTemplates has a policy for Pods validate the templates of workloads: the API server calls celgate for these
// because of a policy that names only Pods, and the answer contains the path in the workload.
func TestTemplates(t *testing.T) {
	startManaged(t, 1)
	inForce(t, tags)
	ask := func() *server.Answer { return deployment(t, 1) }
	eventually(t, 10*time.Second, func() string {
		a := ask()
		if text := strings.Join(a.Warnings, "\n"); a.Status() != nil ||
			!strings.Contains(text, "'tags' with binding 'tags': spec.template.spec.containers[0]: has no tag") {
			return "warnings: " + text
		}
		return ""
	})
	statusOf(t, "admissionpolicies/tags", "in force on 1 of 1 replicas")
	inForce(t, strings.Replace(strings.Split(tags, "---")[0], "templates: [pods]", "templates: [pods]\n  templateEnforcement: Deny", 1))
	awaitDenial(t, "AdmissionPolicy 'tags' with binding 'tags' denied request: spec.template.spec.containers[0]: has no tag", ask)
	if status := ask().Status(); status == nil || status.Details == nil || len(status.Details.Causes) != 1 ||
		status.Details.Causes[0].Field != "spec.template.spec.containers[0]" {
		t.Errorf("%+v", status)
	}
	inForce(t, strings.Replace(strings.Split(tags, "---")[0], "  templates: [pods]\n", "", 1))
	awaitDenial(t, "", ask)
}
