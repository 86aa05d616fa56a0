package differ

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

func topicOfExpressions(t *testing.T, expressions ...string) *topic {
	t.Helper()
	envs, err := celenv.New(celgate.Newest, quirks.SetOf(celgate.Newest))
	if err != nil {
		t.Fatal(err)
	}
	p := &policy.Policy{Variables: []policy.NamedExpr{
		{Name: "list", Expr: policy.Expr{Src: "object.spec.containers", Field: "spec.variables[0].expression"}}}}
	for _, e := range expressions {
		p.Validations = append(p.Validations, policy.Validation{Expr: policy.Expr{Src: e}})
	}
	topic, err := topicOf(envs, p)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// TestTopic tests that the topic of a policy includes fields behind variables, and excludes fields that every request
// has.
func TestTopic(t *testing.T) {
	topic := topicOfExpressions(t, "variables.list.all(c, c.image.startsWith('registry/'))",
		"oldObject.metadata.labels['team'] == 'a' && object.kind == 'Pod'",
		"request.userInfo.username != 'bob' || size(object.metadata.name) < 12",
		"no CEL",
	)
	var paths []string
	for _, root := range []string{"object", "request"} {
		for _, p := range topic.paths[root] {
			paths = append(paths, p.String())
		}
	}
	want := []string{"object.spec.containers", "object.spec.containers[].image", "object.metadata.labels",
		"object.metadata.labels.team", "request.userInfo.username"}
	for _, p := range want {
		if !slices.Contains(paths, p) {
			t.Errorf("no %s in %v", p, paths)
		}
	}
	if slices.Contains(paths, "object.kind") || slices.Contains(paths, "object.metadata.name") {
		t.Errorf("what a request says elsewhere: %v", paths)
	}
	if !slices.Contains(topic.texts, "registry/") || !slices.Contains(topic.numbers, 12) {
		t.Errorf("texts %q, numbers %v", topic.texts, topic.numbers)
	}
	if !topic.speaksOf("request", "userInfo") || topic.speaksOf("request", "userInfo", "groups") {
		t.Error("request.userInfo")
	}
}

// TestNear checks that fields appear, disappear and have the values that a policy speaks of, and that a name stays.
func TestNear(t *testing.T) {
	world, err := readWorld(t.Context(), celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	pod := world.kinds[0]
	topic := topicOfExpressions(t, "variables.list.all(c, c.image.startsWith('registry/') && !c.securityContext.privileged)", "object.spec.hostNetwork")
	g := world.generator(*seed, 7)
	g.texts = topic.texts
	seen := map[string]int{}
	for range 200 {
		made := g.nearManifest(pod.typ, pod.templates[0], topic.paths["object"])
		text := fmt.Sprint(made)
		for _, part := range []string{"registry/", "privileged:true", "privileged:false", "hostNetwork:true"} {
			if strings.Contains(text, part) {
				seen[part]++
			}
		}
		if spec, _ := made["spec"].(map[string]any); spec["containers"] == nil {
			seen["no containers"]++
		}
		if _, name := nameOf(made); name != "web" {
			t.Fatalf("the name became %q", name)
		}
	}
	for range 50 { // a policy may require labels of a namespace without any
		if made := g.nearManifest(pod.typ, map[string]any{"metadata": map[string]any{}},
			[]effects.Path{effects.NewPath("namespaceObject", "metadata")}); made["metadata"] == nil {
			t.Fatal("no metadata")
		}
	}
	if len(seen) < 5 {
		t.Errorf("in 200 objects only %v", seen)
	}
}

// TestPut checks the steps into lists and maps.
func TestPut(t *testing.T) {
	world, err := readWorld(t.Context(), celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	g := world.generator(*seed, 8)
	typ := world.types.Type(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	made := map[string]any{}
	for range 20 {
		g.put(typ, made, effects.NewPath("object", "spec", "template", "spec", "containers", "[]", "env", "[name=A]",
			"value").Split())
	}
	if text := fmt.Sprint(made); !strings.Contains(text, "name:A") || !strings.Contains(text, "value:") {
		t.Error(text)
	}
	drop(made, []string{"spec", "template", "spec", "containers", "[]", "env"})
	if text := fmt.Sprint(made); strings.Contains(text, "env:") {
		t.Error(text)
	}
}

// TestPair tests which bindings are paired with a policy.
func TestPair(t *testing.T) {
	w := &Wild{}
	finds, err := w.read("testdata/wild")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.pair(finds); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, u := range w.units {
		bound := "everywhere"
		if r := u.binding.MatchResources; r != nil {
			bound = fmt.Sprint(r.NamespaceSelector.MatchLabels)
		}
		got[u.origin+" "+bound]++
	}
	want := []string{
		"testdata/wild/a/policy.yaml: twice map[env:prod]", "testdata/wild/a/policy.yaml: twice map[env:test]",
		"testdata/wild/b/policy.yaml: twice everywhere", "testdata/wild/case.txtar: once everywhere",
	}
	for _, line := range want {
		if got[line] != 1 {
			t.Errorf("no %s in %v", line, got)
		}
	}
	if len(got) != len(want) {
		t.Error(got)
	}
}
