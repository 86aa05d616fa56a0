package requests

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/workload"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
	"github.com/google/uuid"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// Workloads say whether and how the objects are followed that controllers make of what is asked about. The zero value
// follows the kinds that are built in.
type Workloads struct {
	Off    bool
	All    bool   // also where no policy can be for what controllers make
	User   string // of all controllers; empty: each has a service account
	PodsOf PodsOf
}

// PodsOf are the paths of the pod templates of further kinds, by KIND.GROUP or KIND.
type PodsOf map[string][]workload.Path

// Add says where the objects of a kind hold the template of Pods.
func (p PodsOf) Add(kind, path string) error {
	of := apischema.ParseGroupKind(kind)
	if workload.IsWorkload(of) || of == (apischema.GroupKind{Kind: "Pod"}) {
		return fmt.Errorf("celgate knows what controllers make of a %s", of.Kind)
	}
	parsed, err := workload.ParsePath(path)
	if err != nil {
		return fmt.Errorf("%q is not a path: %w", path, err)
	}
	if slices.ContainsFunc(p[kind], func(had workload.Path) bool { return had.String() == parsed.String() }) {
		return fmt.Errorf("the template of a %s at %s is named twice", of.Kind, parsed)
	}
	p[kind] = append(p[kind], parsed)
	return nil
}

// made are the kinds of objects that controllers make.
var made = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
}

// Follows reports whether what a request stores is followed: a policy may be for what controllers make of it.
func (w *Workloads) Follows(r *celgate.Request, types *schema.Registry, e *celgate.Engine) bool {
	if w == nil || w.Off || r.SubResource != "" || r.Operation != celgate.Create && r.Operation != celgate.Update {
		return false
	}
	return w.All || MayMatchChildren(types, e)
}

// MayMatchChildren reports whether a policy may be for anything that controllers make.
func MayMatchChildren(types *schema.Registry, e *celgate.Engine) bool {
	return slices.ContainsFunc(made, func(kind schema.GroupVersionKind) bool {
		r := types.ResourceFor(kind)
		return r != nil && e.MayMatch(r.GroupVersionResource, "", celgate.Create)
	})
}

// PathsOf returns where objects of a kind hold the templates of their Pods, none if nobody has said so, and under which
// name that was said.
func (w *Workloads) PathsOf(kind schema.GroupVersionKind) (paths []workload.Path, named string) {
	for _, name := range []string{kind.GroupKind().String(), kind.Kind} {
		if paths := w.PodsOf[name]; len(paths) > 0 {
			return paths, name
		}
	}
	return nil, ""
}

// A NoTemplateError says that an object holds no template of Pods where its kind is said to have some.
type NoTemplateError struct{ Paths []workload.Path }

func (e *NoTemplateError) Error() string {
	var all []string
	for _, path := range e.Paths {
		all = append(all, path.String())
	}
	return "it holds no template of Pods at " + strings.Join(all, " or ")
}

// Children are what the controller of a stored object makes of it. They are as many as the object has members for: a
// chain of them ends with a Pod. The error is a [NoTemplateError].
func (w *Workloads) Children(object map[string]any) ([]workload.Child, error) {
	kind := tree.Object(object).Kind()
	if workload.IsWorkload(kind.GroupKind()) {
		return workload.Children(object), nil
	}
	paths, _ := w.PathsOf(kind)
	var all []workload.Child
	for _, path := range paths {
		all = append(all, workload.PodsOf(object, path)...)
	}
	if len(all) == 0 && len(paths) > 0 {
		return nil, &NoTemplateError{paths}
	}
	return all, nil
}

// ChildRequest is the request with which a controller creates a child of what another request stored.
func (w *Workloads) ChildRequest(c workload.Child, parent *celgate.Request, types *schema.Registry) (*celgate.Request,
	error) {
	kind := tree.Object(c.Object).Kind()
	resource := types.ResourceFor(kind)
	if resource == nil {
		return nil, errors.New("nothing is known about the kind " + kind.String())
	}
	return &celgate.Request{
		Kind: kind, Resource: resource.GroupVersionResource, Name: tree.Object(c.Object).Name(),
		Namespace: parent.Namespace,
		Operation: celgate.Create, DryRun: parent.DryRun, UserInfo: w.requester(c, parent.UserInfo), Object: c.Object,
		Options: map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
		UID:     uuid.NewSHA1(uuid.NameSpaceURL, []byte(parent.UID+"\n"+kind.String()+"\n"+c.Template)).String(),
	}, nil
}

// requester is who sends the request that creates a child.
func (w *Workloads) requester(c workload.Child, asked celgate.UserInfo) celgate.UserInfo {
	name := w.User
	switch {
	case name != "":
	case c.Controller == "":
		return asked
	default:
		name = "system:serviceaccount:kube-system:" + c.Controller
	}
	return celgate.UserInfo{Username: name, Groups: state.Groups(name, nil)}
}
