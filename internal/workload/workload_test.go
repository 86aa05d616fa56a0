package workload

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// The children are compared with real controllers in conformance/controllers. The tests here do not need a cluster.

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestParentIsUnchanged tests that trees do not change.
func TestParentIsUnchanged(t *testing.T) {
	for _, text := range []string{
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","annotations":{"x":"y"}},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c"}]}}}}`,
		`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"volumeClaimTemplates":[{"metadata":{"name":"d","labels":{"k":"v"}}}],"template":{"metadata":{"labels":{"a":"b"}},"spec":{"volumes":[{"name":"t"}]}}}}`,
		`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"tolerations":[{"key":"node.kubernetes.io/not-ready","effect":"NoExecute","operator":"Exists"}],"affinity":{"nodeAffinity":{}}}}}}`,
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"completionMode":"Indexed","template":{"metadata":{"finalizers":["f"]},"spec":{"containers":[{"name":"c","env":[{"name":"e"}]}]}}}}`,
		`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"a"},"spec":{"jobTemplate":{"metadata":{"annotations":{"a":"b"}},"spec":{"template":{"spec":{}}}}}}`,
	} {
		parent := parse(t, text)
		before, _ := json.Marshal(parent)
		all := Children(parent)
		if len(all) == 0 {
			t.Errorf("no children of %s", text)
		}
		for _, c := range all {
			again := Children(c.Object)
			_ = again
		}
		if after, _ := json.Marshal(parent); string(after) != string(before) {
			t.Errorf("changed:\n%s\n%s", before, after)
		}
	}
}

// TestPaths maps a path of a child to its parent's.
func TestPaths(t *testing.T) {
	cron := parse(t, `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"a"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{}}}}}}`)
	job := Children(cron)[0]
	pod := Children(job.Object)[0]
	if got := job.ParentPath(pod.ParentPath("spec.containers[0].image")); got != "spec.jobTemplate.spec.template.spec.containers[0].image" {
		t.Error(got)
	}
	deployment := parse(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{}}}}`)
	set := Children(deployment)[0]
	if got := set.ParentPath("spec.template.spec"); got != "spec.template.spec" {
		t.Error(got)
	}
}

// TestOddWorkloads must not panic: this package reads any manifest before the API server could refuse it.
func TestOddWorkloads(t *testing.T) {
	for kind := range children {
		for _, spec := range []string{`null`, `1`, `[]`, `{}`,
			`{"template":1,"jobTemplate":[],"volumeClaimTemplates":[1,null,{"metadata":3}],"replicas":"x","strategy":{"rollingUpdate":{"maxSurge":"x%"}}}`} {
			apiVersion := strings.TrimPrefix(kind.Group+"/v1", "/")
			for _, metadata := range []string{`null`, `{}`, `{"name":"` + strings.Repeat("n", 300) + `"}`,
				`{"name":"a","annotations":[]}`} {
				for _, c := range Children(parse(t,
					`{"apiVersion":"`+apiVersion+`","kind":"`+kind.Kind+`","metadata":`+metadata+`,"spec":`+spec+`}`)) {
					Children(c.Object)
				}
			}
		}
	}
	if len(Children(map[string]any{"kind": "Pod"})) > 0 || IsWorkload(apischema.GroupKind{Kind: "Pod"}) {
		t.Error("a Pod has no children")
	}
}

// TestPodsOf reads the templates of a custom kind.
func TestPodsOf(t *testing.T) {
	object := parse(t, `{"apiVersion":"example.com/v1","kind":"Cluster","metadata":{"name":"web","namespace":"shop"},"spec":{
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[]}},
		"workers":[{"name":"x","template":{"spec":{}}},{"name":"y"},{"name":"z","template":{"spec":{}}},3],
		"roles":{"worker.b":{"template":{"spec":{}}},"chief":{"template":{"spec":{}}},"none":{"template":{"metadata":{}}}},
		"jobs":[{"template":{"spec":{"template":{"spec":{}}}}}]}}`)
	for path, want := range map[string][]string{
		"spec.template":                       {"spec.template"},
		".spec.template":                      {"spec.template"},
		"spec.workers[*].template":            {"spec.workers[0].template", "spec.workers[2].template"},
		"spec.workers[name=z].template":       {"spec.workers[2].template"},
		"spec.roles[*].template":              {"spec.roles.chief.template", "spec.roles.worker.b.template"},
		"spec.roles['worker.b'].template":     {"spec.roles.worker.b.template"},
		"spec.jobs[*].template.spec.template": {"spec.jobs[0].template.spec.template"},
		"spec.workers.template":               nil,
		"spec.template[*]":                    nil,
		"spec.nothing":                        nil,
		"metadata.name":                       nil,
	} {
		parsed, err := ParsePath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var got []string
		for _, child := range PodsOf(object, parsed) {
			got = append(got, child.Template)
			if child.Object["kind"] != "Pod" || child.ParentPath("spec.x") != child.Template+".spec.x" ||
				len(child.Object["metadata"].(map[string]any)["ownerReferences"].([]any)) != 1 {
				t.Errorf("%s: %v", path, child)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", path, got, want)
		}
	}
	for _, path := range []string{"", ".", "spec..template", "spec.workers[0].template", "spec.workers[*", "[*].template",
		"spec.template.", "spec.x[a=].y"} {
		if _, err := ParsePath(path); err == nil {
			t.Errorf("%q is a path", path)
		}
	}
}
