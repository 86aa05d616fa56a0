package celgate_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

const replicaLimit = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replica-limit}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= 5
    messageExpression: "'at most 5 replicas, not ' + string(object.spec.replicas)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: replica-limit, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: team}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"team": "shop"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: team}
`

// load reads policies and bindings.
func load(text string) (*policy.Set, error) {
	docs, problems := manifest.Read(strings.NewReader(text), "policies.yaml")
	if len(problems) > 0 {
		return nil, problems[0]
	}
	bundle := manifest.NewBundle(docs...)
	return &bundle.Set, bundle.Err()
}

func createDeployment(replicas int64) *celgate.Request {
	object := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": replicas,
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web:1"}}},
			},
		},
	}
	return &celgate.Request{
		Kind:      schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		Resource:  schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Name:      "web",
		Namespace: "default",
		Operation: celgate.Create,
		UserInfo:  celgate.UserInfo{Username: "dev"},
		Object:    object,
	}
}

// Load policies, build an engine, ask it about a request.
func Example() {
	set, err := load(replicaLimit)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	request, err := engine.Prepare(context.Background(), createDeployment(9))
	if err != nil {
		log.Fatal(err)
	}
	decision, err := engine.Admit(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(engine.Rejected()), len(decision.Warnings), decision.Allowed)
	fmt.Println(decision.Status.Message)
	for _, v := range decision.Violations {
		fmt.Println(v.Policy, v.Binding, v.Expr.Field, v.Actions)
	}
	// Output:
	// 0 0 false
	// deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'replica-limit' with binding 'everywhere' denied request: at most 5 replicas, not 9
	// replica-limit everywhere spec.validations[0].expression [Deny]
}

// Mutate alone shows what mutating policies make of an object.
func ExampleEngine_Mutate() {
	set, err := load(replicaLimit)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	request, err := engine.Prepare(context.Background(), createDeployment(2))
	if err != nil {
		log.Fatal(err)
	}
	decision, err := engine.Mutate(context.Background(), request)
	if err != nil {
		log.Fatal(err)
	}
	metadata := decision.Object["metadata"].(map[string]any)
	fmt.Println(decision.Mutated, metadata["labels"])
	// Output: true map[team:shop]
}

// Rejected has what the API server would refuse to store, with its own words.
func ExampleEngine_Rejected() {
	set, err := load(strings.ReplaceAll(replicaLimit, "object.spec.replicas <= 5", "object.spec.replicas"))
	if err != nil {
		log.Fatal(err)
	}
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range engine.Rejected() {
		fmt.Println(r.Status.Code, r.Status.Message)
	}
	// Output: 422 ValidatingAdmissionPolicy.admissionregistration.k8s.io "replica-limit" is invalid: spec.validations[0].expression: Invalid value: "object.spec.replicas": must evaluate to bool but got dyn
}
