package celgate_test

import (
	"strings"
	"testing"
)

// ownedPolicy is a policy for ConfigMaps and PersistentVolumes and its binding of the namespace team.
func ownedPolicy(policySpec, binding string) string {
	return `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: owned}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps, persistentvolumes]}]
  validations: [{expression: "false", message: bound}]
` + policySpec + `
---
apiVersion: policy.celgate.dev/v1alpha1
kind: NamespacedAdmissionPolicyBinding
metadata: {name: own, namespace: team}
spec:
` + binding + `
---
`
}

// TestNamespacedBinding binds a policy in a namespace; the cases lowered/bound-* test the matching objects.
func TestNamespacedBinding(t *testing.T) {
	engine := limitedEngine(t, ownedPolicy("  bindable: [Namespaces]", "  policyName: owned")+"apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n")
	for _, r := range engine.Rejections() {
		t.Fatal(r.Status.Message)
	}
	if d := create(t, engine, "ConfigMap"); d.Allowed ||
		!strings.Contains(d.Status.Message, "AdmissionPolicy 'owned' with binding 'team/own' denied request: bound") {
		t.Error(describeDecision(d))
	}
	if d := create(t, engine, "PersistentVolume"); !d.Allowed {
		t.Error("an object without a namespace: " + describeDecision(d))
	}
}

func TestNamespacedBindingRefused(t *testing.T) {
	const open = "  bindable: [Cluster, Namespaces]"
	const params = open + "\n  paramKind: {apiVersion: v1, kind: ConfigMap}"
	for name, c := range map[string]struct{ policy, binding, want string }{
		"a policy that does not let it": {"", "  policyName: owned",
			`NamespacedAdmissionPolicyBinding.policy.celgate.dev "team/own" is invalid: spec.policyName: Forbidden: the policy owned is not bindable in namespaces`},
		"one of several":        {"", "  policies: [{name: owned}]", "spec.policies[0]: Forbidden: the policy owned is not bindable in namespaces"},
		"a released policy":     {open, "  policies: [{name: owned, kind: ValidatingAdmissionPolicy}]", "spec.policies[0].kind: Forbidden"},
		"params of another one": {params, "  policyName: owned\n  paramRef: {name: a, namespace: other, parameterNotFoundAction: Deny}", "spec.paramRef.namespace: Forbidden: params always come from the namespace of the binding"},
		"params of the cluster": {open + "\n  paramKind: {apiVersion: storage.k8s.io/v1, kind: StorageClass}",
			"  policyName: owned\n  paramRef: {name: a, parameterNotFoundAction: Deny}", "spec.paramRef: Forbidden: the params of AdmissionPolicy owned, StorageClass, are cluster-scoped"},
		"namespaces":           {open, "  policyName: owned\n  matchResources: {namespaces: [a]}", "spec.matchResources.namespaces: Forbidden: a namespaced binding always applies to its own namespace"},
		"excluded ones":        {open, "  policyName: owned\n  matchResources: {excludeNamespaces: [a]}", "spec.matchResources.excludeNamespaces: Forbidden"},
		"a namespace selector": {open, "  policyName: owned\n  matchResources: {namespaceSelector: {matchLabels: {a: b}}}", "spec.matchResources.namespaceSelector: Forbidden"},
	} {
		rejected := limitedEngine(t, ownedPolicy(c.policy, c.binding)).Rejections()
		if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, c.want) {
			t.Errorf("%s: %d rejected", name, len(rejected))
			for _, r := range rejected {
				t.Log(r.Status.Message)
			}
		}
	}
	elsewhere := strings.Replace(ownedPolicy(open, "  policyName: owned"), "namespace: team", "namespace: Team_A", 1)
	if rejected := limitedEngine(t, elsewhere).Rejections(); len(rejected) != 1 ||
		!strings.Contains(rejected[0].Status.Message, `metadata.namespace: Invalid value: "Team_A"`) {
		t.Error(rejected)
	}
	cluster := strings.NewReplacer("Namespaced", "", ", namespace: team", "").Replace(ownedPolicy("  bindable: [NAMESPACES]", "  policyName: owned"))
	cluster = strings.Replace(cluster, "NAMESPACES", "Namespaces", 1)
	if rejected := limitedEngine(t, cluster).Rejections(); len(rejected) != 1 ||
		!strings.Contains(rejected[0].Status.Message, "the policy owned is bindable in namespaces only") {
		t.Error(rejected)
	}
	for bindable, want := range map[string]string{"[Team]": `spec.bindable[0]: Unsupported value: "Team"`,
		"[Cluster, Cluster]": `spec.bindable[1]: Duplicate value: "Cluster"`, "[]": "spec.bindable: Required value"} {
		rejected := limitedEngine(t, strings.Split(ownedPolicy("  bindable: "+bindable, ""), "---")[0]).Rejections()
		if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, want) {
			t.Error(bindable, rejected)
		}
	}
}
