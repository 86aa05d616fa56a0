package celgate

import (
	"cmp"
	"context"
	"fmt"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// An Operation is what the request does to the object.
type Operation string

// The operations that are admitted.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// A Request is one admission request, with the members of admission.k8s.io/v1 AdmissionRequest. Its objects are those
// that its author wrote; [Engine.Prepare] makes of them what policies see.
//
// Objects are JSON trees (map[string]any, []any, string, int64, float64, bool, nil). They are never changed; a mutated
// object shares what was not changed.
type Request struct {
	UID string

	// Kind, Resource and SubResource say what the object is. A policy that matches through an equivalent
	// version gets the object in that version.
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	SubResource string

	// RequestKind, RequestResource and RequestSubResource say what the request was made to when that is not what the
	// object is: the API server converts for a webhook that matches through an equivalent version. Policies are matched
	// with it. Zero, all three: Kind, Resource and SubResource.
	RequestKind        schema.GroupVersionKind
	RequestResource    schema.GroupVersionResource
	RequestSubResource string

	Name      string // empty for a CREATE with generateName
	Namespace string // a Namespace carries its own name
	Operation Operation
	UserInfo  UserInfo
	DryRun    bool

	// UserAssumed says that nobody is known to make the request and UserInfo stands for anyone: the rights that the
	// server wants of the writer of a policy are not asked for.
	UserAssumed bool

	Object    map[string]any // nil on DELETE
	OldObject map[string]any // nil on CREATE and CONNECT
	Options   map[string]any // CreateOptions and the like; nil for CONNECT
}

// isConverted reports that the object is not what the request was made to.
func (r *Request) isConverted() bool { return !r.RequestKind.Empty() || !r.RequestResource.Empty() }

// A target is what a request was made to.
type target struct {
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	SubResource string
}

// target returns what the request was made to.
func (r *Request) target() target {
	if r.isConverted() {
		return target{r.RequestKind, r.RequestResource, r.RequestSubResource}
	}
	return target{r.Kind, r.Resource, r.SubResource}
}

// UserInfo is the user who makes the request.
type UserInfo struct {
	Username string
	UID      string
	Groups   []string
	Extra    map[string][]string
}

// A Cluster is what an engine asks about the world beyond the request. All objects are JSON trees and must
// not be changed.
//
// Package state answers from objects in memory, package kube from a live cluster.
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

// displayName is the name that a refusal shows, as pkg/admission/errors.go v0.37.2 finds it.
func (r *Request) displayName() string {
	if r.Name != "" {
		return r.Name
	}
	if r.Object == nil {
		return unknownName
	}
	if r.Operation == Connect { // the options have no metadata
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

// tree has the members that the server sets, by its rules for empty ones.
func (u *UserInfo) tree() map[string]any {
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
