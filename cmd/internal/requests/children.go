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

// Workloads defines whether and how objects that controllers create are followed. The zero value follows built-in
// kinds.
type Workloads struct {
	Off    bool
	All    bool   // even if no policy can match the created objects
	User   string // of all controllers; empty: a service account for each
	PodsOf PodsOf
}

// PodsOf has the paths of the pod templates of further kinds, by KIND.GROUP or KIND.
type PodsOf map[string][]workload.Path

// Add adds a path of Pod templates in objects of a kind.
func (p PodsOf) Add(kind, path string) error {
	of := apischema.ParseGroupKind(kind)
	if workload.IsWorkload(of) || of == (apischema.GroupKind{Kind: "Pod"}) {
		return fmt.Errorf("celgate already knows the Pods of a %s", of.Kind)
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

// made are the kinds of objects that controllers create.
var made = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Pod"}, {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "batch", Version: "v1", Kind: "Job"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
}

// Follows reports whether the object of a request is followed: a policy may match its children.
func (w *Workloads) Follows(r *celgate.Request, types *schema.Registry, e *celgate.Engine) bool {
	if w == nil || w.Off || r.SubResource != "" || r.Operation != celgate.Create && r.Operation != celgate.Update {
		return false
	}
	return w.All || MayMatchChildren(types, e)
}

// MayMatchChildren reports whether a policy may match objects that controllers create.
func MayMatchChildren(types *schema.Registry, e *celgate.Engine) bool {
	return slices.ContainsFunc(made, func(kind schema.GroupVersionKind) bool {
		r := types.ResourceFor(kind)
		return r != nil && e.MayMatch(r.GroupVersionResource, "", celgate.Create)
	})
}

// PathsOf returns the paths of Pod templates in objects of a kind, none if not given, and the name under which they
// were given.
func (w *Workloads) PathsOf(kind schema.GroupVersionKind) (paths []workload.Path, named string) {
	for _, name := range []string{kind.GroupKind().String(), kind.Kind} {
		if paths := w.PodsOf[name]; len(paths) > 0 {
			return paths, name
		}
	}
	return nil, ""
}

// A NoTemplateError means that an object does not have a Pod template at any of the given paths.
type NoTemplateError struct{ Paths []workload.Path }

func (e *NoTemplateError) Error() string {
	var all []string
	for _, path := range e.Paths {
		all = append(all, path.String())
	}
	return "it does not have a Pod template at " + strings.Join(all, " or ")
}

// Children returns the objects that the controller of a stored object creates. Their number is bounded by the size of
// the object: a chain of them ends with a Pod. The error is a [NoTemplateError].
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

// ChildRequest returns the request with which a controller creates a child of a stored object.
func (w *Workloads) ChildRequest(c workload.Child, parent *celgate.Request, types *schema.Registry) (*celgate.Request,
	error) {
	kind := tree.Object(c.Object).Kind()
	resource := types.ResourceFor(kind)
	if resource == nil {
		return nil, errors.New("unknown kind " + kind.String())
	}
	return &celgate.Request{
		Kind: kind, Resource: resource.GroupVersionResource, Name: tree.Object(c.Object).Name(),
		Namespace: parent.Namespace,
		Operation: celgate.Create, DryRun: parent.DryRun, UserInfo: w.requester(c, parent.UserInfo), Object: c.Object,
		Options: map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
		UID:     uuid.NewSHA1(uuid.NameSpaceURL, []byte(parent.UID+"\n"+kind.String()+"\n"+c.Template)).String(),
	}, nil
}

// requester returns the user of the request that creates a child.
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
