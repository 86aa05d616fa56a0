package serve

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

const teamRule = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: team-rule}
spec:
  bindable: [Cluster, Namespaces]
  paramKind: {apiVersion: v1, kind: ConfigMap}
  defaultParams: {data: {name: none}}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets, persistentvolumes]}]
  validations:
  - expression: object.metadata.name.startsWith(params.data.name)
    messageExpression: '"bound to " + params.data.name'
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: cluster-rule}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
  validations: [{expression: "false"}]
`

// teamRights let the users lead and member write bindings in the namespace team-a, and lead bind team-rule there.
const teamRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: team-bindings}
rules:
- {apiGroups: [policy.celgate.dev], resources: [namespacedadmissionpolicybindings], verbs: ["*"]}
- {apiGroups: [""], resources: [configmaps], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: team-lead}
rules:
- {apiGroups: [policy.celgate.dev], resources: [admissionpolicies], resourceNames: [team-rule, cluster-rule], verbs: [bind]}
`

// TestNamespacedBinding lets a team bind a policy: only users with the verb bind on it in their namespace may do so,
// with params of the namespace, and only for objects of the namespace.
func TestNamespacedBinding(t *testing.T) {
	startManaged(t, 1)
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	for _, tree := range documents(t, []byte(teamRights)) {
		good(t, apply(t, rbac+"clusterroles", tree))
		name := tree["metadata"].(map[string]any)["name"].(string)
		t.Cleanup(func() { remove(t, rbac+"clusterroles/"+name) })
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		good(t, apply(t, "/api/v1/namespaces", object(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")))
	}
	for _, bound := range []struct{ name, role, users string }{
		{"bindings", "team-bindings", "[{kind: User, name: lead, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: member, apiGroup: rbac.authorization.k8s.io}]"},
		{"lead", "team-lead", "[{kind: User, name: lead, apiGroup: rbac.authorization.k8s.io}]"},
	} {
		good(t, apply(t, rbac+"namespaces/team-a/rolebindings", object(t, "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: "+
			bound.name+"}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "+bound.role+"}, subjects: "+bound.users+"}")))
	}
	inForce(t, teamRule)
	const path = dialectPath + "namespaces/team-a/namespacedadmissionpolicybindings"
	write := func(user, spec string) *server.Answer {
		return do(t, server.Call{Method: http.MethodPost, Path: path, User: user, Body: object(t,
			"{apiVersion: policy.celgate.dev/v1alpha1, kind: NamespacedAdmissionPolicyBinding, metadata: {name: own}, spec: "+spec+"}")})
	}
	refused := func(a *server.Answer, want string) {
		t.Helper()
		if status := a.Status(); status == nil || !strings.Contains(status.Message, want) {
			t.Errorf("%+v, not %s", status, want)
		}
	}
	const own = "{policyName: team-rule, paramRef: {name: rule, parameterNotFoundAction: Default}}"
	eventually(t, 10*time.Second, func() string { // RBAC is known a moment later
		if status := write("lead", "{policyName: cluster-rule}").Status(); status == nil || !strings.Contains(status.Message, "is not bindable in namespaces") {
			return "a policy that does not let it is bound"
		}
		return ""
	})
	refused(write("member", own), `spec.policyName: Forbidden: user &{member  [system:authenticated] map[]} must have "bind" permission on the AdmissionPolicy team-rule in namespace team-a`)
	refused(write("lead", "{policyName: team-rule, paramRef: {name: rule, namespace: team-b, parameterNotFoundAction: Deny}}"),
		"spec.paramRef.namespace: Forbidden")
	good(t, write("lead", own))
	t.Cleanup(func() { remove(t, path+"/own") })

	secret := func(namespace string) func() *server.Answer {
		return func() *server.Answer {
			return do(t, server.Call{Method: http.MethodPost, Path: "/api/v1/namespaces/" + namespace + "/secrets",
				Query: map[string][]string{"dryRun": {"All"}},
				Body:  object(t, "{apiVersion: v1, kind: Secret, metadata: {name: team}}")})
		}
	}
	awaitDenial(t, "AdmissionPolicy 'team-rule' with binding 'team-a/own' denied request: bound to none", secret("team-a"))
	awaitDenial(t, "", secret("team-b"))
	awaitDenial(t, "", func() *server.Answer {
		return do(t, server.Call{Method: http.MethodPost, Path: "/api/v1/persistentvolumes",
			Query: map[string][]string{"dryRun": {"All"}}, Body: object(t, "{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, "+
				"spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}}}")})
	})
	// The params must be in the same namespace.
	param := func(namespace, name string) {
		good(t, apply(t, "/api/v1/namespaces/"+namespace+"/configmaps", object(t,
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: rule}, data: {name: "+name+"}}")))
		t.Cleanup(func() { remove(t, "/api/v1/namespaces/"+namespace+"/configmaps/rule") })
	}
	param("team-b", "team")
	awaitDenial(t, "bound to none", secret("team-a"))
	param("team-a", "team")
	awaitDenial(t, "", secret("team-a"))
	statusOf(t, "namespaces/team-a/namespacedadmissionpolicybindings/own", "in force on 1 of 1 replicas")

	// A user without the verb bind may not change a binding either.
	refused(do(t, server.Call{Method: http.MethodPatch, Path: path + "/own", User: "member",
		ContentType: "application/merge-patch+json", Body: map[string]any{"spec": map[string]any{"validationActions": []any{"Warn"}}}}),
		`must have "bind" permission`)
}
