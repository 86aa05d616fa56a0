package state

import (
	"maps"

	"github.com/google/uuid"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// namespaces returns the namespaces that kube-apiserver creates at startup, as
// pkg/controlplane/controller/systemnamespaces v1.37.2, and the default namespace of the kubernetes Service.
func namespaces() []map[string]any {
	var objects []map[string]any
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		objects = append(objects, map[string]any{
			"apiVersion": "v1",
			"kind":       "Namespace",
			"metadata":   map[string]any{"name": name},
		})
	}
	return objects
}

// created is the creation time of Namespaces without one.
const created = "2026-01-01T00:00:00Z"

// existingNamespace returns a copy of a Namespace with the values that each one in a cluster has: the label
// kubernetes.io/metadata.name (set by defaulting and again by the registry, replacing any value of the user), the
// finalizer that the registry adds on create, and a phase. As pkg/apis/core/v1/defaults.go and
// pkg/registry/core/namespace/strategy.go v1.37.2. A Namespace without uid, resourceVersion or creationTimestamp gets
// made-up ones that are the same in every run.
func existingNamespace(object map[string]any, name string) map[string]any {
	metadata := tree.Object(object).Metadata()
	if labels := metadata.At("labels"); labels["kubernetes.io/metadata.name"] != name {
		object = withMetadata(object, "labels", labels.With(map[string]any{"kubernetes.io/metadata.name": name}))
	}
	for member, value := range map[string]string{
		"uid":               uuid.NewSHA1(uuid.NameSpaceURL, []byte("namespaces/"+name)).String(),
		"resourceVersion":   "1",
		"creationTimestamp": created,
	} {
		if metadata.Text(member) == "" {
			object = withMetadata(object, member, value)
		}
	}
	if _, leaving := metadata["deletionTimestamp"]; !leaving {
		object = withMember(object, "spec", "finalizers", []any{"kubernetes"})
	}
	return withMember(object, "status", "phase", "Active")
}

// withMember returns a copy of the object with a member below a top-level member, or the object itself if the member
// exists.
func withMember(object map[string]any, parent, member string, value any) map[string]any {
	old, _ := object[parent].(map[string]any)
	if _, ok := old[member]; ok {
		return object
	}
	changed := maps.Clone(old)
	if changed == nil {
		changed = map[string]any{}
	}
	changed[member] = value
	object = maps.Clone(object)
	object[parent] = changed
	return object
}
