package schema_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/celgate/celgate/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Any definition gives types or an error.
func FuzzWithCustomResources(f *testing.F) {
	raw, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		f.Fatal(err)
	}
	seed, err := yaml.YAMLToJSON(raw)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	r := registry(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var crd map[string]any
		if utiljson.Unmarshal(raw, &crd) != nil {
			return
		}
		more, err := r.WithCustomResources(crd)
		if (more == nil) == (err == nil) {
			t.Fatalf("%v, %v", more, err)
		}
		if err != nil {
			return
		}
		for _, res := range more.Resources() {
			if res.Definition != nil && more.Type(res.GroupVersionKind()) == nil {
				t.Errorf("%v has no type", res)
			}
		}
	})
}

// A further round does not change the result of v1 after one round.
func FuzzConvert(f *testing.F) {
	for _, text := range []string{`[{"type":"Pods","pods":{"metricName":"m"}}]`,
		`{"ScaleUp":{"Policies":[{"Type":"Pods"}]}}`, `[null]`, `1`} {
		f.Add([]byte(`{"metadata":{"name":"a"},"spec":{"maxReplicas":1},"status":{}}`), text)
	}
	r := registry(f)
	v1 := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"}
	v2 := schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	f.Fuzz(func(t *testing.T, raw []byte, annotation string) {
		var obj map[string]any
		if utiljson.Unmarshal(raw, &obj) != nil || obj == nil {
			return
		}
		obj["apiVersion"], obj["kind"] = "autoscaling/v1", v1.Kind
		if metadata, ok := obj["metadata"].(map[string]any); ok {
			metadata["annotations"] = map[string]any{
				"autoscaling.alpha.kubernetes.io/metrics":         annotation,
				"autoscaling.alpha.kubernetes.io/behavior":        annotation,
				"autoscaling.alpha.kubernetes.io/current-metrics": annotation,
				"autoscaling.alpha.kubernetes.io/conditions":      annotation,
			}
		}
		up, err := r.Convert(obj, v2)
		if err != nil {
			return
		}
		down, err := r.Convert(up, v1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.Convert(down, v2)
		if err != nil {
			t.Fatal(err)
		}
		last, err := r.Convert(again, v1)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := text(t, down), text(t, last); a != b {
			t.Errorf("%s\nbecame %s\nover %s", a, b, text(t, again))
		}
	})
}

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
