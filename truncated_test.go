package celgate_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// TestTruncated sets an integer that does not fit into its field: an engine without quirks refuses it, and the server
// truncates it.
func TestTruncated(t *testing.T) {
	p, _, err := policy.FromObject(map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
		"metadata": map[string]any{"name": "replicas"},
		"spec": map[string]any{
			"reinvocationPolicy": "Never",
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []any{"apps"}, "apiVersions": []any{"v1"}, "resources": []any{"deployments"},
				"operations": []any{"CREATE"},
			}}},
			"mutations": []any{map[string]any{
				"patchType":          "ApplyConfiguration",
				"applyConfiguration": map[string]any{"expression": "Object{spec: Object.spec{replicas: 5000000001}}"},
			}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := &policy.Set{Policies: []*policy.Policy{p},
		Bindings: []*policy.Binding{{Kind: policy.Mutating, Name: "replicas", PolicyName: "replicas"}}}
	for _, without := range []bool{false, true} {
		e, err := celgate.New(set, celgate.Options{WithoutQuirks: without})
		if err != nil || len(e.Rejections()) > 0 {
			t.Fatal(err, e.Rejections())
		}
		d, err := e.Mutate(t.Context(), celgate.AssumePrepared(&celgate.Request{
			Operation: celgate.Create, Namespace: "default", Name: "web",
			Kind:     schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
			Object: map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": map[string]any{"name": "web", "namespace": "default"}, "spec": map[string]any{},
			},
		}))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case without && (d.Allowed || !strings.HasSuffix(d.Status.Message, "an integer is too large for its field")):
			t.Errorf("without quirks: %v %v", d.Allowed, d.Status)
		case !without && (!d.Allowed || len(d.Notes) != 1 ||
			d.Object["spec"].(map[string]any)["replicas"] != int64(705032705)):
			t.Errorf("with quirks: %v %v %v", d.Status, d.Notes, d.Object["spec"])
		}
	}
}
