package live

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

// auditWorld holds the objects that exist before the policies of the audit: objects in three namespaces, some of which
// violate them.
const auditWorld = `
apiVersion: v1
kind: Namespace
metadata: {name: audit-a, labels: {audit-tier: front}}
---
apiVersion: v1
kind: Namespace
metadata: {name: audit-b, labels: {audit-tier: front}}
---
apiVersion: v1
kind: Namespace
metadata: {name: audit-c, labels: {audit-tier: back}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: celgate-auditor}
rules:
- {apiGroups: ["", apps], resources: [namespaces, configmaps, deployments, statefulsets, replicasets, daemonsets], verbs: [get, list]}
- {apiGroups: [""], resources: [replicationcontrollers], verbs: [list]}
- {apiGroups: [batch], resources: [jobs, cronjobs], verbs: [list]}
- {apiGroups: [admissionregistration.k8s.io, apiextensions.k8s.io], resources: ["*"], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: celgate-auditor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: celgate-auditor}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: auditor}]
`

const auditPolicies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: audit-owner}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {audit-tier: front}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps, secrets], operations: [CREATE, UPDATE]}]
  validations:
  - expression: "'owner' in object.metadata.?labels.orValue({})"
    messageExpression: "object.metadata.name + ' has no owner'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: audit-owner}
spec: {policyName: audit-owner, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: audit-create}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]
    namespaceSelector: {matchExpressions: [{key: audit-tier, operator: Exists}]}
  validations:
  - expression: object.spec.replicas <= 3
    message: at most 3 replicas
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: audit-create}
spec: {policyName: audit-create, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: audit-warn}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [UPDATE]}]
    namespaceSelector: {matchExpressions: [{key: audit-tier, operator: Exists}]}
  validations:
  - expression: object.spec.replicas <= 2
    message: more than 2 replicas
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: audit-warn}
spec: {policyName: audit-warn, validationActions: [Warn]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: audit-pods}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
    namespaceSelector: {matchLabels: {audit-tier: back}}
  validations:
  - expression: object.spec.containers.all(c, c.image.contains(':'))
    message: an image without a tag
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: audit-pods}
spec: {policyName: audit-pods, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: audit-user}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [DELETE]}]
    namespaceSelector: {matchLabels: {audit-tier: back}}
  validations:
  - expression: request.userInfo.username == "nobody"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: audit-user}
spec: {policyName: audit-user, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: audit-team}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}]
    namespaceSelector: {matchExpressions: [{key: audit-tier, operator: Exists}]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"team": object.metadata.namespace}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: audit-team}
spec: {policyName: audit-team}
`

// An auditReport is the decoded part of celgate audit -o json.
type auditReport struct {
	Findings []struct {
		Verdict string
		Asked   []string
		Stuck   bool
		Object  struct{ APIVersion, Kind, Namespace, Name, ResourceVersion string }
		Creates string
		Policy  string
		Message string
		Diff    []string
	}
	Summary struct {
		Totals             struct{ Objects, Requests, Denied, Stuck, Changed, Warned int }
		Unread, NotAudited []map[string]any
		Unmatched          []string `json:"unmatchedPolicies"`
	}
}

func audit(t *testing.T, code int, args ...string) (auditReport, result) {
	t.Helper()
	r := celgate(t, "", append([]string{"audit", "-o", "json"}, args...)...)
	var report auditReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || r.code != code {
		t.Fatalf("%v: %+v", err, r)
	}
	return report, r
}

// TestAudit audits all objects of the cluster, and then sends each object to the server as a dry run: the server denies
// and changes exactly the objects that celgate reports, with the same texts. Nothing is written.
func TestAudit(t *testing.T) {
	keep(t, auditWorld)
	var given strings.Builder
	configMap := func(namespace, name, labels string) {
		fmt.Fprintf(&given, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s, labels: %s}}\n",
			name, namespace, labels)
	}
	for _, namespace := range []string{"audit-a", "audit-b", "audit-c"} {
		configMap(namespace, "owned", "{owner: x}")
		configMap(namespace, "stray", "{}")
		for i := range 3 {
			fmt.Fprintf(&given, "---\n%s\n", deployment(namespace, fmt.Sprintf("web-%d", i), 2+i))
		}
	}
	fmt.Fprintf(&given, "---\n%s\n", strings.Replace(deployment("audit-a", "tagged", 1), "image: c}", "image: 'c:1'}",
		1))
	fmt.Fprintf(&given, "---\n%s\n", strings.Replace(deployment("audit-c", "teamed", 1), "name: teamed",
		"labels: {team: audit-c}, name: teamed", 1))
	for i := range 520 { // more than a page
		configMap("audit-c", fmt.Sprintf("many-%03d", i), "{}")
	}
	put(t, strings.TrimPrefix(given.String(), "---\n"))
	existing := objects(t, strings.TrimPrefix(given.String(), "---\n"))
	put(t, auditPolicies)

	ask := func(t *testing.T, call server.Call) *server.Answer {
		t.Helper()
		call.Query = map[string][]string{"dryRun": {"All"}}
		answer, err := api.Do(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	eventually(t, func() string {
		stray := ask(t, server.Call{Method: http.MethodPatch, Path: "/api/v1/namespaces/audit-a/configmaps/stray",
			ContentType: "application/merge-patch+json", Body: map[string]any{}})
		web := ask(t, server.Call{Method: http.MethodPatch, Path: "/apis/apps/v1/namespaces/audit-c/deployments/web-2",
			ContentType: "application/merge-patch+json", Body: map[string]any{}})
		pod := ask(t, server.Call{Method: http.MethodPost, Path: "/api/v1/namespaces/audit-c/pods",
			Body: podOf("audit-c", "c")})
		create := ask(t, server.Call{Method: http.MethodPost, Path: "/apis/apps/v1/namespaces/audit-a/deployments",
			Body: objects(t, deployment("audit-a", "new", 9))[0]})
		if stray.Code != 422 || !strings.Contains(string(web.Body), `"team":"audit-c"`) || len(web.Warnings) == 0 ||
			pod.Code != 422 || create.Code != 403 {
			return "the policies are not in force"
		}
		return ""
	})

	versions := func() map[string]string {
		all := map[string]string{}
		for _, path := range []string{"/api/v1/configmaps", "/apis/apps/v1/deployments", "/api/v1/namespaces",
			"/api/v1/pods", "/apis/apps/v1/replicasets"} {
			answer, err := api.Do(context.Background(), server.Call{Method: http.MethodGet, Path: path})
			if err != nil {
				t.Fatal(err)
			}
			tree, err := answer.Object()
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range tree["items"].([]any) {
				m := item.(map[string]any)["metadata"].(map[string]any)
				all[fmt.Sprint(path, m["namespace"], "/", m["name"])] = fmt.Sprint(m["resourceVersion"])
			}
		}
		return all
	}
	before := versions()
	report, _ := audit(t, 1, "--kubeconfig="+api.Kubeconfig)
	if after := versions(); !maps.Equal(before, after) {
		t.Errorf("the audit wrote something:\n%v\n%v", before, after)
	}

	type question struct{ object, ask string }
	denied := map[question]string{} // messages
	changed := map[question]bool{}
	warned := map[question]string{}
	for _, f := range report.Findings {
		object := f.Object.Kind + " " + f.Object.Namespace + "/" + f.Object.Name
		if !strings.HasPrefix(f.Object.Namespace, "audit-") {
			t.Errorf("a finding about %s, by %s", object, f.Policy)
		}
		for _, asked := range f.Asked {
			switch q := (question{object, asked}); f.Verdict {
			case "denied":
				denied[q] = f.Message
			case "changed":
				changed[q] = true
			case "warned":
				warned[q] = f.Message
			default:
				t.Errorf("%+v", f)
			}
		}
		if f.Object.ResourceVersion == "" {
			t.Errorf("%s has no resourceVersion", object)
		}
	}
	if len(denied) < 10 || len(changed) < 10 || len(warned) < 5 {
		t.Errorf("few findings: %d denied, %d changed, %d warned", len(denied), len(changed), len(warned))
	}

	compare := func(t *testing.T, q question, answer *server.Answer, stored map[string]any) {
		t.Helper()
		status := answer.Status()
		exists := status != nil &&
			answer.Code == http.StatusConflict // the copy has the same name, which is found out last
		message, deny := denied[q]
		switch {
		case status != nil && !exists && !deny:
			t.Errorf("%v: the server says %s, celgate nothing", q, status.Message)
		case deny && (status == nil || exists || !strings.Contains(status.Message, message)):
			t.Errorf("%v: celgate says %s, the server %d %s", q, message, answer.Code, answer.Body)
		}
		if text, warn := warned[q]; warn != strings.Contains(strings.Join(answer.Warnings, "\n"), "more than") ||
			warn && !strings.Contains(strings.Join(answer.Warnings, "\n"), text) {
			t.Errorf("%v: celgate warns %q, the server %q", q, text, answer.Warnings)
		}
		if status != nil {
			return
		}
		tree, err := answer.Object()
		if err != nil {
			t.Fatal(err)
		}
		labels := func(tree map[string]any) string { return fmt.Sprint(tree["metadata"].(map[string]any)["labels"]) }
		if q.ask == "update" && (labels(tree) != labels(stored)) != changed[q] {
			t.Errorf("%v: celgate says changed %v, the server %s -> %s", q, changed[q], labels(stored), labels(tree))
		}
	}
	for _, tree := range existing {
		m := tree["metadata"].(map[string]any)
		name := fmt.Sprint(m["name"])
		if strings.HasPrefix(name, "many-") && name > "many-003" {
			continue // which are alike
		}
		object := fmt.Sprint(tree["kind"], " ", m["namespace"], "/", name)
		path := pathOf(tree)
		answer, err := api.Do(t.Context(), server.Call{Method: http.MethodGet, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		stored, err := answer.Object()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, question{object, "update"}, ask(t, server.Call{Method: http.MethodPut, Path: path, Body: stored}),
			stored)
		compare(t, question{object, "create"},
			ask(t, server.Call{Method: http.MethodPost, Path: path[:strings.LastIndex(path, "/")], Body: tree}), nil)
		if tree["kind"] == "Deployment" { // the Pod of it, which no ReplicaSet controller of this server creates
			pod := podOf(fmt.Sprint(m["namespace"]), "c")
			if name == "tagged" {
				pod = podOf(fmt.Sprint(m["namespace"]), "c:1")
			}
			const controller = "system:serviceaccount:kube-system:replicaset-controller"
			compare(t, question{object, "make"}, ask(t, server.Call{
				Method: http.MethodPost, Path: "/api/v1/namespaces/" + fmt.Sprint(m["namespace"]) + "/pods", Body: pod,
				User: controller,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system",
					"system:authenticated"},
			}), nil)
		}
	}

	t.Run("what may not be listed", func(t *testing.T) {
		report, r := audit(t, 2, "--kubeconfig="+kubeconfigAs(t, "auditor"))
		var unread []string
		for _, u := range report.Summary.Unread {
			unread = append(unread, fmt.Sprint(u["what"]))
		}
		slices.Sort(unread)
		if !slices.Equal(unread, []string{"pods", "secrets"}) ||
			!strings.Contains(r.stderr, `secrets: secrets is forbidden: User "auditor" cannot list resource "secrets"`) {
			t.Errorf("%v\n%s", unread, r.stderr)
		}
		if len(report.Findings) == 0 || report.Summary.Totals.Objects < 500 {
			t.Errorf("%+v", report.Summary)
		}
	})
	t.Run("what is not audited", func(t *testing.T) {
		if !slices.ContainsFunc(report.Summary.NotAudited,
			func(n map[string]any) bool { return n["policy"] == "audit-user" && n["whole"] == true }) {
			t.Errorf("%v", report.Summary.NotAudited)
		}
		with, _ := audit(t, 1, "--kubeconfig="+api.Kubeconfig, "--as=dev", "--deletions")
		if with.Summary.Totals.Denied < 500 {
			t.Errorf("%+v", with.Summary.Totals)
		}
	})
}

func podOf(namespace, image string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"generateName": "x-", "namespace": namespace,
			"labels": map[string]any{"a": "b"}},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}},
	}
}

// TestAuditOfWhatIsDown reports resources that a policy names and that the server cannot describe now; resources that
// are never served are not reported.
func TestAuditOfWhatIsDown(t *testing.T) {
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	write(t, policies, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: down}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [down.example.com], apiVersions: [v1], resources: [things], operations: [CREATE]}]
  validations: [{expression: "object.metadata.name != 'x'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: down}
spec: {policyName: down, validationActions: [Deny]}
`)
	args := []string{"audit", "--kubeconfig=" + api.Kubeconfig, "-p", policies}
	if r := celgate(t, "", args...); r.code != 0 || r.stderr != "" ||
		!strings.Contains(r.stdout, "for want of an object that matches, policy down") {
		t.Errorf("%+v", r)
	}
	put(t, `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.down.example.com}
spec: {group: down.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 10, insecureSkipTLSVerify: true,
  service: {name: none, namespace: default}}
`)
	eventually(t, func() string {
		r := celgate(t, "", args...)
		if r.code != 2 || !strings.Contains(r.stderr, "things.down.example.com: read the resources of down.example.com/v1 from the server") {
			return fmt.Sprintf("%+v", r)
		}
		return ""
	})
}
