package quirks

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestRefusals(t *testing.T) {
	spec := field.NewPath("spec")
	actions := field.Required(spec.Child("validationActions"), "")
	name := field.Invalid(spec.Child("variables").Index(0).Child("name"), "a-b", "must be a valid CEL identifier")
	message := field.Invalid(spec.Child("validations").Index(1).Child("message"), "a\nb", "must not contain line breaks")
	output := field.Invalid(spec.Child("matchConditions").Index(0).Child("expression"), "1",
		"must evaluate to bool but got int")
	rule := field.Required(spec.Child("matchResources", "resourceRules").Index(0).Child("operations"), "")
	long := field.Invalid(field.NewPath("metadata", "labels"), "a", "must be no more than 63 bytes")
	for _, c := range []struct {
		minor string
		err   *field.Error
		want  string
	}{
		{"1.35", long, "metadata.labels: Invalid value: \"a\": must be no more than 63 bytes"},
		{"1.34", long, "metadata.labels: Invalid value: \"a\": must be no more than 63 characters"},
		{"1.37", actions, "spec.validationActions: Required value"},
		{"1.36", actions, "spec.validationActions: Required value: at least one validation action is required"},
		{"1.34", name, `spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier`},
		{"1.33", name, `spec.variables[0].name: Invalid value: "a-b": name is not a valid CEL identifier`},
		{"1.34", message, `spec.validations[1].message: Invalid value: "a\nb": must not contain line breaks`},
		{"1.33", message, `spec.validations[1].message: Invalid value: "a\nb": message must not contain line breaks`},
		{"1.32", output, `spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int`},
		{"1.31", output, `spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool`},
		{"1.32", rule, "spec.matchResources.resourceRules[0].operations: Required value"},
		{"1.31", rule, "spec.matchResouces.resourceRules[0].operations: Required value"},
	} {
		if got := PolicyRefusals(c.minor, field.ErrorList{c.err})[0].Error(); got != c.want {
			t.Errorf("%s: %s, not %s", c.minor, got, c.want)
		}
	}
}

// Before 1.34, a StatefulSet may have a template of which no Pod can be made, if its Pods always run.
func TestRefusalsOfStatefulSets(t *testing.T) {
	path := field.NewPath("spec", "template", "spec")
	errs := field.ErrorList{
		field.Required(path.Child("containers"), ""),
		field.NotSupported(path.Child("restartPolicy"), "Sometimes", []string{"Always", "Never", "OnFailure"}),
		field.NotSupported(path.Child("initContainers").Index(0).Child("restartPolicy"), "Never", []string{"Always"}),
		field.NotSupported(path.Child("restartPolicy"), "Sometimes", []string{"Always"}),
		field.Forbidden(path.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in StatefulSet is not Supported"),
		field.Invalid(field.NewPath("spec", "serviceName"), "A", "a label"),
		field.Invalid(field.NewPath("spec", "template", "labels"), "é", "a label"),
		field.Required(field.NewPath("spec", "volumeClaimTemplates").Index(0).Child("spec", "accessModes"), ""),
	}
	for _, c := range []struct {
		minor, kind string
		want        []int
	}{
		{"1.32", "StatefulSet", []int{3, 4, 6}},
		{"1.33", "StatefulSet", []int{3, 4, 5, 6}},
		{"1.34", "StatefulSet", []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"1.30", "Deployment", []int{0, 1, 2, 3, 4, 5, 6, 7}},
	} {
		var want []string
		for _, i := range c.want {
			want = append(want, errs[i].Field)
		}
		var got []string
		for _, e := range Refusals(c.minor, c.kind, errs) {
			got = append(got, e.Field)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s in %s: %q, not %q", c.kind, c.minor, got, want)
		}
	}
}

// Rules of Pods that are newer than the oldest minor.
func TestRefusalsOfPods(t *testing.T) {
	spec := field.NewPath("spec", "template", "spec")
	term := spec.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
		"nodeSelectorTerms").Index(0).Child("matchExpressions").Index(0)
	value := field.Invalid(term.Child("values").Index(0), "a/b", "a valid label")
	key := field.Invalid(term.Child("key"), "a b", "name part")
	policies := spec.Child("initContainers").Index(0).Child("resizePolicy")
	policy := field.Invalid(policies.Index(0).Child("restartPolicy"), "RestartContainer",
		"must not be set to 'RestartContainer' for non-sidecar initContainers")
	name := field.NotSupported(policies, "disk", []string{"cpu", "memory"})
	devices := field.Forbidden(spec.Child("containers").Index(0).Child("volumeDevices"), "when `hostUsers` is false")
	for _, c := range []struct {
		minor string
		want  field.ErrorList
	}{
		{"1.32", field.ErrorList{key, name}},
		{"1.33", field.ErrorList{value, key, name}},
		{"1.35", field.ErrorList{value, key, name, devices}},
		{"1.36", field.ErrorList{value, key, policy, name, devices}},
	} {
		got := Refusals(c.minor, "Deployment", field.ErrorList{value, key, policy, name, devices})
		if got.ToAggregate().Error() != c.want.ToAggregate().Error() {
			t.Errorf("%s: %v, not %v", c.minor, got, c.want)
		}
	}
}

// Values and paths of built-in kinds, as kube-apiserver 1.33 writes them.
func TestRefusalsInGo(t *testing.T) {
	template := field.NewPath("spec", "template", "metadata", "labels")
	for _, c := range []struct {
		err  *field.Error
		want string
	}{
		{field.Invalid(template, map[string]any{"app": "web"}, "no match"),
			`spec.template.metadata.labels: Invalid value: map[string]string{"app":"web"}: no match`},
		{field.Invalid(template, nil, "no match"),
			`spec.template.metadata.labels: Invalid value: map[string]string(nil): no match`},
		{field.Invalid(field.NewPath("spec", "selector"), &metav1.LabelSelector{}, "empty"),
			`spec.selector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string(nil), ` +
				`MatchExpressions:[]v1.LabelSelectorRequirement(nil)}: empty`},
		{field.Invalid(field.NewPath("spec", "scopes"), []any{"A"}, "unsupported scope"),
			`spec.scopes: Invalid value: []core.ResourceQuotaScope{"A"}: unsupported scope`},
		{field.Invalid(field.NewPath("rules").Index(0).Child("nonResourceURLs"), []any{"/a"}, "no"),
			`rules[0].nonResourceURLs: Invalid value: []string{"/a"}: no`},
		{field.Invalid(field.NewPath("spec", "maxUnavailable"), "150%", "must not be greater than 100%"),
			`spec.maxUnavailable: Invalid value: intstr.IntOrString{Type:1, IntVal:0, StrVal:"150%"}: ` +
				`must not be greater than 100%`},
		{field.Invalid(field.NewPath("spec", "hard").Key("a"), "a", "must be a standard resource for quota"),
			`spec.hard[a]: Invalid value: a: must be a standard resource for quota`},
		{field.Required(field.NewPath("rules").Index(0).Child("verbs"), ""),
			"rules[0].verbs: Required value: verbs must contain at least one value"},
		{field.Required(field.NewPath("spec", "parameters", "name"), ""),
			"spec.parameters.name: Required value: name is required"},
		{field.NotSupported(field.NewPath("scheduling", "tolerations").Index(0).Child("effect"), "A", []string{"B"}),
			`scheduling.tolerations.tolerations[0].effect: Unsupported value: "A": supported values: "B"`},
	} {
		if got := Refusals("1.33", "Deployment", field.ErrorList{c.err})[0].Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if got := Refusals("1.37", "Deployment", field.ErrorList{c.err})[0].Error(); got != c.err.Error() {
			t.Errorf("in 1.37: %s", got)
		}
	}
}
