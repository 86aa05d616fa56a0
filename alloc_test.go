package celgate_test

import (
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/schema"
)

const labelAndLimit = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: Object.metadata.labels{team: "shop"}}}'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: team}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: registry}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - expression: object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: registry, validationActions: [Deny]}
`

// The API server's own plugins allocate 1,120 times for the label and 104 times for the validation.
func TestAllocations(t *testing.T) {
	set, err := load(labelAndLimit)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	image := func(name string) map[string]any {
		return map[string]any{"name": name, "image": "registry.example.com/" + name}
	}
	req, _, err := engine.Prepare(&celgate.Request{
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Name:     "web", Namespace: "default", Operation: celgate.Create,
		Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"containers": []any{image("app"), image("proxy"), image("logs")}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		ceiling float64
		decide  func() (*celgate.Decision, error)
	}{
		{"label", 34, func() (*celgate.Decision, error) { return engine.Mutate(t.Context(), req) }},
		{"validation", 20, func() (*celgate.Decision, error) { return engine.Validate(t.Context(), req) }},
	} {
		allocations := testing.AllocsPerRun(100, func() {
			d, err := c.decide()
			if err != nil || !d.Allowed || d.Mutated != (c.name == "label") {
				t.Fatalf("%s: %+v, %v", c.name, d, err)
			}
		})
		if allocations > c.ceiling {
			t.Errorf("%s: %v allocations, at most %v", c.name, allocations, c.ceiling)
		}
		t.Logf("%s: %v allocations", c.name, allocations)
	}
}
