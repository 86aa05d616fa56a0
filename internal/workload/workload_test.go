package workload

import (
	"encoding/json"
	"strings"
	"testing"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// What children are is compared with real controllers in conformance/controllers. Here is what needs no cluster.

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestParentIsUnchanged holds children to the rule that trees are never changed.
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

// TestPaths follows a path of a child back to its parent's.
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

// TestOddWorkloads must not panic: whatever a manifest holds reaches this package before the API server has refused it.
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

// TestPodOf takes the template of a kind that is not built in.
func TestPodOf(t *testing.T) {
	rollout := parse(t, `{"apiVersion":"example.com/v1","kind":"Rollout","metadata":{"name":"web","namespace":"shop"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[]}}}}`)
	child, ok := PodOf(rollout, "spec.template")
	if !ok || child.Object["kind"] != "Pod" || child.ParentPath("spec.containers") != "spec.template.spec.containers" {
		t.Error(child, ok)
	}
	if _, ok := PodOf(rollout, "spec.workload"); ok {
		t.Error("there is no template at spec.workload")
	}
}
