package live

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

// sincePolicies read an object, its namespace and a param.
const sincePolicies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: since}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    namespaceSelector: {matchLabels: {celgate-test: since}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [services], operations: [CREATE, UPDATE]}]
  validations:
  - expression: "object.metadata.name.startsWith(params.data.prefix)"
    messageExpression: "object.metadata.name + ' is no name of ' + namespaceObject.metadata.labels.tier"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: since}
spec:
  policyName: since
  validationActions: [Deny]
  paramRef: {name: since, namespace: since-a, parameterNotFoundAction: Deny}
`

// TestAuditChangedSince audits only the changed objects of the cluster, and has the same result as a full audit.
func TestAuditChangedSince(t *testing.T) {
	folder := t.TempDir()
	policies := filepath.Join(folder, "policies.yaml")
	write(t, policies, sincePolicies)
	namespace := func(name, tier string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {celgate-test: since, tier: %s}}}",
			name, tier)
	}
	service := func(namespace, name, label string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s, labels: {l: %s}}, "+
			"spec: {ports: [{port: 1}]}}", name, namespace, label)
	}
	param := func(prefix string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: since, namespace: since-a}, data: {prefix: " + prefix + "}}"
	}
	definition := func(label, schema string) string {
		return "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, " +
			"metadata: {name: sinces.example.org, labels: {l: " + label + "}}, spec: {group: example.org, scope: Cluster, " +
			"names: {plural: sinces, kind: Since}, versions: [{name: v1, served: true, storage: true, " +
			"schema: {openAPIV3Schema: {type: object, properties: {spec: {type: " + schema + "}}}}}]}}"
	}
	put(t, definition("x", "object"))
	keep(t, namespace("since-a", "front"))
	keep(t, namespace("since-b", "back"))
	put(t, param("good"))
	for _, name := range []string{"good-1", "bad-1", "bad-2", "bad-3"} {
		put(t, service("since-a", name, "x"))
		put(t, service("since-b", name, "x"))
	}
	args := []string{"audit", "--kubeconfig=" + api.Kubeconfig, "-p", policies}
	last := filepath.Join(folder, "last.json")
	taken := func(t *testing.T, takenOver int, said string) {
		t.Helper()
		whole, some := filepath.Join(folder, "whole.csv"), filepath.Join(folder, "some.csv")
		next := filepath.Join(folder, "next.json")
		full := celgate(t, "", append(args, "-o", "csv="+whole)...)
		r := celgate(t, "", append(args, "--changed-since", last, "-o", "csv="+some, "-o", "json="+next, "-o", "text")...)
		if r.code != full.code || !strings.Contains(r.stderr, said) || said == "" && r.stderr != "" {
			t.Fatalf("%+v\n%+v", r, full)
		}
		if want, got := sortedCSV(t, whole), sortedCSV(t, some); !slices.Equal(got, want) {
			t.Errorf("%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if counted := strings.Contains(r.stdout, fmt.Sprintf("; %d unchanged since", takenOver)); counted != (takenOver > 0) {
			t.Errorf("%d should be taken over:\n%s", takenOver, r.stdout)
		}
		last = filepath.Join(folder, fmt.Sprintf("last-%s.json", filepath.Base(t.Name())))
		if r := celgate(t, "", append(args, "-o", "json="+last)...); r.code != full.code {
			t.Fatalf("%+v", r)
		}
	}
	if r := celgate(t, "", append(args, "-o", "json="+last)...); r.code != 1 {
		t.Fatalf("%+v", r)
	}
	others := strings.Count(celgate(t, "", append(args, "-o", "csv")...).stdout, "\n") - 1 - 6
	if others != 0 {
		t.Fatalf("%d findings about others", others)
	}
	var services struct{ Items []any }
	answer, err := api.Do(t.Context(), server.Call{Method: http.MethodGet, Path: "/api/v1/services"})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := answer.Object()
	if err != nil {
		t.Fatal(err)
	}
	services.Items = tree["items"].([]any)
	all := len(services.Items)

	t.Run("nothing", func(t *testing.T) { taken(t, all, "") })
	t.Run("what no answer rests on", func(t *testing.T) {
		put(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: since-a}}")
		keep(t, definition("a", "object"))
		taken(t, all, "")
	})
	t.Run("objects", func(t *testing.T) {
		keep(t, service("since-a", "good-1", "changed"))
		keep(t, service("since-a", "bad-1", "changed"))
		put(t, service("since-b", "bad-4", "x"))
		path := "/api/v1/namespaces/since-b/services/bad-2"
		if _, err := api.Do(t.Context(), server.Call{Method: http.MethodDelete, Path: path}); err != nil {
			t.Fatal(err)
		}
		taken(t, all-3, "") // without the two changed objects and the deleted one
		keep(t, service("since-b", "bad-2", "x"))
	})
	t.Run("merged parts", func(t *testing.T) {
		parts := filepath.Join(folder, "parts")
		last = filepath.Join(folder, "merged.json")
		for i := range 2 {
			celgate(t, "", append(args, fmt.Sprintf("--shard=%d/2", i), "--parts="+parts, "-o", "json="+last)...)
		}
		taken(t, all, "")
	})
	t.Run("namespace", func(t *testing.T) {
		keep(t, namespace("since-b", "other"))
		taken(t, all-4, "")
	})
	t.Run("param", func(t *testing.T) {
		keep(t, param("bad"))
		taken(t, 0, "all objects are audited again: params, kinds, flags or celgate have changed since")
	})
	t.Run("definition", func(t *testing.T) {
		keep(t, definition("a", "string"))
		taken(t, 0, "all objects are audited again: params, kinds, flags or celgate have changed since")
	})
	t.Run("policy", func(t *testing.T) {
		write(t, policies, strings.ReplaceAll(sincePolicies, "is no name", "is a bad name"))
		taken(t, 0, "all objects are audited again: policies or bindings have changed since")
	})
	t.Run("flag", func(t *testing.T) {
		args = append(args, "--as=dev")
		taken(t, 0, "all objects are audited again: params, kinds, flags or celgate have changed since")
	})
}
