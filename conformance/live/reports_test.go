package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"

	"github.com/celgate/celgate/conformance/server"
)

// TestWriteReports keeps reports in a cluster with the definitions of the module that has the types, reads them as
// these types, and removes them when nothing is left to report.
func TestWriteReports(t *testing.T) {
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/openreports/reports-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"openreports.io_reports.yaml", "openreports.io_clusterreports.yaml"} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "config", "crd", name))
		if err != nil {
			t.Fatal(err)
		}
		put(t, string(text))
	}
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: reports-a}}")
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: reports-b}}")
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	write(t, policies, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: named}
spec:
  matchConstraints:
    matchPolicy: Exact
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [reports-a, reports-b]}]}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}]
  validations:
  - expression: "!object.metadata.name.startsWith('bad')"
    message: a bad name
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: named}
spec: {policyName: named, validationActions: [Deny]}
`)
	var given strings.Builder
	for i := range 600 { // more than a report holds
		fmt.Fprintf(&given, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: bad-%03d, namespace: reports-a}}\n", i)
	}
	good := "{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: reports-a}}\n"
	put(t, given.String()[len("---\n"):])
	put(t, good)

	run := func(t *testing.T, code int) {
		t.Helper()
		eventually(t, func() string {
			r := celgate(t, "", "audit", "--kubeconfig="+api.Kubeconfig, "-p", policies, "--write-reports=openreports")
			if r.code != code {
				return fmt.Sprintf("%+v", r)
			}
			return ""
		})
	}
	get := func(t *testing.T, namespace string) (*openreports.Report, int) {
		t.Helper()
		answer, err := api.Do(t.Context(), server.Call{Method: http.MethodGet,
			Path: "/apis/openreports.io/v1alpha1/namespaces/" + namespace + "/reports/celgate-audit"})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Code != http.StatusOK {
			return nil, answer.Code
		}
		var report openreports.Report
		dec := json.NewDecoder(bytes.NewReader(answer.Body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&report); err != nil {
			t.Fatal(err)
		}
		return &report, answer.Code
	}
	run(t, 1)
	report, code := get(t, "reports-a")
	if code != http.StatusOK {
		t.Fatal(code)
	}
	if s := report.Summary; s.Fail != 600 || len(report.Results) != 500 || s.Pass < 1 || s.Warn+s.Error+s.Skip != 0 {
		t.Errorf("%+v with %d results", s, len(report.Results))
	}
	first := report.Results[0]
	if first.Policy != "named" || first.Result != "fail" || first.Description != "a bad name" ||
		len(first.Subjects) != 1 || first.Subjects[0].UID == "" ||
		first.Properties["stuck"] != "true" ||
		report.Source != "celgate" ||
		first.Timestamp.Seconds == 0 {
		t.Errorf("%+v", first)
	}
	if _, code := get(t, "reports-b"); code != http.StatusNotFound {
		t.Errorf("a report about nothing: %d", code)
	}
	for i := range 600 {
		path := fmt.Sprintf("/api/v1/namespaces/reports-a/configmaps/bad-%03d", i)
		if _, err := api.Do(t.Context(), server.Call{Method: http.MethodDelete, Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	run(t, 0)
	if _, code := get(t, "reports-a"); code != http.StatusNotFound {
		t.Errorf("a report about nothing: %d", code)
	}
}
