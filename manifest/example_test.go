package manifest_test

import (
	"fmt"
	"strings"

	"github.com/celgate/celgate/manifest"
)

// Read objects, and find the place of a value in the file that it was written in.
func Example() {
	const text = `apiVersion: v1
kind: ConfigMap
metadata:
  name: limits
data: {replicas: "5"}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`
	documents, problems := manifest.Read(strings.NewReader(text), "shop.yaml")
	for _, p := range problems {
		fmt.Println(p)
	}
	for _, d := range documents {
		fmt.Println(d.Object["kind"], d.Position())
	}
	fmt.Println(documents[0].Place("data.replicas").Locate(0))
	// Output:
	// ConfigMap shop.yaml:1:1
	// Namespace shop.yaml:7:1
	// shop.yaml:5:19
}

// NewBundle sorts documents by their purpose.
func ExampleNewBundle() {
	const text = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: limit, validationActions: [Deny]}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
`
	documents, _ := manifest.Read(strings.NewReader(text), "all.yaml")
	bundle := manifest.NewBundle(documents...)
	fmt.Println(len(bundle.Set.Bindings), bundle.Set.Bindings[0].PolicyName, len(bundle.Objects), bundle.Err())
	// Output: 1 limit 1 <nil>
}
