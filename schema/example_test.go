package schema_test

import (
	"fmt"
	"log"

	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// Add the kind of a CustomResourceDefinition to those of a Kubernetes minor.
func ExampleRegistry_WithCustomResources() {
	registry, err := builtin.Registry("1.37")
	if err != nil {
		log.Fatal(err)
	}
	registry, err = registry.WithCustomResources(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "sites.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "sites", "kind": "Site"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "example.com", Version: "v1", Kind: "Site"},
	} {
		r := registry.ResourceFor(kind)
		fmt.Println(r.GroupResource(), r.Namespaced, r.Definition != nil)
	}
	// Output:
	// deployments.apps true false
	// sites.example.com true true
}
