package prepare

import (
	"context"
	"fmt"
	"maps"
	"net"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	servicestorage "k8s.io/kubernetes/pkg/registry/core/service/storage"
)

// services is the server's storage of Services in an IPv4 cluster, without a lower layer: allocations are released.
var services = func() *genericregistry.Store {
	_, addresses, err := net.ParseCIDR("10.0.0.0/16")
	if err != nil {
		panic(err)
	}
	ips, err := ipallocator.NewInMemory(addresses)
	if err != nil {
		panic(err)
	}
	ports, err := portallocator.NewInMemory(utilnet.PortRange{Base: 30000, Size: 2768})
	if err != nil {
		panic(err)
	}
	rest, _, _, err := servicestorage.NewREST(nowhere{}, core.IPv4Protocol,
		map[core.IPFamily]ipallocator.Interface{core.IPv4Protocol: ips}, ports, nil, nil, nil)
	if err != nil {
		panic(err)
	}
	return rest.Store
}()

// nowhere are the options of an unused storage.
type nowhere struct{}

func (nowhere) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		ResourcePrefix: resource.Resource,
		StorageConfig:  storagebackend.NewDefaultConfig("", nil).ForResource(resource),
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error),
			func() runtime.Object,
			func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface,
			factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}, nil
}

// dryRun implements the options for a dry run.
func dryRun(yes bool) []string {
	if yes {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// allocateNew does the work of the storage of Services before it validates a new one. The error is the answer of the
// server.
func allocateNew(ctx context.Context, obj runtime.Object, dry bool) error {
	finish, err := services.BeginCreate(ctx, obj, &metav1.CreateOptions{DryRun: dryRun(dry)})
	if err == nil {
		finish(ctx, false)
	}
	return err
}

// reallocate is allocateNew for an update. The server panics in this request if it does not have addresses of a second
// family.
func reallocate(ctx context.Context, obj, old runtime.Object, dry bool) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("panic: %v", problem)
		}
	}()
	finish, err := services.BeginUpdate(ctx, obj, old, &metav1.UpdateOptions{DryRun: dryRun(dry)})
	if err == nil {
		finish(ctx, false)
	}
	return err
}

// service makes more of a random Service one that the server takes.
func (g *generator) service(obj map[string]any) {
	spec, _ := obj["spec"].(map[string]any)
	spec = maps.Clone(spec)
	if spec == nil {
		spec = map[string]any{}
	}
	obj["spec"] = spec
	set := func(name string, values ...any) {
		if v := pick(g, values); v != nil {
			spec[name] = v
		} else {
			delete(spec, name)
		}
	}
	set("type", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", nil)
	set("clusterIP", nil, nil, nil, "None", "10.0.0.7")
	set("clusterIPs", nil, nil, nil, nil, []any{"None"}, []any{"10.0.0.7"})
	set("ipFamilies", nil, nil, nil, []any{"IPv4"}, []any{"IPv4", "IPv6"})
	set("ipFamilyPolicy", nil, nil, "SingleStack", "PreferDualStack", "RequireDualStack")
	set("selector", nil, map[string]any{"a": "b"})
	set("externalTrafficPolicy", nil, "Local", "Cluster")
	set("healthCheckNodePort", nil, nil, nil, int64(30033))
	set("allocateLoadBalancerNodePorts", nil, nil, true, false)
	var ports []any
	for i := range g.IntN(4) {
		port := map[string]any{"name": string(rune('a' + i)), "port": pick(g, []any{int64(53), int64(80), int64(443)}),
			"protocol": pick(g, []any{"TCP", "UDP"})}
		if g.IntN(4) == 0 {
			port["nodePort"] = pick(g, []any{int64(30053), int64(30080), int64(30443)})
		}
		ports = append(ports, port)
	}
	spec["ports"] = ports
}

// A drawing pairs the addresses and ports that celgate and the server allocated for a Service: equal values must stay
// equal elsewhere, and values of the request must not change.
type drawing struct {
	given map[any]bool // in the request or in the stored object
	pairs map[any]any  // of the server, with those of celgate
	back  map[any]any
}

func newDrawing(requested ...any) *drawing {
	d := &drawing{map[any]bool{}, map[any]any{}, map[any]any{}}
	for _, v := range requested {
		d.give(v)
	}
	return d
}

func (d *drawing) give(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			d.give(member)
		}
	case []any:
		for _, item := range v {
			d.give(item)
		}
	case string, int64:
		d.given[v] = true
	}
}

// drawn reports a value that may have been drawn.
func (d *drawing) drawn(v any) bool {
	if d.given[v] {
		return false
	}
	switch v := v.(type) {
	case string:
		return net.ParseIP(v) != nil
	case int64:
		return v >= 30000 && v < 32768
	}
	return false
}

// pair replaces values that the server allocated by those of celgate, if they have the same form.
func (d *drawing) pair(got, want any) any {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for name, member := range w {
			w[name] = d.pair(g[name], member)
		}
		return w
	case []any:
		g, _ := got.([]any)
		for i := range min(len(g), len(w)) {
			w[i] = d.pair(g[i], w[i])
		}
		return w
	}
	if !d.drawn(want) || !d.drawn(got) {
		return want
	}
	if known, ok := d.pairs[want]; ok && known != got {
		return want
	}
	if known, ok := d.back[got]; ok && known != want {
		return want
	}
	d.pairs[want], d.back[got] = got, want
	return got
}

// TestAllocated makes many Services, for the strategies of [TestObjectToValidate] see few that the server takes.
func TestAllocated(t *testing.T) {
	types := registry(t)
	for _, res := range types.Resources() {
		if res.Group == "" && res.Resource == "services" {
			testForValidation(t, types, res, "", strategies["/v1/services"][""], 20**count)
		}
	}
}
