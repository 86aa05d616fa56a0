package prepare

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/schema"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"
)

type (
	creator interface {
		PrepareForCreate(ctx context.Context, obj runtime.Object)
		Canonicalize(obj runtime.Object)
	}
	updater interface {
		PrepareForUpdate(ctx context.Context, obj, old runtime.Object)
		Canonicalize(obj runtime.Object)
	}
	// both is the strategy of a resource, the others those of its subresources.
	both interface {
		creator
		PrepareForUpdate(ctx context.Context, obj, old runtime.Object)
	}
)

// strategies by version and resource, and by subresource.
var strategies = map[string]map[string]updater{
	"apps/v1/controllerrevisions": {"": controllerrevision.Strategy},
	"apps/v1/daemonsets":          {"": daemonset.Strategy, "status": daemonset.StatusStrategy},
	"apps/v1/deployments":         {"": deployment.Strategy, "status": deployment.StatusStrategy},
	"apps/v1/replicasets":         {"": replicaset.Strategy, "status": replicaset.StatusStrategy},
	"apps/v1/statefulsets": {"": statefulset.Strategy,
		"status": statefulset.StatusStrategy},
	"autoscaling/v1/horizontalpodautoscalers": {"": horizontalpodautoscaler.Strategy,
		"status": horizontalpodautoscaler.StatusStrategy},
	"autoscaling/v2/horizontalpodautoscalers": {"": horizontalpodautoscaler.Strategy,
		"status": horizontalpodautoscaler.StatusStrategy},
	"batch/v1/cronjobs": {"": cronjob.Strategy, "status": cronjob.StatusStrategy},
	"batch/v1/jobs":     {"": job.Strategy, "status": job.StatusStrategy},
	"certificates.k8s.io/v1/certificatesigningrequests": {"": certificates.Strategy,
		"approval": certificates.ApprovalStrategy},
	"coordination.k8s.io/v1/leases": {"": lease.Strategy},
	"/v1/configmaps":                {"": configmap.Strategy},
	"/v1/endpoints":                 {"": endpoint.Strategy},
	"/v1/events":                    {"": event.Strategy},
	"/v1/limitranges":               {"": limitrange.Strategy},
	"/v1/namespaces": {"": namespace.Strategy, "status": namespace.StatusStrategy,
		"finalize": namespace.FinalizeStrategy},
	"/v1/nodes": {"": node.Strategy, "status": node.StatusStrategy},
	"/v1/persistentvolumes": {"": persistentvolume.Strategy,
		"status": persistentvolume.StatusStrategy},
	"/v1/persistentvolumeclaims": {"": persistentvolumeclaim.Strategy,
		"status": persistentvolumeclaim.StatusStrategy},
	"/v1/pods": {"": pod.Strategy, "status": pod.StatusStrategy,
		"ephemeralcontainers": pod.EphemeralContainersStrategy, "resize": pod.ResizeStrategy},
	"/v1/podtemplates": {"": podtemplate.Strategy},
	"/v1/replicationcontrollers": {"": replicationcontroller.Strategy,
		"status": replicationcontroller.StatusStrategy},
	"/v1/resourcequotas": {"": resourcequota.Strategy,
		"status": resourcequota.StatusStrategy},
	"/v1/secrets":                                 {"": secret.Strategy},
	"/v1/services":                                {"": service.Strategy, "status": service.StatusStrategy},
	"/v1/serviceaccounts":                         {"": serviceaccount.Strategy},
	"discovery.k8s.io/v1/endpointslices":          {"": endpointslice.Strategy},
	"flowcontrol.apiserver.k8s.io/v1/flowschemas": {"": flowschema.Strategy, "status": flowschema.StatusStrategy},
	"flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations": {"": prioritylevelconfiguration.Strategy,
		"status": prioritylevelconfiguration.StatusStrategy},
	"networking.k8s.io/v1/ingresses": {"": ingress.Strategy,
		"status": ingress.StatusStrategy},
	"networking.k8s.io/v1/ingressclasses":  {"": ingressclass.Strategy},
	"networking.k8s.io/v1/ipaddresses":     {"": ipaddress.Strategy},
	"networking.k8s.io/v1/networkpolicies": {"": networkpolicy.Strategy},
	"networking.k8s.io/v1/servicecidrs": {"": servicecidr.Strategy,
		"status": servicecidr.StatusStrategy},
	"node.k8s.io/v1/runtimeclasses": {"": runtimeclass.Strategy},
	"policy/v1/poddisruptionbudgets": {"": poddisruptionbudget.Strategy,
		"status": poddisruptionbudget.StatusStrategy},
	"rbac.authorization.k8s.io/v1/clusterroles":        {"": clusterrole.Strategy},
	"rbac.authorization.k8s.io/v1/clusterrolebindings": {"": clusterrolebinding.Strategy},
	"rbac.authorization.k8s.io/v1/roles":               {"": role.Strategy},
	"rbac.authorization.k8s.io/v1/rolebindings":        {"": rolebinding.Strategy},
	"resource.k8s.io/v1/deviceclasses":                 {"": deviceclass.Strategy},
	"scheduling.k8s.io/v1/priorityclasses":             {"": priorityclass.Strategy},
	"storage.k8s.io/v1/csidrivers":                     {"": csidriver.Strategy},
	"storage.k8s.io/v1/csinodes":                       {"": csinode.Strategy},
	"storage.k8s.io/v1/csistoragecapacities":           {"": csistoragecapacity.Strategy},
	"storage.k8s.io/v1/storageclasses":                 {"": storageclass.Strategy},
	"storage.k8s.io/v1/volumeattachments": {"": volumeattachment.Strategy,
		"status": volumeattachment.StatusStrategy},
	"storage.k8s.io/v1/volumeattributesclasses":                       {"": volumeattributesclass.Strategy},
	"admissionregistration.k8s.io/v1/mutatingwebhookconfigurations":   {"": mutatingwebhookconfiguration.Strategy},
	"admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {"": validatingwebhookconfiguration.Strategy},
	"admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": {
		"": &validatingadmissionpolicybinding.Strategy},
	"admissionregistration.k8s.io/v1/validatingadmissionpolicies": {
		"":       validatingadmissionpolicy.NewStrategy(nil, nil),
		"status": validatingadmissionpolicy.NewStatusStrategy(validatingadmissionpolicy.NewStrategy(nil, nil))},
}

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// TestObjectToValidate compares the processing between the phases with the registry's own strategies.
func TestObjectToValidate(t *testing.T) {
	registry := registry(t)
	persistentvolume.NowFunc = func() metav1.Time { return metav1.Time{Time: now} }
	for _, res := range registry.Resources() {
		name := res.Group + "/" + res.Version + "/" + res.Resource
		if !strings.Contains(name, *only) {
			continue
		}
		for sub, s := range strategies[name] {
			t.Run(name+" "+sub, func(t *testing.T) { testForValidation(t, registry, res, sub, s, *count) })
		}
	}
}

func testForValidation(t *testing.T, types *schema.Registry, res *schema.Resource, sub string, s updater, count int) {
	g := &generator{Rand: rand.New(rand.NewPCG(*seed, 3)), plausible: true}
	in := prepare.Input{Types: types, Resource: res, SubResource: sub, Namespace: "shop", Now: now,
		User: authenticationv1.UserInfo{Username: "dev"}}
	for i := range count {
		in.DryRun = g.IntN(2) == 0
		if c, ok := s.(both); ok && sub == "" {
			in.Operation, in.Old = "CREATE", nil
			var obj runtime.Object
			if obj, in.Object, in.SharesLabels = receive(t, g, in); obj != nil {
				forValidation(t, i, in, obj, func(ctx context.Context, obj,
					_ runtime.Object) error {
					return create(ctx, c, obj, in)
				})
			}
		}
		in.Operation, in.Object, in.Old, in.SharesLabels = "UPDATE", decode(t, g, in), decode(t, g, in), false
		if g.IntN(2) == 0 { // close to the stored object
			in.Object = nearCopy(g, in.Old)
		}
		if obj, ok := serverOf(res.GroupVersionKind()).internal(in.Object, res.GroupVersionKind()); ok {
			forValidation(t, i, in, obj, func(ctx context.Context, obj,
				old runtime.Object) error {
				return update(ctx, s, obj, old, in)
			})
		}
		if t.Failed() {
			return
		}
	}
}

// create does the work of Store.create (k8s.io/apiserver pkg/registry/generic/registry/store.go v0.37.2), except for
// validation.
func create(ctx context.Context, c both, obj runtime.Object, in prepare.Input) error {
	m, _ := meta.Accessor(obj)
	rest.WipeObjectMetaSystemFields(m)
	m.SetCreationTimestamp(metav1.Time{Time: now})
	m.SetUID(types.UID(uidOf(in)))
	if m.GetName() == "" { // LimitRanges need none
		m.SetName(nameOf(in))
	}
	if in.Resource.Resource == "services" {
		if err := allocateNew(ctx, obj, in.DryRun); err != nil {
			return err
		}
	}
	c.PrepareForCreate(ctx, obj)
	c.Canonicalize(obj)
	return nil
}

// update does the work of Store.Update (k8s.io/apiserver pkg/registry/generic/registry/store.go v0.37.2) and
// rest.BeforeUpdate (pkg/registry/rest/update.go), except for validation.
func update(ctx context.Context, s updater, obj, old runtime.Object, in prepare.Input) error {
	m, _ := meta.Accessor(obj)
	was, _ := meta.Accessor(old)
	if m.GetResourceVersion() == "" {
		m.SetResourceVersion(was.GetResourceVersion())
	}
	if in.Resource.Resource == "services" && in.SubResource == "" {
		if err := reallocate(ctx, obj, old, in.DryRun); err != nil {
			return err
		}
	}
	m.SetGeneration(was.GetGeneration())
	s.PrepareForUpdate(ctx, obj, old)
	if m.GetUID() == "" {
		m.SetUID(was.GetUID())
	}
	if at := was.GetCreationTimestamp(); !at.IsZero() {
		m.SetCreationTimestamp(at)
	}
	if !was.GetDeletionTimestamp().IsZero() {
		m.SetDeletionTimestamp(was.GetDeletionTimestamp())
	}
	if was.GetDeletionGracePeriodSeconds() != nil && m.GetDeletionGracePeriodSeconds() == nil {
		m.SetDeletionGracePeriodSeconds(was.GetDeletionGracePeriodSeconds())
	}
	s.Canonicalize(obj)
	return nil
}

// manifest makes an object of the request's kind.
func manifest(g *generator, in prepare.Input) map[string]any {
	kind := in.Resource.GroupVersionKind()
	obj := g.object(in.Types.Type(kind), 0)
	obj["apiVersion"], obj["kind"] = kind.GroupVersion().String(), kind.Kind
	if m, ok := obj["metadata"].(map[string]any); ok {
		delete(m, "ownerReferences") // duplicates are dropped elsewhere
		delete(m, "namespace")
	}
	if in.Resource.Resource == "services" {
		g.service(obj)
	}
	return obj
}

// receive generates an object and returns it in the form in which the server has decoded its body, and in celgate's
// form. It is nil if the server cannot decode it.
func receive(t *testing.T, g *generator, in prepare.Input) (runtime.Object, map[string]any, bool) {
	kind := in.Resource.GroupVersionKind()
	in.Object = manifest(g, in)
	body, err := json.Marshal(in.Object)
	if err != nil {
		t.Fatal(err)
	}
	s := serverOf(kind)
	internal := schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal}
	obj, _, err := s.codecs.DecoderToVersion(s.strict, internal).Decode(body, &kind, nil)
	if err != nil {
		return nil, nil, false
	}
	result, err := prepare.Object(in)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return obj, result.Object, result.SharesLabels
}

func decode(t *testing.T, g *generator, in prepare.Input) map[string]any {
	for {
		if out, _, err := prepare.ReadStored(manifest(g, in), in.Types, in.Resource.GroupVersionKind()); err == nil {
			return out
		}
	}
}

// nearCopy returns a copy of an object with a change in one member.
func nearCopy(g *generator, obj map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range obj {
		out[k] = v
	}
	if m, ok := out["metadata"].(map[string]any); ok && g.IntN(2) == 0 {
		changed := map[string]any{}
		for k, v := range m {
			changed[k] = v
		}
		changed["annotations"] = map[string]any{"changed": "yes"}
		out["metadata"] = changed
	}
	return out
}

func uidOf(in prepare.Input) string {
	m, _ := prepare.ObjectToValidate(in)["metadata"].(map[string]any)
	uid, _ := m["uid"].(string)
	return uid
}

func nameOf(in prepare.Input) string {
	m, _ := prepare.ObjectToValidate(in)["metadata"].(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// forValidation compares the server's form of an object with celgate's. Objects that the strategy refuses are not
// compared.
func forValidation(t *testing.T, i int, in prepare.Input, obj runtime.Object,
	strategy func(ctx context.Context, obj, old runtime.Object) error) {
	t.Helper()
	kind := in.Resource.GroupVersionKind()
	s := serverOf(kind)
	var old runtime.Object
	if in.Old != nil {
		var ok bool
		if old, ok = s.internal(in.Old, kind); !ok {
			return
		}
	}
	ctx := request.WithNamespace(context.Background(), in.Namespace)
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "dev"})
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{APIGroup: kind.Group, APIVersion: kind.Version,
		Resource: in.Resource.Resource})
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	// rest.BeforeCreate and BeforeUpdate; values that contradict the request do not change and are refused.
	_ = rest.EnsureObjectNamespaceMatchesRequestNamespace(
		rest.ExpectedNamespaceForScope(in.Namespace, in.Resource.Namespaced), m)
	if strategy(ctx, obj, old) != nil {
		return
	}
	want, err := s.tree(obj, kind)
	if err != nil {
		t.Fatal(err)
	}
	got := prepare.ObjectToValidate(in)
	if reflect.DeepEqual(got, want) {
		return
	}
	current(got, want)
	if in.Resource.Resource == "services" {
		newDrawing(in.Object, in.Old).pair(got, want)
	}
	if found := difference("", got, want); len(found) > 0 {
		body, _ := json.Marshal(in.Object)
		was, _ := json.Marshal(in.Old)
		t.Errorf("%s %d:\n%s\nobject %s\nold %s", in.Operation, i, strings.Join(found, "\n"), body, was)
	}
}

// internal returns a prepared tree in the form of the server.
func (s server) internal(tree map[string]any, kind schema.GroupVersionKind) (runtime.Object, bool) {
	versioned, err := s.scheme.New(kind)
	if err != nil {
		return nil, false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, versioned); err != nil {
		return nil, false
	}
	hub, err := s.scheme.ConvertToVersion(versioned,
		schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	return hub, err == nil
}

// current writes the time of the request for times that the server takes from its clock.
func current(got, want any) {
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for k, v := range want {
			if recent(v) && got[k] == now.Format(time.RFC3339) {
				want[k] = got[k]
			}
			current(got[k], v)
		}
	case []any:
		got, _ := got.([]any)
		for i := range min(len(got), len(want)) {
			current(got[i], want[i])
		}
	}
}
