package cli

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
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
	"github.com/google/uuid"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// asked says how requests are made of manifests. AdmissionReviews say all of it themselves.
type asked struct {
	operation   string // empty: CREATE, or UPDATE of an object that exists
	old         *state.Cluster
	subresource string // "scale", or with the resource that it belongs to "deployments/scale"
	user        string
	groups      []string
	dryRun      bool
	namespace   string // of manifests that name none
}

// defaultUser makes the requests when no user is given.
const defaultUser = "celgate"

// given names the flags that were used and that an AdmissionReview contradicts.
func (a *asked) given() []string {
	var flags []string
	for name, used := range map[string]bool{
		"--operation": a.operation != "", "--old": a.old != nil, "--subresource": a.subresource != "",
		"--as": a.user != "", "--as-group": len(a.groups) > 0, "--dry-run": a.dryRun,
	} {
		if used {
			flags = append(flags, name)
		}
	}
	slices.Sort(flags)
	return flags
}

// request makes a request of a document: the one that an AdmissionReview holds, or the one that sends the manifest.
func (w *world) request(d *manifest.Document, a *asked) (*celgate.Request, error) {
	if isReview(d.Object) {
		if flags := a.given(); len(flags) > 0 {
			return nil, fmt.Errorf("an AdmissionReview says itself what %s would", strings.Join(flags, ", "))
		}
		return w.reviewRequest(d.Object)
	}
	return w.manifestRequest(d, a)
}

// A target is the resource that takes an object.
type target struct {
	*schema.Resource
	subresource string
}

// target finds the resource that objects of a kind are sent to.
func (w *world) target(kind schema.GroupVersionKind, subresource string) (target, error) {
	resource, sub, named := strings.Cut(subresource, "/")
	if !named {
		resource, sub = "", subresource
	}
	if sub == "" {
		if r := w.types.ResourceFor(kind); r != nil && !r.NotServed {
			return target{r, ""}, nil
		}
		return target{}, w.unknown(kind)
	}
	if !named {
		if r := w.types.ResourceFor(kind); r != nil && r.Subresource(sub) != nil {
			resource = r.Resource + "." + r.Version + "." + r.Group
		}
	}
	var found []*schema.Resource
	parents := map[string]bool{}
	var takes []string
	for _, r := range w.types.Resources() {
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
		return target{}, withHint(fmt.Errorf("several resources have a subresource %s for %s", sub, kindText(kind)),
			"name the resource too, as in --subresource %s/%s", slices.Sorted(maps.Keys(parents))[0], sub)
	case len(found) > 0:
		// What is on by default and in the newest stable version comes first.
		return target{slices.MinFunc(found, func(x, y *schema.Resource) int {
			return cmp.Or(cmpBool(x.OffByDefault, y.OffByDefault), -compareVersions(x.Version, y.Version))
		}), sub}, nil
	case len(takes) > 0 && resource != "":
		return target{}, fmt.Errorf("the subresource %s takes %s, not %s", sub, takes[0], kindText(kind))
	case resource != "" && named:
		return target{}, fmt.Errorf("no resource %s with a subresource %s", resource, sub)
	}
	return target{}, fmt.Errorf("no resource has a subresource %s for %s", sub, kindText(kind))
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

// compareVersions orders API versions: v1 before v2, and betas before them.
func compareVersions(a, b string) int {
	return cmp.Or(cmpBool(!strings.ContainsAny(a, "ab"), !strings.ContainsAny(b, "ab")), strings.Compare(a, b))
}

// unknown says why objects of a kind cannot be sent to any resource.
func (w *world) unknown(kind schema.GroupVersionKind) error {
	if kind.Group == "kustomize.config.k8s.io" {
		return withHint(errors.New("a kustomization is no object"), "kustomize build DIR | celgate apply -p … -")
	}
	var served []string
	for _, r := range w.types.Resources() {
		if r.Group == kind.Group && r.Kind == kind.Kind && !r.NotServed && !r.OffByDefault {
			served = append(served, r.GroupVersion().String())
		}
	}
	if len(served) > 0 {
		return withHint(fmt.Errorf("%s is not served", kindText(kind)), "%s is", strings.Join(served, ", "))
	}
	if w.types.Type(kind) != nil {
		return withHint(fmt.Errorf("%s is the kind of a subresource", kindText(kind)), "say which, as in --subresource deployments/scale")
	}
	return withHint(fmt.Errorf("nothing is known about the kind %s", kindText(kind)), "give its CustomResourceDefinition with -c")
}

// manifestRequest makes the request that creates, updates or deletes the object of a manifest.
func (w *world) manifestRequest(d *manifest.Document, a *asked) (*celgate.Request, error) {
	object := d.Object
	kind := kindOf(object)
	to, err := w.target(kind, a.subresource)
	if err != nil {
		return nil, err
	}
	r := &celgate.Request{
		Kind: kind, Resource: to.GroupVersionResource, SubResource: to.subresource,
		Name: metadataOf(object, "name"), DryRun: a.dryRun,
		UserInfo: celgate.UserInfo{Username: cmp.Or(a.user, defaultUser)},
	}
	r.UserInfo.Groups = state.Groups(r.UserInfo.Username, a.groups)
	r.Namespace = w.namespaceOf(object, to, a)
	if t := w.types.Type(kind); t != nil && t.Field("metadata") == nil {
		// Options such as PodExecOptions have no metadata; in a manifest it says which object they are for.
		object = maps.Clone(object)
		delete(object, "metadata")
	}
	if r.Name == "" && (metadataOf(object, "generateName") == "" || to.subresource != "") {
		return nil, errors.New("metadata.name is missing")
	}

	old := func() (map[string]any, error) { return w.oldObject(r, a) }
	r.Operation = celgate.Operation(a.operation)
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
				"give it with --old or -c; with --old and the same file the update changes nothing")
		}
		r.Object = object
	case celgate.Delete:
		if r.OldObject, err = old(); err != nil {
			return nil, err
		}
		if r.OldObject == nil { // what the manifest describes is what is deleted
			r.OldObject = inNamespace(object, r)
		}
	}
	r.Options = optionsOf(r)
	r.UID = uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join([]string{d.Position().String(), kind.String(), r.Namespace, r.Name, string(r.Operation)}, "\n"))).String()
	return r, nil
}

// namespaceOf returns the namespace of the request: of namespaced objects their own or the default one, of a Namespace
// its own name, of other objects none.
func (w *world) namespaceOf(object map[string]any, to target, a *asked) string {
	switch {
	case to.Namespaced:
		return cmp.Or(metadataOf(object, "namespace"), a.namespace, "default")
	case to.GroupVersionKind() == namespaceKind:
		return metadataOf(object, "name")
	}
	return ""
}

// oldObject returns the stored object that a request is about, nil if there is none.
func (w *world) oldObject(r *celgate.Request, a *asked) (map[string]any, error) {
	if r.Name == "" {
		return nil, nil
	}
	namespace := r.Namespace
	if res := w.types.Resource(r.Resource); res != nil && !res.Namespaced {
		namespace = ""
	}
	if a.old != nil {
		if old, err := a.old.Get(context.Background(), r.Kind, namespace, r.Name); old != nil || err != nil {
			return old, err
		}
	}
	if w.types.ResourceFor(r.Kind) == nil { // a Scale and the like is not stored
		return nil, nil
	}
	return w.stored.Get(context.Background(), r.Kind, namespace, r.Name)
}

// operations of subresources whose objects are not stored (as pkg/registry v1.37.2).
var subresourceOperations = map[string]celgate.Operation{
	"eviction": celgate.Create, "binding": celgate.Create, "token": celgate.Create,
	"exec": celgate.Connect, "attach": celgate.Connect, "portforward": celgate.Connect, "proxy": celgate.Connect,
}

func (w *world) operationOf(r *celgate.Request, to target, old func() (map[string]any, error)) (celgate.Operation, error) {
	if to.subresource != "" {
		return cmp.Or(subresourceOperations[to.subresource], celgate.Update), nil
	}
	stored, err := old()
	if err != nil || stored == nil {
		return celgate.Create, err
	}
	return celgate.Update, nil
}

// inNamespace returns an object that lies in the namespace of the request.
func inNamespace(object map[string]any, r *celgate.Request) map[string]any {
	if metadataOf(object, "namespace") != "" || r.Namespace == "" || r.Kind == namespaceKind {
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

// isReview reports an AdmissionReview, in either version.
func isReview(object map[string]any) bool {
	kind := kindOf(object)
	return kind.Group == "admission.k8s.io" && kind.Kind == "AdmissionReview"
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

// reviewRequest makes the request that an AdmissionReview is about. A webhook that matches through an equivalent
// version gets the object in that version; policies are asked about the request as it was made.
func (w *world) reviewRequest(object map[string]any) (*celgate.Request, error) {
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
			if *o, err = w.types.Convert(*o, r.Kind); err != nil {
				return nil, fmt.Errorf("converting back to requestKind: %w", err)
			}
		}
	}
	if r.Kind.Kind == "" {
		return nil, errors.New("request.kind is missing")
	}
	resource := w.types.Resource(r.Resource)
	switch {
	case resource == nil && r.Resource.Resource == "":
		return nil, errors.New("request.resource is missing")
	case resource == nil:
		return nil, withHint(fmt.Errorf("nothing is known about the resource %s of %s", r.Resource.Resource, r.Resource.GroupVersion()),
			"give its CustomResourceDefinition with -c")
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

// oldCluster holds the objects of --old.
func (w *world) oldCluster(c *console, docs []*manifest.Document, namespace string) (*state.Cluster, error) {
	none, err := state.New(w.types)
	if err != nil {
		return nil, err
	}
	placed := make([]*manifest.Document, len(docs))
	for i, d := range docs {
		in := *d
		kind := kindOf(d.Object)
		if r := w.types.ResourceFor(kind); r == nil || r.Namespaced {
			in.Object = inNamespace(d.Object, &celgate.Request{Kind: kind, Namespace: cmp.Or(namespace, "default")})
		}
		placed[i] = &in
	}
	return w.with(c, none, placed), nil
}

// kindOf returns the kind that an object says it is of.
func kindOf(object map[string]any) schema.GroupVersionKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return apischema.FromAPIVersionAndKind(apiVersion, kind)
}

// kindText returns a kind as a manifest has it.
func kindText(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + " " + kind.Kind
}

func metadataOf(object map[string]any, member string) string {
	metadata, _ := object["metadata"].(map[string]any)
	s, _ := metadata[member].(string)
	return s
}

// describe returns the kind and name of an object.
func describe(object map[string]any) string {
	kind, _ := object["kind"].(string)
	return kind + " " + nameOf(object)
}

// nameOf returns "namespace/name" or "name".
func nameOf(object map[string]any) string {
	name := metadataOf(object, "name")
	if name == "" {
		if prefix := metadataOf(object, "generateName"); prefix != "" {
			name = prefix + "*"
		}
	}
	if namespace := metadataOf(object, "namespace"); namespace != "" {
		return namespace + "/" + name
	}
	return name
}

// at puts a place before a message.
func at(place policy.Position, message string) string {
	if s := place.String(); s != "" {
		return s + ": " + message
	}
	return message
}
