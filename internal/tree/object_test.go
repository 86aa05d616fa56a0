package tree

import (
	"reflect"
	"testing"
)

func TestObject(t *testing.T) {
	whole := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{
			"name": "a", "namespace": "b", "labels": map[string]any{"l": "1"}, "annotations": map[string]any{"k": "v"},
		},
		"spec": map[string]any{"replicas": int64(3), "ratio": float64(2), "list": []any{"x"}},
	}
	o := Object(whole)
	for _, test := range []struct{ got, want any }{
		{o.Kind().String(), "apps/v1, Kind=Deployment"},
		{o.Name(), "a"}, {o.Namespace(), "b"}, {o.Path(), "b/a"},
		{o.Labels().Text("l"), "1"}, {o.Annotation("k"), "v"}, {o.Annotation("other"), ""},
		{o.At("spec").Number("replicas", 1), int64(3)}, {o.At("spec").Number("ratio", 1), int64(2)},
		{o.At("spec").Number("absent", 1), int64(1)}, {len(o.At("spec").List("list")), 1},
		{o.At("spec", "replicas") == nil, true}, {o.At("nothing", "below").Text("x"), ""},
	} {
		if test.got != test.want {
			t.Errorf("got %v, not %v", test.got, test.want)
		}
	}
	for _, odd := range []Object{nil, {"metadata": "x", "kind": 1}, {"metadata": map[string]any{"name": 1, "labels": nil}}} {
		if odd.Path() != "" || odd.Kind().Kind != "" || odd.Labels() != nil || odd.Annotation("k") != "" {
			t.Errorf("%v has something to say", odd)
		}
	}

	before := Object(whole).With(nil)
	changed := o.WithMetadata(o.Metadata().With(map[string]any{"name": "c"}))
	if Object(changed).Path() != "b/c" || o.Path() != "b/a" {
		t.Errorf("the copy is %s, the object %s", Object(changed).Path(), o.Path())
	}
	left := o.Metadata().Without("labels", "absent")
	if _, found := left["labels"]; found || o.Labels() == nil {
		t.Error("the labels are not gone from the copy alone")
	}
	if !reflect.DeepEqual(map[string]any(o), before) {
		t.Error("the object has changed")
	}
	if got := Object(nil).With(map[string]any{"x": true}); got["x"] != true {
		t.Error("nothing with a member has none")
	}
}
