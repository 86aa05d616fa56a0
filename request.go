package celgate

import (
	"context"

	"github.com/celgate/celgate/prepare"
	"github.com/celgate/celgate/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
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

// A Request is one admission request, with the members of admission.k8s.io/v1 AdmissionRequest.
//
// Objects are JSON trees (map[string]any, []any, string, int64, float64, bool, nil) as package prepare makes them. They
// are never changed; a mutated object shares what was not changed.
type Request struct {
	UID string

	// Kind, Resource and SubResource say what the object is. A policy that matches through an equivalent
	// version gets the object in that version.
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	SubResource string

	Name      string // empty for a CREATE with generateName
	Namespace string // a Namespace carries its own name
	Operation Operation
	UserInfo  UserInfo
	DryRun    bool

	Object    map[string]any // nil on DELETE
	OldObject map[string]any // nil on CREATE and CONNECT
	Options   map[string]any // CreateOptions and the like; nil for CONNECT

	normal prepare.Normal // Object, if Prepare has made it
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
