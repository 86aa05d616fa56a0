package schema_test

import (
	"slices"
	"testing"

	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// TestTargetOfScale takes the newest version of the resource that a subresource belongs to: v10 is newer than v2, and
// that is the order in which versions are served.
func TestTargetOfScale(t *testing.T) {
	types, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	version := func(name string) map[string]any {
		return map[string]any{
			"name": name, "served": true, "storage": name == "v2",
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
				"x-kubernetes-preserve-unknown-fields": true}},
			"subresources": map[string]any{"scale": map[string]any{"specReplicasPath": ".spec.replicas",
				"statusReplicasPath": ".status.replicas"}},
		}
	}
	types, err = types.WithCustomResources(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "sets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Set", "plural": "sets"},
			"versions": []any{version("v1beta1"), version("v2"), version("v10"), version("v1")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	served := types.ServedVersions(schema.GroupKind{Group: "example.com", Kind: "Set"})
	if want := []string{"v10", "v2", "v1", "v1beta1"}; !slices.Equal(served, want) {
		t.Errorf("served are %q, want %q", served, want)
	}
	to, _, err := types.Target(schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		"sets.example.com/scale")
	if err != nil {
		to, _, err = types.Target(schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, "sets/scale")
	}
	if err != nil || to.Version != "v10" {
		t.Errorf("%v, %v", to.Resource, err)
	}
}
