package celgate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate"
)

// clientView returns the parts of an answer that the client sees: the status with its causes, and the warnings.
func clientView(d *celgate.Decision) string {
	var parts []string
	if d.Status != nil {
		parts = append(parts, fmt.Sprint(d.Status.Code, " ", d.Status.Reason, " ", d.Status.Message))
		for _, c := range d.Status.Details.Causes {
			parts = append(parts, c.Field+" "+c.Message)
		}
	}
	return strings.Join(append(parts, d.WarningTexts()...), "\n")
}

// TestVisibility decides about a secret text with bindings that show it and that hide it, with and without a dry run.
func TestVisibility(t *testing.T) {
	const (
		rule = `  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations:
  - {expression: 'object.metadata.name != "x"', messageExpression: '"the word " + "hush"', reason: Forbidden}
  - {scope: 'metadata.labels[key]', expression: 'scope != "b"', messageExpression: '"hush " + scope'}
`
		denies = `  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  reinvocationPolicy: Never
  mutations: [{message: hush, patchType: JSONPatch, jsonPatch: {expression: 'false'}}]
`
	)
	for name, c := range map[string]struct {
		policy, binding  string
		dryRun           bool
		client, reported bool // the client sees the text, and any message at all
		audited          bool
	}{
		"the default":            {rule, "", false, true, true, false},
		"Client":                 {rule, "  visibility: {violations: Client}", false, true, true, false},
		"Admin":                  {rule, "  visibility: {violations: Admin}", false, false, true, true},
		"Admin, warned":          {rule, "  visibility: {violations: Admin}\n  validationActions: [Warn]", false, false, true, true},
		"Admin, audited":         {rule, "  visibility: {violations: Admin}\n  validationActions: [Audit]", false, false, false, true},
		"audited":                {rule, "  validationActions: [Audit]", false, false, false, true},
		"audited, a dry run":     {rule, "  validationActions: [Audit]", true, false, false, true},
		"Always":                 {rule, "  visibility: {dryRun: Always}\n  validationActions: [Audit]", true, true, true, true},
		"Always, for real":       {rule, "  visibility: {dryRun: Always}\n  validationActions: [Audit]", false, false, false, true},
		"Always, Admin":          {rule, "  visibility: {dryRun: Always, violations: Admin}\n  validationActions: [Audit]", true, false, true, true},
		"a mutation":             {denies, "", false, true, true, false},
		"a mutation, Admin":      {denies, "  visibility: {violations: Admin}", false, false, true, true},
		"a mutation, only told":  {denies, "  visibility: {dryRun: Always}\n  mutationActions: [Audit]", true, true, true, false},
		"a mutation, told Admin": {denies, "  visibility: {violations: Admin}\n  mutationActions: [Warn]", false, false, true, false},
	} {
		engine := limitedEngine(t, "apiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicy\nmetadata: {name: v}\nspec:\n"+c.policy+
			"---\napiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicyBinding\nmetadata: {name: v}\nspec:\n  policyName: v\n"+c.binding+"\n")
		for _, r := range engine.Rejections() {
			t.Fatal(name, r.Status.Message)
		}
		prepared, err := engine.RequestFor(t.Context(), map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "x", "namespace": "default", "labels": map[string]any{"a": "b"}}}, celgate.As{DryRun: c.dryRun})
		if err != nil {
			t.Fatal(err)
		}
		d, err := engine.Admit(t.Context(), prepared)
		if err != nil {
			t.Fatal(err)
		}
		text := clientView(d)
		audit := d.AuditAnnotations["validation.policy.admission.k8s.io/validation_failure"]
		if strings.Contains(text, "hush") != c.client || (text != "") != c.reported || strings.Contains(audit, "hush") != c.audited {
			t.Errorf("%s: the client sees %q, the audit log has %q", name, text, audit)
		}
		if len(d.Violations) > 0 && (d.Violations[0].Reference != "") != strings.Contains(c.binding, "Admin") {
			t.Errorf("%s: reference %q", name, d.Violations[0].Reference)
		}
		if strings.Contains(c.binding, "Admin") && !d.Allowed {
			reference := d.Violations[0].Reference
			if !strings.Contains(text, "denied request: reference "+reference) || !strings.Contains(audit, reference) ||
				strings.Contains(text, "metadata.labels") {
				t.Errorf("%s: the client sees %q, the audit log has %q", name, text, audit)
			}
			if c.policy == rule && (d.Status.Code != 403 || d.Status.Reason != "Forbidden") {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
	for visibility, want := range map[string]string{"{violations: Nobody}": `spec.visibility.violations: Unsupported value: "Nobody"`,
		"{dryRun: Never}": `spec.visibility.dryRun: Unsupported value: "Never": supported values: "Always"`} {
		rejected := limitedEngine(t, "apiVersion: policy.celgate.dev/v1alpha1\nkind: AdmissionPolicyBinding\nmetadata: {name: v}\nspec: {policyName: v, visibility: "+visibility+"}\n").Rejections()
		if len(rejected) != 1 || !strings.Contains(rejected[0].Status.Message, want) {
			t.Error(visibility, rejected)
		}
	}
}
