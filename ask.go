package celgate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
)

// DefaultUser is the name of the user of requests without a given user.
const DefaultUser = "celgate"

// A requester makes requests.
type requester struct {
	types  *schema.Registry
	stored Cluster // the existing objects; nil: none
}

// As describes the request about an object: its user, operation and options. The zero value creates the object, or
// updates an existing one, as a user without permissions.
type As struct {
	User   string // the user of the request, with Groups, UID and Extra; empty: Self
	Groups []string
	UID    string
	Extra  map[string]authenticationv1.ExtraValue
	Self   *UserInfo // the user if User is empty; nil: unknown, and DefaultUser is used

	Operation   Operation // empty: CREATE, or UPDATE of an existing object
	Subresource string    // "scale", or with its resource "deployments/scale"
	Namespace   string    // of an object without one; empty: "default"
	DryRun      bool
	// Old finds objects before an update or deletion, like the method Get of a Cluster. Objects that it does not find,
	// and all objects if it is nil, are taken from the cluster.
	Old func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error)
}

// ErrNoOldObject is the error about an update of an unknown object.
var ErrNoOldObject = errors.New("the object to update is not known")

// NewRequest makes the request that creates, updates or deletes an object as its author wrote it: the request of a
// client that applies a manifest, deletes an object or uses a subresource. [Engine.RequestFor] also prepares it. The
// argument cluster contains the existing objects; nil: none. Values in the object that are not those of a JSON tree,
// such as int, []string or the Go types of Kubernetes, are converted. The errors are [*schema.ResourceError],
// [ErrNoOldObject] and others about the object.
func NewRequest(ctx context.Context, types *schema.Registry, cluster Cluster, object map[string]any, as As) (
	*Request, error) {
	object, err := tree.Convert(object)
	if err != nil {
		return nil, err
	}
	return (&requester{types, cluster}).request(ctx, object, as)
}

func (q *requester) request(ctx context.Context, object map[string]any, a As) (*Request, error) {
	kind := tree.Object(object).Kind()
	to, subresource, err := q.types.Target(kind, a.Subresource)
	if err != nil {
		return nil, err
	}
	r := &Request{
		Kind: kind, Resource: to.GroupVersionResource, SubResource: subresource,
		Name: tree.Object(object).Name(), DryRun: a.DryRun,
		UserInfo: a.user(), UserAssumed: a.User == "" && a.Self == nil,
	}
	r.Namespace = to.NamespaceOf(object, a.Namespace)
	if t := q.types.Type(kind); t != nil && t.Field("metadata") == nil {
		// Options such as PodExecOptions do not have metadata; in a manifest it names the object.
		object = maps.Clone(object)
		delete(object, "metadata")
	}
	if r.Name == "" && (tree.Object(object).Metadata().Text("generateName") == "" || subresource != "") {
		return nil, errors.New("metadata.name is missing")
	}

	old := func() (map[string]any, error) { return q.oldObject(ctx, r, a) }
	if r.Operation = a.Operation; r.Operation == "" {
		if r.Operation, err = operationOf(r, old); err != nil {
			return nil, err
		}
	}
	switch r.Operation {
	case Create, Connect:
		r.Object = object
	case Update:
		if r.OldObject, err = old(); err != nil {
			return nil, err
		}
		if r.OldObject == nil {
			return nil, ErrNoOldObject
		}
		r.Object = object
	case Delete:
		if r.OldObject, err = old(); err != nil {
			return nil, err
		}
		if r.OldObject == nil { // the object of the manifest is deleted
			r.OldObject = to.WithNamespace(object, a.Namespace)
		}
	}
	r.Options = optionsOf(r)
	identity := []string{kind.String(), r.Namespace, r.Name, string(r.Operation)}
	// the same for equal requests
	r.UID = uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join(identity, "\n"))).String()
	return r, nil
}

// user returns the user of the requests.
func (a As) user() UserInfo {
	if a.User == "" && a.Self != nil {
		return *a.Self
	}
	name := cmp.Or(a.User, DefaultUser)
	return UserInfo{Username: name, UID: a.UID, Groups: state.Groups(name, a.Groups), Extra: a.Extra}
}

// oldObject returns the stored object of a request; nil if it does not exist.
func (q *requester) oldObject(ctx context.Context, r *Request, a As) (map[string]any, error) {
	if r.Name == "" {
		return nil, nil
	}
	namespace := r.Namespace
	if res := q.types.Resource(r.Resource); res != nil && !res.Namespaced {
		namespace = ""
	}
	if a.Old != nil {
		if old, err := a.Old(ctx, r.Kind, namespace, r.Name); old != nil || err != nil {
			return old, err
		}
	}
	if r.SubResource == "scale" {
		return q.scale(ctx, r, a, namespace)
	}
	if q.types.ResourceFor(r.Kind) == nil { // an Eviction, for example, is not stored
		return nil, nil
	}
	return q.get(ctx, r.Kind, namespace, r.Name)
}

func (q *requester) get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any,
	error) {
	if q.stored == nil {
		return nil, nil
	}
	return q.stored.Get(ctx, kind, namespace, name)
}

// scale returns the Scale of the stored object; nil if that does not exist.
func (q *requester) scale(ctx context.Context, r *Request, a As, namespace string) (map[string]any, error) {
	res := q.types.Resource(r.Resource)
	if res == nil {
		return nil, nil
	}
	var parent map[string]any
	var err error
	if a.Old != nil {
		if parent, err = a.Old(ctx, res.GroupVersionKind(), namespace, r.Name); err != nil {
			return nil, err
		}
	}
	if parent == nil {
		parent, err = q.get(ctx, res.GroupVersionKind(), namespace, r.Name)
	}
	if parent == nil || err != nil {
		return nil, err
	}
	return prepare.Scale(parent, res)
}

// subresourceOperations are the operations of subresources whose objects are not stored (as pkg/registry v1.37.2).
var subresourceOperations = map[string]Operation{
	"eviction": Create, "binding": Create, "token": Create,
	"exec": Connect, "attach": Connect, "portforward": Connect, "proxy": Connect,
}

func operationOf(r *Request, old func() (map[string]any, error)) (Operation, error) {
	if r.SubResource != "" {
		return cmp.Or(subresourceOperations[r.SubResource], Update), nil
	}
	stored, err := old()
	if err != nil || stored == nil {
		return Create, err
	}
	return Update, nil
}

// optionsOf returns the default options of a request.
func optionsOf(r *Request) map[string]any {
	if optionKinds[r.Operation] == "" {
		return nil
	}
	options := map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": optionKinds[r.Operation]}
	if r.DryRun {
		options["dryRun"] = []any{"All"}
	}
	return options
}

// A reviewed is the request of an AdmissionReview; both versions have the same members.
type reviewed struct {
	UID                string                          `json:"uid"`
	Kind               apischema.GroupVersionKind      `json:"kind"`
	Resource           apischema.GroupVersionResource  `json:"resource"`
	SubResource        string                          `json:"subResource"`
	RequestKind        *apischema.GroupVersionKind     `json:"requestKind"`
	RequestResource    *apischema.GroupVersionResource `json:"requestResource"`
	RequestSubResource string                          `json:"requestSubResource"`
	Name               string                          `json:"name"`
	Namespace          string                          `json:"namespace"`
	Operation          Operation                       `json:"operation"`
	UserInfo           UserInfo                        `json:"userInfo"`
	DryRun             bool                            `json:"dryRun"`
}

// NewRequestFromReview makes the request of an AdmissionReview in a file, in either version, as its author made it. A
// webhook that matches through an equivalent version gets the object in that version; policies are evaluated for the
// original request. [FromReview] takes the review of an API server.
func NewRequestFromReview(types *schema.Registry, object map[string]any) (*Request, error) {
	tree, _ := object["request"].(map[string]any)
	if tree == nil {
		return nil, errors.New("the AdmissionReview does not have a request")
	}
	scalars := maps.Clone(tree)
	for _, member := range []string{"object", "oldObject", "options"} {
		delete(scalars, member)
	}
	text, err := json.Marshal(scalars)
	if err != nil {
		return nil, err
	}
	var in reviewed
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	r := &Request{
		UID: in.UID, Kind: in.Kind, Resource: in.Resource, SubResource: in.SubResource, Name: in.Name,
		Namespace: in.Namespace,
		Operation: in.Operation, UserInfo: in.UserInfo, DryRun: in.DryRun,
	}
	for member, to := range map[string]*map[string]any{"object": &r.Object, "oldObject": &r.OldObject,
		"options": &r.Options} {
		if tree[member] == nil {
			continue
		}
		value, ok := tree[member].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("request.%s is not an object", member)
		}
		*to = value
	}
	switch r.Operation {
	case Create, Update, Delete, Connect:
	default:
		return nil, fmt.Errorf("request.operation %q is not one of CREATE, UPDATE, DELETE, CONNECT", r.Operation)
	}
	if in.RequestKind != nil && in.RequestResource != nil &&
		(*in.RequestKind != in.Kind || *in.RequestResource != in.Resource) {
		r.Kind, r.Resource, r.SubResource = *in.RequestKind, *in.RequestResource, in.RequestSubResource
		for _, o := range []*map[string]any{&r.Object, &r.OldObject} {
			if *o == nil {
				continue
			}
			if *o, err = types.Convert(*o, r.Kind); err != nil {
				return nil, fmt.Errorf("converting back to requestKind: %w", err)
			}
		}
	}
	if r.Kind.Kind == "" {
		return nil, errors.New("request.kind is missing")
	}
	resource := types.Resource(r.Resource)
	switch {
	case resource == nil && r.Resource.Resource == "":
		return nil, errors.New("request.resource is missing")
	case resource == nil:
		return nil, &schema.ResourceError{Resource: r.Resource}
	case r.SubResource != "" && resource.Subresource(r.SubResource) == nil:
		return nil, fmt.Errorf("%s does not have a subresource %s", resource.GroupResource(), r.SubResource)
	case r.Object == nil && r.Operation != Delete:
		return nil, fmt.Errorf("request.object is missing in a %s", r.Operation)
	case r.OldObject == nil && (r.Operation == Delete || r.Operation == Update):
		return nil, fmt.Errorf("request.oldObject is missing in a %s", r.Operation)
	}
	if r.Options == nil {
		r.Options = optionsOf(r)
	}
	return r, nil
}

// RequestFor makes a prepared request that creates, updates or deletes an object, as its author wrote it. The existing
// objects are those of the engine's cluster.
func (e *Engine) RequestFor(ctx context.Context, object map[string]any, as As) (*Prepared, error) {
	r, err := NewRequest(ctx, e.types, e.cluster, object, as)
	if err != nil {
		return nil, err
	}
	return e.Prepare(ctx, r)
}
