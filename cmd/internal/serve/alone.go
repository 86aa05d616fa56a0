package serve

import (
	"context"

	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
)

// alone is the state of a server without a cluster: the objects beside the policies. Every namespace is taken to exist,
// because its requests come from a cluster that has it; only its name is known.
type alone struct{ *state.Cluster }

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// Get returns an object of the files, or any namespace.
func (a alone) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	object, err := a.Cluster.Get(ctx, kind, namespace, name)
	if object == nil && err == nil && kind == namespaceKind {
		object = map[string]any{
			"apiVersion": "v1",
			"kind":       "Namespace",
			"metadata":   map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
			"spec":       map[string]any{"finalizers": []any{"kubernetes"}},
			"status":     map[string]any{"phase": "Active"},
		}
	}
	return object, err
}
