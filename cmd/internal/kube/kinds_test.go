package kube

import (
	"testing"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
)

// TestKinds reads the kinds of a server of an unknown minor and of an aggregated one.
func TestKinds(t *testing.T) {
	f, client := startFake(t)
	f.minor = "99"
	f.texts["/api"] = `{"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
		{"resource": "configmaps", "scope": "Namespaced", "responseKind": {"version": "v1", "kind": "ConfigMap"}}]}]}]}`
	f.texts["/apis"] = `{"kind": "APIGroupList", "groups": [{"name": "apps", "versions": [{"version": "v1"}]}, {"name": "example.com", "versions": [{"version": "v1"}]}]}`
	f.texts["/apis/apps/v1"] = `{"resources": [{"name": "deployments", "kind": "Deployment", "namespaced": true},
		{"name": "deployments/scale", "kind": "Scale", "group": "autoscaling", "version": "v1"}]}`
	f.texts["/apis/example.com/v1"] = `{"resources": [{"name": "widgets", "kind": "Widget"}, {"name": "gadgets", "kind": "Gadget"}]}`
	f.texts["/openapi/v3"] = `{"paths": {"apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1"},
		"apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1"}}}`
	f.texts["/openapi/v3/apis/apps/v1"] = `{"components": {"schemas": {
		"io.k8s.api.apps.v1.Deployment": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
			"properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},
				"spec": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]}}},
		"io.k8s.api.apps.v1.DeploymentSpec": {"type": "object", "properties": {"replicas": {"type": "integer", "format": "int32"},
			"novel": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}}}}}}`
	f.texts["/openapi/v3/apis/example.com/v1"] = `{"components": {"schemas": {
		"com.example.v1.Widget": {"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
			"properties": {"size": {"type": "integer", "format": "int64"}, "parts": {"type": "array", "items": {"$ref": "#/components/schemas/com.example.v1.Widget"}}}}}}}`

	w, err := client.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	types, err := w.Types()
	if err != nil {
		t.Fatal(err)
	}
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	spec := types.Type(apps.WithKind("Deployment")).Field("spec").Type
	if spec.Field("template") != nil || spec.Field("novel") == nil || spec.Field("novel").Type.Merge != shape.Set {
		t.Errorf("members %+v", spec.Fields)
	}
	if replicas := spec.Field("replicas"); replicas == nil ||
		!replicas.Pointer { // that it is one, only the tables know
		t.Errorf("%+v", replicas)
	}
	if r := types.Resource(apps.WithResource("deployments")); r == nil || r.NotServed ||
		r.Subresource("scale") == nil || r.Subresource("status") != nil {
		t.Errorf("%+v", r)
	}
	if r := types.Resource(apps.WithResource("daemonsets")); r == nil || !r.NotServed {
		t.Errorf("%+v", r)
	}
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	if r, typ := types.ResourceFor(widget), types.Type(widget); r == nil || r.Namespaced || typ == nil ||
		typ.Field("parts").Type.Elem != typ {
		t.Errorf("%+v %+v", r, typ)
	}
	if r := types.ResourceFor(widget.GroupVersion().WithKind("Gadget")); r != nil {
		t.Error("a kind without a schema is known")
	}

	// Unreadable kinds keep their last state.
	f.mu.Lock()
	f.texts["/openapi/v3/apis/example.com/v1"], f.texts["/openapi/v3"] = `{"components": 1}`,
		`{"paths": {"apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1?hash=2"}}}`
	f.mu.Unlock()
	if different, err := w.kinds.refresh(t.Context(), w.definitions()); different || err == nil {
		t.Error(different, err)
	}
	if types, _ := w.Types(); types.Type(widget) == nil {
		t.Error("the last good schema is lost")
	}
}
