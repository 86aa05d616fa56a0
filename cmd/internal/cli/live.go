package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// A live names a live cluster; zero: none.
type live struct {
	kubeconfig, context string
	inCluster           bool // the cluster of the Pod
}

func (l *live) flags(f *pflag.FlagSet) {
	f.StringVar(&l.kubeconfig, "kubeconfig", "",
		"`FILE` a kubeconfig: the live cluster is the state, and\nwithout -p its policies are used")
	f.StringVar(&l.context, "context", "", "`NAME` a context of the kubeconfig, or of kubectl's own")
}

// files returns the sources without a live cluster.
func (a *apply) files() sources {
	return sources{policies: a.policies, state: a.state, version: a.kubeVersion, plain: a.unknownKinds == "plain",
		workloads: &a.workloads.Workloads}
}

// sources returns the sources that the flags name. A live cluster also provides the default user and namespace.
func (a *apply) sources(ctx context.Context) (sources, error) {
	from := a.files()
	if a.live == (live{}) {
		return from, nil
	}
	client, err := connect(a.live.kubeconfig, a.live.context)
	if err != nil {
		return from, err
	}
	return a.snap(ctx, client)
}

// snap adds a live cluster to the sources.
func (a *apply) snap(ctx context.Context, client *kube.Client) (sources, error) {
	from := a.files()
	var err error
	if from.live, err = client.Snapshot(ctx, a.kubeVersion); err != nil {
		return from, err
	}
	if from.version == "" {
		from.version = from.live.KnownMinor()
		if minor := from.live.Minor(); minor != from.version {
			a.say(fmt.Sprintf("the cluster has Kubernetes %s, which celgate does not know; CEL and defaults are those of %s", minor, from.version), "")
		}
	}
	if a.asked.namespace == "" {
		a.asked.namespace = client.Namespace()
	}
	if a.asked.user != "" {
		return from, nil
	}
	self, err := from.live.User(ctx)
	if self != nil {
		a.asked.self = self
	}
	return from, err
}

// addKinds replaces the kinds by those of the live cluster.
func (w *world) addKinds(c *console) error {
	types, err := w.live.Types()
	if err != nil {
		c.say("some kinds of the cluster are unknown: "+err.Error(), "")
	}
	w.types = types
	return nil
}

// livePolicies returns the policies and bindings in force in the live cluster.
func (w *world) livePolicies(ctx context.Context) ([]*manifest.Document, error) {
	objects, err := w.live.Policies(ctx)
	return manifest.DocumentsOf(objects), err
}

// begin returns a cluster for given objects; behind it may be a live one, which has all other objects. The live roles
// and bindings are read if the given objects have some, too, because a binding may refer to a role of the other side.
func (w *world) begin(ctx context.Context, given ...[]*manifest.Document) (*state.Cluster, error) {
	if w.live == nil {
		return state.New(w.types)
	}
	cluster := state.NewEmpty(w.types)
	if !slices.ContainsFunc(slices.Concat(given...),
		func(d *manifest.Document) bool { return tree.Object(d.Object).Kind().Group == rbacv1.GroupName }) {
		return cluster, nil
	}
	var objects []map[string]any
	for _, kind := range []string{"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"} {
		list, err := w.live.List(ctx, rbacv1.SchemeGroupVersion.WithKind(kind), "")
		if err != nil {
			return nil, err
		}
		objects = append(objects, list...)
	}
	return cluster.With(objects...)
}

// options returns the options of an engine for the world.
func (w *world) options() celgate.Options {
	return celgate.Options{KubeVersion: w.version, Types: w.types, Cluster: w.exist(w.cluster), Limits: w.limits}
}

// wholeOptions returns the options of an engine that simulates the whole answer of a server, with the chosen admission
// plugins.
func (w *world) wholeOptions(plugins []string) celgate.Options {
	o := w.options()
	o.Server = &celgate.Server{Complete: w.live != nil, Plugins: plugins}
	if w.live != nil {
		o.Server.Cluster = &controlled{overlay{w.cluster, w.live.Reader()}}
	}
	return o
}

// optionsAside returns options like those of wholeOptions, but without chosen plugins these do not take part in
// decisions.
func (w *world) optionsAside(plugins []string) celgate.Options {
	o := w.wholeOptions(plugins)
	o.Server.PluginsAside = len(plugins) == 0
	return o
}

// exist returns the given objects with the live cluster behind them.
func (w *world) exist(given *state.Cluster) celgate.Cluster {
	switch {
	case w.live == nil && w.anyNamespace:
		return everywhere{given, &w.imagined}
	case w.live == nil:
		return given
	}
	return overlay{given, w.live}
}

// everywhere is a cluster in which every namespace exists. It records the ones that are not given.
type everywhere struct {
	celgate.Cluster
	imagined *sync.Map
}

// Get returns the given object, or a namespace without labels of its own.
func (e everywhere) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any,
	error) {
	object, err := e.Cluster.Get(ctx, kind, namespace, name)
	if object != nil || err != nil || kind != namespaceKind || name == "" {
		return object, err
	}
	e.imagined.Store(name, true)
	return map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "spec": map[string]any{"finalizers": []any{"kubernetes"}},
		"status":   map[string]any{"phase": "Active"},
		"metadata": map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/metadata.name": name}},
	}, nil
}

// unreadError joins the read errors of the live cluster.
func (w *world) unreadError() error {
	if w.live == nil {
		return nil
	}
	return w.live.Err()
}

// An overlay is a live cluster with given objects added or replaced.
type overlay struct {
	given *state.Cluster
	live  celgate.Cluster
}

// Get returns the given object, or that of the cluster.
func (o overlay) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any,
	error) {
	if object, err := o.given.Get(ctx, kind, namespace, name); object != nil || err != nil {
		return object, err
	}
	return o.live.Get(ctx, kind, namespace, name)
}

// List returns the given objects, and those of the cluster that they do not replace.
func (o overlay) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]map[string]any, error) {
	given, err := o.given.List(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	all, err := o.live.List(ctx, kind, namespace)
	if err != nil || len(given) == 0 {
		return all, err
	}
	type identity struct{ namespace, name string }
	id := func(object map[string]any) identity {
		return identity{tree.Object(object).Namespace(), tree.Object(object).Name()}
	}
	known := map[identity]bool{}
	for _, object := range given {
		known[id(object)] = true
	}
	merged := slices.Clone(given)
	for _, object := range all {
		if !known[id(object)] {
			merged = append(merged, object)
		}
	}
	slices.SortFunc(merged, func(a, b map[string]any) int {
		return cmp.Or(strings.Compare(id(a).namespace, id(b).namespace), strings.Compare(id(a).name, id(b).name))
	})
	return merged, nil
}

// A controlled cluster is an overlay in whose given namespaces a controller creates the ServiceAccount default.
type controlled struct{ overlay }

// Get returns the object, or the ServiceAccount default of a namespace that the live cluster does not have yet.
func (c *controlled) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any,
	error) {
	object, err := c.overlay.Get(ctx, kind, namespace, name)
	if object != nil || err != nil || kind != corev1.SchemeGroupVersion.WithKind("ServiceAccount") || name != "default" {
		return object, err
	}
	if given, err := c.given.Get(ctx, namespaceKind, "", namespace); given == nil || err != nil {
		return nil, err
	}
	if stored, err := c.live.Get(ctx, namespaceKind, "", namespace); stored != nil || err != nil {
		return nil, err
	}
	return map[string]any{"apiVersion": kind.Version, "kind": kind.Kind,
		"metadata": map[string]any{"name": name, "namespace": namespace}}, nil
}

// Authorizer asks the cluster, and if that does not allow the request, the given roles and bindings. A given object
// cannot take away a live permission.
func (o overlay) Authorizer() authorizer.Authorizer {
	live, given := o.live.Authorizer(), o.given.Authorizer()
	return authorizer.AuthorizerFunc(
		func(ctx context.Context, attr authorizer.Attributes) (authorizer.Decision, string, error) {
			decision, reason, err := live.Authorize(ctx, attr)
			if decision == authorizer.DecisionNoOpinion && err == nil {
				if also, why, failed := given.Authorize(ctx, attr); failed == nil && also == authorizer.DecisionAllow {
					return also, why, nil
				}
			}
			return decision, reason, err
		},
	)
}

// params returns the objects of a live cluster that the bindings of a set name or select, ordered by kind and name.
func (w *world) params(ctx context.Context, set *policy.Set) ([]map[string]any, error) {
	found := map[string]map[string]any{}
	for _, b := range set.Bindings {
		if b.ParamRef == nil {
			continue
		}
		selector := labels.Nothing()
		if b.ParamRef.Selector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(b.ParamRef.Selector); err != nil {
				return nil, err
			}
		}
		for _, p := range set.Policies {
			if p.ParamKind == nil || !b.Binds(p) {
				continue
			}
			gv, err := apischema.ParseGroupVersion(p.ParamKind.APIVersion)
			if err != nil {
				return nil, err
			}
			kind := gv.WithKind(p.ParamKind.Kind)
			objects, err := w.live.List(ctx, kind, b.ParamRef.Namespace)
			if err != nil {
				return nil, err
			}
			for _, object := range objects {
				if tree.Object(object).Name() == b.ParamRef.Name || selector.Matches(match.Labels(object)) {
					found[kind.String()+" "+nameOf(object)] = object
				}
			}
		}
	}
	var all []map[string]any
	for _, id := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[id])
	}
	return all, nil
}
