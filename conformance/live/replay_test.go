package live

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate/conformance/server"
)

const replayPolicies = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replay-configmaps}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {replay: "yes"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE, DELETE]}]
  validations:
  - expression: "request.operation == 'DELETE' || !has(object.data) || !('bad' in object.data)"
    messageExpression: "'bad data in ' + object.metadata.name"
  - expression: "request.operation != 'UPDATE' || object.?data.?n.orValue('0') != '9' || oldObject.?data.?n.orValue('0') == '9'"
    message: n may not become 9
  - expression: "request.operation != 'DELETE' || !('keep' in oldObject.metadata.?labels.orValue({})) || request.userInfo.username == 'admin'"
    messageExpression: "request.userInfo.username + ' may not delete what is kept'"
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replay-configmaps}
spec: {policyName: replay-configmaps, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replay-scale}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {replay: "yes"}}
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments, deployments/scale], operations: [CREATE, UPDATE]}]
  validations:
  - expression: object.spec.replicas <= 5
    message: at most 5
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replay-scale}
spec: {policyName: replay-scale, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: replay-owner}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {replay: "yes"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"by": request.userInfo.username}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: replay-owner}
spec: {policyName: replay-owner}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: celgate-replay}
rules:
- {apiGroups: ["", apps], resources: [configmaps, deployments, deployments/scale], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: celgate-replay}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: celgate-replay}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: replayer}]
`

// TestReplay records the audit log of a mixed load while policies are in force, and replays it with celgate: every
// repeatable request gets the same answer, with the server's message.
func TestReplay(t *testing.T) {
	keep(t, "{apiVersion: v1, kind: Namespace, metadata: {name: replay, labels: {replay: 'yes'}}}")
	put(t, replayPolicies)
	const maps, deployments = "/api/v1/namespaces/replay/configmaps", "/apis/apps/v1/namespaces/replay/deployments"
	do := func(call server.Call) *server.Answer {
		t.Helper()
		answer, err := api.Do(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	configMap := func(name string, data map[string]any, labels map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": name, "labels": labels}, "data": data}
	}
	eventually(t, func() string {
		dry := map[string][]string{"dryRun": {"All"}}
		bad := do(server.Call{Method: http.MethodPost, Path: maps, Query: dry,
			Body: configMap("x", map[string]any{"bad": "x"}, nil), User: "replayer"})
		good := do(server.Call{Method: http.MethodPost, Path: maps, Query: dry, Body: configMap("x", nil, nil),
			User: "replayer"})
		many := do(server.Call{Method: http.MethodPost, Path: deployments, Query: dry,
			Body: objects(t, deployment("replay", "x", 9))[0]})
		if bad.Code != 422 || !strings.Contains(string(good.Body), `"by":"replayer"`) || many.Code != 422 {
			return "the policies are not in force"
		}
		return ""
	})
	begin, err := os.Stat(api.AuditLog)
	if err != nil {
		t.Fatal(err)
	}

	answers := map[string]string{} // the messages of denials, and "" for allowed requests, by audit ID
	random := rand.New(rand.NewPCG(1, 2))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	for n := range 2000 {
		name := fmt.Sprintf("c-%02d", random.IntN(40))
		data := map[string]any{one("a", "b", "n", "bad"): one("1", "2", "9", "9")}
		labels := map[string]any{one("keep", "team", "x"): "y"}
		call := server.Call{User: one("", "replayer")}
		if random.IntN(5) == 0 {
			call.Query = map[string][]string{"dryRun": {"All"}}
		}
		merge := func(content string, body any) {
			call.Method, call.Path, call.ContentType, call.Body = http.MethodPatch, maps+"/"+name, content, body
		}
		switch random.IntN(11) {
		case 0, 1, 2:
			call.Method, call.Path, call.Body = http.MethodPost, maps, configMap(name, data, labels)
		case 3, 4:
			call.Method, call.Path, call.Body = http.MethodPut, maps+"/"+name, configMap(name, data, labels)
		case 5:
			merge("application/merge-patch+json", map[string]any{"data": data})
		case 6:
			merge("application/strategic-merge-patch+json",
				map[string]any{"data": data, "metadata": map[string]any{"labels": labels}})
		case 7:
			merge("application/json-patch+json", []any{map[string]any{"op": "add", "path": "/data", "value": data}})
		case 8:
			apply := server.Apply(maps+"/"+name, configMap(name, data, labels))
			for key, values := range call.Query {
				apply.Query[key] = values
			}
			apply.User = call.User
			call = apply
		case 9:
			call.Method, call.Path = http.MethodDelete, maps+"/"+name
		case 10:
			name := fmt.Sprintf("d-%d", random.IntN(5))
			replicas := random.IntN(8)
			call.Method, call.Path, call.Body = http.MethodPost, deployments,
				objects(t, deployment("replay", name, replicas))[0]
			switch random.IntN(3) {
			case 0:
				call.Method, call.Path = http.MethodPut, deployments+"/"+name
			case 1:
				call.Method, call.Path = http.MethodPut, deployments+"/"+name+"/scale"
				call.Body = map[string]any{
					"apiVersion": "autoscaling/v1", "kind": "Scale",
					"metadata": map[string]any{"name": name, "namespace": "replay"},
					"spec":     map[string]any{"replicas": replicas},
				}
			}
		}
		answer := do(call)
		switch status := answer.Status(); {
		case status == nil:
			answers[answer.AuditID] = ""
		case strings.Contains(status.Message, "AdmissionPolicy '"):
			answers[answer.AuditID] = status.Message
		}
		if n == 1999 && len(answers) < 1200 {
			t.Fatalf("only %d requests reached the policies", len(answers))
		}
	}

	log, err := os.ReadFile(api.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	write(t, path, string(log[begin.Size():]))
	given := filepath.Join(t.TempDir(), "policies.yaml")
	write(t, given, replayPolicies)
	state := filepath.Join(t.TempDir(), "state.yaml")
	write(t, state, "{apiVersion: v1, kind: Namespace, metadata: {name: replay, labels: {replay: 'yes'}}}\n")
	for name, args := range map[string][]string{"live": {"--kubeconfig=" + api.Kubeconfig}, "state": {"-c", state}} {
		t.Run(name, func(t *testing.T) {
			r := celgate(t, "", append([]string{"audit", "-o", "json", "-p", given, "--audit-log", path}, args...)...)
			var report struct {
				Findings []struct {
					Verdict, Message string
					Object           struct{ Kind, Name string }
					Past             struct{ AuditID, Was string }
				}
				Summary struct {
					Totals struct{ Objects, Denied, NewlyDenied, NewlyAllowed, Agreed, Failed int }
					Left   map[string]int
				}
			}
			if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || r.code != 1 || r.stderr != "" {
				t.Fatalf("%v: %d %s", err, r.code, r.stderr)
			}
			totals := report.Summary.Totals
			left := 0
			for _, n := range report.Summary.Left {
				left += n
			}
			t.Logf("%+v, left out %v; %d were answered", totals, report.Summary.Left, len(answers))
			if totals.NewlyDenied+totals.NewlyAllowed+totals.Failed > 0 || totals.Agreed < len(answers)*4/5 {
				t.Errorf("%+v, left out %v", totals, report.Summary.Left)
			}
			for _, f := range report.Findings {
				if f.Verdict == "changed" {
					continue
				}
				message, known := answers[f.Past.AuditID]
				if !known || f.Verdict != "denied" || !strings.Contains(message, f.Message) {
					t.Errorf("%+v\nserver %q", f, message)
				}
			}

			denied := map[string]bool{}
			for _, f := range report.Findings {
				if f.Verdict == "denied" {
					denied[f.Past.AuditID] = true
				}
			}
			r = celgate(t, "", append([]string{"diff", "none", given, "-o", "json", "--audit-log", path}, args...)...)
			if n := strings.Count(r.stdout, `        "newly denied"`); r.code != 1 || n != len(denied) {
				t.Errorf("diff has %d requests that are newly denied, audit %d: %d %s", n, len(denied), r.code, r.stderr)
			}
		})
	}
}
