package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/metadata"

	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

// A Snapshot is a cluster that is read on demand, and each part once: it does not change afterwards. It has the methods
// of celgate.Cluster, and never writes to the cluster.
type Snapshot struct {
	client *Client
	minor  string
	types  *schema.Registry
	absent error // names the kinds that are missing in types

	mu       sync.Mutex
	objects  map[object]map[string]any // nil if it does not exist
	lists    map[collection][]map[string]any
	gets     map[collection]int
	answers  map[string]access // of the authorizer, by question
	failures map[string]error
}

// An object is the identity of an object: kind, namespace and name.
type object struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

// A collection is the objects of a kind in a namespace, or in all of them ("").
type collection struct {
	kind      schema.GroupVersionKind
	namespace string
}

// An access is an answer of the authorizer.
type access struct {
	decision authorizer.Decision
	reason   string
	err      error
}

// many is the number of objects of a collection that are read one by one before the whole collection is.
const many = 20

// Snapshot begins to read a cluster. Kinds are those of a Kubernetes minor ("": the server's own, or the newest known
// one) and of the definitions in the cluster.
func (c *Client) Snapshot(ctx context.Context, minor string) (*Snapshot, error) {
	s := &Snapshot{
		client: c, objects: map[object]map[string]any{}, lists: map[collection][]map[string]any{},
		gets:    map[collection]int{},
		answers: map[string]access{}, failures: map[string]error{},
	}
	var err error
	if s.minor, err = c.Minor(ctx); err != nil {
		return nil, err
	}
	own := minor == ""
	if own {
		minor = knownMinor(s.minor)
	}
	if s.types, err = builtin.Registry(minor); err != nil {
		return nil, err
	}
	crds, err := c.list(ctx, definitions, "")
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	var unreadable error
	s.types, unreadable = withDefinitions(s.types, crds)
	live := &kinds{client: c, other: own && s.minor != knownMinor(s.minor)}
	_, undocumented := live.refresh(ctx, s.types)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.types = live.narrow(s.types)
	s.absent = errors.Join(unreadable, err, undocumented)
	return s, nil
}

// Minor returns the server's minor.
func (s *Snapshot) Minor() string { return s.minor }

// KnownMinor returns the minor whose CEL stands for the server's.
func (s *Snapshot) KnownMinor() string { return knownMinor(s.minor) }

// Types returns the kinds of the cluster. The error names the missing ones.
func (s *Snapshot) Types() (*schema.Registry, error) { return s.types, s.absent }

// User returns the user that the server sees in requests of this client: name, uid, groups and extra; nil for a server
// before 1.28, which cannot tell.
func (s *Snapshot) User(ctx context.Context) (*authenticationv1.UserInfo, error) {
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": authenticationv1.SchemeGroupVersion.String(), "kind": "SelfSubjectReview",
	}}
	answer, err := s.client.dynamic.Resource(authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")).
		Create(ctx, review, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the user of the requests from the server: %w", err)
	}
	var self authenticationv1.SelfSubjectReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &self); err != nil {
		return nil, err
	}
	return &self.Status.UserInfo, nil
}

// Err joins all read errors so far, each once. After one, the results of the snapshot cannot be trusted.
func (s *Snapshot) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(s.failures)) {
		errs = append(errs, s.failures[text])
	}
	return errors.Join(errs...)
}

func (s *Snapshot) fail(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failures[err.Error()] = err
	}
	return err
}

// A Reader reads a Snapshot for a caller that handles errors itself: they do not appear in [Snapshot.Err]. It does not
// ask again for a collection that could not be read.
type Reader struct {
	*Snapshot
	failed *sync.Map // collection → error
}

// Reader returns a reader of the snapshot.
func (s *Snapshot) Reader() Reader { return Reader{s, &sync.Map{}} }

// readOnce reads from a collection unless that has failed before.
func readOnce[T any](ctx context.Context, r Reader, in collection, read func() (T, error)) (T, error) {
	if err, failed := r.failed.Load(in); failed {
		var none T
		return none, err.(error)
	}
	found, err := read()
	if err != nil && ctx.Err() == nil {
		r.failed.Store(in, err)
	}
	return found, err
}

// Get reads one object, as [Snapshot.Get] does.
func (r Reader) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any,
	error) {
	return readOnce(ctx, r, collection{kind, namespace},
		func() (map[string]any, error) { return r.get(ctx, kind, namespace, name) })
}

// List reads objects, as [Snapshot.List] does.
func (r Reader) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]map[string]any, error) {
	return readOnce(ctx, r, collection{kind, namespace},
		func() ([]map[string]any, error) { return r.list(ctx, kind, namespace) })
}

// Get reads one object. An object of a kind that is not served does not exist.
func (s *Snapshot) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any,
	error) {
	object, err := s.get(ctx, kind, namespace, name)
	return object, s.fail(ctx, err)
}

func (s *Snapshot) get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any,
	error) {
	resource := s.types.ResourceFor(kind)
	if resource == nil {
		return nil, nil
	}
	if !resource.Namespaced {
		namespace = ""
	}
	of, in := object{kind, namespace, name}, collection{kind, namespace}
	s.mu.Lock()
	found, read := s.objects[of]
	_, listed := s.lists[in]
	s.gets[in]++
	list := s.gets[in] == many+1
	s.mu.Unlock()
	switch {
	case read || listed:
		return found, nil
	case list:
		if _, err := s.read(ctx, in); err == nil { // a user who may read one object may not be allowed to read all
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.objects[of], nil
		}
	}
	answer, err := s.client.dynamic.Resource(resource.GroupVersionResource).Namespace(namespace).Get(ctx, name,
		metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err == nil {
		found = answer.Object
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[of] = found
	return found, nil
}

// List reads the objects of a kind, in one namespace or in all ("").
func (s *Snapshot) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]map[string]any, error) {
	list, err := s.list(ctx, kind, namespace)
	return list, s.fail(ctx, err)
}

func (s *Snapshot) list(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]map[string]any, error) {
	in := collection{kind, namespace}
	s.mu.Lock()
	found, read := s.lists[in]
	s.mu.Unlock()
	if read {
		return found, nil
	}
	return s.read(ctx, in)
}

func (s *Snapshot) read(ctx context.Context, in collection) ([]map[string]any, error) {
	resource := s.types.ResourceFor(in.kind)
	if resource == nil {
		return nil, nil
	}
	list, err := s.client.list(ctx, resource.GroupVersionResource, in.namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[in] = list
	for _, o := range list {
		u := unstructured.Unstructured{Object: o}
		s.objects[object{in.kind, u.GetNamespace(), u.GetName()}] = o
	}
	return list, nil
}

// Authorizer asks the server with SubjectAccessReviews, which are not stored.
func (s *Snapshot) Authorizer() authorizer.Authorizer { return authorizer.AuthorizerFunc(s.authorize) }

func (s *Snapshot) authorize(ctx context.Context, attr authorizer.Attributes) (authorizer.Decision, string, error) {
	question, err := json.Marshal(reviewSpec(attr))
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	s.mu.Lock()
	a, asked := s.answers[string(question)]
	s.mu.Unlock()
	if asked {
		return a.decision, a.reason, a.err
	}
	var unanswered *unansweredError
	a.decision, a.reason, a.err = s.client.authorize(ctx, attr)
	if errors.As(a.err, &unanswered) {
		return a.decision, a.reason, s.fail(ctx, a.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[string(question)] = a
	return a.decision, a.reason, a.err
}

// A Page is a part of a collection.
type Page struct {
	Objects []map[string]any

	// Version is the resource version of the state of the cluster that the objects belong to.
	Version string

	// Remaining is the number of further objects, as far as the server tells.
	Remaining int64

	// Later reports that the objects belong to a later state of the cluster than the pages before, because the earlier
	// state has expired on the server.
	Later bool
}

// pageSize is the number of objects in one page.
const pageSize = 500

// Pages reads a collection page by page, in the order of the server's storage: by namespace and name. Pages are not
// kept. An error is the last page.
func (s *Snapshot) Pages(ctx context.Context, resource schema.GroupVersionResource, namespace string) iter.Seq2[*Page,
	error] {
	return s.client.pages(ctx, resource, namespace, true)
}

// pages reads a collection page by page. If its state expires between two pages, that is an error, or the rest is read
// in a later state.
func (c *Client) pages(ctx context.Context, resource schema.GroupVersionResource, namespace string,
	later bool) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		options := metav1.ListOptions{Limit: pageSize}
		next := &Page{}
		for {
			list, err := c.dynamic.Resource(resource).Namespace(namespace).List(ctx, options)
			if token := continuation(err); token != "" && later && !next.Later {
				options.Continue, next.Later = token, true
				continue
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range list.Items {
				next.Objects = append(next.Objects, item.Object)
			}
			next.Version = list.GetResourceVersion()
			if remaining := list.GetRemainingItemCount(); remaining != nil {
				next.Remaining = *remaining
			}
			if !yield(next, nil) {
				return
			}
			if options.Continue = list.GetContinue(); options.Continue == "" {
				return
			}
			next = &Page{}
		}
	}
}

// Sizes counts the objects of a resource by namespace; "" for a cluster-scoped resource. It reads only metadata.
func (s *Snapshot) Sizes(ctx context.Context, resource schema.GroupVersionResource) (map[string]int, error) {
	client, err := metadata.NewForConfigAndClient(s.client.config, s.client.http)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int{}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := client.Resource(resource).List(ctx, options)
		if token := continuation(err); token != "" {
			options.Continue = token // the counts need not be of one state
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			sizes[list.Items[i].Namespace]++
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return sizes, nil
		}
	}
}

// continuation returns the token that the server offers in place of an expired one, to continue with the present state.
func continuation(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// list reads a collection in one state.
func (c *Client) list(ctx context.Context, resource schema.GroupVersionResource, namespace string) ([]map[string]any,
	error) {
	var objects []map[string]any
	for page, err := range c.pages(ctx, resource, namespace, false) {
		if err != nil {
			return nil, err
		}
		objects = append(objects, page.Objects...)
	}
	return objects, nil
}

// knownMinor returns the minor whose kinds and CEL stand for those of a server's: the same if it is known, else the
// newest.
func knownMinor(minor string) string {
	all := builtin.Minors()
	if slices.Contains(all, minor) {
		return minor
	}
	return all[len(all)-1]
}

// withDefinitions adds the kinds of definitions. The error names the definitions that cannot be read; they are left
// out.
func withDefinitions(types *schema.Registry, crds []map[string]any) (*schema.Registry, error) {
	all, err := types.WithCustomResources(crds...)
	if err == nil {
		return all, nil
	}
	var errs []error
	for _, crd := range crds {
		next, err := types.WithCustomResources(crd)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		types = next
	}
	return types, errors.Join(errs...)
}
