package serve

import (
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
)

// TestMutationWarnings tests the status of a policy with type errors in its mutations.
func TestMutationWarnings(t *testing.T) {
	types, err := builtin.Registry(celgate.Newest)
	if err != nil {
		t.Fatal(err)
	}
	const text = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: p}
spec:
  typeChecking: MODE
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments, daemonsets]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{spec: Object.spec{replicas: "3"}}'}
`
	for mode, want := range map[string][]string{
		`Enforce`: {"apps/v1 DaemonSet: ERROR: <input>:1:34: undefined field 'replicas'",
			"apps/v1 Deployment: ERROR: <input>:1:36: expected type of field 'replicas' is 'int'"},
		`Warn`: {"DaemonSet", "Deployment"}, `"Off"`: nil,
	} {
		docs, problems := manifest.Read(strings.NewReader(strings.Replace(text, "MODE", mode, 1)), "p.yaml")
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got := mutationWarnings(&loaded{types: types, minor: celgate.Newest}, manifest.NewBundle(docs...).Set.Policies[0])
		if (len(got) == 0) != (want == nil) {
			t.Fatalf("%s: %v", mode, got)
		}
		for _, w := range want {
			if got[0].FieldRef != "spec.mutations[0].applyConfiguration.expression" || !strings.Contains(got[0].Warning, w) {
				t.Errorf("%s: %v, want %s", mode, got, w)
			}
		}
	}
}

// TestOrdered tests the condition of policies that read each other's writes.
func TestOrdered(t *testing.T) {
	of := func(name, reads, writes string) string {
		return `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  reinvocationPolicy: IfNeeded
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{data: {"` + writes + `": object.data.?` + reads + `.orValue("")}}'}
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: ` + name + `}
spec: {policyName: ` + name + `}
---`
	}
	docs, problems := manifest.Read(strings.NewReader(of("a", "x", "y")+of("b", "y", "x")+of("c", "p", "q")), "p.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	bundle := manifest.NewBundle(docs...)
	engine, err := celgate.New(&bundle.Set, celgate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	turns, err := turnsOf(engine)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "Cycle", "b": "Cycle", "c": "Ordered"} {
		is := turns[policy.Admission.Ref(name)].orderCondition()
		if is.True != (want == "Ordered") || is.Reason != want || (is.Message == "") != is.True {
			t.Errorf("%s: %+v", name, is)
		}
	}
}
