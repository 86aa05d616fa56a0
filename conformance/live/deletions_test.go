package live

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

// deleted is an object of TestDeletions on the server; the finalizer keeps it after its deletion.
const deleted = `
apiVersion: v1
kind: ConfigMap
metadata: {name: deleted}
---
apiVersion: v1
kind: Pod
metadata: {name: on-node, finalizers: [celgate.dev/keep]}
spec: {nodeName: nowhere, terminationGracePeriodSeconds: 40, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ending, finalizers: [celgate.dev/keep]}
spec: {nodeName: nowhere, terminationGracePeriodSeconds: 40, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: deleted}
---
apiVersion: v1
kind: Namespace
metadata: {name: ending}
`

// TestDeletions sends deletions under a policy that denies all of them: the answers of the registry before policies run
// are those of celgate.
func TestDeletions(t *testing.T) {
	keep(t, deleted)
	for _, path := range []string{"/api/v1/namespaces/default/pods/ending", "/api/v1/namespaces/ending"} {
		if _, err := api.Do(t.Context(), server.Call{Method: http.MethodDelete, Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	policies := `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-deletions}
spec:
  matchConstraints:
    resourceRules:
    - apiGroups: ["", scheduling.k8s.io]
      apiVersions: ["*"]
      operations: [DELETE]
      resources: [configmaps, pods, namespaces, priorityclasses]
  validations: [{expression: "object != null"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-deletions}
spec: {policyName: no-deletions, validationActions: [Deny]}
`
	put(t, policies)
	var cases []deletionCase
	for _, path := range []string{
		"/api/v1/namespaces/default/configmaps/deleted", "/api/v1/namespaces/default/pods/on-node",
		"/api/v1/namespaces/default/pods/ending", "/api/v1/namespaces/deleted", "/api/v1/namespaces/ending",
		"/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
	} {
		for _, options := range []string{
			`{}`, `{"gracePeriodSeconds":5}`, `{"gracePeriodSeconds":40}`, `{"gracePeriodSeconds":0}`,
			`{"gracePeriodSeconds":-3}`, `{"preconditions":{"uid":"other"}}`,
			`{"preconditions":{"resourceVersion":"0"}}`, `{"preconditions":{"uid":"UID","resourceVersion":"VERSION"}}`,
			`{"propagationPolicy":"Sideways"}`, `{"propagationPolicy":"Orphan","orphanDependents":true}`,
			`{"propagationPolicy":"Foreground"}`,
		} {
			cases = append(cases, deletionCase{path, options})
		}
	}
	eventually(t, func() string {
		if status := cases[0].ask(t).Status(); status == nil || status.Code != 422 {
			return "the policy is not in force"
		}
		return ""
	})
	folder := t.TempDir()
	write(t, folder+"/policies.yaml", policies)
	for _, c := range cases {
		t.Run(c.path+" "+c.options, func(t *testing.T) { c.compare(t, folder+"/policies.yaml") })
	}
}

type deletionCase struct{ path, options string }

// body are the options, with the uid and version of the object where they name them.
func (c deletionCase) body(t *testing.T) (options, stored map[string]any) {
	t.Helper()
	answer, err := api.Do(t.Context(), server.Call{Method: http.MethodGet, Path: c.path})
	if err != nil {
		t.Fatal(err)
	}
	if stored, err = answer.Object(); err != nil {
		t.Fatal(err)
	}
	metadata := stored["metadata"].(map[string]any)
	text := strings.NewReplacer("UID", metadata["uid"].(string), "VERSION", metadata["resourceVersion"].(string)).
		Replace(c.options)
	if err := json.Unmarshal([]byte(text), &options); err != nil {
		t.Fatal(err)
	}
	return options, stored
}

func (c deletionCase) ask(t *testing.T) *server.Answer {
	t.Helper()
	options, _ := c.body(t)
	options["dryRun"] = []any{"All"}
	answer, err := api.Do(t.Context(), server.Call{Method: http.MethodDelete, Path: c.path, Body: options})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// compare sends the deletion to the server and passes it to celgate as a review of the request.
func (c deletionCase) compare(t *testing.T, policies string) {
	want := c.ask(t).Status()
	options, stored := c.body(t)
	metadata, parts := stored["metadata"].(map[string]any), strings.Split(c.path, "/")
	request := map[string]any{
		"uid": "1", "operation": "DELETE", "dryRun": true, "name": metadata["name"], "oldObject": stored,
		"userInfo": map[string]any{"username": "admin", "groups": []any{"system:masters"}},
		"options": withMembers(options, map[string]any{
			"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions", "dryRun": []any{"All"}}),
	}
	group, version, _ := strings.Cut(stored["apiVersion"].(string), "/")
	if version == "" {
		group, version = "", group
	}
	request["kind"] = map[string]any{"group": group, "version": version, "kind": stored["kind"]}
	request["resource"] = map[string]any{"group": group, "version": version, "resource": parts[len(parts)-2]}
	switch namespace, ok := metadata["namespace"]; {
	case ok:
		request["namespace"] = namespace
	case stored["kind"] == "Namespace":
		request["namespace"] = metadata["name"]
	}
	review, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
	if err != nil {
		t.Fatal(err)
	}
	got := celgate(t, string(review), "apply", "-p", policies, "-o", "json", "-")
	said := ""
	if want != nil {
		said = want.Message
	}
	if wrong := got.code != 0; wrong != (want != nil) || !strings.Contains(got.stdout, quoteText(said)) {
		t.Errorf("the server says %q; celgate ended with %d:\n%s%s", said, got.code, got.stdout, got.stderr)
	}
}

func quoteText(text string) string {
	if text == "" {
		return ""
	}
	s, _ := json.Marshal(text)
	return string(s)
}

func withMembers(tree, members map[string]any) map[string]any {
	tree = maps.Clone(tree)
	maps.Copy(tree, members)
	return tree
}
