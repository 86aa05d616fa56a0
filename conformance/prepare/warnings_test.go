package prepare

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/prepare"
)

var warnedWords = []string{
	"010.0.0.1", "10.0.0.0/8", "10.0.0.1/08", "10.0.0.1/8", "::ffff:1.2.3.4", "2001:DB8::1", "2001:db8::/33",
	"::ffff:1.2.3.0/120",
	"Indexed", "PreferClose", "FQDN", "kubernetes.io/tls", "Recycle", "$(a)", "x$(A)", "a/b", "a/", "TZ=UTC 0 0 * * *",
	"Not a label!",
	"beta.kubernetes.io/arch", "node-role.kubernetes.io/master", "runtime/default", "unconfined", "localhost/a",
	"RuntimeDefault",
	"Localhost", "TCP", "UDP", "a.b.c", "orphan",
}

var warnedKeys = []string{
	"beta.kubernetes.io/os", "app.kubernetes.io/created-by", "scheduler.alpha.kubernetes.io/critical-pod",
	"security.alpha.kubernetes.io/sysctls",
	"seccomp.security.alpha.kubernetes.io/pod", "container.seccomp.security.alpha.kubernetes.io/a",
	"container.apparmor.security.beta.kubernetes.io/a", "container.apparmor.security.beta.kubernetes.io/",
	"volume.beta.kubernetes.io/storage-class", "volume.beta.kubernetes.io/mount-options",
	"service.kubernetes.io/topology-aware-hints",
	"kubernetes.io/ingress.class", "kubernetes.io/enforce-mountable-secrets", "requests.cpu", "limits.cpu",
	"limits.memory", "storage",
	"ephemeral-storage", "tls.crt", "tls.key",
}

// TestWarnings compares the warnings of the registry, before validating policies, with its own strategies.
func TestWarnings(t *testing.T) {
	registry := registry(t)
	persistentvolume.NowFunc = func() metav1.Time { return metav1.Time{Time: now} }
	kinds := map[string]bool{} // the texts of warnings, without quoted values
	for _, res := range registry.Resources() {
		name := res.Group + "/" + res.Version + "/" + res.Resource
		if !strings.Contains(name, *only) {
			continue
		}
		for sub, s := range strategies[name] {
			t.Run(name+" "+sub, func(t *testing.T) {
				g := &generator{Rand: rand.New(rand.NewPCG(*seed, 4)), plausible: true, warned: true}
				in := prepare.Input{Types: registry, Resource: res, SubResource: sub, Namespace: "shop", Now: now,
					User: authenticationv1.UserInfo{Username: "dev"}}
				for range *count {
					in.Operation, in.Object, in.Old = "CREATE", decode(t, g, in), nil
					if c, ok := s.(interface {
						both
						WarningsOnCreate(context.Context, runtime.Object) []string
					}); ok && sub == "" {
						compareWarnings(t, in, kinds,
							func(ctx context.Context, obj, _ runtime.Object) ([]string, error) {
								m, _ := meta.Accessor(obj)
								m.SetCreationTimestamp(metav1.Time{Time: now})
								m.SetUID(types.UID(uidOf(in)))
								if m.GetName() == "" {
									m.SetName(nameOf(in))
								}
								c.PrepareForCreate(ctx, obj)
								allAddresses(obj)
								return c.WarningsOnCreate(ctx, obj), nil
							},
						)
					}
					in.Operation, in.Old = "UPDATE", decode(t, g, in)
					if g.IntN(2) == 0 {
						in.Object = nearCopy(g, in.Old)
					}
					if u, ok := s.(interface {
						WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string
					}); ok {
						compareWarnings(t, in, kinds,
							func(ctx context.Context, obj, old runtime.Object) ([]string, error) {
								if err := update(ctx, s, obj, old, in); err != nil {
									return nil, err
								}
								allAddresses(obj)
								return u.WarningsOnUpdate(ctx, obj, old), nil
							},
						)
					}
					if t.Failed() {
						return
					}
				}
			})
		}
	}
	if *only == "" && len(kinds) < 50 {
		t.Errorf("only %d kinds of warnings", len(kinds))
	}
	t.Logf("%d kinds of warnings", len(kinds))
}

// allAddresses puts the address of a Service among its addresses, as pkg/registry/core/service/storage does.
func allAddresses(obj runtime.Object) {
	if service, ok := obj.(*core.Service); ok && len(service.Spec.ClusterIPs) == 0 && service.Spec.ClusterIP != "" {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	}
}

// compareWarnings compares the warnings about a request that the server's registry accepts; an error of warn means that
// it does not.
func compareWarnings(t *testing.T, in prepare.Input, kinds map[string]bool,
	warn func(ctx context.Context, obj, old runtime.Object) ([]string, error)) {
	t.Helper()
	kind := in.Resource.GroupVersionKind()
	s := serverOf(kind)
	obj, ok := s.internal(in.Object, kind)
	if !ok {
		return
	}
	var old runtime.Object
	if in.Old != nil {
		if old, ok = s.internal(in.Old, kind); !ok {
			return
		}
	}
	ctx := request.WithNamespace(context.Background(), in.Namespace)
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{APIGroup: kind.Group, APIVersion: kind.Version,
		Resource: in.Resource.Resource})
	warnings, err := warn(ctx, obj, old)
	if err != nil {
		return // refused: without a warning
	}
	want := slices.Clone(warnings)
	after := in
	after.Object = prepare.ObjectToValidate(in)
	got := prepare.Warnings(after, celgate.Newest)
	for _, text := range want {
		_, text, _ = strings.Cut(text, ": ")
		kinds[in.Resource.Resource+strings.Split(text, `"`)[0]] = true
	}
	slices.Sort(want) // some are in the order of a Go map
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("%s %v\nold %v\n- server  %q\n+ celgate %q", in.Operation, in.Object, in.Old, want, got)
	}
}

// TestDeprecated compares the warnings about versions with those of the server's types.
func TestDeprecated(t *testing.T) {
	for _, r := range registry(t).Resources() {
		obj, err := legacyscheme.Scheme.New(r.GroupVersionKind())
		if err != nil {
			continue
		}
		obj.GetObjectKind().SetGroupVersionKind(r.GroupVersionKind())
		want := ""
		if deprecation.IsDeprecated(obj, 1, 37) {
			want = deprecation.WarningMessage(obj)
		}
		if got := prepare.DeprecationWarning(r, "1.37"); got != want {
			t.Errorf("%s: %q, the server says %q", r.GroupVersionResource, got, want)
		}
	}
}
