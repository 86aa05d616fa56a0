package schema_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate/schema"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func kindOf(t *testing.T, obj map[string]any) schema.GroupVersionKind {
	t.Helper()
	kind := schema.GroupVersionKind{Version: obj["apiVersion"].(string), Kind: obj["kind"].(string)}
	if group, version, ok := strings.Cut(kind.Version, "/"); ok {
		kind.Group, kind.Version = group, version
	}
	return kind
}

// Each file of testdata/convert has one object in several versions; each converts to each.
func TestConvert(t *testing.T) {
	r := registry(t)
	files, err := filepath.Glob("testdata/convert/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, name := range files {
		versions := file(t, strings.TrimPrefix(name, "testdata/"))["versions"].([]any)
		for _, from := range versions {
			for _, to := range versions {
				from, to := from.(map[string]any), to.(map[string]any)
				t.Run(filepath.Base(name)+" "+from["apiVersion"].(string)+" to "+to["apiVersion"].(string),
					func(t *testing.T) {
						before := runtime.DeepCopyJSON(from)
						got, err := r.Convert(from, kindOf(t, to))
						if err != nil {
							t.Fatal(err)
						}
						if diff := cmp.Diff(to, got); diff != "" {
							t.Errorf("-want +got\n%s", diff)
						}
						if diff := cmp.Diff(before, from); diff != "" {
							t.Errorf("the input was changed\n%s", diff)
						}
					},
				)
			}
		}
	}
}

// Fields that the target version does not have are removed, and fields that it always encodes are added.
func TestConvertNormalises(t *testing.T) {
	got, err := registry(t).Convert(tree(t, `
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: a, creationTimestamp: null}
spec: {maxReplicas: 3, unknown: 1}
`), schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"})
	if err != nil {
		t.Fatal(err)
	}
	want := tree(t, `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: a}
spec:
  maxReplicas: 3
  scaleTargetRef: {kind: "", name: ""}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
status: {currentMetrics: null, desiredReplicas: 0}
`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestConvertCustomResource(t *testing.T) {
	crd := file(t, "widgets.yaml")
	r, err := registry(t).WithCustomResources(crd)
	if err != nil {
		t.Fatal(err)
	}
	obj := tree(t, `{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {color: red}}`)
	got, err := r.Convert(obj, widget("v1alpha1"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, `{apiVersion: example.com/v1alpha1, kind: Widget, metadata: {name: w}, spec: {color: red}}`), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if obj["apiVersion"] != "example.com/v1" {
		t.Error("the input was changed")
	}

	crd["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook"}
	if r, err = registry(t).WithCustomResources(crd); err != nil {
		t.Fatal(err)
	}
	want := `example.com/v1 Widget cannot be converted to example.com/v1alpha1: the CustomResourceDefinition "widgets.example.com" converts with a webhook, which cannot be called here`
	if _, err = r.Convert(obj, widget("v1alpha1")); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if same, err := r.Convert(obj, widget("v1")); err != nil || cmp.Diff(obj, same) != "" {
		t.Errorf("to its own version: %v, %v", same, err)
	}
}

func TestConvertErrors(t *testing.T) {
	r := registry(t)
	v2 := schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	for _, test := range []struct{ name, obj, want string }{
		{"no kind", `{}`, `an object without apiVersion and kind cannot be converted`},
		{"no versions of one kind", `{apiVersion: v1, kind: Pod}`,
			`v1 Pod cannot be converted to autoscaling/v2 HorizontalPodAutoscaler: they are not versions of one kind`},
		{"unknown kind", `{apiVersion: x/v1, kind: Z}`, `x/v1 Z cannot be converted`},
		{"broken version", `{apiVersion: a/b/c, kind: Z}`, `unexpected GroupVersion string: a/b/c`},
		{"value of another type", `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, spec: {maxReplicas: x}}`,
			`autoscaling/v1 HorizontalPodAutoscaler: spec.maxReplicas: must be an integer, not a string`},
		{"number too large", `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, spec: {maxReplicas: 3000000000}}`,
			`autoscaling/v1 HorizontalPodAutoscaler: spec.maxReplicas: 3000000000 does not fit into 32 bits`},
		{"object of another type", `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {labels: [a]}}`,
			`autoscaling/v1 HorizontalPodAutoscaler: metadata.labels: must be an object, not a list`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := r.Convert(tree(t, test.obj), v2); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}
