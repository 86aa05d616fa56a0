package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A watch keeps all objects of one resource. Objects are JSON trees and never change.
type watch struct {
	resource schema.GroupVersionResource
	changed  func() // called after a change of more than a status, without holding the lock
	stop     context.CancelFunc
	synced   chan struct{} // closed when all objects are known for the first time

	mu      sync.RWMutex
	objects map[objectKey]map[string]any
	order   atomic.Pointer[sortedObjects] // of the objects, sorted on demand; nil after a change
	failed  error                         // of the last attempt; nil while it works
	heard   time.Time
}

type objectKey struct{ namespace, name string }

// startWatch watches until the context ends or the watch is stopped.
func startWatch(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource,
	changed func()) *watch {
	w := &watch{resource: resource, changed: changed, synced: make(chan struct{}),
		objects: map[objectKey]map[string]any{}}
	ctx, w.stop = context.WithCancel(ctx)
	of := client.Resource(resource)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := of.List(ctx, o)
			w.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			events, err := of.Watch(ctx, o)
			if o.SendInitialEvents == nil ||
				!apierrors.IsInvalid(err) { // servers before 1.32 refuse streaming lists; they get a list
				w.note(err)
			}
			return events, err
		},
	}
	quiet := klog.New(logr.Discard().GetSink()) // errors are kept in failed
	reflector := cache.NewReflectorWithOptions(source, &unstructured.Unstructured{}, w, cache.ReflectorOptions{
		Name: resource.String(), Logger: &quiet,
		// A kind may be served a moment after its definition is seen, and a server may restart.
		Backoff: &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10,
			Cap: 5 * time.Second},
	})
	go reflector.RunWithContext(klog.NewContext(ctx, quiet))
	return w
}

func (w *watch) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
}

// err returns the reason why the watch does not work; nil if it does.
func (w *watch) err() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.failed == nil {
		return nil
	}
	return fmt.Errorf("watch %s: %w", w.resource.GroupResource(), w.failed)
}

// isMissing reports whether the cluster does not serve the resource, one of celgate's own.
func (w *watch) isMissing() bool {
	return w.resource.Group == policy.OwnGroup && apierrors.IsNotFound(w.err())
}

func (w *watch) isSynced() bool {
	select {
	case <-w.synced:
		return true
	default:
		return false
	}
}

// wait waits until all objects are known. The error says that the context has ended or why they cannot be read.
func (w *watch) wait(ctx context.Context) error {
	if w.isSynced() {
		return nil
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.synced:
			return nil
		case <-ctx.Done():
			return cmp.Or(w.err(), ctx.Err())
		case <-tick.C:
			if err := w.err(); err != nil {
				return err
			}
		}
	}
}

// get returns an object; nil if it does not exist.
func (w *watch) get(namespace, name string) map[string]any {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.objects[objectKey{namespace, name}]
}

// list returns the objects of a namespace, or of all (""), by namespace and name. The caller must not change the slice.
func (w *watch) list(namespace string) []map[string]any {
	s := w.sortObjects()
	if namespace == "" {
		return s.objects
	}
	from, _ := slices.BinarySearchFunc(s.keys, objectKey{namespace, ""}, objectKey.compare)
	to := from
	for to < len(s.keys) && s.keys[to].namespace == namespace {
		to++
	}
	return s.objects[from:to:to]
}

// sortObjects returns the sorted objects; they are sorted once after a change.
func (w *watch) sortObjects() *sortedObjects {
	if s := w.order.Load(); s != nil {
		return s
	}
	w.mu.RLock()
	defer w.mu.RUnlock() // a concurrent change waits until this order is stored, and then discards it
	s := &sortedObjects{keys: slices.SortedFunc(maps.Keys(w.objects), objectKey.compare)}
	s.objects = make([]map[string]any, len(s.keys))
	for i, key := range s.keys {
		s.objects[i] = w.objects[key]
	}
	w.order.Store(s)
	return s
}

// sortedObjects are the objects of a watch, by namespace and name.
type sortedObjects struct {
	keys    []objectKey
	objects []map[string]any
}

func (k objectKey) compare(other objectKey) int {
	return cmp.Or(cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.name, other.name))
}

// The following methods implement cache.ReflectorStore.

// Add adds an object.
func (w *watch) Add(object any) error { return w.change(object, false) }

// Update replaces an object.
func (w *watch) Update(object any) error { return w.change(object, false) }

// Delete removes an object.
func (w *watch) Delete(object any) error { return w.change(object, true) }

func (w *watch) change(object any, remove bool) error {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("a watch of %s sent %T", w.resource, object)
	}
	key := objectKey{u.GetNamespace(), u.GetName()}
	w.mu.Lock()
	old := w.objects[key]
	if remove {
		delete(w.objects, key)
	} else {
		w.objects[key] = u.Object
	}
	w.order.Store(nil)
	w.mu.Unlock()
	if remove || old == nil || !sameSpec(&unstructured.Unstructured{Object: old}, u) {
		w.changed()
	}
	return nil
}

// sameSpec reports whether two states of an object are equal for policies and kinds: a status, which celgate itself
// writes too, does not count.
func sameSpec(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

// Replace replaces all objects by those of a list.
func (w *watch) Replace(list []any, _ string) error {
	objects := make(map[objectKey]map[string]any, len(list))
	for _, object := range list {
		u, ok := object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("a list of %s holds %T", w.resource, object)
		}
		objects[objectKey{u.GetNamespace(), u.GetName()}] = u.Object
	}
	w.mu.Lock()
	w.objects = objects
	w.order.Store(nil)
	w.failed = nil
	w.heard = time.Now()
	w.mu.Unlock()
	if !w.isSynced() {
		close(w.synced)
	}
	w.changed()
	return nil
}

// UpdateResourceVersion is called after each event, also after bookmarks.
func (w *watch) UpdateResourceVersion(string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = time.Now()
}

// Resync does nothing: readers read the store.
func (w *watch) Resync() error { return nil }
