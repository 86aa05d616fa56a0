package requests

import (
	"context"
	"maps"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// NewExisting makes the request about an object that exists: the CREATE of a [Copy], the UPDATE that changes nothing,
// or the DELETE.
func NewExisting(ctx context.Context, q *celgate.Requester, object map[string]any, op celgate.Operation,
	as celgate.As) (*celgate.Request, error) {
	as.Operation = op
	to, _, err := q.Target(tree.Object(object).Kind(), "")
	if err != nil {
		return nil, err
	}
	object = celgate.WithNamespace(object, &celgate.Request{Kind: tree.Object(object).Kind(),
		Namespace: q.NamespaceOf(object, to, as)})
	as.Old = only{object}.get
	if op == celgate.Create {
		object = Copy(object)
	}
	return q.Request(ctx, object, as)
}

// only holds one object, which is the one that is asked for.
type only struct{ object map[string]any }

func (o only) get(context.Context, schema.GroupVersionKind, string, string) (map[string]any, error) {
	return o.object, nil
}

// Copy returns an object as somebody would create it who wants another one like it: without what the server gives each
// object itself. The name is the same.
func Copy(object map[string]any) map[string]any {
	created := maps.Clone(object)
	delete(created, "status")
	if metadata := tree.Object(object).Metadata(); metadata != nil {
		created["metadata"] = metadata.Without(servers...)
	}
	spec, ok := object["spec"].(map[string]any)
	if ok && object["kind"] == "Service" && object["apiVersion"] == "v1" && spec["clusterIP"] != "None" {
		created["spec"] = tree.Object(spec).Without("clusterIP", "clusterIPs", "healthCheckNodePort")
	}
	return created
}

// servers are the members of metadata that the server gives to objects.
var servers = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"managedFields", "selfLink",
}
