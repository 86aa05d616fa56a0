package webhook_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/webhook"
)

const counter = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: c}
spec:
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "add", path: "/data/n", value: string(int(object.data.?n.orValue("0")) + 1)}]'}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: c}
spec: {policyName: c}
`

// TestAgain calls a handler as the API server does: again after others have changed an object, and with requests that
// only look like a second call.
func TestAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(counter), 0o600); err != nil {
		t.Fatal(err)
	}
	e := engine(t, path)
	server := httptest.NewServer(&webhook.Handler{Engine: func() *celgate.Engine { return e }, Again: &webhook.Again{}})
	defer server.Close()
	// count returns the new value of n, "" if it does not change.
	count := func(name, data string) string {
		t.Helper()
		_, text := post(t, server.URL+"/mutate", "application/json", strings.NewReader(fmt.Sprintf(
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"ConfigMap"},"operation":"CREATE",`+
				`"resource":{"version":"v1","resource":"configmaps"},"name":"%s","namespace":"default","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s"},"data":{%s}}}}`,
			name,
			name,
			data,
		)))
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal([]byte(text), &review); err != nil {
			t.Fatal(err)
		}
		var patch []struct{ Path, Value string }
		if len(review.Response.Patch) == 0 {
			return ""
		}
		if err := json.Unmarshal(review.Response.Patch, &patch); err != nil || len(patch) != 1 ||
			patch[0].Path != "/data/n" {
			t.Fatal(err, string(review.Response.Patch))
		}
		return patch[0].Value
	}
	for _, call := range []struct{ name, what, data, want string }{
		{"a", "the first call runs it twice", `"k":"v"`, "2"},
		{"a", "with what another one added, the second run is made again", `"k":"v","n":"2","o":"1"`, ""},
		{"a", "a third request is a new one", `"k":"v","n":"2","o":"1"`, "4"},
		{"b", "another object", `"k":"v"`, "2"},
		{"b", "the same request once more", `"k":"v"`, "2"},
		{"b", "what another one changed is not taken back", `"k":"v","n":"7"`, "9"},
		{"c", "another name", `"n":"2"`, "4"},
	} {
		if got := count(call.name, call.data); got != call.want {
			t.Errorf("%s: %q, not %q", call.what, got, call.want)
		}
	}
}
