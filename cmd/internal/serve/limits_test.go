package serve

import (
	"crypto/tls"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/celgate/celgate/policy"
)

const twoChecks = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: ["*"]}]
  validations: [{expression: "[1, 2, 3].all(i, i > 0)"}, {expression: object.metadata.name != "bad"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
`

// TestLimits keeps a directory with a policy beyond the limits out of force, refuses requests beyond their cost, and
// counts costs.
func TestLimits(t *testing.T) {
	t.Parallel()
	first := strings.ReplaceAll(twoChecks, "NAME", "a-first")
	r := run(t, map[string]string{"a.yaml": first}, func(o *Options) {
		o.Sizes, o.RequestCost = policy.Limits{Validations: 2, Bindings: 1}, 1
	})
	address := r.log.await(t, `listening address=(\S+)`)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func() string {
		response, err := client.Post("https://"+address+"/validate", "application/json", strings.NewReader(
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"default","name":"c",`+
				`"kind":{"version":"v1","kind":"ConfigMap"},"resource":{"version":"v1","resource":"configmaps"},"object":{"metadata":{"name":"c"}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := ask(); !strings.Contains(got, `"allowed":true`) {
		t.Errorf("the first policy may cost more than all of a request: %s", got)
	}
	_, text := r.get(t, "/metrics")
	for _, line := range []string{
		`celgate_webhook_request_cost_units_count{phase="validate"} 1`,
		`celgate_policy_costliest_units{kind="ValidatingAdmissionPolicy",policy="a-first"} `,
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no %s", line)
		}
	}

	third := strings.Replace(strings.ReplaceAll(twoChecks, "NAME", "c-third"), "validations: [", "validations: [{expression: 'true'}, ", 1)
	write(t, filepath.Join(r.dir, "c.yaml"), third)
	r.log.await(t, `cannot use the policies, the last set stays in force.*c.yaml:\d+:\d+: .*spec.validations: Too many: 3: must have at most 2 items`)
	write(t, filepath.Join(r.dir, "c.yaml"), strings.ReplaceAll(twoChecks, "NAME", "c-third")+
		"---\n"+strings.ReplaceAll(strings.Split(first, "---\n")[1], "{name: a-first}", "{name: other}"))
	r.log.await(t, `cannot use the policies, the last set stays in force.*spec.policyName: Too many: 2: ValidatingAdmissionPolicy a-first may have at most 1 bindings`)

	write(t, filepath.Join(r.dir, "c.yaml"), strings.ReplaceAll(twoChecks, "NAME", "c-third"))
	r.await(t, "the second policy is not evaluated", func() bool {
		got := ask()
		return strings.Contains(got, `"allowed":false`) && strings.Contains(got, "'c-third'") &&
			strings.Contains(got, "the limit of a request is 1")
	})
	_, text = r.get(t, "/metrics")
	if want := `celgate_validating_admission_policy_check_total{enforcement_action="deny",error_type="out_of_budget",policy="c-third",policy_binding="c-third"}`; !strings.Contains(text, want) {
		t.Errorf("no %s", want)
	}
}
