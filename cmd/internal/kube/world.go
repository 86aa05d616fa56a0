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

	// ownResources are all of them, each in its version.
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

// A World is what an engine sees of a live cluster. It has the methods of celgate.Cluster.
type World struct {
	client  *Client
	ctx     context.Context // of the watches
	stop    context.CancelFunc
	minor   string // of the server, such as "1.37"
	builtin *schema.Registry

	policies   []*watch // as ownResources
	crds       *watch
	namespaces *watch
	changes    chan struct{} // policies, bindings or kinds
	pokes      chan struct{} // what refresh looks at
	natives    natives

	kinds *kinds
	types atomic.Pointer[schema.Registry]

	made         atomic.Pointer[madeOf]
	undocumented atomic.Pointer[error] // why kinds are not as the server has them now

	sourcesMu sync.Mutex
	sources   map[generation]Source // of the last call of Sources

	mu     sync.RWMutex
	params map[schema.GroupVersionResource]*watch
}

// Watch starts to watch a cluster, until the context ends. Kinds and CEL are those of a minor that celgate knows: the
// server's, or the newest for one that it does not know. It returns when everything but params is known; the error says
// what cannot be read. A cluster without celgate's own kinds has no policies.
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
	kindsPoll   = 30 * time.Second       // kinds of other servers come without a definition
	kindsSettle = 500 * time.Millisecond // a kind is served a moment after its definition is seen
)

// refresh asks again what the server serves and acts on, when definitions or native policies have changed and from
// time to time.
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

// definitions is a registry of the built-in kinds and the definitions that there are now and that can be read.
func (w *World) definitions() *schema.Registry {
	types, _ := withDefinitions(w.builtin, w.crds.list("")) // Types tells the error
	return types
}

// Minor is the server's.
func (w *World) Minor() string { return w.minor }

// KnownMinor is the minor whose kinds and CEL stand for the server's.
func (w *World) KnownMinor() string {
	if quirks.ReleaseOf(w.minor).Own {
		return knownMinor(w.minor)
	}
	return knownMinor("")
}

// Changes gets a value after policies, bindings or kinds have changed.
func (w *World) Changes() <-chan struct{} { return w.changes }

func (w *World) signal() {
	select {
	case w.changes <- struct{}{}:
	default: // there is one already
	}
}

// triggerRefresh triggers a refresh, and a look at its results.
func (w *World) triggerRefresh() {
	select {
	case w.pokes <- struct{}{}:
	default:
	}
}

// CheckSynced says whether everything is known and being watched; an error names what is not.
func (w *World) CheckSynced() error {
	var errs []error
	for _, each := range append(slices.Clone(w.policies), w.crds, w.namespaces) {
		if !each.isSynced() && !each.isMissing() {
			errs = append(errs, cmp.Or(each.err(), fmt.Errorf("%s are not known yet", each.resource.GroupResource())))
		}
	}
	return errors.Join(errs...)
}

// A Source is an object of celgate's own group.
type Source struct {
	Resource string
	Object   map[string]any
	Policy   *policy.Policy // one of these, or Err
	Binding  *policy.Binding
	Library  *policy.Library
	Err      error
	Disabled bool // by its annotation
	Native   bool // the server itself acts on this binding

	// Withheld is why celgate does not put the object in force, though nothing is wrong with it; nil if it does.
	Withheld *Condition
}

// Read is what the object of a source was read as.
func (s *Source) Read() policy.Object {
	return policy.Object{Policy: s.Policy, Binding: s.Binding, Library: s.Library}
}

// Sources returns the policies, bindings and libraries of the cluster; as a set those of them that celgate is to act
// on. A policy whose spec has not changed since the last call is the same value.
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
				var read policy.Object
				read, s.Err = policy.Read(policy.Native(object), nil)
				read.Store()
				s.Policy, s.Binding, s.Library = read.Policy, read.Binding, read.Library
			}
			s.Object, s.Disabled = object, isDisabled(object)
			s.Native = s.Binding != nil && w.IsHandedOver(s.Binding)
			next[of] = s
			sources = append(sources, s)
			if s.Err == nil && !s.Disabled && !s.Native {
				set.Add(s.Read())
			}
		}
	}
	w.sources = next
	return sources, set
}

// Find returns a policy of celgate's own group as the server has it now; nil if it has none.
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

// Reread returns the source with its object as it is now, and false if that is gone or is another one by now.
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

// Types makes a registry of the kinds that there are now, and uses it from now on. The error names those that are left
// out, or as they were, because they cannot be read.
func (w *World) Types() (*schema.Registry, error) {
	made := madeOf{definitions: w.crds.list(""), revision: w.kinds.revision()}
	if last := w.made.Load(); last == nil ||
		!last.equal(&made) { // what policies were checked against stays, where it can
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

// madeOf is a registry with what it was made of.
type madeOf struct {
	definitions []map[string]any
	revision    int
	types       *schema.Registry
	err         error
}

func (m *madeOf) equal(other *madeOf) bool {
	return m.revision == other.revision && slices.EqualFunc(m.definitions, other.definitions, tree.IsSame)
}

// Follow watches the params of the policies of a set, and stops to watch what none of them names any more. It waits for
// what is new until the context ends. An error names the kinds that cannot be read; requests that need them fail as
// the failurePolicy says.
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

// ParamError says why the params of a kind cannot be read; nil if they can, or if nobody asked for them.
func (w *World) ParamError(kind schema.GroupVersionKind) error {
	types := w.types.Load()
	if types == nil {
		return nil
	}
	resource := types.ResourceFor(kind)
	if resource == nil {
		return fmt.Errorf("the cluster has no kind %s", kind)
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

// Get returns a namespace or a param: the one that the watch knows, or, if it knows none, what the server says.
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
	return schema.GroupVersionResource{}, fmt.Errorf("the cluster has no kind %s", kind)
}

// Authorizer asks the server.
func (w *World) Authorizer() authorizer.Authorizer {
	return authorizer.AuthorizerFunc(w.client.authorize)
}

// A WatchState is how the watch of a resource is.
type WatchState struct {
	Resource string    // such as deployments.apps
	Objects  int       // that are known
	Heard    time.Time // when the server last sent something; zero if never
	Err      error     // why it does not work; nil if it does
}

// Watches returns how all watches are, those of params too.
func (w *World) Watches() []WatchState {
	w.mu.RLock()
	all := append(slices.Collect(maps.Values(w.params)), w.crds, w.namespaces)
	all = slices.AppendSeq(all, maps.Values(w.natives.watches))
	w.mu.RUnlock()
	var states []WatchState
	seen := map[schema.GroupVersionResource]bool{} // a definition can be a param, too
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
