package main

import (
	"encoding/json"
	"math/rand"
	"testing"

	"github.com/celgate/celgate/schema"
	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	apitesting "k8s.io/kubernetes/pkg/api/testing"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
)

// TestConvert compares Registry.Convert with the server's scheme on random objects, for every pair of versions with the
// same objects.
func TestConvert(t *testing.T) {
	r := registry(t)
	fill := fuzzer.FuzzerFor(apitesting.FuzzerFuncs, rand.NewSource(1), legacyscheme.Codecs)
	pairs := 0
	for _, from := range r.Resources() {
		for _, to := range r.Resources() {
			if from == to || from.Storage != to.Storage {
				continue
			}
			pairs++
			t.Run(from.GroupVersion().String()+" "+from.Kind+" to "+to.GroupVersion().String(), func(t *testing.T) {
				for range 200 {
					hub := newObject(t, internal(from))
					fill.Fill(hub)
					compare(t, r, convertTo(t, hub, from.GroupVersionKind()), to.GroupVersionKind())
				}
			})
		}
	}
	if pairs == 0 {
		t.Error("no pairs")
	}
}

// compare converts obj with the server's scheme and with r.
func compare(t *testing.T, r *schema.Registry, obj runtime.Object, to schema.GroupVersionKind) {
	t.Helper()
	input := tree(t, obj)
	hub := convertTo(t, obj, internal(r.ResourceFor(obj.GetObjectKind().GroupVersionKind())))
	want := tree(t, convertTo(t, hub, to))
	before := runtime.DeepCopyJSON(input)
	got, err := r.Convert(input, to)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-server +celgate\n%s\nof %v", diff, input)
	}
	if diff := cmp.Diff(before, input); diff != "" {
		t.Fatalf("the input was changed: %s", diff)
	}
}

// TestConvertAnnotations compares how both read annotations that people wrote by hand.
func TestConvertAnnotations(t *testing.T) {
	r := registry(t)
	const prefix = "autoscaling.alpha.kubernetes.io/"
	texts := []string{
		``, `null`, `[]`, `{}`, `[1]`, `[] []`, `[null]`, `"x"`, `[{"type":1}]`, `[{}]`, `[{"type":"Pods"}]`,
		`[{"TYPE":"Pods","pods":{"MetricName":"m","targetAverageValue":"0.5","x":1}}]`,
		`[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":1.5}}]`,
		`[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"x"}}]`,
		`[{"type":"Object","object":{"metricName":"m","averageValue":"1","targetValue":"0"}}]`,
		`[{"type":"Object","object":{"metricName":"m","averageValue":"1","targetValue":"2"}}]`,
		`[{"type":"Resource","resource":{"name":"cpu","targetAverageUtilization":3}}]`,
		`[{"type":"Resource","resource":{"name":"cpu","targetAverageUtilization":3000000000}}]`,
		`[{"type":"Resource","resource":{"name":"cpu","targetAverageUtilization":1.5}}]`,
		`[{"type":"Resource","resource":null}]`,
		`[{"type":"A","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z"}]`,
		`[{"type":"A","status":"True","lastTransitionTime":"2020-01-01T02:00:00+02:00"}]`,
		`[{"type":"A","status":"True","lastTransitionTime":"yesterday"}]`,
		`{"ScaleUp":{"Tolerance":"0.1"}}`, `{"scaleup":{}}`, `{"ScaleUp":null}`,
		`{"ScaleUp":{"Policies":[{"Type":"Pods"}]}}`, `{"ScaleUp":1}`,
		`{"ScaleUp":{},"scaleUp":{"Tolerance":"1"}}`,
		`[{"type":"a<b"}]`, ` [ ] `, `[{"type":"x"}] `,
	}
	for _, name := range []string{"metrics", "current-metrics", "conditions", "behavior", "scale-up-tolerance"} {
		for _, text := range texts {
			for _, cpu := range []*int32{nil, new(int32)} {
				for _, version := range []string{"v1", "v2"} {
					t.Run(name+" "+version+" "+text, func(t *testing.T) {
						obj := newObject(t, schema.GroupVersionKind{Group: "autoscaling", Version: version,
							Kind: "HorizontalPodAutoscaler"})
						meta := obj.(metav1.Object)
						meta.SetAnnotations(map[string]string{prefix + name: text, "other": "x"})
						if v1, ok := obj.(*autoscalingv1.HorizontalPodAutoscaler); ok {
							v1.Spec.TargetCPUUtilizationPercentage = cpu
							v1.Status.CurrentCPUUtilizationPercentage = cpu
						}
						to := "v1"
						if version == "v1" {
							to = "v2"
						}
						compare(t, r, obj, schema.GroupVersionKind{Group: "autoscaling", Version: to,
							Kind: "HorizontalPodAutoscaler"})
					})
				}
			}
		}
	}
}

// internal returns the server's internal kind of a resource; events.k8s.io shares that of core.
func internal(res *schema.Resource) schema.GroupVersionKind {
	group := res.Group
	if group == "events.k8s.io" {
		group = ""
	}
	return schema.GroupVersionKind{Group: group, Version: runtime.APIVersionInternal, Kind: res.Kind}
}

func newObject(t *testing.T, kind schema.GroupVersionKind) runtime.Object {
	t.Helper()
	obj, err := legacyscheme.Scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	if kind.Version != runtime.APIVersionInternal {
		obj.GetObjectKind().SetGroupVersionKind(kind)
	}
	return obj
}

func convertTo(t *testing.T, obj runtime.Object, kind schema.GroupVersionKind) runtime.Object {
	t.Helper()
	out := newObject(t, kind)
	if err := legacyscheme.Scheme.Convert(obj, out, nil); err != nil {
		t.Fatal(err)
	}
	if kind.Version != runtime.APIVersionInternal {
		out.GetObjectKind().SetGroupVersionKind(kind)
	}
	return out
}

func tree(t *testing.T, obj runtime.Object) map[string]any {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
