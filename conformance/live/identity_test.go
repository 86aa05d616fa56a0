package live

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/celgate/celgate/conformance/server"
)

// userOf returns the user that celgate apply takes a request for.
func userOf(t *testing.T, r result) authenticationv1.UserInfo {
	t.Helper()
	var answers struct {
		Items []struct {
			Request struct{ UserInfo *authenticationv1.UserInfo }
		}
	}
	err := json.Unmarshal([]byte(r.stdout), &answers)
	if err != nil || len(answers.Items) != 1 || answers.Items[0].Request.UserInfo == nil {
		t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	return *answers.Items[0].Request.UserInfo
}

// TestIdentity compares the user that the server derives from a token that is bound to a Pod, on a node, on a node that
// does not exist and without one, or to nothing, with the user that celgate derives.
func TestIdentity(t *testing.T) {
	send := func(method, path string, body any, token string) map[string]any {
		t.Helper()
		as := *api
		if token != "" {
			as.Token = token
		}
		answer, err := as.Do(t.Context(), server.Call{Method: method, Path: path, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		tree, err := answer.Object()
		if err != nil || answer.Code >= 300 {
			t.Fatalf("%s: %d %s %v", path, answer.Code, answer.Body, err)
		}
		return tree
	}
	create := func(path string, body map[string]any) map[string]any {
		t.Helper()
		return send(http.MethodPost, path, body, "")
	}
	pod := func(name, node string) map[string]any {
		spec := map[string]any{"serviceAccountName": "bearer",
			"containers": []any{map[string]any{"name": "a", "image": "a"}}}
		if node != "" {
			spec["nodeName"] = node
		}
		return map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": name, "namespace": "bearers"}, "spec": spec}
	}
	named := func(kind, name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}
	}
	stored := []map[string]any{create("/api/v1/namespaces", named("Namespace", "bearers")),
		create("/api/v1/nodes", named("Node", "bearing"))}
	const in = "/api/v1/namespaces/bearers/"
	stored = append(stored, create(in+"serviceaccounts", named("ServiceAccount", "bearer")))
	pods := map[string]string{"on-a-node": "bearing", "on-none": "", "on-a-ghost": "ghost"}
	for name, node := range pods {
		stored = append(stored, create(in+"pods", pod(name, node)))
	}
	folder := t.TempDir()
	cluster, path, manifest := filepath.Join(folder, "cluster.json"), filepath.Join(folder, "policy.yaml"),
		filepath.Join(folder, "object.yaml")
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": stored})
	if err != nil {
		t.Fatal(err)
	}
	write(t, cluster, string(list))
	write(t, path, policies)
	write(t, manifest, "{apiVersion: v1, kind: ConfigMap, metadata: {name: any, namespace: bearers}}")
	compare := func(bound string) {
		spec, as := map[string]any{"expirationSeconds": 3600}, "--as=system:serviceaccount:bearers:bearer"
		if bound != "" {
			spec["boundObjectRef"] = map[string]any{"apiVersion": "v1", "kind": "Pod", "name": bound}
			as = "--as-pod=bearers/" + bound
		}
		review := create(in+"serviceaccounts/bearer/token",
			map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
		token, _ := review["status"].(map[string]any)["token"].(string)
		self := send(http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
			map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, token)
		raw, err := json.Marshal(self["status"])
		if err != nil {
			t.Fatal(err)
		}
		var said authenticationv1.SelfSubjectReviewStatus
		if err := json.Unmarshal(raw, &said); err != nil {
			t.Fatal(err)
		}
		got := userOf(t, celgate(t, "", "apply", "-o", "json", as, "-p", path, "-c", cluster, manifest))
		// Each token has another id, and celgate takes every node for one that exists.
		const credential, node = "authentication.kubernetes.io/credential-id", "authentication.kubernetes.io/node-uid"
		if len(said.UserInfo.Extra[credential]) == 1 && len(got.Extra[credential]) == 1 &&
			got.Extra[credential][0][:4] == said.UserInfo.Extra[credential][0][:4] {
			got.Extra[credential] = said.UserInfo.Extra[credential]
		}
		if bound == "on-a-ghost" {
			delete(got.Extra, node)
		}
		if d := cmp.Diff(said.UserInfo, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("token of %q: the server and celgate differ:\n%s", bound, d)
		}
	}
	compare("")
	for name := range pods {
		compare(name)
	}
}
