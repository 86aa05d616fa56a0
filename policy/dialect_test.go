package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate/policy"
)

const dialectPolicy = `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicy
metadata: {name: team}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, DELETE], resources: [deployments]}]
  variables: [{name: team, expression: "'a'"}]
  reinvocationPolicy: IfNeeded
  mutations:
  - {patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{}"}}
  validations:
  - {expression: "true", message: m}
  auditAnnotations:
  - {key: k, valueExpression: "'v'"}
`

func TestDialectPolicy(t *testing.T) {
	p := mustPolicy(t, dialectPolicy, rows{"": 1, "spec.mutations[0].applyConfiguration.expression": 7})
	if p.Kind != policy.Admission || p.APIVersion != policy.Dialect || !p.Mutates() || !p.Validates() ||
		p.FailurePolicy != policy.Fail || p.Reinvocation != policy.IfNeeded ||
		p.MatchConstraints.MatchPolicy != policy.Equivalent {
		t.Errorf("%+v", p)
	}
	if at := p.Mutations[0].Expr.Locate(0); at.Line != 7 {
		t.Errorf("the mutation is at %v", at)
	}
	if errs := policy.ValidatePolicy(p, nil); len(errs) > 0 {
		t.Error(errs)
	}
	var fields []string
	for x := range p.Expressions() {
		fields = append(fields, x.Field)
	}
	if got, want := strings.Join(fields, " "), "spec.variables[0].expression spec.validations[0].expression "+
		"spec.auditAnnotations[0].valueExpression spec.mutations[0].applyConfiguration.expression"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDialectBindingDefaults(t *testing.T) {
	_, b, err := policy.FromObject(object(t, `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
metadata: {name: team}
spec: {policyName: team}
status: {conditions: []}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b.Ref().Kind != "AdmissionPolicyBinding" || fmt.Sprint(b.Actions) != "[Deny]" ||
		b.PolicyRef() != policy.Admission.Ref("team") {
		t.Errorf("%+v", b)
	}
	if errs := policy.ValidateBinding(b); len(errs) > 0 {
		t.Error(errs)
	}
}

// TestDialectIsStrict writes one wrong thing each into a good policy or binding.
func TestDialectIsStrict(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown field": {"  mutations:\n", "  mutatons: []\n  mutations:\n", `unknown field "spec.mutatons"`},
		"unknown member": {"{expression: \"true\", message: m}", "{expression: \"true\", mesage: m}",
			`unknown field "spec.validations[0].mesage"`},
		"nothing to do": {dialectPolicy[strings.Index(dialectPolicy, "  reinvocationPolicy"):], "",
			"spec: Required value: mutations, validations or auditAnnotations must contain at least one item"},
		"no reinvocation policy": {"  reinvocationPolicy: IfNeeded\n", "", "spec.reinvocationPolicy: Required value"},
		"reinvocation of nothing": {dialectPolicy[strings.Index(dialectPolicy, "  mutations:"):strings.Index(dialectPolicy, "  validations:")], "",
			"spec.reinvocationPolicy: Forbidden"},
		"DELETE without validations": {dialectPolicy[strings.Index(dialectPolicy, "  validations:"):], "",
			`spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE"`},
		"no rules": {"[{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, DELETE], resources: [deployments]}]", "[]",
			"spec.matchConstraints.resourceRules: Required value"},
		"patch type": {"patchType: ApplyConfiguration", "patchType: Merge", `spec.mutations[0].patchType: Unsupported value: "Merge"`},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(dialectPolicy, c.old) {
				t.Fatal("the policy has no such text")
			}
			p, _, err := policy.FromObject(object(t, strings.Replace(dialectPolicy, c.old, c.new, 1)), nil)
			got := fmt.Sprint(err)
			if err == nil {
				got = policy.ValidatePolicy(p, nil).ToAggregate().Error()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestDialectDecodeError tests the version and kind of the dialect in errors about malformed objects.
func TestDialectDecodeError(t *testing.T) {
	_, _, err := policy.FromObject(object(t, `
apiVersion: policy.celgate.dev/v1alpha1
kind: AdmissionPolicyBinding
spec: {policyNames: [a], policyName: 1}
`), rows{"spec.policyNames": 4, "spec.policyName": 4}.Place)
	var undecodable *policy.DecodeError
	if !errors.As(err, &undecodable) || len(undecodable.Problems) != 2 || undecodable.Problems[0].Position.Line != 4 ||
		!strings.HasPrefix(err.Error(), `AdmissionPolicyBinding in version "v1alpha1" cannot be handled as a`) {
		t.Errorf("%v", err)
	}
}
