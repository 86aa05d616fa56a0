package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// natives are the policies and bindings of admissionregistration.k8s.io in a cluster, and whether the server enforces
// them. World.mu guards them.
type natives struct {
	watches  map[string]*watch // by resource; only those that the server serves
	enforced map[policy.Kind]bool
	asked    time.Time // the time of enforced
	err      error     // the reason why enforced is not known

	since map[policy.Ref]time.Time // when each binding was first seen in the server's group
}

// enforcedFor is the time for which an answer of the server about its plugins is trusted.
const enforcedFor = 10 * time.Minute

// overlap is the time for which celgate still enforces a validating policy after the server has its native copy. A
// server takes up to a second to enforce an object that it has stored (policy_source.go in
// k8s.io/apiserver/pkg/admission/plugin/policy/generic v0.37.2), and there may be several servers. Being denied twice
// does no harm.
const overlap = 5 * time.Second

// followNatives watches the native kinds that the server serves, and asks whether it enforces them if there are any
// bindings.
func (w *World) followNatives(ctx context.Context) {
	served := map[string]schema.GroupVersionResource{}
	for _, version := range nativeVersions {
		for _, r := range w.kinds.resourcesOf(schema.GroupVersion{Group: nativeGroup, Version: version}) {
			if _, better := served[r.Resource]; !better {
				served[r.Resource] = r.GroupVersionResource
			}
		}
	}
	w.mu.Lock()
	var started []*watch
	for _, resource := range mirrored {
		if of, ok := served[resource]; ok && w.natives.watches[resource] == nil {
			each := startWatch(w.ctx, w.client.dynamic, of, func() { w.signal(); w.triggerRefresh() })
			w.natives.watches[resource] = each
			started = append(started, each)
		}
	}
	w.mu.Unlock()
	for _, each := range started {
		_ = each.wait(ctx) // a kind that may not be read counts as empty
	}
	w.askEnforced(ctx)
}

func (w *World) askEnforced(ctx context.Context) {
	w.mu.Lock()
	old := time.Since(w.natives.asked) > enforcedFor || len(w.natives.enforced) < 2
	w.mu.Unlock()
	if !old || !w.bindsNatively() {
		return
	}
	enforced, err := w.client.EnforcedKinds(ctx)
	defer w.signal()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.natives.asked, w.natives.enforced, w.natives.err = time.Now(), enforced, err
}

// EnforcedKinds returns the kinds of native policies that the server enforces: those whose admission plugin has run, by
// the server's metrics.
func (c *Client) EnforcedKinds(ctx context.Context) (map[policy.Kind]bool, error) {
	text, err := c.get(ctx, "/metrics", "text/plain")
	if err != nil {
		return nil, fmt.Errorf("read the admission plugins of the server: %w", err)
	}
	enforced := map[policy.Kind]bool{}
	for _, kind := range []policy.Kind{policy.Validating, policy.Mutating} {
		if bytes.Contains(text, []byte(`apiserver_admission_controller_admission_duration_seconds_count{name="`+string(
			kind)+`"`)) {
			enforced[kind] = true
		}
	}
	return enforced, nil
}

// bindsNatively reports whether there are native bindings.
func (w *World) bindsNatively() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, kind := range []policy.Kind{policy.Validating, policy.Mutating} {
		if each := w.natives.watches[resourcesOf[kind].bindings]; each != nil && len(each.list("")) > 0 {
			return true
		}
	}
	return false
}

// resourcesOf has the resources of each kind of policy.
var resourcesOf = map[policy.Kind]struct{ policies, bindings string }{
	policy.Validating: {mirrored[0], mirrored[1]},
	policy.Mutating:   {mirrored[2], mirrored[3]},
	policy.Admission:  {dialectOwn[0], dialectOwn[1]},
}

// IsHandedOver reports whether the server itself enforces a binding: a native binding has its name and its policy, that
// policy exists natively, and the server has the admission plugin. A binding of a validating policy is handed over a
// moment later, so that it is enforced at any time; one of a mutating policy at once, because applying a mutation twice
// may give another result.
func (w *World) IsHandedOver(b *policy.Binding) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := b.Ref()
	if !w.natives.acts(b) {
		delete(w.natives.since, key)
		return false
	}
	if b.Kind == policy.Mutating {
		return true
	}
	since, known := w.natives.since[key]
	if !known {
		since = time.Now()
		w.natives.since[key] = since
		time.AfterFunc(overlap, w.signal)
	}
	return time.Since(since) >= overlap
}

func (n *natives) acts(b *policy.Binding) bool {
	of := resourcesOf[b.Kind]
	bindings, policies := n.watches[of.bindings], n.watches[of.policies]
	if !n.enforced[b.Kind] || bindings == nil || policies == nil {
		return false
	}
	native := bindings.get("", b.Name)
	named, _, _ := unstructured.NestedString(native, "spec", "policyName")
	return native != nil && named == b.PolicyName && policies.get("", named) != nil
}

// NativeError says why celgate does not know whether the server enforces the native copies of its own policies; nil if
// it knows, or if there are no copies.
func (w *World) NativeError() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	errs := []error{w.natives.err}
	for _, resource := range mirrored {
		if each := w.natives.watches[resource]; each != nil {
			errs = append(errs, each.err())
		}
	}
	return errors.Join(errs...)
}

// resourcesOf returns the resources of a version of a group as last read.
func (k *kinds) resourcesOf(gv schema.GroupVersion) []schema.Resource {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []schema.Resource
	for _, r := range k.resources {
		if r.GroupVersion() == gv {
			all = append(all, r)
		}
	}
	return all
}
