// Package requests makes the requests that a command is asked about: what a server would be sent if someone applied a
// manifest, deleted an object or used a subresource, or what an AdmissionReview says. It knows no command.
package requests

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
	"github.com/google/uuid"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Namespace is the kind of namespaces.
var Namespace = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// DefaultUser makes the requests when no user is given.
const DefaultUser = "celgate"

// A World is what requests are made in.
type World struct {
	Types  *schema.Registry
	Stored Objects // what existed before the requests
	Words  Words
}

// Objects are those of a cluster. Get returns nil without an error for one that does not exist.
type Objects interface {
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error)
}

// Words say how a reader gives what is missing, in the hints of errors.
type Words struct {
	State       string // "with -c"
	Old         string // "with --old or -c; …"
	Subresource string // "--subresource %s"
}

// Asked says how requests are made of manifests. AdmissionReviews say all of it themselves.
type Asked struct {
	Operation   string         // empty: CREATE, or UPDATE of an object that exists
	Old         *state.Cluster // objects before an update or deletion; nil: those of the world
	Subresource string         // "scale", or with the resource that it belongs to "deployments/scale"
	User        string         // with Groups; empty: Self
	Groups      []string
	UID         string
	Extra       map[string][]string
	Pod         string            // "namespace/name" of the Pod whose token is used; User is empty then; see Identity
	Self        *celgate.UserInfo // nil: DefaultUser
	DryRun      bool
	Namespace   string // of manifests that name none
}

// An Error says why no request can be made, and what helps.
type Error struct {
	Message string
	Hint    string // empty: none
}

func (e *Error) Error() string { return e.Message }

func withHint(err error, format string, args ...any) error {
	return &Error{err.Error(), fmt.Sprintf(format, args...)}
}

// A Target is the resource that takes an object.
type Target struct {
	*schema.Resource
	Subresource string
}

// Target finds the resource that objects of a kind are sent to.
func (w *World) Target(kind schema.GroupVersionKind, subresource string) (Target, error) {
	resource, sub, named := strings.Cut(subresource, "/")
	if !named {
		resource, sub = "", subresource
	}
	if sub == "" {
		if r := w.Types.ResourceFor(kind); r != nil && !r.NotServed {
			return Target{r, ""}, nil
		}
		return Target{}, w.unknown(kind)
	}
	if !named {
		if r := w.Types.ResourceFor(kind); r != nil && r.Subresource(sub) != nil {
			resource = r.Resource + "." + r.Version + "." + r.Group
		}
	}
	var found []*schema.Resource
	parents := map[string]bool{}
	var takes []string
	for _, r := range w.Types.Resources() {
		s := r.Subresource(sub)
		if s == nil || r.NotServed || named && !names(resource, r) || resource != "" && !names(resource, r) {
			continue
		}
		if s.Kind != kind {
			takes = append(takes, kindText(s.Kind))
			continue
		}
		found = append(found, r)
		parents[r.GroupResource().String()] = true
	}
	switch {
	case len(parents) > 1:
		return Target{}, withHint(fmt.Errorf("several resources have a subresource %s for %s", sub, kindText(kind)),
			"name the resource too, as in "+w.Words.Subresource, slices.Sorted(maps.Keys(parents))[0]+"/"+sub)
	case len(found) > 0:
		// What is on by default and in the newest stable version comes first.
		return Target{slices.MinFunc(found, func(x, y *schema.Resource) int {
			return cmp.Or(cmpBool(x.OffByDefault, y.OffByDefault), version.CompareKubeAwareVersionStrings(y.Version, x.Version))
		}), sub}, nil
	case len(takes) > 0 && resource != "":
		return Target{}, fmt.Errorf("the subresource %s takes %s, not %s", sub, takes[0], kindText(kind))
	case resource != "" && named:
		return Target{}, fmt.Errorf("no resource %s with a subresource %s", resource, sub)
	}
	return Target{}, fmt.Errorf("no resource has a subresource %s for %s", sub, kindText(kind))
}

// names reports that text names a resource, as kubectl takes it: "deployments", "deployments.apps" or
// "deployments.v1.apps".
func names(text string, r *schema.Resource) bool {
	name, rest, _ := strings.Cut(text, ".")
	if name != r.Resource {
		return false
	}
	return rest == "" || rest == r.Group || rest == r.Version+"."+r.Group
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// unknown says why objects of a kind cannot be sent to any resource.
func (w *World) unknown(kind schema.GroupVersionKind) error {
	if kind.Group == "kustomize.config.k8s.io" {
		return withHint(errors.New("a kustomization is no object"), "kustomize build DIR | celgate apply -p … -")
	}
	var served []string
	for _, r := range w.Types.Resources() {
		if r.Group == kind.Group && r.Kind == kind.Kind && !r.NotServed && !r.OffByDefault {
			served = append(served, r.GroupVersion().String())
		}
	}
	if len(served) > 0 {
		return withHint(fmt.Errorf("%s is not served", kindText(kind)), "%s is", strings.Join(served, ", "))
	}
	if w.Types.Type(kind) != nil {
		return withHint(fmt.Errorf("%s is the kind of a subresource", kindText(kind)), "say which, as in "+w.Words.Subresource, "deployments/scale")
	}
	return withHint(fmt.Errorf("nothing is known about the kind %s", kindText(kind)), "give its CustomResourceDefinition %s", w.Words.State)
}

// ManifestRequest makes the request that creates, updates or deletes the object of a manifest.
func (w *World) ManifestRequest(ctx context.Context, d *manifest.Document, a *Asked) (*celgate.Request, error) {
	object := d.Object
	kind := KindOf(object)
	to, err := w.Target(kind, a.Subresource)
	if err != nil {
		return nil, err
	}
	r := &celgate.Request{
		Kind: kind, Resource: to.GroupVersionResource, SubResource: to.Subresource,
		Name: MetadataOf(object, "name"), DryRun: a.DryRun,
		UserInfo: a.user(), UserAssumed: a.User == "" && a.Self == nil,
	}
	r.Namespace = w.NamespaceOf(object, to, a)
	if t := w.Types.Type(kind); t != nil && t.Field("metadata") == nil {
		// Options such as PodExecOptions have no metadata; in a manifest it says which object they are for.
		object = maps.Clone(object)
		delete(object, "metadata")
	}
	if r.Name == "" && (MetadataOf(object, "generateName") == "" || to.Subresource != "") {
		return nil, errors.New("metadata.name is missing")
	}

	old := func() (map[string]any, error) { return w.oldObject(ctx, r, a) }
	r.Operation = celgate.Operation(a.Operation)
	if r.Operation == "" {
		if r.Operation, err = w.operationOf(r, to, old); err != nil {
			return nil, err
		}
	}
	switch r.Operation {
	case celgate.Create, celgate.Connect:
		r.Object = object
	case celgate.Update:
		if r.OldObject, err = old(); err != nil {
			return nil, err
		}
		if r.OldObject == nil {
			return nil, withHint(errors.New("the object to update is not known"),
				"give it %s", w.Words.Old)
		}
		r.Object = object
	case celgate.Delete:
		if r.OldObject, err = old(); err != nil {
			return nil, err
		}
		if r.OldObject == nil { // what the manifest describes is what is deleted
			r.OldObject = InNamespace(object, r)
		}
	}
	r.Options = optionsOf(r)
	r.UID = uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join([]string{d.Position().String(), kind.String(), r.Namespace, r.Name, string(r.Operation)}, "\n"))).String()
	return r, nil
}

// user makes the requests.
func (a *Asked) user() celgate.UserInfo {
	if a.User == "" && a.Self != nil {
		return *a.Self
	}
	name := cmp.Or(a.User, DefaultUser)
	return celgate.UserInfo{Username: name, UID: a.UID, Groups: state.Groups(name, a.Groups), Extra: a.Extra}
}

// NamespaceOf returns the namespace of the request: of namespaced objects their own or the default one, of a Namespace
// its own name, of other objects none.
func (w *World) NamespaceOf(object map[string]any, to Target, a *Asked) string {
	switch {
	case to.Namespaced:
		return cmp.Or(MetadataOf(object, "namespace"), a.Namespace, "default")
	case to.GroupVersionKind() == Namespace:
		return MetadataOf(object, "name")
	}
	return ""
}

// oldObject returns the stored object that a request is about, nil if there is none.
func (w *World) oldObject(ctx context.Context, r *celgate.Request, a *Asked) (map[string]any, error) {
	if r.Name == "" {
		return nil, nil
	}
	namespace := r.Namespace
	if res := w.Types.Resource(r.Resource); res != nil && !res.Namespaced {
		namespace = ""
	}
	if a.Old != nil {
		if old, err := a.Old.Get(ctx, r.Kind, namespace, r.Name); old != nil || err != nil {
			return old, err
		}
	}
	if r.SubResource == "scale" {
		return w.scale(ctx, r, a, namespace)
	}
	if w.Types.ResourceFor(r.Kind) == nil { // an Eviction and the like is not stored
		return nil, nil
	}
	return w.Stored.Get(ctx, r.Kind, namespace, r.Name)
}

// scale returns the Scale of the stored object that a request scales, nil if there is none.
func (w *World) scale(ctx context.Context, r *celgate.Request, a *Asked, namespace string) (map[string]any, error) {
	res := w.Types.Resource(r.Resource)
	if res == nil {
		return nil, nil
	}
	var parent map[string]any
	var err error
	if a.Old != nil {
		if parent, err = a.Old.Get(ctx, res.GroupVersionKind(), namespace, r.Name); err != nil {
			return nil, err
		}
	}
	if parent == nil {
		parent, err = w.Stored.Get(ctx, res.GroupVersionKind(), namespace, r.Name)
	}
	if parent == nil || err != nil {
		return nil, err
	}
	return prepare.Scale(parent, res)
}

// operations of subresources whose objects are not stored (as pkg/registry v1.37.2).
var subresourceOperations = map[string]celgate.Operation{
	"eviction": celgate.Create, "binding": celgate.Create, "token": celgate.Create,
	"exec": celgate.Connect, "attach": celgate.Connect, "portforward": celgate.Connect, "proxy": celgate.Connect,
}

func (w *World) operationOf(r *celgate.Request, to Target, old func() (map[string]any, error)) (celgate.Operation, error) {
	if to.Subresource != "" {
		return cmp.Or(subresourceOperations[to.Subresource], celgate.Update), nil
	}
	stored, err := old()
	if err != nil || stored == nil {
		return celgate.Create, err
	}
	return celgate.Update, nil
}

// InNamespace returns an object that lies in the namespace of the request.
func InNamespace(object map[string]any, r *celgate.Request) map[string]any {
	if MetadataOf(object, "namespace") != "" || r.Namespace == "" || r.Kind == Namespace {
		return object
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	object, metadata = maps.Clone(object), maps.Clone(metadata)
	metadata["namespace"] = r.Namespace
	object["metadata"] = metadata
	return object
}

// optionsOf returns the options of a request whose maker gave none.
func optionsOf(r *celgate.Request) map[string]any {
	kinds := map[celgate.Operation]string{celgate.Create: "CreateOptions", celgate.Update: "UpdateOptions", celgate.Delete: "DeleteOptions"}
	if kinds[r.Operation] == "" {
		return nil
	}
	options := map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": kinds[r.Operation]}
	if r.DryRun {
		options["dryRun"] = []any{"All"}
	}
	return options
}

// IsReview reports an AdmissionReview, in either version.
func IsReview(object map[string]any) bool {
	return manifest.IsReview(object)
}

// A review is the request of an AdmissionReview; the two versions have the same members.
type review struct {
	UID                string                          `json:"uid"`
	Kind               apischema.GroupVersionKind      `json:"kind"`
	Resource           apischema.GroupVersionResource  `json:"resource"`
	SubResource        string                          `json:"subResource"`
	RequestKind        *apischema.GroupVersionKind     `json:"requestKind"`
	RequestResource    *apischema.GroupVersionResource `json:"requestResource"`
	RequestSubResource string                          `json:"requestSubResource"`
	Name               string                          `json:"name"`
	Namespace          string                          `json:"namespace"`
	Operation          celgate.Operation               `json:"operation"`
	UserInfo           celgate.UserInfo                `json:"userInfo"`
	DryRun             bool                            `json:"dryRun"`
}

// ReviewRequest makes the request that an AdmissionReview is about. A webhook that matches through an equivalent
// version gets the object in that version; policies are asked about the request as it was made.
func (w *World) ReviewRequest(object map[string]any) (*celgate.Request, error) {
	tree, _ := object["request"].(map[string]any)
	if tree == nil {
		return nil, errors.New("an AdmissionReview without a request")
	}
	scalars := maps.Clone(tree)
	for _, member := range []string{"object", "oldObject", "options"} {
		delete(scalars, member)
	}
	text, err := json.Marshal(scalars)
	if err != nil {
		return nil, err
	}
	var in review
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	r := &celgate.Request{
		UID: in.UID, Kind: in.Kind, Resource: in.Resource, SubResource: in.SubResource, Name: in.Name, Namespace: in.Namespace,
		Operation: in.Operation, UserInfo: in.UserInfo, DryRun: in.DryRun,
	}
	for member, to := range map[string]*map[string]any{"object": &r.Object, "oldObject": &r.OldObject, "options": &r.Options} {
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
	case celgate.Create, celgate.Update, celgate.Delete, celgate.Connect:
	default:
		return nil, fmt.Errorf("request.operation %q is none of CREATE, UPDATE, DELETE, CONNECT", r.Operation)
	}
	if in.RequestKind != nil && in.RequestResource != nil && *in.RequestKind != in.Kind {
		r.Kind, r.Resource, r.SubResource = *in.RequestKind, *in.RequestResource, in.RequestSubResource
		for _, o := range []*map[string]any{&r.Object, &r.OldObject} {
			if *o == nil {
				continue
			}
			if *o, err = w.Types.Convert(*o, r.Kind); err != nil {
				return nil, fmt.Errorf("converting back to requestKind: %w", err)
			}
		}
	}
	if r.Kind.Kind == "" {
		return nil, errors.New("request.kind is missing")
	}
	resource := w.Types.Resource(r.Resource)
	switch {
	case resource == nil && r.Resource.Resource == "":
		return nil, errors.New("request.resource is missing")
	case resource == nil:
		return nil, withHint(fmt.Errorf("nothing is known about the resource %s of %s", r.Resource.Resource, r.Resource.GroupVersion()),
			"give its CustomResourceDefinition %s", w.Words.State)
	case r.SubResource != "" && resource.Subresource(r.SubResource) == nil:
		return nil, fmt.Errorf("%s has no subresource %s", resource.GroupResource(), r.SubResource)
	case r.Object == nil && r.Operation != celgate.Delete:
		return nil, fmt.Errorf("request.object is missing in a %s", r.Operation)
	case r.OldObject == nil && (r.Operation == celgate.Delete || r.Operation == celgate.Update):
		return nil, fmt.Errorf("request.oldObject is missing in a %s", r.Operation)
	}
	if r.Options == nil {
		r.Options = optionsOf(r)
	}
	return r, nil
}

// KindOf returns the kind that an object says it is of.
func KindOf(object map[string]any) schema.GroupVersionKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return apischema.FromAPIVersionAndKind(apiVersion, kind)
}

// kindText returns a kind as a manifest has it.
func kindText(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + " " + kind.Kind
}

// MetadataOf returns a member of the metadata of an object that is text.
func MetadataOf(object map[string]any, member string) string {
	metadata, _ := object["metadata"].(map[string]any)
	s, _ := metadata[member].(string)
	return s
}
