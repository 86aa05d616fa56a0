package serve

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/celgate/celgate/conformance/server"
)

const discreet = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: discreet}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: '!("x" in object.?data.orValue({}))', message: the word is hush, reason: Forbidden}]
---
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: discreet}
spec:
  policyName: discreet
  visibility: {violations: Admin, dryRun: Always}
`

// TestVisibility denies a request with a reference for the client, and finds the text under it in the audit log; a dry
// run returns violations that are only audited.
func TestVisibility(t *testing.T) {
	startManaged(t, 1)
	inForce(t, discreet)
	ask := func(dryRun string) *server.Answer {
		query := map[string][]string{}
		if dryRun != "" {
			query["dryRun"] = []string{dryRun}
		}
		return do(t, server.Call{Method: http.MethodPost, Path: "/api/v1/namespaces/default/configmaps", Query: query,
			Body: object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: discreet-}, data: {x: z}}")})
	}
	reference := regexp.MustCompile(`denied request: reference ([0-9a-f]{12})$`)
	var answer *server.Answer
	eventually(t, 10*time.Second, func() string {
		answer = ask("")
		if status := answer.Status(); status == nil || !reference.MatchString(status.Message) || status.Code != http.StatusForbidden {
			return "no reference: " + string(answer.Body)
		}
		return ""
	})
	if strings.Contains(string(answer.Body)+strings.Join(answer.Warnings, " "), "hush") {
		t.Error("the client is told: " + string(answer.Body))
	}
	awaitAudit(t, answer, "the word is hush")
	awaitAudit(t, answer, `\"reference\":\"`+reference.FindStringSubmatch(answer.Status().Message)[1])

	told := strings.Replace(discreet, "violations: Admin, dryRun: Always}", "dryRun: Always}\n  validationActions: [Audit]", 1)
	good(t, apply(t, dialectPath+"admissionpolicybindings", documents(t, []byte(told))[1]))
	eventually(t, 10*time.Second, func() string {
		a := ask("All")
		if status := a.Status(); status != nil {
			return status.Message
		}
		if got := strings.Join(a.Warnings, "\n"); !strings.Contains(got, "with binding 'discreet': the word is hush") {
			return "warnings: " + got
		}
		return ""
	})
}
