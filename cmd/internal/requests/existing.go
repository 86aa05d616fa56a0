package requests

import (
	"context"
	"maps"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// NewExisting makes a request about an existing object: the CREATE of a [Copy], an UPDATE without changes, or the
// DELETE.
func NewExisting(ctx context.Context, types *schema.Registry, object map[string]any, op celgate.Operation,
	as celgate.As) (*celgate.Request, error) {
	as.Operation = op
	to, _, err := types.Target(tree.Object(object).Kind(), "")
	if err != nil {
		return nil, err
	}
	object = to.WithNamespace(object, as.Namespace)
	as.Old = only{object}.get
	if op == celgate.Create {
		object = Copy(object)
	}
	return celgate.NewRequest(ctx, types, nil, object, as)
}

// only is a cluster with one object.
type only struct{ object map[string]any }

func (o only) get(context.Context, schema.GroupVersionKind, string, string) (map[string]any, error) {
	return o.object, nil
}

// Copy returns an object as a user would create another one like it: without the members that the server sets for each
// object. The name is the same.
func Copy(object map[string]any) map[string]any {
	created := maps.Clone(object)
	delete(created, "status")
	if metadata := tree.Object(object).Metadata(); metadata != nil {
		created["metadata"] = metadata.Without(servers...)
	}
	spec, ok := object["spec"].(map[string]any)
	switch {
	case !ok || object["apiVersion"] != "v1":
	case object["kind"] == "Service" && spec["clusterIP"] != "None":
		created["spec"] = tree.Object(spec).Without("clusterIP", "clusterIPs", "healthCheckNodePort")
	case object["kind"] == "Pod": // it gets them later, by a subresource
		created["spec"] = tree.Object(spec).Without("ephemeralContainers")
	}
	return created
}

// servers are the members of metadata that the server sets.
var servers = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"managedFields", "selfLink",
}
