package celgate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/policy"
)

// TestErrorTypes decides with policies whose expressions fail and tests the types of the errors.
func TestErrorTypes(t *testing.T) {
	validating := func(spec string) string {
		return strings.ReplaceAll(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
`+spec+`
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny]`, "\t", "  ")
	}
	plain := "}\n"
	loop := "[1,2,3,4,5,6,7,8,9,10]"
	deep := loop
	for range 6 {
		deep = loop + ".map(x, " + deep + ")"
	}
	isKey := func(key string) func(error) bool {
		return func(err error) bool {
			var missing *celgate.NoSuchKeyError
			return errors.As(err, &missing) && missing.Key == key && strings.HasSuffix(err.Error(), "no such key: "+key)
		}
	}
	isBudget := func(err error) bool { return errors.Is(err, celgate.ErrBudget) }
	for _, c := range []struct {
		name, policies string
		is             func(error) bool
	}{
		{"key", validating("  validations: [{expression: object.metadata.labels.team == 'a'}]") + plain,
			isKey("labels")},
		{"key in a variable", validating("  variables: [{name: v, expression: object.metadata.labels}]\n"+
			"  validations: [{expression: variables.v == null}]") + plain,
			isKey("labels")},
		{"key in a condition", validating("  matchConditions: [{name: c, expression: object.metadata.labels.team == 'a'}]\n"+
			"  validations: [{expression: 'true'}]") + plain,
			isKey("labels")},
		{"expression", validating("  validations: [{expression: int(object.metadata.name) == 1}]") + plain,
			func(err error) bool {
				var failed *celgate.ExpressionError
				return errors.As(err, &failed) && failed.Expr == "int(object.metadata.name) == 1" && failed.Err != nil
			}},
		{"authorizer", validating("  validations: [{expression: 'true'}]\n"+
			"  auditAnnotations: [{key: k, valueExpression: \"string(authorizer.path('/x').check('get').allowed())\"}]") + plain,
			func(err error) bool {
				var unbound *eval.UnboundError
				return errors.As(err, &unbound) && unbound.Name == "authorizer"
			}},
		{"budget", validating("  validations: [{expression: \""+deep+".size() == 10\"}]") + plain, isBudget},
		{"no params", validating("  paramKind: {apiVersion: v1, kind: ConfigMap}\n  validations: [{expression: 'true'}]") +
			", paramRef: {name: x, namespace: default, parameterNotFoundAction: Deny}}\n",
			func(err error) bool { return errors.Is(err, celgate.ErrNoParams) }},
		{"no kind of params", validating("  paramKind: {apiVersion: example.com/v1, kind: Odd}\n  validations: [{expression: 'true'}]") +
			", paramRef: {name: x, namespace: default, parameterNotFoundAction: Deny}}\n", func(err error) bool {
			return errors.Is(err, celgate.ErrNoParamKind) && strings.HasSuffix(err.Error(), "Kind=Odd'")
		}},
		{"patch", strings.ReplaceAll(replicaLimit, `Object{metadata: Object.metadata{labels: {"team": "shop"}}}`,
			`Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"a": "b"}}}}`),
			func(err error) bool {
				var failed *celgate.PatchError
				return errors.As(err, &failed) && failed.Type == policy.ApplyConfiguration &&
					err.Error() == "error applying patch: "+failed.Err.Error()
			}},
	} {
		set, err := load(c.policies)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		engine := celgate.Must(celgate.New(set, celgate.Options{}))
		for _, r := range engine.Rejections() {
			t.Errorf("%s: %s", c.name, r.Status.Message)
		}
		d := celgate.Must(engine.Admit(t.Context(),
			celgate.Must(engine.RequestFor(t.Context(), deployment(1), celgate.As{}))))
		if d.Allowed || len(d.Violations) != 1 {
			t.Errorf("%s: %+v", c.name, d.Violations)
			continue
		}
		if v := d.Violations[0]; !v.IsError || v.Err == nil || v.Err.Error() != v.Message || !c.is(v.Err) {
			t.Errorf("%s: %v (%T)", c.name, v.Err, v.Err)
		}
		for _, o := range d.Outcomes {
			if (o.Verdict == celgate.Error) != (o.Err != nil) || o.Err != nil && o.Err.Error() != o.Message {
				t.Errorf("%s: an outcome %s with the error %v and the message %q", c.name, o.Verdict, o.Err, o.Message)
			}
		}
	}
}
