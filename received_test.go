package celgate_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"testing/fstest"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// TestFromReview takes requests whose object comes as bytes and as a value.
func TestFromReview(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","creationTimestamp":null},"spec":{"priority":3,"x":1.5}}`
	review := func(change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
		var in admissionv1.AdmissionRequest
		text := `{"uid":"u","kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},
			"requestKind":{"version":"v2","kind":"Pod"},"requestResource":{"version":"v2","resource":"pods"},"name":"web",
			"namespace":"default","operation":"CREATE","userInfo":{"username":"dev","extra":{"a":["b"]}},"object":` + object +
			`,"dryRun":true,"options":{"kind":"CreateOptions"}}`
		if err := json.Unmarshal([]byte(text), &in); err != nil {
			t.Fatal(err)
		}
		change(&in)
		return &in
	}
	for name, in := range map[string]*admissionv1.AdmissionRequest{
		"bytes": review(func(*admissionv1.AdmissionRequest) {}),
		"value": review(func(in *admissionv1.AdmissionRequest) {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(in.Object.Raw); err != nil {
				t.Fatal(err)
			}
			in.Object = runtime.RawExtension{Object: u}
		}),
	} {
		p, err := celgate.FromReview(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := p.Request()
		spec, _ := r.Object["spec"].(map[string]any)
		metadata, _ := r.Object["metadata"].(map[string]any)
		if _, timed := metadata["creationTimestamp"]; timed || spec["priority"] != int64(3) || spec["x"] != 1.5 {
			t.Errorf("%s: the object is %v", name, r.Object)
		}
		if r.UID != "u" || r.Kind.Kind != "Pod" || r.Resource.Resource != "pods" || r.RequestKind.Empty() ||
			r.RequestResource.Version != "v2" ||
			r.Operation != celgate.Create || r.UserInfo.Username != "dev" || r.UserInfo.Extra["a"][0] != "b" ||
			!r.DryRun ||
			r.Options["kind"] != "CreateOptions" || r.OldObject != nil || len(p.Warnings()) > 0 ||
			p.Refusal() != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for name, change := range map[string]func(*admissionv1.AdmissionRequest){
		"operation": func(in *admissionv1.AdmissionRequest) { in.Operation = "PATCH" },
		"object":    func(in *admissionv1.AdmissionRequest) { in.Object.Raw = []byte(`[1]`) },
		"broken":    func(in *admissionv1.AdmissionRequest) { in.OldObject.Raw = []byte(`{"a"`) },
	} {
		if _, err := celgate.FromReview(review(change)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestLoad reads a file system with valid and invalid files.
func TestLoad(t *testing.T) {
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: limits.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Limit, plural: limits}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {most: {type: integer, default: 7}}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`
	files := fstest.MapFS{
		"policies/limit.yaml": {Data: []byte(replicaLimit)}, "state/world.yaml": {Data: []byte(definition)},
		"README.md": {Data: []byte("#")},
	}
	bundle, err := celgate.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	if len(bundle.Set.Policies) != 2 || len(bundle.Set.Bindings) != 2 || len(bundle.Objects) != 2 {
		t.Errorf("%d policies, %d bindings, %d objects", len(bundle.Set.Policies), len(bundle.Set.Bindings),
			len(bundle.Objects))
	}
	engine, err := celgate.New(&bundle.Set, celgate.Options{Objects: manifest.Trees(bundle.Objects)})
	if err != nil {
		t.Fatal(err)
	}
	limit := map[string]any{"apiVersion": "example.com/v1", "kind": "Limit", "metadata": map[string]any{"name": "x"},
		"spec": map[string]any{}}
	p, err := engine.RequestFor(t.Context(), limit, celgate.As{User: "dev", Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Request()
	if p.Refusal() != nil ||
		r.Resource != (schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "limits"}) ||
		r.Object["spec"].(map[string]any)["most"] != int64(7) {
		t.Errorf("%v, %+v", p.Refusal(), r)
	}
	if only, err := celgate.Load(files, "state"); err != nil || len(only.Set.Policies) != 0 || len(only.Objects) != 2 {
		t.Errorf("%v, %+v", err, only)
	}
	files["policies/again.yaml"] = &fstest.MapFile{Data: []byte(replicaLimit)}
	files["broken.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: [\n")}
	bundle, err = celgate.Load(files)
	if err == nil || len(bundle.Set.Policies) != 2 {
		t.Errorf("%v, %d policies", err, len(bundle.Set.Policies))
	}
	if _, err := celgate.Load(files, "nowhere"); err == nil {
		t.Error("no error for a path that is not there")
	}
	name := t.TempDir() + "/world.yaml"
	if err := os.WriteFile(name, []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	if bundle, err := celgate.LoadFiles(name); err != nil || len(bundle.Objects) != 2 {
		t.Errorf("%v, %+v", err, bundle)
	}
}

// TestRequestErrors makes requests from objects for which a request is impossible.
func TestRequestErrors(t *testing.T) {
	engine := celgate.Must(celgate.New(&policy.Set{}, celgate.Options{}))
	object := func(apiVersion, kind string) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "x"}}
	}
	for _, c := range []struct {
		name   string
		object map[string]any
		as     celgate.As
		is     func(error) bool
	}{
		{"unknown", object("example.com/v1", "Odd"), celgate.As{},
			is(func(e *schema.ResourceError) bool { return len(e.Served) == 0 })},
		{"not served", object("apps/v1beta1", "Deployment"), celgate.As{},
			is(func(e *schema.ResourceError) bool { return e.Served[0] == "apps/v1" })},
		{"subresource", object("autoscaling/v1", "Scale"), celgate.As{},
			is(func(e *schema.ResourceError) bool { return e.OfSubresource })},
		{"ambiguous", object("autoscaling/v1", "Scale"), celgate.As{Subresource: "scale"},
			is(func(e *schema.ResourceError) bool { return len(e.Among) > 1 })},
		{"no old", object("v1", "Pod"), celgate.As{Operation: celgate.Update},
			func(err error) bool { return errors.Is(err, celgate.ErrNoOldObject) }},
	} {
		if _, err := engine.RequestFor(t.Context(), c.object, c.as); err == nil || !c.is(err) {
			t.Errorf("%s: %v (%T)", c.name, err, err)
		}
	}
}

func is[E error](holds func(E) bool) func(error) bool {
	return func(err error) bool {
		var e E
		return errors.As(err, &e) && holds(e)
	}
}
