package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

// TestDiff puts one set of policies in force and then the other, and sends each manifest to the server: the differences
// must be those that celgate diff predicts.
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
		reach             string // the result of the mutation
	}
	ask := func(tree map[string]any) answer {
		got := try(t, api, tree)
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
			if i == 0 { // the difference from the enforced set
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

// TestDiffOfCluster compares the answers for the existing objects of the cluster, and then sends each object to the
// server.
func TestDiffOfCluster(t *testing.T) {
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: diff-live, labels: {diff: live}}}")
	var given strings.Builder
	for i := range 4 {
		fmt.Fprintf(&given, "---\n%s\n", deployment("diff-live", fmt.Sprintf("web-%d", i), 1+i))
	}
	put(t, strings.TrimPrefix(given.String(), "---\n"))
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	text := `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: diff-live}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {diff: live}}
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}
    - {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}
  validations:
  - expression: "object.kind == 'Pod' ? object.spec.containers.all(c, c.image.contains(':')) : object.spec.replicas < 3"
    message: "3 replicas, or an image without a tag"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: diff-live}
spec: {policyName: diff-live, validationActions: [Deny]}
`
	write(t, policies, text)
	r := celgate(t, "", "diff", "--kubeconfig", api.Kubeconfig, "-o", "json", "cluster", policies)
	var got struct {
		Items []struct {
			Request   struct{ Name, Namespace, Operation string }
			CreatedBy *struct{ Kind, Name string }
			New       struct{ Response struct{ Allowed bool } }
		}
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != 1 ||
		r.stderr != "celgate: the cluster: none of the policies is in force\n" {
		t.Fatalf("%v: %+v", err, r)
	}
	denied := map[string]bool{}
	for _, item := range got.Items {
		what := item.Request.Operation + " " + item.Request.Name
		if item.CreatedBy != nil {
			what = "Pod of " + item.CreatedBy.Name
		}
		if item.Request.Namespace != "diff-live" || item.New.Response.Allowed || denied[what] {
			t.Errorf("%+v", item)
		}
		denied[what] = true
	}
	if len(denied) != 2*2+4 {
		t.Errorf("%v", denied)
	}
	put(t, text)
	update := func(name string) *server.Answer {
		answer, err := api.Do(t.Context(), server.Call{Method: http.MethodPatch,
			Path:        "/apis/apps/v1/namespaces/diff-live/deployments/" + name,
			ContentType: "application/merge-patch+json", Body: map[string]any{},
			Query: map[string][]string{"dryRun": {"All"}}})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	eventually(t, func() string {
		if update("web-3").Status() == nil {
			return "the policy is not in force"
		}
		return ""
	})
	for i := range 4 {
		name := fmt.Sprintf("web-%d", i)
		if deny := update(name).Status() != nil; deny != denied["UPDATE "+name] || deny != denied["CREATE "+name] ||
			!denied["Pod of diff-live/"+name] {
			t.Errorf("%s: the server denies %v, celgate %v", name, deny, denied)
		}
	}
}
