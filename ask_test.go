package celgate_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/celgate/celgate"
)

// TestGoValues passes objects with Go types to every function of the engine that accepts objects.
func TestGoValues(t *testing.T) {
	ctx := context.Background()
	limit := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]string{"name": "limit", "namespace": "default"}, "data": map[string]string{"max": "3"}}
	engine := celgate.Must(celgate.New(nil, celgate.Options{Objects: []map[string]any{limit}}))
	deployment := func(replicas any) map[string]any {
		return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "web", "labels": map[string]string{"app": "web"}},
			"spec": map[string]any{"replicas": replicas, "template": map[string]any{"spec": map[string]any{
				"containers":    []map[string]any{{"name": "c", "image": "i", "args": []string{"a"}, "ports": []any{corev1.ContainerPort{ContainerPort: 80}}}},
				"restartPolicy": corev1.RestartPolicyAlways}}}}
	}
	tree := deployment(int64(3))
	tree["metadata"].(map[string]any)["labels"] = map[string]any{"app": "web"}
	tree["spec"].(map[string]any)["template"] = map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": "c", "image": "i", "args": []any{"a"},
			"ports": []any{map[string]any{"containerPort": int64(80)}}}},
		"restartPolicy": "Always"}}
	want := celgate.Must(engine.RequestFor(ctx, tree, celgate.As{})).Request()
	for _, replicas := range []any{3, int32(3), uint8(3)} {
		got, err := engine.RequestFor(ctx, deployment(replicas), celgate.As{})
		if err != nil || !reflect.DeepEqual(got.Request(), want) {
			t.Errorf("%T: got %v, %v\nwant %v", replicas, got, err, want)
		}
		made := *want
		made.Object = deployment(replicas)
		if got, err = engine.Prepare(ctx, &made); err != nil || !reflect.DeepEqual(got.Request().Object, want.Object) {
			t.Errorf("%T: Prepare: %v, %v", replicas, got, err)
		}
	}
	update, err := engine.RequestFor(ctx, limit, celgate.As{})
	if err != nil || update.Request().Operation != celgate.Update {
		t.Errorf("the object of the options was not found: %v, %v", update, err)
	}

	const path = "spec.replicas: chan int"
	if _, err := engine.RequestFor(ctx, deployment(make(chan int)), celgate.As{}); err == nil ||
		!strings.HasPrefix(err.Error(), path) {
		t.Errorf("RequestFor: %v", err)
	}
	if _, err := engine.Prepare(ctx, &celgate.Request{Object: deployment(make(chan int))}); err == nil ||
		!strings.HasPrefix(err.Error(), "object: "+path) {
		t.Errorf("Prepare: %v", err)
	}
	if _, err := celgate.New(nil, celgate.Options{Objects: []map[string]any{limit, deployment(make(chan int))}}); err == nil ||
		!strings.HasPrefix(err.Error(), "object 1: "+path) {
		t.Errorf("New: %v", err)
	}
}
