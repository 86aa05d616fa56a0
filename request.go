package celgate

import (
	"cmp"
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// An Operation is the operation of a request, as in an AdmissionReview.
type Operation = admissionv1.Operation

// Operations of requests.
const (
	Create  = admissionv1.Create
	Update  = admissionv1.Update
	Delete  = admissionv1.Delete
	Connect = admissionv1.Connect
)

// A Request is one admission request, with the members of admission.k8s.io/v1 AdmissionRequest. Its objects are those
// that its author wrote; [Engine.Prepare] converts them to the form that policies see.
//
// Objects are JSON trees (map[string]any, []any, string, int64, float64, bool, nil). They never change; a mutated
// object shares its unchanged parts with the original.
type Request struct {
	UID string

	// Kind, Resource and SubResource describe the object. A policy that matches through an equivalent version gets the
	// object in that version.
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	SubResource string

	// RequestKind, RequestResource and RequestSubResource describe the original request if the API server has converted
	// the object for a webhook that matches through an equivalent version. Policies are matched with them. If all three
	// are zero, they equal Kind, Resource and SubResource.
	RequestKind        schema.GroupVersionKind
	RequestResource    schema.GroupVersionResource
	RequestSubResource string

	Name      string // empty for a CREATE with generateName
	Namespace string // for a Namespace its own name
	Operation Operation
	UserInfo  UserInfo
	DryRun    bool

	// UserAssumed means that the user of the request is not known and UserInfo is a placeholder: the permissions that
	// the server requires of the author of a policy are not checked.
	UserAssumed bool

	Object    map[string]any // nil on DELETE
	OldObject map[string]any // nil on CREATE and CONNECT
	Options   map[string]any // CreateOptions and the like; nil for CONNECT
}

// withTrees returns the request with objects made of Go values converted; see [tree.Convert].
func (r *Request) withTrees() (*Request, error) {
	converted := *r
	for _, of := range []struct {
		name   string
		object *map[string]any
	}{{"object", &converted.Object}, {"oldObject", &converted.OldObject}, {"options", &converted.Options}} {
		var err error
		if *of.object, err = tree.Convert(*of.object); err != nil {
			return nil, fmt.Errorf("%s: %w", of.name, err)
		}
	}
	return &converted, nil
}

// isConverted reports whether the object was converted to another version than that of the request.
func (r *Request) isConverted() bool { return !r.RequestKind.Empty() || !r.RequestResource.Empty() }

// A target is the kind and resource of a request as sent.
type target struct {
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	SubResource string
}

// target returns the kind and resource of the request as sent.
func (r *Request) target() target {
	if r.isConverted() {
		return target{r.RequestKind, r.RequestResource, r.RequestSubResource}
	}
	return target{r.Kind, r.Resource, r.SubResource}
}

// UserInfo is the user of a request, as in an AdmissionReview.
type UserInfo = authenticationv1.UserInfo

// A Cluster gives an engine access to the objects and permissions of a cluster. All objects are JSON trees and must not
// be changed.
//
// Package state implements it with objects in memory.
type Cluster interface {
	// Get returns one object: a namespace, or a param. A nil object without an error means that it does
	// not exist. Namespace is empty for cluster-scoped kinds.
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error)

	// List returns the objects of one kind, of one namespace or of all (""), sorted by namespace and name.
	List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]map[string]any, error)

	// Authorizer answers the authorizer variable of expressions.
	Authorizer() authorizer.Authorizer
}

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// displayName returns the name of the object in a refusal, as pkg/admission/errors.go v0.37.2.
func (r *Request) displayName() string {
	if r.Name != "" {
		return r.Name
	}
	if r.Object == nil {
		return unknownName
	}
	if r.Operation == Connect { // the options do not have metadata
		return nameCannotBeFetched
	}
	metadata := tree.Object(r.Object).Metadata()
	return cmp.Or(metadata.Text("name"), metadata.Text("generateName"), unknownName)
}

const (
	unknownName         = "Unknown"
	nameCannotBeFetched = "Unknown/errorGettingName"
)

func parseGroupVersion(s string) (schema.GroupVersion, error) {
	gv, err := apischema.ParseGroupVersion(s)
	if err != nil {
		return gv, fmt.Errorf("paramKind: %w", err)
	}
	return gv, nil
}

// userTree returns the members that the server sets, by its rules for empty ones.
func userTree(u *UserInfo) map[string]any {
	user := map[string]any{}
	if len(u.Groups) > 0 {
		groups := make([]any, len(u.Groups))
		for i, g := range u.Groups {
			groups[i] = g
		}
		user["groups"] = groups
	}
	if len(u.Extra) > 0 {
		extra := make(map[string]any, len(u.Extra))
		for k, values := range u.Extra {
			list := make([]any, len(values))
			for i, v := range values {
				list[i] = v
			}
			extra[k] = list
		}
		user["extra"] = extra
	}
	setText(user, "username", u.Username)
	setText(user, "uid", u.UID)
	return user
}

func setText(tree map[string]any, member, text string) {
	if text != "" {
		tree[member] = text
	}
}

func kindTree(k schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func resourceTree(r schema.GroupVersionResource) map[string]any {
	return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
}
