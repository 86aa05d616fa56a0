package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/celgate/celgate/cmd/internal/playground"
)

const provable = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]}
  validations:
  - expression: object.spec.replicas LIMIT
  - expression: object.spec.replicas < 1000 || object.metadata.annotations['a'] == 'b'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny]}
`

// fallible returns a policy that a validation may fail.
func fallible(resource, operation, expression string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [` + operation + `], resources: [` + resource + `]}]}
  validations:
  - expression: "` + expression + `"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny]}
`
}

// TestProver asks each question of the page, and decides about each counterexample in the page.
func TestProver(t *testing.T) {
	t.Parallel()
	mutations, err := os.ReadFile("../../../examples/mutating-labels/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	now, before := strings.Replace(provable, "LIMIT", "<= 10", 1), strings.Replace(provable, "LIMIT", "< 10", 1)
	for _, test := range []struct {
		about, policies, claim string
		want                   []string
	}{
		{"stricter", now, "", []string{"counterexample policy.yaml denies every request that earlier.yaml denies"}},
		{"equivalent", now, "", []string{"counterexample policy.yaml denies every request that earlier.yaml denies",
			"proved earlier.yaml denies every request that policy.yaml denies"}},
		{"holds", now, "object.spec.replicas < 11", []string{
			"proved every object that policy.yaml admits satisfies object.spec.replicas < 11"}},
		{"holds", now, "object.spec.replicas < 10", []string{
			"counterexample every object that policy.yaml admits satisfies object.spec.replicas < 10"}},
		{"vacuity", strings.Replace(provable, "LIMIT", ">= 0 || true", 1), "", []string{
			"vacuous policy p: never denies a request"}},
		{"error-free", now, "", []string{
			"proved spec.validations[0] of policy p is never an error",
			"counterexample spec.validations[1] of policy p is never an error"}},
		{"error-free", fallible("pods", "DELETE", "oldObject.metadata.labels['a'] == 'b'"), "", []string{
			"counterexample spec.validations[0] of policy p is never an error"}},
		{"error-free", fallible("configmaps", "UPDATE", "request.namespace != 'kube-public' || oldObject.data.a == 'b'"), "", []string{
			"counterexample spec.validations[0] of policy p is never an error"}},
		{"error-free", fallible("configmaps", "CREATE", "!request.dryRun || object.data.a == 'b'"), "", []string{
			"counterexample spec.validations[0] of policy p is never an error"}},
		{"error-free", fallible("pods/status", "UPDATE", "object.metadata.labels['a'] == 'b'"), "", []string{
			"counterexample spec.validations[0] of policy p is never an error"}},
		{"idempotent", string(mutations), "", []string{
			"proved policy cost-center.example.com does not change its own result"}},
	} {
		t.Run(test.about, func(t *testing.T) {
			t.Parallel()
			var prover playground.Prover
			answer, err := prover.Prove(t.Context(), playground.Question{Ask: playground.Ask{Policies: test.policies},
				About: test.about, Claim: test.claim, Before: before})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range answer.Proofs {
				got = append(got, p.Answer+" "+p.Claim)
				if (p.Answer == "counterexample") != (p.Example != nil) {
					t.Errorf("%s has the example %v", p.Answer, p.Example)
				}
				if p.Example == nil {
					continue
				}
				var session playground.Session
				decided, err := session.Ask(t.Context(), playground.Ask{Policies: test.policies, Objects: p.Example.Objects,
					Old: p.Example.Old, State: p.Example.State, Operation: p.Example.Operation, User: p.Example.User,
					Groups: p.Example.Groups, DryRun: p.Example.DryRun})
				if err != nil {
					t.Fatal(err)
				}
				denies := test.about == "error-free"
				if len(decided.Problems) > 0 || len(decided.Items) != 1 || (decided.Items[0].Verdict == "denied") != denies {
					t.Errorf("the page answers about the example: %+v", decided)
				}
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s\n%+v", strings.Join(got, "\n"), strings.Join(test.want, "\n"), answer.Standing)
			}
		})
	}
}
