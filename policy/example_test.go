package policy_test

import (
	"fmt"
	"log"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celgate/celgate/policy"
)

// NewSet accepts the objects of typed and dynamic clients.
func ExampleNewSet() {
	set, err := policy.NewSet(
		&admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "limit"},
			Spec:       admissionv1.ValidatingAdmissionPolicySpec{Validations: []admissionv1.Validation{{Expression: "true"}}},
		},
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
			"metadata": map[string]any{"name": "everywhere"},
			"spec":     map[string]any{"policyName": "limit", "validationActions": []any{"Deny"}},
		}},
	)
	if err != nil {
		log.Fatal(err)
	}
	p, b := set.Policies[0], set.Bindings[0]
	fmt.Println(p.Name, p.FailurePolicy, b.PolicyName, b.Actions)
	// Output: limit Fail limit [Deny]
}
