package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// Kinds of celgate's own group.
var (
	ownVersion = schema.GroupVersion{Group: policy.OwnGroup, Version: "v1"}

	// mirrored are the resources of the kinds that admissionregistration.k8s.io has, too.
	mirrored = []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"}

	dialectVersion = schema.GroupVersion{Group: policy.OwnGroup, Version: "v1alpha1"}
	dialectOwn     = []string{"admissionpolicies", "admissionpolicybindings", "namespacedadmissionpolicybindings",
		"admissionpolicylibraries"}

	// ownResources are all resources of celgate's own group, each in its version.
	ownResources = slices.Concat(resourcesIn(ownVersion, mirrored), resourcesIn(dialectVersion, dialectOwn))

	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

func resourcesIn(version schema.GroupVersion, resources []string) []schema.GroupVersionResource {
	all := make([]schema.GroupVersionResource, len(resources))
	for i, r := range resources {
		all[i] = version.WithResource(r)
	}
	return all
}

// ownResource returns a resource of celgate's own group in its version.
func ownResource(name string) schema.GroupVersionResource {
	if slices.Contains(dialectOwn, name) {
		return dialectVersion.WithResource(name)
	}
	return ownVersion.WithResource(name)
}

// A World is a live cluster as watches show it. It has the methods of celgate.Cluster.
type World struct {
	client  *Client
	ctx     context.Context // of the watches
	stop    context.CancelFunc
	minor   string // of the server, such as "1.37"
	builtin *schema.Registry

	policies   []*watch // in the order of ownResources
	crds       *watch
	namespaces *watch
	changes    chan struct{} // signals: policies, bindings or kinds have changed
	pokes      chan struct{} // wakes refresh
	natives    natives

	kinds *kinds
	types atomic.Pointer[schema.Registry]

	made         atomic.Pointer[madeOf]
	undocumented atomic.Pointer[error] // the reason why kinds are not up to date

	sourcesMu sync.Mutex
	sources   map[generation]Source // of the last call of Sources

	mu     sync.RWMutex
	params map[schema.GroupVersionResource]*watch
}

// Watch watches a cluster until the context ends. Kinds and CEL are those of the server's minor, or of the newest known
// one. It returns when everything but params is known; the error says what cannot be read. A cluster without celgate's
// own kinds does not have policies.
func (c *Client) Watch(ctx context.Context) (*World, error) {
	minor, err := c.Minor(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	w := &World{
		client: c, ctx: ctx, stop: stop, minor: minor, changes: make(chan struct{}, 1), pokes: make(chan struct{}, 1),
		natives: natives{watches: map[string]*watch{}, since: map[policy.Ref]time.Time{}},
		params:  map[schema.GroupVersionResource]*watch{},
	}
	if w.builtin, err = builtin.Registry(w.KnownMinor()); err != nil {
		stop()
		return nil, err
	}
	for _, resource := range ownResources {
		w.policies = append(w.policies, startWatch(ctx, c.dynamic, resource, w.signal))
	}
	w.crds = startWatch(ctx, c.dynamic, definitions, func() { w.signal(); w.triggerRefresh() })
	w.namespaces = startWatch(ctx, c.dynamic, namespaces, func() {})
	for _, each := range append(slices.Clone(w.policies), w.crds, w.namespaces) {
		if err := each.wait(ctx); err != nil && !each.isMissing() {
			stop()
			return nil, err
		}
	}
	w.kinds = &kinds{client: c, other: w.minor != w.KnownMinor()}
	if _, err := w.kinds.refresh(ctx, w.definitions()); err != nil {
		w.undocumented.Store(&err)
	}
	w.followNatives(ctx)
	go w.refresh()
	return w, nil
}

const (
	kindsPoll   = 30 * time.Second       // aggregated servers change their kinds without a definition
	kindsSettle = 500 * time.Millisecond // a kind is served a moment after its definition is seen
)

// refresh rereads what the server serves and enforces: after changes of definitions and native policies, and from time
// to time.
func (w *World) refresh() {
	tick := time.NewTicker(kindsPoll)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		case <-w.pokes:
			time.Sleep(kindsSettle)
		}
		different, err := w.kinds.refresh(w.ctx, w.definitions())
		w.undocumented.Store(&err)
		if different {
			w.signal()
		}
		w.followNatives(w.ctx)
	}
}

// definitions returns a registry of the built-in kinds and the present, readable definitions.
func (w *World) definitions() *schema.Registry {
	types, _ := withDefinitions(w.builtin, w.crds.list("")) // Types returns the error
	return types
}

// Minor returns the server's minor.
func (w *World) Minor() string { return w.minor }

// KnownMinor returns the minor whose kinds and CEL stand for the server's.
func (w *World) KnownMinor() string {
	if quirks.ReleaseOf(w.minor).Own {
		return knownMinor(w.minor)
	}
	return knownMinor("")
}

// Changes receives a value after policies, bindings or kinds have changed.
func (w *World) Changes() <-chan struct{} { return w.changes }

func (w *World) signal() {
	select {
	case w.changes <- struct{}{}:
	default: // one is pending
	}
}

// triggerRefresh triggers a refresh, and a look at its results.
func (w *World) triggerRefresh() {
	select {
	case w.pokes <- struct{}{}:
	default:
	}
}

// CheckSynced returns an error that names everything that is not yet known or not being watched.
func (w *World) CheckSynced() error {
	var errs []error
	for _, each := range append(slices.Clone(w.policies), w.crds, w.namespaces) {
		if !each.isSynced() && !each.isMissing() {
			errs = append(errs, cmp.Or(each.err(), fmt.Errorf("%s have not been read yet", each.resource.GroupResource())))
		}
	}
	return errors.Join(errs...)
}

// A Source is an object of celgate's own group.
type Source struct {
	Resource string
	Object   map[string]any
	Policy   *policy.Policy // one of these three, or Err
	Binding  *policy.Binding
	Library  *policy.Library
	Err      error
	Disabled bool // by its annotation
	Native   bool // the server itself enforces this binding

	// Withheld is the reason why celgate does not put a valid object in force; nil if it does.
	Withheld *Condition
}

// Ref returns the name of the policy, binding or library; zero if it could not be read.
func (s *Source) Ref() policy.Ref {
	switch {
	case s.Policy != nil:
		return s.Policy.Ref()
	case s.Binding != nil:
		return s.Binding.Ref()
	case s.Library != nil:
		return s.Library.Ref()
	}
	return policy.Ref{}
}

// addTo adds the policy, binding or library of a source to a set.
func (s *Source) addTo(set *policy.Set) {
	switch {
	case s.Policy != nil:
		set.Policies = append(set.Policies, s.Policy)
	case s.Binding != nil:
		set.Bindings = append(set.Bindings, s.Binding)
	case s.Library != nil:
		set.Libraries = append(set.Libraries, s.Library)
	}
}

// read converts the object of a source.
func (s *Source) read(object map[string]any) {
	var read policy.Set
	s.Err = read.Add(policy.Native(object), nil)
	read.MarkStored()
	switch {
	case len(read.Policies) > 0:
		s.Policy = read.Policies[0]
	case len(read.Bindings) > 0:
		s.Binding = read.Bindings[0]
	case len(read.Libraries) > 0:
		s.Library = read.Libraries[0]
	}
}

// Sources returns the policies, bindings and libraries of the cluster, and the set of those that celgate enforces. A
// policy whose spec has not changed since the last call is the same value.
func (w *World) Sources() ([]Source, *policy.Set) {
	w.sourcesMu.Lock()
	defer w.sourcesMu.Unlock()
	var sources []Source
	set := &policy.Set{}
	next := make(map[generation]Source, len(w.sources))
	for i, each := range w.policies {
		for _, object := range each.list("") {
			u := unstructured.Unstructured{Object: object}
			of := generation{string(u.GetUID()), u.GetGeneration()}
			s, known := w.sources[of]
			if !known || of.uid == "" {
				s = Source{Resource: ownResources[i].Resource}
				s.read(object)
			}
			s.Object, s.Disabled = object, isDisabled(object)
			s.Native = s.Binding != nil && w.IsHandedOver(s.Binding)
			next[of] = s
			sources = append(sources, s)
			if s.Err == nil && !s.Disabled && !s.Native {
				s.addTo(set)
			}
		}
	}
	w.sources = next
	return sources, set
}

// Find returns the present version of a policy of celgate's own group from the server; nil if it does not exist.
func (w *World) Find(ctx context.Context, ref policy.Ref) (*policy.Policy, error) {
	of, known := resourcesOf[policy.Kind(ref.Kind)]
	if !known {
		return nil, nil
	}
	object, err := w.client.dynamic.Resource(ownResource(of.policies)).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, _, err := policy.FromObject(policy.Native(object.Object), nil)
	return p, err
}

// A generation is one spec of one object.
type generation struct {
	uid    string
	number int64
}

// Reread returns the source with its present object, and false if the object was deleted or replaced.
func (w *World) Reread(s Source) (Source, bool) {
	was := unstructured.Unstructured{Object: s.Object}
	stored := w.policies[slices.Index(ownResources, ownResource(s.Resource))]
	now := unstructured.Unstructured{Object: stored.get(was.GetNamespace(), was.GetName())}
	if now.Object == nil || now.GetUID() != was.GetUID() || now.GetGeneration() != was.GetGeneration() {
		return s, false
	}
	s.Object = now.Object
	return s, true
}

// Types makes a registry of the present kinds and remembers it. The error names the kinds that cannot be read: they are
// left out, or keep their last state.
func (w *World) Types() (*schema.Registry, error) {
	made := madeOf{definitions: w.crds.list(""), revision: w.kinds.revision()}
	if last := w.made.Load(); last == nil ||
		!last.equals(&made) { // equal kinds keep the same registry, so that results of checks stay valid
		made.types, made.err = withDefinitions(w.builtin, made.definitions)
		made.types = w.kinds.narrow(made.types)
		w.made.Store(&made)
	}
	types, err := w.made.Load().types, w.made.Load().err
	w.types.Store(types)
	if undocumented := w.undocumented.Load(); undocumented != nil {
		err = errors.Join(err, *undocumented)
	}
	return types, err
}

// madeOf is a registry with its inputs.
type madeOf struct {
	definitions []map[string]any
	revision    int
	types       *schema.Registry
	err         error
}

func (m *madeOf) equals(other *madeOf) bool {
	return m.revision == other.revision && slices.EqualFunc(m.definitions, other.definitions, tree.IsSame)
}

// Follow watches the params of the policies of a set, and stops the watches that are no longer needed. It waits for new
// watches until the context ends. The error names the kinds that cannot be read; requests that need them fail, and the
// failurePolicy decides.
func (w *World) Follow(ctx context.Context, set *policy.Set) error {
	types := w.types.Load()
	wanted := map[schema.GroupVersionResource]bool{}
	for _, p := range set.Policies {
		if p.ParamKind == nil {
			continue
		}
		kind := apischema.FromAPIVersionAndKind(p.ParamKind.APIVersion, p.ParamKind.Kind)
		if resource := types.ResourceFor(kind); resource != nil && kind != namespaceKind {
			wanted[resource.GroupVersionResource] = true
		}
	}
	w.mu.Lock()
	for resource, each := range w.params {
		if !wanted[resource] {
			each.stop()
			delete(w.params, resource)
		}
	}
	for resource := range wanted {
		if w.params[resource] == nil {
			w.params[resource] = startWatch(w.ctx, w.client.dynamic, resource, func() {})
		}
	}
	followed := slices.Collect(maps.Values(w.params))
	w.mu.Unlock()
	var errs []error
	for _, each := range followed {
		if err := each.wait(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ParamError says why the params of a kind cannot be read; nil if they can, or if they are not watched.
func (w *World) ParamError(kind schema.GroupVersionKind) error {
	types := w.types.Load()
	if types == nil {
		return nil
	}
	resource := types.ResourceFor(kind)
	if resource == nil {
		return fmt.Errorf("the cluster does not serve the kind %s", kind)
	}
	if each := w.watchOf(resource.GroupVersionResource); each != nil {
		return each.err()
	}
	return nil
}

func (w *World) watchOf(resource schema.GroupVersionResource) *watch {
	if resource == namespaces {
		return w.namespaces
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.params[resource]
}

// Get returns a namespace or a param: from the watch, or else from the server.
func (w *World) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	resource, err := w.resource(kind)
	if err != nil {
		return nil, err
	}
	if each := w.watchOf(resource); each != nil && each.isSynced() {
		if object := each.get(namespace, name); object != nil {
			return object, nil
		}
	}
	object, err := w.client.dynamic.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return object.Object, nil
}

// List returns the objects of a kind from their watch.
func (w *World) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]map[string]any, error) {
	resource, err := w.resource(kind)
	if err != nil {
		return nil, err
	}
	each := w.watchOf(resource)
	if each == nil {
		return nil, fmt.Errorf("%s are not watched", resource.GroupResource())
	}
	if err := each.wait(ctx); err != nil {
		return nil, err
	}
	return each.list(namespace), nil
}

func (w *World) resource(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	if kind == namespaceKind {
		return namespaces, nil
	}
	if types := w.types.Load(); types != nil {
		if resource := types.ResourceFor(kind); resource != nil {
			return resource.GroupVersionResource, nil
		}
	}
	return schema.GroupVersionResource{}, fmt.Errorf("the cluster does not serve the kind %s", kind)
}

// Authorizer asks the server.
func (w *World) Authorizer() authorizer.Authorizer {
	return authorizer.AuthorizerFunc(w.client.authorize)
}

// A WatchState is the state of the watch of a resource.
type WatchState struct {
	Resource string    // such as deployments.apps
	Objects  int       // known objects
	Heard    time.Time // the last time that the server sent something; zero if never
	Err      error     // the reason why it does not work; nil if it does
}

// Watches returns the states of all watches, including those of params.
func (w *World) Watches() []WatchState {
	w.mu.RLock()
	all := append(slices.Collect(maps.Values(w.params)), w.crds, w.namespaces)
	all = slices.AppendSeq(all, maps.Values(w.natives.watches))
	w.mu.RUnlock()
	var states []WatchState
	seen := map[schema.GroupVersionResource]bool{} // definitions can be params, too
	for _, each := range append(all, w.policies...) {
		if each.isMissing() || seen[each.resource] {
			continue
		}
		seen[each.resource] = true
		state := WatchState{Resource: each.resource.GroupResource().String(), Err: each.err()}
		each.mu.RLock()
		state.Objects, state.Heard = len(each.objects), each.heard
		each.mu.RUnlock()
		states = append(states, state)
	}
	return states
}
