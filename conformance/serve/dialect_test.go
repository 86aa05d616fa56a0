package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/conformance/server"
)

const dialectPath = "/apis/policy.celgate.dev/v1alpha1/"

const team = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: team}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE, DELETE]}]
  matchConditions: [{name: ours, expression: 'request.namespace == "default"'}]
  variables: [{name: team, expression: 'object.?data.?team.orValue("")'}]
  reinvocationPolicy: Never
  mutations:
  - name: owner
    condition: variables.team != ""
    patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"owner": "team-" + variables.team}}}'}
  - name: no-root
    message: not the team of root
    reason: Forbidden
    patchType: JSONMergePatch
    jsonMergePatch: {expression: 'variables.team == "root" ? false : null'}
  validations:
  - expression: 'request.operation == "DELETE" || object.metadata.?labels.owner.orValue("") == "team-" + variables.team'
    message: say in the data who is called at night
`

const teamBinding = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: team}
spec:
  policyName: team
`

// statusOf waits until the status of an object of the dialect has all texts, and returns it.
func statusOf(t *testing.T, path string, texts ...string) string {
	t.Helper()
	status := ""
	eventually(t, 15*time.Second, func() string {
		tree, err := do(t, server.Call{Method: http.MethodGet, Path: dialectPath + path}).Object()
		if err != nil {
			t.Fatal(err)
		}
		text, _ := yaml.Marshal(tree["status"])
		status = string(text)
		for _, want := range texts {
			if !strings.Contains(status, want) {
				return fmt.Sprintf("no %q in the status of %s:\n%s", want, path, text)
			}
		}
		return ""
	})
	return status
}

// TestDialect puts a policy with mutations and validations in force: both take effect, each at its webhook, its status
// reports it, and unknown fields are refused, whatever field validation the client requests.
func TestDialect(t *testing.T) {
	r := startManaged(t, 1)
	inForce(t, team)
	statusOf(t, "admissionpolicies/team", "reason: Unbound")
	inForce(t, teamBinding)
	awaitDenial(t, "AdmissionPolicy 'team' with binding 'team' denied request: say in the data who is called at night",
		func() *server.Answer { return configMap(t, nil) })
	eventually(t, 10*time.Second, func() string {
		a := configMap(t, map[string]any{"team": "a"})
		if status := a.Status(); status != nil {
			return status.Message
		}
		if got := label(t, a, "owner"); got != "team-a" {
			return fmt.Sprintf("label %v", got)
		}
		return ""
	})
	status := configMap(t, map[string]any{"team": "root"}).Status()
	if status == nil || status.Code != http.StatusForbidden || !strings.Contains(status.Message, "not the team of root") {
		t.Errorf("a mutation that denies: %+v", status)
	}
	statusOf(t, "admissionpolicies/team", "observedGeneration: 1", "in force on 1 of 1 replicas", "order: 1")
	statusOf(t, "admissionpolicybindings/team", "in force on 1 of 1 replicas")

	config := do(t, server.Call{Method: http.MethodGet, Path: webhookPath + "mutatingwebhookconfigurations/celgate"})
	if text := string(config.Body); strings.Contains(text, "DELETE") {
		t.Error("mutations are asked for on DELETE: " + text)
	}
	metrics := r.gates[0].metrics(t)
	for _, want := range []string{
		`celgate_admission_policy_mutations_total{mutation="owner",policy="team",policy_binding="team",result="changed"}`,
		`celgate_admission_policy_mutations_total{mutation="owner",policy="team",policy_binding="team",result="skipped"}`,
		`celgate_admission_policy_mutations_total{mutation="no-root",policy="team",policy_binding="team",result="denied"}`,
		`celgate_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",phase="validation",policy="team",policy_binding="team"}`,
		`celgate_admission_policy_check_total{enforcement_action="allow",error_type="no_error",phase="mutation",policy="team",policy_binding="team"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric %s", want)
		}
	}
}

// TestDialectStrict writes objects with unknown fields, with every way to turn off the field validation of the API
// server.
func TestDialectStrict(t *testing.T) {
	startManaged(t, 1)
	for _, c := range []struct{ name, text, old, new, message string }{
		{"in the spec", team, "  reinvocationPolicy", "  nonsense: 1\n  reinvocationPolicy", `unknown field "spec.nonsense"`},
		{"at the top", team, "spec:\n", "validation: []\nspec:\n", `unknown field "validation"`},
		{"in a mutation", team, "    condition:", "    conditoin: x\n    condition:", `unknown field "spec.mutations[0].conditoin"`},
		{"in a rule", team, "apiGroups:", "resourceName: [a], apiGroups:",
			`unknown field "spec.matchConstraints.resourceRules[0].resourceName"`},
		{"in a binding", teamBinding, "policyName", "actions: [Warn]\n  policyName", `unknown field "spec.actions"`},
		{"in what weakens rules", teamBinding, "policyName", "enforcement: {onErrors: [Warn]}\n  policyName",
			`unknown field "spec.enforcement.onErrors"`},
		{"in what excludes", team, "matchConstraints:", "matchConstraints:\n    excludedNamespaces: [default]",
			`unknown field "spec.matchConstraints.excludedNamespaces"`},
		{"an expression", team, "variables.team != ", "variables.tema != ", "undefined field 'tema'"},
		{"a name", team, "name: owner", "name: OWNER", "spec.mutations[0].name"},
	} {
		for _, validation := range []string{"Ignore", "Warn", "Strict"} {
			tree := object(t, strings.Replace(c.text, c.old, c.new, 1))
			path := dialectPath + resources[tree["kind"].(string)]
			status := do(t, server.Call{Method: http.MethodPost, Path: path, Body: tree,
				Query: map[string][]string{"fieldValidation": {validation}}}).Status()
			if status == nil {
				remove(t, path+"/team")
				t.Errorf("%s, %s: taken", c.name, validation)
			} else if !strings.Contains(status.Message, c.message) {
				t.Errorf("%s, %s: %s\nnot %s", c.name, validation, status.Message, c.message)
			}
		}
	}
	inForce(t, team+"---"+teamBinding) // an update is looked at, too
	const denial = "say in the data who is called at night"
	awaitDenial(t, denial, func() *server.Answer { return configMap(t, nil) })
	status := do(t, server.Call{Method: http.MethodPatch, Path: dialectPath + "admissionpolicies/team",
		ContentType: "application/merge-patch+json", Query: map[string][]string{"fieldValidation": {"Ignore"}},
		Body: map[string]any{"spec": map[string]any{"mutationValidationPolicies": "Skip"}}}).Status()
	if status == nil || !strings.Contains(status.Message, `unknown field "spec.mutationValidationPolicies"`) {
		t.Errorf("an update: %+v", status)
	}
	status = do(t, server.Call{Method: http.MethodPatch, Path: dialectPath + "admissionpolicybindings/team",
		ContentType: "application/merge-patch+json", Query: map[string][]string{"fieldValidation": {"Ignore"}},
		Body: map[string]any{"spec": map[string]any{"validationAction": []any{"Audit"}, "validationActions": nil}}}).Status()
	if status == nil || !strings.Contains(status.Message, `unknown field "spec.validationAction"`) {
		t.Errorf("an update of the binding: %+v", status)
	}
	awaitDenial(t, denial, func() *server.Answer { return configMap(t, nil) }) // nothing was loosened
}

// TestDialectUnjudged stores, without calls to celgate, an object that celgate would have refused: it is not in force,
// and its status gives the reason. Another policy is in force.
func TestDialectUnjudged(t *testing.T) {
	installDefinitions(t)
	inForce(t, strings.Replace(team, "  reinvocationPolicy", "  nonsense: 1\n  reinvocationPolicy", 1)+"---"+teamBinding)
	inForce(t, strings.NewReplacer("metadata: {name: team}", "metadata: {name: other}", "policyName: team", "policyName: other",
		"at night", "at noon").Replace(team+"---"+teamBinding))
	startManaged(t, 1)
	awaitDenial(t, "say in the data who is called at noon", func() *server.Answer { return configMap(t, nil) })
	statusOf(t, "admissionpolicies/team", `unknown field "spec.nonsense"`, "reason: Invalid")
	statusOf(t, "admissionpolicybindings/team", "AdmissionPolicy team is not in force")
	statusOf(t, "admissionpolicies/other", "in force on 1 of 1 replicas")
}

// TestDialectTells binds a policy without the action Apply: the client is warned, the audit log contains the possible
// changes, and the object does not change.
func TestDialectTells(t *testing.T) {
	r := startManaged(t, 1)
	inForce(t, team+"---"+teamBinding+"  mutationActions: [Warn, Audit]\n  validationActions: [Audit]\n")
	var answer *server.Answer
	eventually(t, 10*time.Second, func() string {
		answer = configMap(t, map[string]any{"team": "a"})
		if status := answer.Status(); status != nil {
			return status.Message
		}
		const want = "AdmissionPolicy 'team' with binding 'team' would change metadata.labels"
		if got := strings.Join(answer.Warnings, "\n"); !strings.Contains(got, want) {
			return "warnings: " + got
		}
		return ""
	})
	if got := label(t, answer, "owner"); got != nil {
		t.Errorf("label %v", got)
	}
	awaitAudit(t, answer, `"fail.policies.celgate.dev/would_mutate":"[{\"policy\":\"team\",\"binding\":\"team\",\"paths\":[\"metadata.labels\"]}]"`)
	if status := configMap(t, map[string]any{"team": "root"}).Status(); status != nil {
		t.Error("a mutation that is only told denies: " + status.Message)
	}
	if metrics := r.gates[0].metrics(t); !strings.Contains(metrics,
		`celgate_admission_policy_mutations_total{mutation="owner",policy="team",policy_binding="team",result="would_change"}`) {
		t.Error("no metric of what would change")
	}
}

// TestDialectTogether binds policies of both failurePolicies at once: they are in force together or not at all.
func TestDialectTogether(t *testing.T) {
	startManaged(t, 1)
	rule := func(name, failure, message string) string {
		return fmt.Sprintf(`
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: %s}
spec:
  failurePolicy: %s
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  validations: [{expression: '!("%s" in object.?data.orValue({}))', message: "%s"}]
`, name, failure, name, message)
	}
	inForce(t, rule("a", "Fail", "not a"))
	inForce(t, `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: both}
spec: {policies: [{name: a}, {name: b}]}
`)
	statusOf(t, "admissionpolicybindings/both", "reason: Partial", "spec.policies[1]")
	if status := configMap(t, map[string]any{"a": "x"}).Status(); status != nil {
		t.Error("a half of a binding is in force: " + status.Message)
	}
	inForce(t, rule("b", "Ignore", "not b"))
	for _, name := range []string{"a", "b"} {
		awaitDenial(t, "denied request: not "+name, func() *server.Answer { return configMap(t, map[string]any{name: "x"}) })
	}
	statusOf(t, "admissionpolicybindings/both", "in force on 1 of 1 replicas")
}

// TestDialectFight has two policies that set one field to two values and run again after the other one: the status of
// both reports it until one of them changes.
func TestDialectFight(t *testing.T) {
	startManaged(t, 1)
	sets := func(name, value string) string { return settingPolicy(name, "Fail", value) }
	inForce(t, sets("a", "1")+"---"+sets("b", "2")+bothBound)
	statusOf(t, "admissionpolicies/a", "in force on 1 of 1 replicas", "reason: NoFightSeen")
	const warning = `AdmissionPolicy a does not converge: it conflicts with AdmissionPolicy b over data.x: "1", "2", "1", "2", "1"`
	eventually(t, 10*time.Second, func() string {
		a := configMap(t, map[string]any{"k": "v"})
		if got := strings.Join(a.Warnings, "\n"); !strings.Contains(got, warning) {
			return "warnings: " + got
		}
		return ""
	})
	statusOf(t, "admissionpolicies/a", "conflicts with AdmissionPolicy b over data.x", "type: Converges", "reason: Fights")
	statusOf(t, "admissionpolicies/b", "conflicts with AdmissionPolicy a over data.x")
	good(t, apply(t, dialectPath+"admissionpolicies", object(t, sets("b", "1"))))
	statusOf(t, "admissionpolicies/a", "reason: NoFightSeen")
	statusOf(t, "admissionpolicies/b", "reason: NoFightSeen", "observedGeneration: 2")
}

// settingPolicy is a policy that sets the same field of all ConfigMaps, and runs again where it has changed.
func settingPolicy(name, failurePolicy, value string) string {
	return fmt.Sprintf(`
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: %s}
spec:
  failurePolicy: %s
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}]
  reinvocationPolicy: IfNeeded
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{data: {"x": "%s"}}'}
`, name, failurePolicy, value)
}

const bothBound = `---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: both}
spec: {policies: [{name: a}, {name: b}]}
`

// TestDialectFightOfWebhooks has two policies with different failurePolicies that set one field to two values. Each of
// the two webhooks sees only its own policy: the later one decides, requests do not get warnings, and the status of
// neither policy reports the conflict. The final check finds it: mutationValidationPolicy names the field.
func TestDialectFightOfWebhooks(t *testing.T) {
	startManaged(t, 1)
	inForce(t, settingPolicy("a", "Fail", "1")+"---"+settingPolicy("b", "Ignore", "2")+bothBound)
	statusOf(t, "admissionpolicies/a", "in force on 1 of 1 replicas", "reason: NoFightSeen")
	statusOf(t, "admissionpolicies/b", "in force on 1 of 1 replicas", "reason: NoFightSeen")
	var set any
	eventually(t, 10*time.Second, func() string {
		a := configMap(t, map[string]any{"k": "v"})
		if len(a.Warnings) > 0 {
			t.Errorf("warnings: %q", a.Warnings)
		}
		made, err := a.Object()
		if err != nil {
			t.Fatal(err)
		}
		set = made["data"].(map[string]any)["x"]
		if set == nil {
			return "nothing is set yet"
		}
		return ""
	})
	if set != "2" {
		t.Errorf("x is %v", set)
	}
	statusOf(t, "admissionpolicies/a", "reason: NoFightSeen")
	checked := strings.Replace(settingPolicy("a", "Fail", "1"), "  mutations:", "  mutationValidationPolicy: Fail\n  mutations:", 1)
	good(t, apply(t, dialectPath+"admissionpolicies", object(t, checked)))
	awaitDenial(t, `no longer holds: made again, it changes data.x from "2" to "1"`,
		func() *server.Answer { return configMap(t, map[string]any{"k": "v"}) })
}
