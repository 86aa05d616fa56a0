package builtin_test

import (
	"fmt"
	"log"

	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// The kinds of a minor, and in which versions it serves them.
func ExampleRegistry() {
	for _, minor := range []string{"1.30", "1.37"} {
		registry, err := builtin.Registry(minor)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(minor, registry.ServedVersions(schema.GroupKind{Group: "admissionregistration.k8s.io",
			Kind: "MutatingAdmissionPolicy"}))
	}
	// Output:
	// 1.30 []
	// 1.37 [v1]
}
