package celgate_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

const singletonRules = "  singletonPolicy: true\n  validations: [{expression: '" + refused + "', message: m}]\n"

// singleton is a policy for ConfigMaps without a binding.
func singleton(spec string) string {
	text, _, _ := strings.Cut(dialectPolicy("p", spec), "---")
	return text
}

func TestSingleton(t *testing.T) {
	for spec, want := range map[string]string{
		singletonRules: "422 Invalid: configmaps \"cm\" is forbidden: AdmissionPolicy 'p' with binding 'p' denied request: m",
		singletonRules + "  validationActions: [Warn, Audit]\n": "map[a:b]",
		"  singletonPolicy: true\n  reinvocationPolicy: Never\n  mutations: [{patchType: JSONMergePatch, jsonMergePatch: {expression: '{\"data\": {\"c\": \"d\"}}'}}]\n":                            "map[a:b c:d]",
		"  singletonPolicy: true\n  mutationActions: [Warn]\n  reinvocationPolicy: Never\n  mutations: [{patchType: JSONMergePatch, jsonMergePatch: {expression: '{\"data\": {\"c\": \"d\"}}'}}]\n": "map[a:b]",
	} {
		if got := describeDecision(admit(t, singleton(spec), "{a: b}")); got != want {
			t.Errorf("%s%s\nnot\n%s", spec, got, want)
		}
	}
}

func TestSingletonRefused(t *testing.T) {
	for spec, want := range map[string]string{
		singletonRules + "  paramKind: {apiVersion: v1, kind: ConfigMap}\n":    "spec.paramKind: Forbidden: a singleton policy takes no params",
		singletonRules + "  combine: Any\n":                                    "spec.combine: Forbidden: a singleton policy has no bindings",
		singletonRules + "  validationActions: [Deny, Warn]\n":                 "spec.validationActions: Invalid value",
		singletonRules + "  validationActions: []\n":                           "spec.validationActions: Required value",
		singletonRules + "  mutationActions: [Deny]\n":                         `spec.mutationActions[0]: Unsupported value: "Deny"`,
		"  validations: [{expression: 'true'}]\n  validationActions: [Deny]\n": "spec.validationActions: Forbidden: a policy has actions only with singletonPolicy: true",
		"  singletonPolicy: true\n  validations: [{expression: 'params.x'}]\n": "undeclared reference to 'params'",
	} {
		r := engineOf(t, singleton(spec)).Rejections()
		if len(r) != 1 || !strings.Contains(r[0].Status.Message, want) {
			t.Errorf("%s%+v", spec, r)
		}
	}
}

// TestSingletonBound refuses a binding of a singleton policy, stored or not, and keeps the policy in force.
func TestSingletonBound(t *testing.T) {
	for _, stored := range []bool{false, true} {
		set := setOf(t, dialectPolicy("p", singletonRules))
		if stored {
			set.MarkStored()
		}
		engine, err := celgate.New(set, celgate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := engine.Rejections()
		if len(r) != 1 || r[0].Kind != policy.Admission.Binding() ||
			!strings.Contains(r[0].Status.Message, `spec.policyName: Invalid value: "p": is a singleton policy`) {
			t.Errorf("%+v", r)
		}
		if _, err := engine.Branches(); err != nil {
			t.Error(err)
		}
	}
}

func TestSingletonUpdate(t *testing.T) {
	with := setOf(t, singleton(singletonRules)).Policies[0]
	without := setOf(t, singleton("  validations: [{expression: 'true'}]\n")).Policies[0]
	for _, c := range []struct{ p, old *policy.Policy }{{with, without}, {without, with}} {
		if errs := policy.ValidatePolicyUpdate(c.p, c.old, nil); !strings.Contains(errs.ToAggregate().Error(), "singletonPolicy: Invalid value") {
			t.Error(errs)
		}
	}
	if errs := policy.ValidatePolicyUpdate(with, with, nil); len(errs) > 0 {
		t.Error(errs)
	}
}
