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
	for i := range 600 { // more findings than fit into a report
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

// policyReportKinds are the definitions of wgpolicyk8s.io/v1alpha2 as far as reports go: no field that these kinds do
// not have may be in one.
const policyReportKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.wgpolicyk8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: wgpolicyk8s.io
  names: {kind: KIND, plural: PLURAL, singular: SINGULAR, listKind: KINDList}
  scope: SCOPE
  versions:
  - name: v1alpha2
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          results:
            type: array
            items:
              type: object
              required: [policy]
              properties:
                category: {type: string}
                message: {type: string}
                policy: {type: string}
                rule: {type: string}
                source: {type: string}
                scored: {type: boolean}
                result: {type: string, enum: [pass, fail, warn, error, skip]}
                severity: {type: string, enum: [critical, high, low, medium, info]}
                properties: {type: object, additionalProperties: {type: string}}
                timestamp:
                  type: object
                  required: [nanos, seconds]
                  properties: {nanos: {type: integer, format: int32}, seconds: {type: integer, format: int64}}
                resources:
                  type: array
                  items:
                    type: object
                    properties: {apiVersion: {type: string}, kind: {type: string}, name: {type: string},
                      namespace: {type: string}, resourceVersion: {type: string}, uid: {type: string}}
          summary:
            type: object
            properties: {error: {type: integer}, fail: {type: integer}, pass: {type: integer}, skip: {type: integer},
              warn: {type: integer}}
`

// TestWritePolicyReports lets four shards write policy reports, one for each namespace with findings. Counts are exact
// although the lists are shortened, the server stores all fields, and reports without findings are removed.
func TestWritePolicyReports(t *testing.T) {
	for _, names := range [][]string{{"PolicyReport", "policyreports", "policyreport", "Namespaced"},
		{"ClusterPolicyReport", "clusterpolicyreports", "clusterpolicyreport", "Cluster"}} {
		put(t, strings.NewReplacer("KIND", names[0], "PLURAL", names[1], "SINGULAR", names[2], "SCOPE", names[3]).
			Replace(policyReportKinds))
	}
	counts := map[string]int{"polr-a": 3, "polr-b": 510, "polr-c": 0, "polr-d": 1}
	for name := range counts {
		keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+", labels: {polr: \"yes\"}}}")
	}
	var given strings.Builder
	for name, n := range counts {
		for i := range n {
			fmt.Fprintf(&given, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: bad-%03d, namespace: %s}}\n", i, name)
		}
	}
	put(t, strings.TrimPrefix(given.String(), "---\n"))
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	write(t, policies, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: polr}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {polr: "yes"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}]
  validations:
  - expression: "!object.metadata.name.startsWith('bad')"
    message: a bad name
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: polr}
spec: {policyName: polr, validationActions: [Deny]}
`)
	run := 0
	audited := func() string { // by four shards
		run++
		for i := range 4 {
			r := celgate(t, "", "audit", "--kubeconfig="+api.Kubeconfig, "-p", policies, "--write-reports=policyreport",
				"--fail-on=nothing", fmt.Sprintf("--shard=%d/4", i), fmt.Sprintf("--parts=configmaps:polr-%d", run))
			if r.code != 0 {
				return fmt.Sprintf("%+v", r)
			}
		}
		return ""
	}
	stored := func() map[string]map[string]any {
		answer, err := api.Do(t.Context(), server.Call{Method: http.MethodGet,
			Path: "/apis/wgpolicyk8s.io/v1alpha2/policyreports"})
		if err != nil {
			t.Fatal(err)
		}
		list, err := answer.Object()
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]map[string]any{}
		for _, item := range list["items"].([]any) {
			namespace := item.(map[string]any)["metadata"].(map[string]any)["namespace"].(string)
			if all[namespace] != nil {
				t.Errorf("two reports in %s", namespace)
			}
			all[namespace] = item.(map[string]any)
		}
		return all
	}
	eventually(t, audited)
	all := stored()
	for namespace, n := range counts {
		report := all[namespace]
		if (report != nil) != (n > 0) {
			t.Errorf("%s: %v", namespace, report)
		}
		if report == nil {
			continue
		}
		summary, results := report["summary"].(map[string]any), report["results"].([]any)
		if summary["fail"] != int64(n) || len(results) != min(n, 500) {
			t.Errorf("%s: %v, %d results", namespace, summary, len(results))
		}
		result := results[0].(map[string]any)
		if result["policy"] != "polr" || result["severity"] != "high" || result["source"] != "celgate" ||
			result["properties"].(map[string]any)["stuck"] != "true" ||
			result["resources"].([]any)[0].(map[string]any)["namespace"] != namespace {
			t.Errorf("%s: %v", namespace, result)
		}
	}
	if len(all) != 3 {
		t.Errorf("%d reports", len(all))
	}

	// The written reports equal those that are printed for kubectl, and a server with strict field validation accepts
	// them.
	printed := celgate(t, "", "audit", "--kubeconfig="+api.Kubeconfig, "-p", policies, "-o=policyreport", "--fail-on=nothing")
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(printed.stdout), &list); err != nil || len(list.Items) != 3 {
		t.Fatalf("%v: %d reports, %s", err, len(list.Items), printed.stderr)
	}
	for _, report := range list.Items {
		metadata := report["metadata"].(map[string]any)
		metadata["name"] = "by-kubectl"
		answer, err := api.Do(t.Context(), server.Call{
			Method: http.MethodPost,
			Path:   "/apis/wgpolicyk8s.io/v1alpha2/namespaces/" + metadata["namespace"].(string) + "/policyreports",
			Body:   report, Query: map[string][]string{"fieldValidation": {"Strict"}, "dryRun": {"All"}},
		})
		if err != nil || answer.Code != http.StatusCreated {
			t.Errorf("%v: %d %.300s", err, answer.Code, answer.Body)
		}
	}

	for name, n := range counts {
		for i := range n {
			path := fmt.Sprintf("/api/v1/namespaces/%s/configmaps/bad-%03d", name, i)
			if _, err := api.Do(t.Context(), server.Call{Method: http.MethodDelete, Path: path}); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, func() string {
		if problem := audited(); problem != "" {
			return problem
		}
		if left := stored(); len(left) > 0 {
			return fmt.Sprintf("%d reports are left", len(left))
		}
		return ""
	})
}
