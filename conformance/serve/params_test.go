package serve

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

const leaks = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: leak}
spec:
  paramKind: {apiVersion: v1, kind: Secret}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: own, expression: "request.name == 'leak'"}]
  validations:
  - expression: "false"
    messageExpression: "'secret: ' + string(params.data.password)"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: leak}
spec:
  policyName: leak
  validationActions: [Deny]
  paramRef: {name: db, namespace: kube-system, parameterNotFoundAction: Deny}
`

const policyAuthor = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: policy-author}
rules:
- apiGroups: [policy.celgate.dev]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  verbs: ["*"]
- {apiGroups: [""], resources: [configmaps], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: policy-author}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: policy-author}
subjects: [{kind: User, name: mallory, apiGroup: rbac.authorization.k8s.io}]
`

const ownPath = "/apis/policy.celgate.dev/v1/"

// TestParamsOfOthers lets a user write policies about Secrets that the user may not read: while celgate is called,
// while it cannot be reached, and while the API server does not know of it.
func TestParamsOfOthers(t *testing.T) {
	r := managedAs(t, api.Kubeconfig, 1, "--allow-secret-params")
	for _, tree := range documents(t, []byte(policyAuthor)) {
		path := "/apis/rbac.authorization.k8s.io/v1/" + strings.ToLower(tree["kind"].(string)) + "s"
		good(t, apply(t, path, tree))
		t.Cleanup(func() { remove(t, path+"/policy-author") })
	}
	create(
		t,
		"/api/v1/namespaces/kube-system/secrets",
		object(t, `{apiVersion: v1, kind: Secret, metadata: {name: db, namespace: kube-system}, stringData: {password: hunter2}}`))
	objects := toOwnGroup(t, leaks)
	path := func(tree map[string]any) string { return ownPath + resources[tree["kind"].(string)] }
	as := func(user string, tree map[string]any) *server.Answer {
		t.Helper()
		return do(t, server.Call{Method: http.MethodPost, Path: path(tree), Body: tree, User: user})
	}
	gone := func() {
		for _, tree := range objects {
			_ = do(t, server.Call{Method: http.MethodDelete, Path: path(tree) + "/leak"})
		}
	}
	t.Cleanup(func() {
		for _, tree := range objects {
			_, _ = api.Do(context.Background(), server.Call{Method: http.MethodDelete, Path: path(tree) + "/leak"})
		}
	})
	leak := func() string {
		status := do(t, server.Call{
			Method: http.MethodPost, Path: "/api/v1/namespaces/default/configmaps",
			Query: map[string][]string{"dryRun": {"All"}}, User: "mallory",
			Body: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "leak"}},
		}).Status()
		if status == nil {
			return ""
		}
		return status.Message
	}
	refused := func(a *server.Answer, want string) {
		t.Helper()
		if status := a.Status(); status == nil || !strings.Contains(status.Message, want) {
			t.Fatalf("%+v, not %s", status, want)
		}
	}
	const mallory = "user &{mallory  [system:authenticated] map[]} "

	// When it is called, celgate answers as the server does for its own kinds.
	refused(as("mallory", objects[0]), `ValidatingAdmissionPolicy.admissionregistration.k8s.io "leak" is invalid: spec.paramKind: Forbidden: `+mallory+
		`must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)`,
	)
	refused(as("mallory", objects[1]), `spec.paramRef: Forbidden: unable to get policy leak to determine minimum required permissions and `+mallory+
		`does not have "get" permission for all groups, versions and resources`,
	)
	good(t, as("", objects[0]))
	refused(as("mallory", objects[1]), `spec.paramRef: Forbidden: `+mallory+`does not have "get" permission on the object referenced by paramRef`)
	good(t, as("", objects[1]))
	awaitDenial(t, "secret: aHVudGVyMg==", func() *server.Answer {
		return do(t, server.Call{Method: http.MethodPost, Path: "/api/v1/namespaces/default/configmaps",
			Query: map[string][]string{"dryRun": {"All"}},
			Body: map[string]any{
				"apiVersion": "v1",
				"kind":       "ConfigMap",
				"metadata":   map[string]any{"name": "leak"},
			},
		},
		)
	})
	sealed, err := do(t, server.Call{Method: http.MethodGet, Path: path(objects[0]) + "/leak"}).Object()
	if err != nil {
		t.Fatal(err)
	}
	gone()

	// While celgate cannot be reached, objects with params are refused unless they are disabled.
	r.refuse(0)
	r.relay.mu.Lock()
	r.relay.refuses = true
	r.relay.mu.Unlock()
	refused(as("", objects[0]), `failed calling webhook "params.policies.celgate.dev"`)
	off := toOwnGroup(t, leaks)[0]
	off["metadata"].(map[string]any)["annotations"] = map[string]any{"celgate.dev/disabled": "true"}
	good(t, as("mallory", off))
	r.relay.mu.Lock()
	r.relay.refuses = false
	r.relay.mu.Unlock()
	patch := func(user, resource string, annotations map[string]any) *server.Answer {
		t.Helper()
		return do(t, server.Call{
			Method: http.MethodPatch, Path: ownPath + resource + "/leak", ContentType: "application/merge-patch+json",
			User: user,
			Body: map[string]any{"metadata": map[string]any{"annotations": annotations}},
		})
	}
	refused(patch("mallory", "validatingadmissionpolicies", map[string]any{"celgate.dev/disabled": nil}),
		`must have "get" permission on all objects`)
	gone()

	// An object that was written while the API server did not know of celgate, or with the seal of another object, is
	// not in force.
	forged := toOwnGroup(t, leaks)
	for i, tree := range forged {
		if i == 1 { // that of the policy is not that of the binding
			tree["metadata"].(map[string]any)["annotations"] = sealed["metadata"].(map[string]any)["annotations"]
		}
		eventually(t, 5*time.Second, func() string {
			// the leader writes them again whenever something changes
			for _, kind := range []string{"mutating", "validating"} {
				remove(t, webhookPath+kind+"webhookconfigurations/celgate")
			}
			if status := as("mallory", tree).Status(); status != nil {
				return status.Message
			}
			return ""
		})
	}
	unknown := func(resource string) func() string {
		return func() string {
			if text, _ := status(t, resource, "leak"); !strings.Contains(text,
				"reason: AuthorUnknown\n  status: \"False\"\n  type: Ready\n") ||
				!strings.Contains(strings.Join(strings.Fields(text), " "), // the text is wrapped
					resource+".policy.celgate.dev NAME celgate.dev/approved=") {
				return text
			}
			return ""
		}
	}
	eventually(t, 60*time.Second, unknown("validatingadmissionpolicies"))
	eventually(t, 10*time.Second, unknown("validatingadmissionpolicybindings"))
	eventually(t, 60*time.Second, func() string {
		if status := as("mallory", toOwnGroup(t, strings.ReplaceAll(leaks, "name: leak",
			"name: leak2"))[0]).Status(); status == nil || !strings.Contains(status.Message, "Forbidden") {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
	if got := leak(); got != "" {
		t.Error(got)
	}
	if metrics := r.gates[0].metrics(t); !strings.Contains(metrics, `celgate_policies{state="withheld"} 2`) {
		t.Error("no metric of what is withheld")
	}

	// A change that keeps the paramKind does not approve it; a user with permission to read the params does.
	refused(patch("mallory", "validatingadmissionpolicies", map[string]any{"celgate.dev/approved": "1"}),
		"spec.paramKind: Forbidden")
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		good(t, patch("", resource, map[string]any{"celgate.dev/approved": "1"}))
	}
	eventually(t, 10*time.Second, func() string {
		if got := leak(); !strings.HasSuffix(got, "secret: aHVudGVyMg==") {
			return "allowed, though it is in force: " + got
		}
		return ""
	})
	if strings.Contains(r.gates[0].log(), "aHVudGVyMg") {
		t.Error("the log has the Secret")
	}
}
