package state_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
	"sigs.k8s.io/yaml"
)

func types(t testing.TB) *schema.Registry {
	t.Helper()
	r, err := builtin.Registry("1.37")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// trees parses YAML documents.
func trees(t testing.TB, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for document := range strings.SplitSeq(text, "\n---\n") {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(document), &tree); err != nil {
			t.Fatal(err)
		}
		all = append(all, tree)
	}
	return all
}

func cluster(t testing.TB, text string) *state.Cluster {
	t.Helper()
	c, err := state.New(types(t), trees(t, text)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func kind(text string) schema.GroupVersionKind {
	gv, k, _ := strings.Cut(text, " ")
	group, version, ok := strings.Cut(gv, "/")
	if !ok {
		group, version = "", gv
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: k}
}

const objects = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: store}, data: {is: store/b}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: store}, data: {is: store/a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {is: default/a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: store, namespace: nonsense, labels: {env: prod, kubernetes.io/metadata.name: lie}}}
---
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h, namespace: store}, spec: {maxReplicas: 3}}
---
{apiVersion: example.com/v1, kind: Unheard, metadata: {name: u, namespace: store}}
`

func TestGet(t *testing.T) {
	for _, test := range []struct{ kind, namespace, name, want string }{
		{"v1 ConfigMap", "store", "a", "map[is:store/a]"},
		{"v1 ConfigMap", "default", "a", "map[is:default/a]"},
		{"v1 ConfigMap", "", "a", "<nil>"},
		{"v1 ConfigMap", "store", "c", "<nil>"},
		{"v1 Secret", "store", "a", "<nil>"},
		{"example.com/v1 Unheard", "store", "u", "<nil>"},
	} {
		c := cluster(t, objects)
		object, err := c.Get(t.Context(), kind(test.kind), test.namespace, test.name)
		if err != nil {
			t.Errorf("%v: %v", test, err)
		}
		if got := fmt.Sprint(object["data"]); got != test.want {
			t.Errorf("%v: got %s", test, got)
		}
	}
}

func TestGetInAnotherVersion(t *testing.T) {
	c := cluster(t, objects)
	for range 2 { // the second answer comes from the cache
		object, err := c.Get(t.Context(), kind("autoscaling/v1 HorizontalPodAutoscaler"), "store", "h")
		if err != nil {
			t.Fatal(err)
		}
		if object["apiVersion"] != "autoscaling/v1" {
			t.Errorf("got %v", object["apiVersion"])
		}
	}
	all, err := c.List(t.Context(), kind("autoscaling/v1 HorizontalPodAutoscaler"), "store")
	if err != nil || len(all) != 1 || all[0]["apiVersion"] != "autoscaling/v1" {
		t.Errorf("List: got %v, %v", all, err)
	}
	object, err := c.Get(t.Context(), kind("example.com/v2 Unheard"), "store", "u")
	if err == nil || !strings.Contains(err.Error(), "Unheard") {
		t.Errorf("of an unknown kind: got %v, %v", object, err)
	}
}

func TestGetCustomInAnotherVersion(t *testing.T) {
	widget := `{apiVersion: example.com/v1, kind: Widget, metadata: {name: w, namespace: store}, spec: {old: 1, both: 2}}`
	r, err := types(t).WithCustomResources(trees(t, file(t, "widgets.yaml"))...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := state.New(r, trees(t, widget)...)
	if err != nil {
		t.Fatal(err)
	}
	for want, version := range map[string]string{"map[both:2 old:1]": "v1", "map[both:2 new:3]": "v2"} {
		all, err := c.List(t.Context(), kind("example.com/"+version+" Widget"), "")
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		if got := fmt.Sprint(all[0]["spec"]); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	c := cluster(t, objects)
	for name, wantLabels := range map[string]string{
		"default":         "map[kubernetes.io/metadata.name:default]",
		"kube-system":     "map[kubernetes.io/metadata.name:kube-system]",
		"kube-public":     "map[kubernetes.io/metadata.name:kube-public]",
		"kube-node-lease": "map[kubernetes.io/metadata.name:kube-node-lease]",
		"store":           "map[env:prod kubernetes.io/metadata.name:store]",
	} {
		object, err := c.Get(t.Context(), kind("v1 Namespace"), "", name)
		if err != nil {
			t.Fatal(err)
		}
		metadata, _ := object["metadata"].(map[string]any)
		if got := fmt.Sprint(metadata["labels"]); got != wantLabels {
			t.Errorf("%s: got labels %s", name, got)
		}
		if got := fmt.Sprint(metadata["namespace"], object["spec"],
			object["status"]); got != "<nil> map[finalizers:[kubernetes]] map[phase:Active]" {
			t.Errorf("%s: got %s", name, got)
		}
		if uid, _ := metadata["uid"].(string); len(uid) != 36 ||
			metadata["creationTimestamp"] != "2026-01-01T00:00:00Z" || metadata["resourceVersion"] != "1" {
			t.Errorf("%s: got %v", name, metadata)
		}
	}
}

func TestObjectsAreNotChanged(t *testing.T) {
	given := trees(t, objects)
	before := fmt.Sprint(given)
	if _, err := state.New(types(t), given...); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(given); got != before {
		t.Errorf("got %s\nwas %s", got, before)
	}
}

func names(objects []map[string]any) string {
	var names []string
	for _, object := range objects {
		metadata, _ := object["metadata"].(map[string]any)
		names = append(names, fmt.Sprintf("%v/%v", metadata["namespace"], metadata["name"]))
	}
	return strings.Join(names, " ")
}

func TestListAndWith(t *testing.T) {
	base := cluster(t, objects)
	more, err := base.With(trees(t, `
{apiVersion: v1, kind: ConfigMap, metadata: {name: aa, namespace: store}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: store}, data: {is: replaced}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: z, namespace: zoo}}
---
{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: g, namespace: store}, spec: {maxReplicas: 3}}
`)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		cluster               *state.Cluster
		kind, namespace, want string
	}{
		{base, "v1 ConfigMap", "", "default/a store/a store/b"},
		{base, "v1 ConfigMap", "store", "store/a store/b"},
		{base, "v1 ConfigMap", "nowhere", ""},
		{base, "v1 Secret", "", ""},
		{more, "v1 ConfigMap", "", "default/a store/a store/aa store/b zoo/z"},
		{more, "v1 ConfigMap", "store", "store/a store/aa store/b"},
		{more, "autoscaling/v2 HorizontalPodAutoscaler", "store", "store/g store/h"},
	} {
		all, err := test.cluster.List(t.Context(), kind(test.kind), test.namespace)
		if err != nil {
			t.Errorf("%s in %q: %v", test.kind, test.namespace, err)
		}
		if got := names(all); got != test.want {
			t.Errorf("%s in %q: got %q, want %q", test.kind, test.namespace, got, test.want)
		}
	}
	for c, want := range map[*state.Cluster]string{base: "store/b", more: "replaced"} {
		object, _ := c.Get(t.Context(), kind("v1 ConfigMap"), "store", "b")
		if data, _ := object["data"].(map[string]any); data["is"] != want {
			t.Errorf("got %v, want %s", data, want)
		}
	}
	if all, _ := base.List(t.Context(), kind("v1 ConfigMap"), "store"); cap(all) != len(all) {
		t.Error("appending to a list would write into the cluster")
	}
}

func TestWrongObjects(t *testing.T) {
	for _, test := range []struct{ objects, want string }{
		{`{kind: ConfigMap, metadata: {name: a}}`, `object 0: "" is not an apiVersion`},
		{`{apiVersion: a/b/c, kind: ConfigMap, metadata: {name: a}}`, `object 0: "a/b/c" is not an apiVersion`},
		{`{apiVersion: v1, metadata: {name: a}}`, "object 0: an object of v1 has no kind"},
		{`{apiVersion: v1, kind: ConfigMap}`,
			"object 0: ConfigMap without metadata.name: an object that exists has a name"},
		{`{apiVersion: v1, kind: ConfigMap, metadata: {generateName: a-}}`,
			"object 0: ConfigMap without metadata.name: an object that exists has a name"},
		{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}",
			`object 1: v1 ConfigMap "a" in namespace "default" is the same object as v1 ConfigMap "a" in namespace "default", object 0`},
		{"{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a}}\n---\n{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}}",
			`object 1: autoscaling/v2 HorizontalPodAutoscaler "a" in namespace "default" is the same object as autoscaling/v1 HorizontalPodAutoscaler "a" in namespace "default", object 0`},
		{`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, rules: [{verbs: get}]}`,
			`object 0: rbac.authorization.k8s.io/v1 ClusterRole "a": cannot restore slice from string`},
		{`{apiVersion: rbac.authorization.k8s.io/v1beta1, kind: ClusterRole, metadata: {name: a}}`,
			`object 0: rbac.authorization.k8s.io/v1beta1 ClusterRole "a": the API has no version rbac.authorization.k8s.io/v1beta1, use rbac.authorization.k8s.io/v1`},
	} {
		c, err := state.New(types(t), trees(t, test.objects)...)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s\ngot  %v, %v\nwant %s", test.objects, c, err, test.want)
		}
	}
}

func TestSameObjectTwice(t *testing.T) {
	_, err := state.New(nil, trees(t, "{apiVersion: v1, kind: A, metadata: {name: a}}\n---\n{apiVersion: v1, kind: B, metadata: {name: a}}\n---\n{apiVersion: v1, kind: A, metadata: {name: a}}")...)
	var duplicate *state.ObjectError
	if !errors.As(err, &duplicate) || duplicate.Index != 2 || !strings.HasSuffix(duplicate.Error(), ", object 0") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkNew(b *testing.B) {
	r := types(b)
	for b.Loop() {
		if _, err := state.New(r); err != nil {
			b.Fatal(err)
		}
	}
}
