package kube

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestList tests that a watch keeps its objects in order, through every kind of change.
func TestList(t *testing.T) {
	w := &watch{changed: func() {}, synced: make(chan struct{}), objects: map[objectKey]map[string]any{}}
	object := func(namespace, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	expect := func(namespace string, want ...string) {
		t.Helper()
		var got []string
		for _, o := range w.list(namespace) {
			u := unstructured.Unstructured{Object: o}
			got = append(got, u.GetNamespace()+"/"+u.GetName())
		}
		if !slices.Equal(got, want) {
			t.Errorf("objects of %q are %v, not %v", namespace, got, want)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect("")
	do(w.Replace([]any{object("b", "y"), object("a", "z"), object("b", "x")}, ""))
	expect("", "a/z", "b/x", "b/y")
	expect("b", "b/x", "b/y")
	do(w.Add(object("a", "a")))
	expect("a", "a/a", "a/z")
	do(w.Delete(object("b", "x")))
	expect("", "a/a", "a/z", "b/y")
	expect("c")
	do(w.Replace([]any{object("", "node")}, ""))
	expect("", "/node")
	expect("b")
	first, again := w.list(""), w.list("")
	if &first[0] != &again[0] {
		t.Error("without a change the order is made again")
	}
}
