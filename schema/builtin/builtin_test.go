package builtin_test

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/celgate/celgate/internal/packed"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

func registry(t testing.TB) *schema.Registry {
	t.Helper()
	r, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func kind(apiVersion, name string) schema.GroupVersionKind {
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: name}
}

// allKinds reads the kinds from the index.
func allKinds(t *testing.T, minor string) []schema.GroupVersionKind {
	t.Helper()
	files, err := packed.Open(os.DirFS("tables"), minor)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := fs.ReadFile(files, "index")
	if err != nil {
		t.Fatal(err)
	}
	var all []schema.GroupVersionKind
	group := ""
	for line := range strings.Lines(string(raw)) {
		switch words := strings.Fields(line); words[0] {
		case "group":
			group = words[1]
		case "kind":
			all = append(all, kind(group, words[1]))
		}
	}
	return all
}

// Every kind must decode, and every type that it reaches must be complete.
func TestEveryKind(t *testing.T) {
	for _, minor := range builtin.Minors() {
		t.Run(minor, func(t *testing.T) {
			r, err := builtin.Registry(minor)
			if err != nil {
				t.Fatal(err)
			}
			kinds := allKinds(t, minor)
			if len(kinds) < 180 {
				t.Errorf("only %d kinds", len(kinds))
			}
			seen := map[*shape.Type]bool{}
			for _, k := range kinds {
				typ := r.Type(k)
				if typ == nil || typ.Kind != shape.Struct || len(typ.Fields) == 0 {
					t.Errorf("%v: %+v", k, typ)
					continue
				}
				complete(t, typ, k.Kind, seen)
			}
			if len(seen) < 700 {
				t.Errorf("only %d types", len(seen))
			}
		})
	}
}

// A feature that one minor has off may be on in the next.
func TestFeatures(t *testing.T) {
	for minor, off := range map[string]bool{"1.30": true, "1.33": true, "1.36": true, "1.37": false} {
		r, err := builtin.Registry(minor)
		if err != nil {
			t.Fatal(err)
		}
		typ := r.Type(kind("apps/v1", "StatefulSet"))
		if typ.LacksFeature("MaxUnavailableStatefulSet") != off {
			t.Errorf("%s: MaxUnavailableStatefulSet off is %t", minor, !off)
		}
		if !typ.LacksFeature("CoordinatedLeaderElection") && minor != "1.30" || typ.LacksFeature("APIServerIdentity") {
			t.Errorf("%s: features are not read", minor)
		}
	}
}

func complete(t *testing.T, typ *shape.Type, path string, seen map[*shape.Type]bool) {
	if seen[typ] {
		return
	}
	seen[typ] = true
	switch typ.Kind {
	case shape.Struct:
		for i := range typ.Fields {
			f := &typ.Fields[i]
			if f.Name == "" || f.Type == nil || typ.Field(f.Name) != f {
				t.Errorf("%s: bad member %+v", path, f)
				continue
			}
			complete(t, f.Type, path+"."+f.Name, seen)
		}
	case shape.Map, shape.List:
		if typ.Elem == nil {
			t.Errorf("%s has no type of elements", path)
			return
		}
		if (typ.Merge == shape.Keyed) != (len(typ.Keys) > 0) {
			t.Errorf("%s: merge %v by %v", path, typ.Merge, typ.Keys)
		}
		for _, key := range typ.Keys {
			// Up to 1.33 the document of the server has this; such a list is never merged.
			if typ.Elem.Field(key) == nil && path != "StorageVersionMigrationList.items" {
				t.Errorf("%s: items have no key %q", path, key)
			}
		}
		complete(t, typ.Elem, path+"[]", seen)
	case shape.Union:
		if len(typ.OneOf) < 2 {
			t.Errorf("%s: a union of %d", path, len(typ.OneOf))
		}
		for _, alternative := range typ.OneOf {
			complete(t, alternative, path+"|", seen)
		}
	case shape.Integer:
		if typ.Bits != 32 && typ.Bits != 64 {
			t.Errorf("%s: %d bits", path, typ.Bits)
		}
	}
}

func TestEveryResource(t *testing.T) {
	r := registry(t)
	if n := len(r.Resources()); n < 100 {
		t.Errorf("only %d resources", n)
	}
	for _, res := range r.Resources() {
		if got := r.ResourceFor(res.GroupVersionKind()); got != res {
			t.Errorf("the resource of %v is %v, not %v", res.GroupVersionKind(), got, res.GroupVersionResource)
		}
		if r.Resource(res.GroupVersionResource) != res {
			t.Errorf("%v is not found", res.GroupVersionResource)
		}
		kinds := []schema.GroupVersionKind{res.GroupVersionKind()}
		for _, sub := range res.Subresources {
			kinds = append(kinds, sub.Kind)
		}
		for _, kind := range kinds {
			if typ := r.Type(kind); typ == nil || typ.Field("kind") == nil {
				t.Errorf("%v of %v has no type", kind, res.GroupVersionResource)
			}
		}
	}
}

// walkType walks from the type of a kind along members; [] steps into a list or map.
func walkType(t *testing.T, r *schema.Registry, k schema.GroupVersionKind, path string) (*shape.Field, *shape.Type) {
	t.Helper()
	typ := r.Type(k)
	var field *shape.Field
	for step := range strings.SplitSeq(path, ".") {
		name, elem := strings.CutSuffix(step, "[]")
		if typ == nil {
			t.Fatalf("%s: nothing at %s", k.Kind, path)
		}
		field = typ.Field(name)
		if field == nil {
			t.Fatalf("%s: no %s in %s", k.Kind, name, path)
		}
		typ = field.Type
		if elem {
			typ = typ.Elem
		}
	}
	return field, typ
}

func TestMerge(t *testing.T) {
	r := registry(t)
	const pod = "spec.template.spec."
	for _, test := range []struct {
		apiVersion, kind, path string
		merge                  shape.Merge
		keys                   string
	}{
		{"apps/v1", "Deployment", pod + "containers", shape.Keyed, "name"},
		{"apps/v1", "Deployment", pod + "containers[].ports", shape.Keyed, "containerPort,protocol"},
		{"apps/v1", "Deployment", pod + "containers[].env", shape.Keyed, "name"},
		{"apps/v1", "Deployment", pod + "containers[].command", shape.Atomic, ""},
		{"apps/v1", "Deployment", pod + "containers[].env[].valueFrom.fieldRef", shape.Atomic, ""},
		{"apps/v1", "Deployment", pod + "containers[].volumeMounts", shape.Keyed, "mountPath"},
		{"apps/v1", "Deployment", pod + "topologySpreadConstraints", shape.Keyed, "topologyKey,whenUnsatisfiable"},
		{"apps/v1", "Deployment", pod + "tolerations", shape.Atomic, ""},
		{"apps/v1", "Deployment", pod + "nodeSelector", shape.Atomic, ""},
		{"apps/v1", "Deployment", pod + "volumes", shape.Keyed, "name"},
		{"apps/v1", "Deployment", "spec.selector", shape.Atomic, ""},
		{"apps/v1", "Deployment", "metadata.labels", shape.Granular, ""},
		{"apps/v1", "Deployment", "metadata.finalizers", shape.Set, ""},
		{"apps/v1", "Deployment", "metadata.ownerReferences", shape.Keyed, "uid"},
		{"apps/v1", "Deployment", "metadata.managedFields", shape.Atomic, ""},
		{"v1", "Service", "spec.ports", shape.Keyed, "port,protocol"},
		{"v1", "PersistentVolume", "spec.claimRef", shape.Granular, ""}, // the type is atomic, not so this reference
		{"v1", "Event", "involvedObject", shape.Atomic, ""},
		{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "spec.variables", shape.Keyed, "name"},
		{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "spec.validations", shape.Atomic, ""},
		{"admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy", "spec.matchConditions", shape.Keyed,
			"name"},
	} {
		t.Run(test.kind+" "+test.path, func(t *testing.T) {
			_, typ := walkType(t, r, kind(test.apiVersion, test.kind), test.path)
			if keys := strings.Join(typ.Keys, ","); typ.Merge != test.merge || keys != test.keys {
				t.Errorf("merge %v by %q", typ.Merge, keys)
			}
		})
	}
}

func TestFields(t *testing.T) {
	r := registry(t)
	for _, test := range []struct {
		apiVersion, kind, path string
		want                   shape.Kind
		bits                   uint8
		flags                  string
		def                    any
	}{
		{"apps/v1", "Deployment", "spec.replicas", shape.Integer, 32, "pe", nil},
		{"apps/v1", "Deployment", "spec.template", shape.Struct, 0, "r", map[string]any{}},
		{"apps/v1", "Deployment", "metadata.creationTimestamp", shape.Time, 0, "ez", nil},
		{"apps/v1", "Deployment", "spec.template.spec.containers[].ports[].protocol", shape.String, 0, "e", "TCP"},
		{"apps/v1", "Deployment", "spec.template.spec.containers[].name", shape.String, 0, "r", ""},
		{"apps/v1", "Deployment", "spec.template.spec.containers[].resources.limits[]", shape.Quantity, 0, "e", nil},
		{"apps/v1", "Deployment", "spec.strategy.rollingUpdate.maxSurge", shape.IntOrString, 0, "pe", nil},
		{"v1", "Secret", "data[]", shape.Bytes, 0, "e", nil},
		{"v1", "Event", "eventTime", shape.MicroTime, 0, "e", nil},
		{"v1", "Binding", "target", shape.Struct, 0, "r", map[string]any{}},
		{"v1", "PodExecOptions", "command", shape.List, 0, "", nil},
		{"v1", "NodeProxyOptions", "path", shape.String, 0, "e", nil},
		{"policy/v1", "Eviction", "deleteOptions", shape.Struct, 0, "pe", nil},
		{"autoscaling/v1", "Scale", "spec.replicas", shape.Integer, 32, "e", int64(0)},
		{"authentication.k8s.io/v1", "TokenRequest", "spec.expirationSeconds", shape.Integer, 64, "p", nil},
		{"meta.k8s.io/v1", "CreateOptions", "dryRun", shape.List, 0, "e", nil},
		{"apiregistration.k8s.io/v1", "APIService", "spec.caBundle", shape.Bytes, 0, "e", nil},
		{"apps/v1", "ControllerRevision", "data", shape.Any, 0, "r", nil},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "spec.versions[].schema.openAPIV3Schema.maximum",
			shape.Number, 0, "pe", nil},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition",
			"spec.versions[].schema.openAPIV3Schema.additionalProperties", shape.Union, 0, "pe", nil},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "spec.versions[].schema.openAPIV3Schema.default",
			shape.Any, 0, "pe", nil},
	} {
		t.Run(test.kind+" "+test.path, func(t *testing.T) {
			f, typ := walkType(t, r, kind(test.apiVersion, test.kind), test.path)
			if typ.Kind != test.want || typ.Bits != test.bits {
				t.Errorf("kind %d, %d bits", typ.Kind, typ.Bits)
			}
			flags := ""
			for flag, set := range map[string]bool{"p": f.Pointer, "e": f.OmitEmpty, "z": f.OmitZero, "r": f.Required} {
				if set != strings.Contains(test.flags, flag) {
					flags += flag
				}
			}
			if flags != "" {
				t.Errorf("flags %q are other than in %q", flags, test.flags)
			}
			if m, ok := test.def.(map[string]any); ok {
				if got, ok := f.Default.(map[string]any); !ok || len(got) != len(m) {
					t.Errorf("default %v", f.Default)
				}
			} else if f.Default != test.def {
				t.Errorf("default %v", f.Default)
			}
		})
	}
}

func TestRecursion(t *testing.T) {
	_, props := walkType(t, registry(t), kind("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
		"spec.versions[].schema.openAPIV3Schema")
	if props.Field("not").Type != props || props.Field("properties").Type.Elem != props ||
		props.Field("items").Type.OneOf[0] != props {
		t.Error("JSONSchemaProps does not contain itself")
	}
}

func TestEquivalents(t *testing.T) {
	r := registry(t)
	for _, test := range []struct{ group, version, resource, sub, want string }{
		{"", "v1", "pods", "", "v1"},
		{"autoscaling", "v1", "horizontalpodautoscalers", "", "autoscaling/v2 autoscaling/v1"},
		{"autoscaling", "v2", "horizontalpodautoscalers", "status", "autoscaling/v2 autoscaling/v1"},
		{"", "v1", "events", "", "v1 events.k8s.io/v1"},
		{"events.k8s.io", "v1", "events", "", "v1 events.k8s.io/v1"},
		{"apps", "v1", "deployments", "scale", "apps/v1"},
		{"apps", "v1", "deployments", "nothing", ""},
		{"resource.k8s.io", "v1", "resourceclaims", "", "resource.k8s.io/v1"}, // the others are off by default
		{"resource.k8s.io", "v1beta1", "resourceclaims", "", "resource.k8s.io/v1 resource.k8s.io/v1beta1"},
		{"admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", "", "admissionregistration.k8s.io/v1"},
		{"none", "v1", "nothing", "", ""},
	} {
		var got []string
		for _, res := range r.Equivalents(schema.GroupVersionResource{Group: test.group, Version: test.version,
			Resource: test.resource}, test.sub) {
			got = append(got, res.GroupVersion().String())
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s/%s %s %s: %q, want %q", test.group, test.version, test.resource, test.sub, text, test.want)
		}
	}
}

func TestKindFor(t *testing.T) {
	r := registry(t)
	for _, test := range []struct {
		group, version, resource, sub string
		want                          schema.GroupVersionKind
	}{
		{"", "v1", "pods", "", kind("v1", "Pod")},
		{"", "v1", "pods", "exec", kind("v1", "PodExecOptions")},
		{"", "v1", "pods", "eviction", kind("policy/v1", "Eviction")},
		{"", "v1", "pods", "binding", kind("v1", "Binding")},
		{"", "v1", "pods", "resize", kind("v1", "Pod")},
		{"", "v1", "nodes", "proxy", kind("v1", "NodeProxyOptions")},
		{"", "v1", "serviceaccounts", "token", kind("authentication.k8s.io/v1", "TokenRequest")},
		{"", "v1", "replicationcontrollers", "scale", kind("autoscaling/v1", "Scale")},
		{"apps", "v1", "statefulsets", "scale", kind("autoscaling/v1", "Scale")},
		{"certificates.k8s.io", "v1", "certificatesigningrequests", "approval",
			kind("certificates.k8s.io/v1", "CertificateSigningRequest")},
		{"", "v1", "pods", "nothing", schema.GroupVersionKind{}},
		{"", "v1", "nothing", "", schema.GroupVersionKind{}},
	} {
		got, ok := r.KindFor(schema.GroupVersionResource{Group: test.group, Version: test.version,
			Resource: test.resource}, test.sub)
		if got != test.want || ok != (got != schema.GroupVersionKind{}) {
			t.Errorf("%s %s: %v", test.resource, test.sub, got)
		}
	}
	if ns := r.ResourceFor(kind("v1", "Namespace")); ns.Namespaced || ns.Resource != "namespaces" || ns.OffByDefault {
		t.Errorf("namespaces: %+v", ns)
	}
	if !r.ResourceFor(kind("v1", "Pod")).Namespaced {
		t.Error("pods have no namespace")
	}
}

func TestUnsupportedMinor(t *testing.T) {
	for _, minor := range []string{"", "1.2", "..", "1.37/", "v1.37"} {
		if _, err := builtin.Registry(minor); err == nil || !strings.Contains(err.Error(), "1.37") {
			t.Errorf("%q: %v", minor, err)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	r := registry(t)
	kinds := allKinds(t, "1.37")
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range kinds {
				k := kinds[(i*7+worker*31)%len(kinds)]
				if typ := r.Type(k); typ == nil || typ != r.Type(k) {
					t.Errorf("%v: the type changes", k)
				}
			}
		})
	}
	group.Wait()
}

// TestVersions tests in which versions minors serve policies, by default and with flags.
func TestVersions(t *testing.T) {
	for _, test := range []struct{ minor, group, kind, want string }{
		{"1.30", "admissionregistration.k8s.io", "MutatingAdmissionPolicy", "[] []"},
		{"1.33", "admissionregistration.k8s.io", "MutatingAdmissionPolicy", "[] [v1alpha1]"},
		{"1.35", "admissionregistration.k8s.io", "MutatingAdmissionPolicy", "[] [v1beta1 v1alpha1]"},
		{"1.36", "admissionregistration.k8s.io", "MutatingAdmissionPolicy", "[v1] [v1beta1 v1alpha1]"},
		{"1.30", "admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "[v1] [v1beta1 v1alpha1]"},
		{"1.33", "admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "[v1] [v1beta1]"},
		{"1.35", "admissionregistration.k8s.io", "ValidatingAdmissionPolicy", "[v1] []"},
		{"1.30", "flowcontrol.apiserver.k8s.io", "FlowSchema", "[v1 v1beta3] []"},
	} {
		r, err := builtin.Registry(test.minor)
		if err != nil {
			t.Fatal(err)
		}
		served, optional := r.Versions(schema.GroupVersionKind{Group: test.group, Kind: test.kind}.GroupKind())
		if got := fmt.Sprint(served, optional); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.minor, test.kind, got, test.want)
		}
	}
}
