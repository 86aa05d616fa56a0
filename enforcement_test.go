package celgate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
)

// decideEnforced returns the effect of a policy for ConfigMaps and its bindings on a ConfigMap.
func decideEnforced(t *testing.T, spec string, bindings ...string) *celgate.Decision {
	t.Helper()
	text, _, _ := strings.Cut(dialectPolicy("p", spec), "---")
	for i, b := range bindings {
		text += fmt.Sprintf("---\napiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicyBinding\n"+
			"metadata: {name: b%d}\nspec: {policyName: p%s}\n", i, b)
	}
	return admit(t, text, "{a: b}")
}

// does returns the actions of a decision for each failure, as "first: Deny Audit".
func does(d *celgate.Decision) string {
	var all []string
	for _, v := range d.Violations {
		var actions []string
		for _, a := range v.Actions {
			actions = append(actions, string(a))
		}
		all = append(all, v.Validation+": "+strings.Join(actions, " "))
	}
	return strings.Join(all, ", ")
}

const refused, broken = `"no" == object.data.a`, `object.data.z == "b"`

func TestEnforcement(t *testing.T) {
	for name, c := range map[string]struct{ rule, binding, want string }{
		"plain":                      {"expression: " + quoteYAML(refused), "", "x: Deny"},
		"named":                      {"expression: " + quoteYAML(refused), ", enforcement: {validations: {x: [Warn, Audit]}}", "x: Warn Audit"},
		"at most":                    {"maxEnforcement: Warn, expression: " + quoteYAML(refused), ", validationActions: [Deny, Audit]", "x: Warn Audit"},
		"at most, once":              {"maxEnforcement: Audit, expression: " + quoteYAML(refused), ", validationActions: [Deny, Audit]", "x: Audit"},
		"at most is never stronger":  {"maxEnforcement: Deny, expression: " + quoteYAML(refused), ", validationActions: [Audit]", "x: Audit"},
		"named and at most":          {"maxEnforcement: Audit, expression: " + quoteYAML(refused), ", enforcement: {validations: {x: [Warn]}}", "x: Audit"},
		"level of the binding":       {"level: 2, expression: " + quoteYAML(refused), ", enforcement: {level: 2}", "x: Deny"},
		"level above the binding":    {"level: 3, expression: " + quoteYAML(refused), ", enforcement: {level: 2}", ""},
		"level without one":          {"level: 9, expression: " + quoteYAML(refused), "", "x: Deny"},
		"error":                      {"expression: " + quoteYAML(broken), "", "x: Deny"},
		"error, ignored":             {"failurePolicy: Ignore, expression: " + quoteYAML(broken), "", ""},
		"error, of a named one":      {"expression: " + quoteYAML(broken), ", enforcement: {validations: {x: [Audit]}}", "x: Audit"},
		"onError":                    {"expression: " + quoteYAML(broken), ", enforcement: {onError: [Warn]}", "x: Warn"},
		"onError and at most":        {"maxEnforcement: Audit, expression: " + quoteYAML(broken), ", enforcement: {onError: [Warn]}", "x: Audit"},
		"onError is not for denials": {"expression: " + quoteYAML(refused), ", enforcement: {onError: [Warn]}", "x: Deny"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decideEnforced(t, "  validations:\n  - {name: x, "+c.rule+"}\n", c.binding)
			if got := does(d); got != c.want {
				t.Errorf("%q not %q", got, c.want)
			}
			denies := slices.Contains(strings.Fields(c.want), "Deny")
			if d.Allowed == denies || denies != (d.Status != nil) {
				t.Error(describeDecision(d))
			}
		})
	}
}

func quoteYAML(expression string) string { return "'" + expression + "'" }

func TestErrorsOfPolicyInEnforcement(t *testing.T) {
	rule := "  validations: [{name: x, expression: 'true'}]\n"
	for name, c := range map[string]struct{ spec, want string }{
		"match condition":    {"  matchConditions: [{name: m, expression: '" + broken + "'}]\n" + rule, ": Warn"},
		"audit annotation":   {rule + "  auditAnnotations: [{key: k, valueExpression: 'string(object.data.z)'}]\n", ": Warn"},
		"no such param kind": {"  paramKind: {apiVersion: example.com/v1, kind: None}\n" + rule, ": Deny"},
	} {
		d := decideEnforced(t, c.spec, ", enforcement: {onError: [Warn]}")
		if got := does(d); got != c.want {
			t.Errorf("%s: %q not %q", name, got, c.want)
		}
	}
	d := decideEnforced(t, "  paramKind: {apiVersion: v1, kind: ConfigMap}\n"+rule,
		", paramRef: {name: none, parameterNotFoundAction: Deny}, enforcement: {onError: [Audit]}")
	if got := does(d); got != ": Audit" || !d.Allowed || d.AuditAnnotations["validation.policy.admission.k8s.io/validation_failure"] == "" {
		t.Errorf("a param that is missing: %q", got)
	}
}

func TestCodes(t *testing.T) {
	for rule, want := range map[string]string{
		"code: 409":                           "409 Invalid",
		"reason: Unauthorized":                "401 Unauthorized",
		"reason: Forbidden, code: 403":        "403 Forbidden",
		"reason: Invalid, code: 400":          "400 Invalid",
		"reason: RequestEntityTooLarge":       "413 RequestEntityTooLarge",
		"reason: Unauthorized, message: text": "401 Unauthorized",
	} {
		d := decideEnforced(t, "  validations: [{"+rule+", expression: '"+refused+"'}]\n", "")
		if got := describeDecision(d); !strings.HasPrefix(got, want+": ") {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

// TestGuard keeps everything that comes after a guard that fails out of all outputs.
func TestGuard(t *testing.T) {
	const secret = "s3cr3t"
	rest := `
  - {name: open, expression: '"no" == object.data.a', messageExpression: '"` + secret + `"'}
  - {name: second, guard: true, expression: 'false', message: ` + secret + `}
  auditAnnotations: [{key: k, valueExpression: '"` + secret + `"'}]
`
	for name, c := range map[string]struct{ guard, want string }{
		"holds":  {`"true"`, "second: Warn Audit"},
		"fails":  {`"1 > 2"`, "first: Warn Audit"},
		"errors": {`'` + broken + `'`, "first: Warn Audit"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decideEnforced(t, "  validations:\n  - {name: first, guard: true, expression: "+c.guard+", message: m}"+rest,
				", validationActions: [Warn, Audit]")
			if got := does(d); got != c.want {
				t.Fatalf("%q not %q", got, c.want)
			}
			told := fmt.Sprint(d.WarningTexts(), d.AuditAnnotations, d.Outcomes, d.Violations)
			if hidden := !strings.Contains(told, secret); hidden != (name != "holds") {
				t.Error(told)
			}
			if len(d.Outcomes) != 3 || d.Outcomes[2].Verdict != celgate.Skip || d.Outcomes[2].Validation() != "open" {
				t.Errorf("%+v", d.Outcomes)
			}
		})
	}
}

// TestCombineAny admits a request that satisfies one of its matching bindings.
func TestCombineAny(t *testing.T) {
	const rules = "  combine: Any\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n" +
		"  validations: [{name: x, expression: 'params == null || params.data.want == object.data.a'}]\n"
	const none = ", paramRef: {name: none, parameterNotFoundAction: "
	elsewhere := ", matchResources: {objectSelector: {matchLabels: {a: b}}}"
	for name, c := range map[string]struct {
		bindings []string
		allowed  bool
	}{
		"one satisfied":             {[]string{none + "Deny}", ""}, true},
		"one satisfied, first":      {[]string{"", none + "Deny}"}, true},
		"none":                      {[]string{none + "Deny}", none + "Deny}"}, false},
		"one that has no say":       {[]string{none + "Deny}", elsewhere}, false},
		"one that does nothing":     {[]string{none + "Deny}", none + "Allow}"}, false},
		"nothing but what may":      {[]string{none + "Allow}"}, true},
		"the only one is elsewhere": {[]string{elsewhere}, true},
	} {
		if d := decideEnforced(t, rules, c.bindings...); d.Allowed != c.allowed || d.Allowed && len(d.Violations) > 0 {
			t.Errorf("%s: %v %+v", name, d.Allowed, d.Violations)
		}
	}
	all := strings.Replace(rules, "Any", "All", 1)
	if d := decideEnforced(t, all, "", none+"Deny}"); d.Allowed {
		t.Error("all bindings count")
	}
	broken := "  combine: Any\n  failurePolicy: Ignore\n  validations: [{expression: '" + broken + "'}, {expression: 'false'}]\n"
	if d := decideEnforced(t, broken, "", ""); d.Allowed {
		t.Error("an error that is ignored satisfies nothing")
	}
}

// TestRefinementRefusals refuses rules and bindings that contradict themselves, with their fields.
func TestRefinementRefusals(t *testing.T) {
	for rule, want := range map[string]string{
		"{name: A b, expression: 'true'}":                                "validations[0].name: Invalid value",
		"{name: a, expression: 'true'}, {name: a, expression: '1 == 1'}": "validations[1].name: Duplicate value",
		"{code: 403, expression: 'true'}":                                "validations[0].code: Invalid value: 403: the reason Forbidden belongs to 403, and only to that",
		"{code: 400, reason: Forbidden, expression: 'true'}":             "validations[0].code: Invalid value: 400: the reason Forbidden belongs to 403, and only to that",
		"{code: 500, expression: 'true'}":                                "validations[0].code: Invalid value: 500: must be between 400 and 499",
		"{code: 0, expression: 'true'}":                                  "validations[0].code: Invalid value: 0: must be between 400 and 499",
		"{level: 10, expression: 'true'}":                                "validations[0].level: Invalid value: 10: must be between 1 and 9",
		"{level: 0, expression: 'true'}":                                 "validations[0].level: Invalid value: 0: must be between 1 and 9",
		"{maxEnforcement: Never, expression: 'true'}":                    `validations[0].maxEnforcement: Unsupported value: "Never"`,
		"{failurePolicy: Never, expression: 'true'}":                     `validations[0].failurePolicy: Unsupported value: "Never"`,
		"{reason: NotFound, expression: 'true'}":                         `validations[0].reason: Unsupported value: "NotFound"`,
	} {
		engine := engineOf(t, dialectPolicy("p", "  validations: ["+rule+"]"))
		if r := engine.Rejections(); len(r) == 0 || !strings.Contains(r[0].Status.Message, want) {
			t.Errorf("%s: %+v", rule, r)
		}
	}
	for enforcement, want := range map[string]string{
		"{level: 0}":                  "enforcement.level: Invalid value: 0: must be between 1 and 9",
		"{onError: []}":               "enforcement.onError: Required value",
		"{onError: [Deny]}":           `enforcement.onError: Invalid value: ["Deny"]: Deny is stronger than the strongest of validationActions, Warn`,
		"{validations: {x: [Deny]}}":  `enforcement.validations[x]: Invalid value: ["Deny"]: Deny is stronger than the strongest of validationActions, Warn`,
		"{validations: {x: [Apply]}}": `enforcement.validations[x][0]: Unsupported value: "Apply"`,
		"{validations: {z: [Audit]}}": `enforcement.validations[z]: Not found: "z"`,
	} {
		text := strings.Replace(dialectPolicy("p", "  validations: [{name: x, expression: 'true'}]"), "{policyName: p}",
			"{policyName: p, validationActions: [Warn], enforcement: "+enforcement+"}", 1)
		if r := engineOf(t, text).Rejections(); len(r) == 0 || !strings.Contains(r[0].Status.Message, want) {
			t.Errorf("%s: %+v", enforcement, r[0].Status)
		}
	}
}

// TestStoredEnforcement keeps a stored binding in force that names a removed validation of its policy.
func TestStoredEnforcement(t *testing.T) {
	text := strings.Replace(dialectPolicy("p", "  validations: [{name: x, expression: 'false'}]"), "{policyName: p}",
		"{policyName: p, enforcement: {validations: {z: [Audit]}}}", 1)
	set := setOf(t, text)
	set.MarkStored()
	engine, err := celgate.New(set, celgate.Options{})
	if err != nil || len(engine.Rejections()) > 0 {
		t.Fatal(err, engine.Rejections())
	}
}
