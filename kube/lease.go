package kube

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celgate/celgate/schema"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

const (
	leaseDuration = 15 * time.Second // after which others take a lease that nobody renews
	renewDeadline = 10 * time.Second // after which a holder who cannot renew gives up
	leaseRetry    = 2 * time.Second
)

// A Lease makes one of several replicas the leader, by a Lease object that each tries to hold (docs/design/serve.md says
// why this is not client-go's leaderelection).
type Lease struct {
	Client    *Client
	Namespace string
	Name      string
	Identity  string // of this replica, such as the name of its Pod
}

// Lead runs lead while this replica holds the lease, each time it gets it, until ctx ends. The context of lead ends when
// the lease is lost. At the end the lease is given back, so that the next replica need not wait.
func (l *Lease) Lead(ctx context.Context, lead func(context.Context)) {
	var seen observed
	for ctx.Err() == nil {
		if !l.try(ctx, &seen) {
			sleep(ctx, leaseRetry)
			continue
		}
		term, end := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			lead(term)
		}()
		l.hold(term, &seen)
		end()
		<-done
	}
	l.release(context.WithoutCancel(ctx))
}

// observed is a state of the Lease and when this replica saw it first. Clocks of other replicas are not trusted: a
// lease has expired when it did not change for its duration.
type observed struct {
	version string
	at      time.Time
}

// hold renews until the lease is lost or the context ends.
func (l *Lease) hold(ctx context.Context, seen *observed) {
	last := time.Now()
	for {
		sleep(ctx, leaseRetry)
		switch {
		case ctx.Err() != nil:
			return
		case l.try(ctx, seen):
			last = time.Now()
		case time.Since(last) > renewDeadline:
			return
		}
	}
}

// try takes or renews the lease and reports whether this replica holds it.
func (l *Lease) try(ctx context.Context, seen *observed) bool {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline/2)
	defer cancel()
	client := l.Client.dynamic.Resource(leases).Namespace(l.Namespace)
	now := metav1.NowMicro().UTC().Format(metav1.RFC3339Micro)
	current, err := client.Get(ctx, l.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err := client.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": map[string]any{"name": l.Name, "namespace": l.Namespace},
			"spec":     l.spec(now, now, 0),
		}}, metav1.CreateOptions{})
		return err == nil
	}
	if err != nil {
		return false
	}
	if v := current.GetResourceVersion(); v != seen.version {
		*seen = observed{v, time.Now()}
	}
	spec, _ := current.Object["spec"].(map[string]any)
	holder, _ := spec["holderIdentity"].(string)
	transitions, _ := spec["leaseTransitions"].(int64)
	acquired, _ := spec["acquireTime"].(string)
	if holder != l.Identity {
		if holder != "" && time.Since(seen.at) < leaseDuration {
			return false
		}
		transitions, acquired = transitions+1, now
	}
	current.Object["spec"] = l.spec(acquired, now, transitions)
	_, err = client.Update(ctx, current, metav1.UpdateOptions{}) // of this version only: one of several replicas gets it
	return err == nil
}

func (l *Lease) spec(acquired, renewed string, transitions int64) map[string]any {
	return map[string]any{
		"holderIdentity": l.Identity, "leaseDurationSeconds": int64(leaseDuration / time.Second),
		"acquireTime": acquired, "renewTime": renewed, "leaseTransitions": transitions,
	}
}

// release gives the lease back if this replica holds it.
func (l *Lease) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client := l.Client.dynamic.Resource(leases).Namespace(l.Namespace)
	current, err := client.Get(ctx, l.Name, metav1.GetOptions{})
	if err != nil {
		return
	}
	spec, _ := current.Object["spec"].(map[string]any)
	if spec["holderIdentity"] != l.Identity {
		return
	}
	spec["holderIdentity"] = ""
	_, _ = client.Update(ctx, current, metav1.UpdateOptions{}) // otherwise it expires
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
