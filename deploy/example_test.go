package deploy_test

import (
	"fmt"
	"strings"

	"github.com/celgate/celgate/deploy"
)

// The output of celgate install: the definitions of celgate's own kinds, and the manifests that run it.
func Example() {
	for _, line := range strings.Split(string(deploy.Definitions()), "\n") {
		if kind, ok := strings.CutPrefix(line, "    kind: "); ok {
			fmt.Println(kind)
		}
	}
	fmt.Println(strings.Contains(string(deploy.Server("registry.example.com/celgate@sha256:1")),
		"image: registry.example.com/celgate@sha256:1"))
	// Output:
	// AdmissionPolicy
	// AdmissionPolicyBinding
	// AdmissionPolicyLibrary
	// MutatingAdmissionPolicy
	// MutatingAdmissionPolicyBinding
	// NamespacedAdmissionPolicyBinding
	// ValidatingAdmissionPolicy
	// ValidatingAdmissionPolicyBinding
	// true
}
