package celgate_test

import (
	"strings"
	"testing"
)

// TestLost has a policy whose mutations are looked at again once those of other policies are made.
func TestLost(t *testing.T) {
	const owner = `
  mutationValidationPolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - name: owner
    patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: {"owner": "a"}}}'}
`
	undo := mutates("undo", `Object{metadata: Object.metadata{labels: {"owner": "b"}}}`, "order: {after: [p]}")
	remove := mutates("undo", `Object{metadata: Object.metadata{labels: {"owner": objects.unset()}}}`, "order: {after: [p]}")
	const lost = `AdmissionPolicy 'p' with binding 'p' denied request: mutation owner no longer holds: made again, it changes metadata.labels.owner from "b" to "a"; AdmissionPolicy undo has changed it`
	for name, c := range map[string]struct{ spec, others, want string }{
		"it holds": {owner, mutates("other", `Object{metadata: Object.metadata{labels: {"other": "b"}}}`, ""), ""},
		"undone":   {owner, undo, lost},
		"taken away": {owner, remove,
			`made again, it changes metadata.labels from nothing to {"owner":"a"}; AdmissionPolicy undo has changed it`},
		"a warning":     {strings.Replace(owner, ": Fail", ": Warn", 1), undo, strings.Replace("Validation failed for "+lost, " denied request", "", 1)},
		"nothing":       {strings.Replace(owner, ": Fail", ": Skip", 1), undo, ""},
		"exactly":       {owner + "    validation: Exact\n", undo, lost},
		"overwritable":  {owner + "    validation: Overwritable\n", undo, ""},
		"an expression": {owner + "    validation: {expression: '\"owner\" in object.metadata.labels'}\n", undo, ""},
		"an expression that is false": {owner + "    validation: {expression: 'has(object.metadata.labels)'}\n", remove,
			"mutation owner no longer holds: failed expression: has(object.metadata.labels)"},
		"an expression that fails": {owner + "    validation: {expression: 'object.metadata.labels.x == \"\"'}\n", undo,
			"mutation owner cannot be checked: "},
		"an expression that fails, and is ignored": {strings.Replace(owner, "reinvocation", "failurePolicy: Ignore\n  reinvocation", 1) +
			"    validation: {expression: 'object.metadata.labels.x == \"\"'}\n", undo, ""},
		"a condition that is true of what is made": {strings.Replace(owner, "name: owner", "name: owner\n    condition: has(object.data.k)", 1), undo, lost},
		"a condition that is false":                {strings.Replace(owner, "name: owner", "name: owner\n    condition: '!has(object.data.k)'", 1), undo, ""},
		"not idempotent": {owner[:strings.Index(owner, "    patchType")] +
			"    patchType: JSONPatch\n    jsonPatch: {expression: '[JSONPatch{op: \"replace\", path: \"/data/k\", value: object.data.k + \"!\"}]'}", "", `made again, it changes data.k from "v!" to "v!!"`},
		"a verdict": {strings.Replace(owner, "expression: 'Object", "expression: 'object.metadata.?labels.owner.orValue(\"\") == \"b\" ? false : Object", 1), undo,
			"mutation owner denies the object: failed expression: "},
	} {
		t.Run(name, func(t *testing.T) {
			d := admit(t, dialectPolicy("p", c.spec)+c.others, "{k: v}")
			got := strings.Join(d.WarningTexts(), "\n")
			if d.Status != nil {
				got += d.Status.Message
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if denied := d.Status != nil; denied == d.Allowed || denied && d.Status.Code != 422 {
				t.Errorf("allowed %v, status %v", d.Allowed, d.Status)
			}
		})
	}
	told := strings.Replace(dialectPolicy("p", owner), "policyName: p}", "policyName: p, mutationActions: [Audit]}", 1)
	if d := admit(t, told+undo, "{k: v}"); !d.Allowed || len(d.Violations) > 0 {
		t.Errorf("what is only told is checked: %v", d.Violations)
	}
}

// TestLostRefused writes policies without a condition to check, or with one that cannot be checked.
func TestLostRefused(t *testing.T) {
	const never = "  reinvocationPolicy: Never\n"
	const mutation = "  mutations:\n  - patchType: ApplyConfiguration\n" +
		"    applyConfiguration: {expression: 'Object{data: {\"x\": \"y\"}}'}\n"
	const guarded = "    condition: '!has(object.data.x)'\n"
	const vacuous = "reads data.x, which the mutation writes; write the condition as {expression: …}"
	for name, c := range map[string]struct{ spec, want string }{
		"a released policy": {never + mutation, ""},
		"a word":            {never + "  mutationValidationPolicy: Deny\n" + mutation, `spec.mutationValidationPolicy: Unsupported value: "Deny": supported values: "Fail", "Skip", "Warn"`},
		"no mutations":      {"  mutationValidationPolicy: Fail\n  validations: [{expression: 'true'}]\n", "spec.mutationValidationPolicy: Forbidden: the policy has no mutations"},
		"no policy":         {never + mutation + "    validation: Exact\n", "spec.mutationValidationPolicy: Required value: mutations[0].validation has no effect without it"},
		"another word":      {never + "  mutationValidationPolicy: Fail\n" + mutation + "    validation: exact\n", `spec.mutations[0].validation: Invalid value: "exact": must be Exact, Overwritable or {expression: …}`},
		"a number":          {never + "  mutationValidationPolicy: Fail\n" + mutation + "    validation: 1\n", "must be Exact, Overwritable or {expression: …}"},
		"another member":    {never + "  mutationValidationPolicy: Fail\n" + mutation + "    validation: {expression: 'true', message: x}\n", "spec.mutations[0].validation.message: Forbidden: unknown field"},
		"no expression":     {never + "  mutationValidationPolicy: Fail\n" + mutation + "    validation: {}\n", "spec.mutations[0].validation.expression: Required value"},
		"no text":           {never + "  mutationValidationPolicy: Fail\n" + mutation + "    validation: {expression: true}\n", "spec.mutations[0].validation.expression: Invalid value: true: must be a string"},
		"no bool":           {never + "  mutationValidationPolicy: Fail\n" + mutation + "    validation: {expression: '1'}\n", "must evaluate to bool"},
		"no such variable":  {never + "  mutationValidationPolicy: Fail\n" + mutation + "    validation: {expression: 'variables.x'}\n", "undefined field 'x'"},
		"a condition that reads what is written": {never + "  mutationValidationPolicy: Fail\n" + mutation + guarded,
			"spec.mutations[0].validation: Invalid value: \"Exact\": Exact does not apply: spec.mutations[0].condition " + vacuous},
		"a match condition that does": {never + "  mutationValidationPolicy: Warn\n  matchConditions: [{name: c, expression: 'object.?data.?x.orValue(\"\") == \"\"'}]\n" + mutation,
			"Exact does not apply: spec.matchConditions[0].expression " + vacuous},
		"such a variable": {never + "  mutationValidationPolicy: Fail\n  variables: [{name: x, expression: 'has(object.data.x)'}]\n" + mutation +
			"    condition: '!variables.x'\n", "spec.mutations[0].condition " + vacuous},
		"with Skip":          {never + "  mutationValidationPolicy: Skip\n" + mutation + guarded + "    validation: Exact\n", ""},
		"with an expression": {never + "  mutationValidationPolicy: Fail\n" + mutation + guarded + "    validation: {expression: has(object.data.x)}\n", ""},
		"overwritable":       {never + "  mutationValidationPolicy: Fail\n" + mutation + guarded + "    validation: Overwritable\n", ""},
		"a neighbour":        {never + "  mutationValidationPolicy: Fail\n" + mutation + "    condition: 'has(object.data) && has(object.data.z)'\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, r := range engineOf(t, dialectPolicy("p", c.spec)).Rejections() {
				got += r.Status.Message
			}
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
