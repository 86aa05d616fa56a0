package celgate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
)

// DefaultUser makes requests for which no user is given.
const DefaultUser = "celgate"

// A Requester makes requests: what a server would be sent if someone applied a manifest, deleted an object or used a
// subresource, and what an AdmissionReview in a file says. The errors are [*ResourceError],
// [ErrNoOldObject] and others that say what is wrong with the object.
type Requester struct {
	Types *schema.Registry
	// Stored finds what existed before the requests: the method Get of a Cluster.
	Stored func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error)
}

// As says who does what with an object. The zero value creates it, or updates one that exists, as a user without
// rights.
type As struct {
	User   string // who makes the request, with Groups, UID and Extra; empty: Self
	Groups []string
	UID    string
	Extra  map[string][]string
	Self   *UserInfo // who makes it if User is empty; nil: nobody knows, and DefaultUser stands for anyone

	Operation   Operation // empty: CREATE, or UPDATE of an object that exists
	Subresource string    // "scale", or with the resource that it belongs to "deployments/scale"
	Namespace   string    // of an object that names none; empty: "default"
	DryRun      bool
	// Old finds objects as they are before an update or deletion: the method Get of a Cluster. Those that it does not
	// have, and all if it is nil, are those that are stored.
	Old func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error)
}

// ErrNoOldObject is the error about an update of an object that is not known.
var ErrNoOldObject = errors.New("the object to update is not known")

// A ResourceError says that a request cannot be sent to any resource, or that several take it.
type ResourceError struct {
	Kind     schema.GroupVersionKind     // of the object
	Resource schema.GroupVersionResource // the unknown one that a review names; empty: it is about the kind

	// Among are several resources with the subresource Subresource, which takes objects of the kind; sorted.
	Among       []string
	Subresource string

	Served        []string // the versions in which the server has the kind
	OfSubresource bool     // the kind is that of subresources

	// Mistaken says that no CustomResourceDefinition can define the kind in earnest: its group is one of the server's
	// own, or is nearly the one that has the kind. Meant is the kind that was probably meant; zero: none is near.
	Mistaken bool
	Meant    schema.GroupVersionKind
}

func (e *ResourceError) Error() string {
	switch {
	case !e.Resource.Empty():
		return fmt.Sprintf("nothing is known about the resource %s of %s", e.Resource.Resource,
			e.Resource.GroupVersion())
	case len(e.Among) > 0:
		return fmt.Sprintf("several resources have a subresource %s for %s", e.Subresource, kindText(e.Kind))
	case e.Kind.Group == "kustomize.config.k8s.io":
		return "a kustomization is not an object"
	case len(e.Served) > 0:
		return kindText(e.Kind) + " is not served"
	case e.OfSubresource:
		return kindText(e.Kind) + " is the kind of a subresource"
	}
	return "nothing is known about the kind " + kindText(e.Kind)
}

// Target finds the resource that objects of a kind are sent to, and its subresource if one is asked for.
func (q *Requester) Target(kind schema.GroupVersionKind, subresource string) (
	to *schema.Resource, sub string, err error) {
	resource, sub, named := strings.Cut(subresource, "/")
	if !named {
		resource, sub = "", subresource
	}
	if sub == "" {
		if r := q.Types.ResourceFor(kind); r != nil && !r.NotServed {
			return r, "", nil
		}
		return nil, "", q.unknownKindError(kind)
	}
	if !named {
		if r := q.Types.ResourceFor(kind); r != nil && r.Subresource(sub) != nil {
			resource = r.Resource + "." + r.Version + "." + r.Group
		}
	}
	var found []*schema.Resource
	parents := map[string]bool{}
	var takes []string
	for _, r := range q.Types.Resources() {
		s := r.Subresource(sub)
		if s == nil || r.NotServed || named && !isNamed(resource, r) || resource != "" && !isNamed(resource, r) {
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
		return nil, "", &ResourceError{Kind: kind, Subresource: sub, Among: slices.Sorted(maps.Keys(parents))}
	case len(found) > 0:
		// What is on by default and in the newest stable version comes first.
		return slices.MinFunc(found, func(x, y *schema.Resource) int {
			return cmp.Or(cmpBool(x.OffByDefault, y.OffByDefault),
				version.CompareKubeAwareVersionStrings(y.Version, x.Version))
		}), sub, nil
	case len(takes) > 0 && resource != "":
		return nil, "", fmt.Errorf("the subresource %s takes %s, not %s", sub, takes[0], kindText(kind))
	case resource != "" && named:
		return nil, "", fmt.Errorf("no resource %s with a subresource %s", resource, sub)
	}
	return nil, "", fmt.Errorf("no resource has a subresource %s for %s", sub, kindText(kind))
}

// isNamed reports that text names a resource, as kubectl takes it: "deployments", "deployments.apps" or
// "deployments.v1.apps".
func isNamed(text string, r *schema.Resource) bool {
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

// unknownKindError says why objects of a kind cannot be sent to any resource.
func (q *Requester) unknownKindError(kind schema.GroupVersionKind) error {
	err := &ResourceError{Kind: kind, OfSubresource: q.Types.Type(kind) != nil}
	for _, r := range q.Types.Resources() {
		if r.Group == kind.Group && r.Kind == kind.Kind && !r.NotServed && !r.OffByDefault {
			err.Served = append(err.Served, r.GroupVersion().String())
		}
	}
	if len(err.Served) == 0 && !err.OfSubresource {
		err.Meant, err.Mistaken = q.nearestKind(kind)
	}
	return err
}

// nearestKind returns the kind that an unknown one is probably a mistake for, and whether it is surely one.
func (q *Requester) nearestKind(kind schema.GroupVersionKind) (near schema.GroupVersionKind, mistaken bool) {
	const formerly = "extensions" // a group of the server until 1.21
	mistaken = kind.Group == formerly
	least := len(kind.Kind)/4 + 1
	for _, r := range q.Types.Resources() {
		if r.Definition != nil || r.NotServed || r.OffByDefault {
			continue
		}
		own := r.Group == kind.Group || kind.Group == formerly
		mistaken = mistaken || own
		far := spell.Distance(r.Kind, kind.Kind)
		switch {
		case own:
		case far == 0 && isNearly(kind.Group, r.Group):
			mistaken = true
		case far != 0 || !slices.Contains([]string{"", formerly}, kind.Group): // elsewhere
			continue
		}
		if far < least || far == least && near.Empty() {
			near, least = r.GroupVersionKind(), far
		}
	}
	return near, mistaken
}

// isNearly reports that a group is written almost as one of the server's: apps, networking.k8s.io.
func isNearly(written, group string) bool {
	first := func(s string) string { return s[:max(strings.IndexByte(s, '.'), 0)] }
	const reserved = ".k8s.io" // for which a definition needs an approval
	switch {
	case written == "":
		return false
	case spell.Distance(written, group) <= 2, strings.HasPrefix(group, written+"."):
		return true
	}
	return first(written) == first(group) && strings.HasSuffix(written, reserved) && strings.HasSuffix(group, reserved)
}

// Request makes the request that creates, updates or deletes an object as its author wrote it.
func (q *Requester) Request(ctx context.Context, object map[string]any, a As) (*Request, error) {
	kind := tree.Object(object).Kind()
	to, subresource, err := q.Target(kind, a.Subresource)
	if err != nil {
		return nil, err
	}
	r := &Request{
		Kind: kind, Resource: to.GroupVersionResource, SubResource: subresource,
		Name: tree.Object(object).Name(), DryRun: a.DryRun,
		UserInfo: a.user(), UserAssumed: a.User == "" && a.Self == nil,
	}
	r.Namespace = q.NamespaceOf(object, to, a)
	if t := q.Types.Type(kind); t != nil && t.Field("metadata") == nil {
		// Options such as PodExecOptions have no metadata; in a manifest it says which object they are for.
		object = maps.Clone(object)
		delete(object, "metadata")
	}
	if r.Name == "" && (tree.Object(object).Metadata().Text("generateName") == "" || subresource != "") {
		return nil, errors.New("metadata.name is missing")
	}

	old := func() (map[string]any, error) { return q.oldObject(ctx, r, a) }
	if r.Operation = a.Operation; r.Operation == "" {
		if r.Operation, err = q.operationOf(r, old); err != nil {
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
		if r.OldObject == nil { // what the manifest describes is what is deleted
			r.OldObject = WithNamespace(object, r)
		}
	}
	r.Options = optionsOf(r)
	identity := []string{kind.String(), r.Namespace, r.Name, string(r.Operation)}
	r.UID = uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join(identity, "\n"))).
		String()
		// always the same for the same request
	return r, nil
}

// user makes the requests.
func (a As) user() UserInfo {
	if a.User == "" && a.Self != nil {
		return *a.Self
	}
	name := cmp.Or(a.User, DefaultUser)
	return UserInfo{Username: name, UID: a.UID, Groups: state.Groups(name, a.Groups), Extra: a.Extra}
}

// NamespaceOf returns the namespace of the request: of namespaced objects their own or the default one, of a Namespace
// its own name, of other objects none.
func (q *Requester) NamespaceOf(object map[string]any, to *schema.Resource, a As) string {
	switch {
	case to.Namespaced:
		return cmp.Or(tree.Object(object).Namespace(), a.Namespace, "default")
	case to.GroupVersionKind() == namespaceKind:
		return tree.Object(object).Name()
	}
	return ""
}

// oldObject returns the stored object that a request is about, nil if there is none.
func (q *Requester) oldObject(ctx context.Context, r *Request, a As) (map[string]any, error) {
	if r.Name == "" {
		return nil, nil
	}
	namespace := r.Namespace
	if res := q.Types.Resource(r.Resource); res != nil && !res.Namespaced {
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
	if q.Types.ResourceFor(r.Kind) == nil { // an Eviction and the like is not stored
		return nil, nil
	}
	return q.Stored(ctx, r.Kind, namespace, r.Name)
}

// scale returns the Scale of the stored object that a request scales, nil if there is none.
func (q *Requester) scale(ctx context.Context, r *Request, a As, namespace string) (map[string]any, error) {
	res := q.Types.Resource(r.Resource)
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
		parent, err = q.Stored(ctx, res.GroupVersionKind(), namespace, r.Name)
	}
	if parent == nil || err != nil {
		return nil, err
	}
	return prepare.Scale(parent, res)
}

// operations of subresources whose objects are not stored (as pkg/registry v1.37.2).
var subresourceOperations = map[string]Operation{
	"eviction": Create, "binding": Create, "token": Create,
	"exec": Connect, "attach": Connect, "portforward": Connect, "proxy": Connect,
}

func (q *Requester) operationOf(r *Request, old func() (map[string]any, error)) (Operation, error) {
	if r.SubResource != "" {
		return cmp.Or(subresourceOperations[r.SubResource], Update), nil
	}
	stored, err := old()
	if err != nil || stored == nil {
		return Create, err
	}
	return Update, nil
}

// WithNamespace returns an object that lies in the namespace of the request.
func WithNamespace(object map[string]any, r *Request) map[string]any {
	o := tree.Object(object)
	if o.Namespace() != "" || r.Namespace == "" || r.Kind == namespaceKind || o.Metadata() == nil {
		return object
	}
	return o.WithMetadata(o.Metadata().With(map[string]any{"namespace": r.Namespace}))
}

// optionsOf returns the options of a request whose maker gave none.
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

// A reviewed request is that of an AdmissionReview; the two versions have the same members.
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

// ReviewRequest makes the request that an AdmissionReview is about, in either version, as its author made it. A webhook
// that matches through an equivalent version gets the object in that version; policies are asked about the request as
// it was made.
func (q *Requester) ReviewRequest(object map[string]any) (*Request, error) {
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
			if *o, err = q.Types.Convert(*o, r.Kind); err != nil {
				return nil, fmt.Errorf("converting back to requestKind: %w", err)
			}
		}
	}
	if r.Kind.Kind == "" {
		return nil, errors.New("request.kind is missing")
	}
	resource := q.Types.Resource(r.Resource)
	switch {
	case resource == nil && r.Resource.Resource == "":
		return nil, errors.New("request.resource is missing")
	case resource == nil:
		return nil, &ResourceError{Resource: r.Resource}
	case r.SubResource != "" && resource.Subresource(r.SubResource) == nil:
		return nil, fmt.Errorf("%s has no subresource %s", resource.GroupResource(), r.SubResource)
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

// RequestFor makes the request that creates, updates or deletes an object as its author wrote it, as the API server
// hands it to policies. What is stored is what the cluster of the engine has.
func (e *Engine) RequestFor(ctx context.Context, object map[string]any, as As) (*Prepared, error) {
	q := Requester{Types: e.types, Stored: e.cluster.Get}
	r, err := q.Request(ctx, object, as)
	if err != nil {
		return nil, err
	}
	return e.Prepare(ctx, r)
}

// kindText returns a kind as a manifest has it.
func kindText(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + " " + kind.Kind
}
