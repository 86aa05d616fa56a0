package explain_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
)

const replicaLimit = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replica-limit}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= 5 || object.metadata.name == 'web'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: replica-limit, validationActions: [Deny]}
`

// Observe the decision of an engine: the matching policies, and the values that made an expression false.
func Example() {
	bundle := celgate.Must(celgate.Load(fstest.MapFS{"policies.yaml": {Data: []byte(replicaLimit)}}))
	engine := celgate.Must(celgate.New(&bundle.Set, celgate.Options{}))
	request := celgate.Must(engine.RequestFor(context.Background(), map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "api"},
		"spec": map[string]any{"replicas": int64(9),
			"selector": map[string]any{"matchLabels": map[string]any{"app": "api"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "api"}},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "api", "image": "api:1"}}}}},
	}, celgate.As{User: "dev"}))
	_, err := engine.Explain(context.Background(), request, explain.Options{Trace: func(e explain.Event) {
		switch e.Op {
		case explain.OpMatch:
			fmt.Println(e.Policy, e.Binding, "matches:", e.Match.Matched)
		case explain.OpEvaluate:
			value, _ := e.Evaluation.Result()
			fmt.Println(e.Evaluation.Expr.Field, "is", value)
			for _, step := range e.Evaluation.Steps() {
				fmt.Println(" ", step.Text, "=", step.Value)
			}
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// replica-limit  matches: true
	// replica-limit everywhere matches: true
	// spec.validations[0].expression is false
	//   object.spec.replicas = 9
	//   object.metadata.name = 'api'
}
