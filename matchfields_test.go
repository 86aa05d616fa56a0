package celgate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
)

// matchingPolicy returns a policy that denies every matching request: constraints are further members of its
// matchConstraints.
func matchingPolicy(constraints, binding string) string {
	return fmt.Sprintf(`
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: m}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps, persistentvolumes]}]
%s
  validations: [{expression: "false"}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: m}
spec:
  policyName: m
%s
---
`, constraints, binding)
}

// TestMatchFields tests which field of the dialect excludes a request; the cases lowered/ test which requests they
// match.
func TestMatchFields(t *testing.T) {
	const team = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
	for _, c := range []struct{ constraints, binding, kind, by, reason string }{
		{"    namespaces: [shop]", "", "ConfigMap", "namespaces", "namespaces says shop; the object is in namespace team"},
		{"    namespaces: [te*]", "", "ConfigMap", "", ""},
		{"    namespaces: ['*']", "", "PersistentVolume", "namespaces", "namespaces says *; the object does not have a namespace"},
		{"    excludeNamespaces: [t*m]", "", "ConfigMap", "excludeNamespaces",
			"excludeNamespaces says t*m; the object is in namespace team"},
		{"    subjects: [{kind: Group, name: devs}]", "", "ConfigMap", "subjects", "subjects says Group devs; the user is ann of ops, system:authenticated"},
		{"    excludeSubjects: [{kind: User, name: ann}]", "", "ConfigMap", "excludeSubjects",
			"excludeSubjects says User ann; the user is ann of ops, system:authenticated"},
		{"    permissions: [{verb: skip}]", "", "ConfigMap", "permissions",
			"permissions says skip admissionpolicies.policy.celgate.dev m; the user is ann of ops, system:authenticated"},
		{"    excludePermissions: [{verb: get, resource: pods, namespace: a}]", "", "ConfigMap", "", ""},
		{"", "  matchResources: {namespaces: [shop]}", "ConfigMap", "namespaces",
			"namespaces says shop; the object is in namespace team of the binding"},
	} {
		engine := limitedEngine(t, matchingPolicy(c.constraints, c.binding)+team)
		for _, r := range engine.Rejections() {
			t.Fatal(r.Status.Message)
		}
		object := map[string]any{"apiVersion": "v1", "kind": c.kind, "metadata": map[string]any{"name": "x"}}
		if c.kind == "PersistentVolume" {
			object["spec"] = map[string]any{}
		}
		prepared, err := engine.RequestFor(t.Context(), object,
			celgate.As{Namespace: "team", User: "ann", Groups: []string{"ops"}})
		if err != nil {
			t.Fatal(err)
		}
		var by, reason string
		d, err := engine.Explain(t.Context(), prepared, explain.Options{Trace: func(e explain.Event) {
			if e.Match != nil && !e.Match.Matched {
				by, reason = e.Match.By, e.Match.Reason
				if n := len(e.Match.Compared); n == 0 || e.Match.Compared[n-1].Holds {
					t.Errorf("%s: compared %+v", c.constraints, e.Match.Compared)
				}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if by != c.by || reason != c.reason || d.Allowed != (c.by != "") {
			t.Errorf("%s %s: by %q, %q, allowed %v", c.constraints, c.binding, by, reason, d.Allowed)
		}
	}
}

// TestMatchFieldsRefused writes match fields that are empty or contradictory.
func TestMatchFieldsRefused(t *testing.T) {
	for constraints, want := range map[string]string{
		"namespaces: [a]\n    excludeNamespaces: [b]": "spec.matchConstraints.excludeNamespaces: Forbidden: namespaces and excludeNamespaces are mutually exclusive",
		"namespaces: [A]":                                               `spec.matchConstraints.namespaces[0]: Invalid value: "A": must be the name of a namespace`,
		"namespaces: [a, a]":                                            `spec.matchConstraints.namespaces[1]: Duplicate value: "a"`,
		"subjects: [{kind: Role, name: a}]":                             `spec.matchConstraints.subjects[0].kind: Unsupported value: "Role"`,
		"subjects: [{kind: User, name: ''}]":                            "spec.matchConstraints.subjects[0].name: Required value",
		"subjects: [{kind: ServiceAccount, name: a}]":                   "spec.matchConstraints.subjects[0].namespace: Required value",
		"subjects: [{kind: User, name: a, namespace: b}]":               "spec.matchConstraints.subjects[0].namespace: Forbidden",
		"permissions: [{resource: pods}]":                               "spec.matchConstraints.permissions[0].verb: Required value",
		"permissions: [{verb: get, name: a}]":                           "spec.matchConstraints.permissions[0].resource: Required value",
		"excludePermissions: [{verb: a}]\n    permissions: [{verb: b}]": "mutually exclusive",
		"excludeResourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods], kinds: [Pod]}]": "spec.matchConstraints.excludeResourceRules[0].kinds: Forbidden: resources and kinds are mutually exclusive",
		"excludeResourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], kinds: [Pod, Pod]}]":               `excludeResourceRules[0].kinds[1]: Duplicate value: "Pod"`,
		"excludeResourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*']}]":                                  "excludeResourceRules[0].resources: Required value",
	} {
		rejected := limitedEngine(t, matchingPolicy("    "+constraints, "")).Rejections()
		if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, want) {
			t.Errorf("%s: %d rejected", constraints, len(rejected))
			for _, r := range rejected {
				t.Log(r.Status.Message)
			}
		}
	}
	rejected := limitedEngine(t, matchingPolicy("", "  matchResources: {permissions: [{verb: a}]}")).Rejections()
	if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, "spec.matchResources.permissions[0].resource: Required value") {
		t.Error(rejected)
	}
}
