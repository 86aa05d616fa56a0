package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

// TestDiff puts one set of policies in force and then the other, and asks the server about each manifest: which answers
// differ, and how, must be what celgate diff says without the server.
func TestDiff(t *testing.T) {
	const example = "../../examples/policy-change/"
	read := func(name string) string {
		text, err := os.ReadFile(example + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	manifests := objects(t, read("pass.yaml")+"\n---\n"+read("fail.yaml"))
	type answer struct {
		allowed           bool
		message, warnings string
		reach             string // what the mutation sets
	}
	ask := func(tree map[string]any) answer {
		path := pathOf(tree)
		got, err := api.Do(t.Context(), server.Call{
			Method: http.MethodPost, Path: path[:strings.LastIndex(path, "/")], Body: tree,
			Query: map[string][]string{"dryRun": {"All"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		a := answer{allowed: got.Status() == nil, warnings: fmt.Sprint(got.Warnings)}
		if status := got.Status(); status != nil {
			a.message = status.Message
			return a
		}
		object, err := got.Object()
		if err != nil {
			t.Fatal(err)
		}
		labels, _ := object["metadata"].(map[string]any)["labels"].(map[string]any)
		a.reach, _ = labels["example.com/reach"].(string)
		return a
	}
	name := func(tree map[string]any) string { return tree["metadata"].(map[string]any)["name"].(string) }
	said := map[string][2]answer{} // by the server, of each manifest with the old set and the new one
	for i, set := range []string{"old.yaml", "policy.yaml"} {
		t.Run(set, func(t *testing.T) {
			put(t, read(set))
			eventually(t, func() string {
				for _, tree := range manifests {
					a := ask(tree)
					if name(tree) == "cache-debug" && a.allowed && (i == 1 || a.warnings == "[]") ||
						i == 1 && name(tree) == "web" && a.reach == "" {
						return "the policies are not in force"
					}
				}
				return ""
			})
			if i == 0 { // what differs from what the cluster enforces
				r := celgate(t, "", "diff", "--kubeconfig", api.Kubeconfig, "--summary", "cluster",
					example+"policy.yaml", example+"pass.yaml", example+"fail.yaml")
				if r.code != 1 ||
					!strings.Contains(r.stdout, "4 requests: 2 newly denied, 1 newly changed, 1 the same") {
					t.Errorf("%+v", r)
				}
			}
			for _, tree := range manifests {
				answers := said[name(tree)]
				answers[i] = ask(tree)
				said[name(tree)] = answers
			}
		})
	}

	r := celgate(t, "", "diff", "-o", "json", "-c", example+"state.yaml", example+"old.yaml", example+"policy.yaml",
		example+"pass.yaml", example+"fail.yaml")
	type side struct {
		Response struct {
			Allowed  bool
			Status   struct{ Message string }
			Warnings []string
		}
	}
	type item struct {
		Request  struct{ Name string }
		Old, New side
		Object   []string
	}
	var got struct {
		Requests, Same int
		Items          []item
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != 1 || r.stderr != "" {
		t.Fatalf("%v: %+v", err, r)
	}
	differing := 0
	for _, tree := range manifests {
		answers := said[name(tree)]
		i := slices.IndexFunc(got.Items, func(x item) bool { return x.Request.Name == name(tree) })
		if (answers[0] != answers[1]) != (i >= 0) {
			t.Errorf("%s: the server said %+v", name(tree), answers)
		}
		if i < 0 {
			continue
		}
		differing++
		for j, s := range []side{got.Items[i].Old, got.Items[i].New} {
			if s.Response.Allowed != answers[j].allowed || s.Response.Status.Message != answers[j].message ||
				fmt.Sprint(s.Response.Warnings) != answers[j].warnings {
				t.Errorf("%s: celgate %+v\nserver %+v", name(tree), s, answers[j])
			}
		}
		if (answers[0].reach != answers[1].reach) != (len(got.Items[i].Object) > 0) {
			t.Errorf("%s: the object differs in %q\nserver %+v", name(tree), got.Items[i].Object, answers)
		}
	}
	if differing != 3 || got.Requests != len(manifests) || got.Same != len(manifests)-differing {
		t.Errorf("%d answers differ on the server; celgate has %d requests, %d the same", differing, got.Requests,
			got.Same)
	}
}
