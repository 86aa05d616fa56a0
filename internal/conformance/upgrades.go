package conformance

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// An Upgrade is a policy whose answer about an object depends on the minor of the API server.
type Upgrade struct {
	Name       string
	Object     map[string]any // with the name and the label that the policy selects
	APIVersion string         // of the policy
	Variables  []any
	Expression string // of a ValidatingAdmissionPolicy
	Mutation   string // of a MutatingAdmissionPolicy, in place of Expression

	// Answers has the first minor of each answer: "allowed", "denied", "changed" or "refused", which is about the
	// policy.
	Answers map[string]string
}

//go:embed upgrades.yaml
var upgrades []byte

// Upgrades reads the policies that upgrades of the API server affect.
func Upgrades() ([]*Upgrade, error) {
	var all []*Upgrade
	if err := yaml.UnmarshalStrict(upgrades, &all); err != nil {
		return nil, fmt.Errorf("upgrades.yaml: %w", err)
	}
	for _, u := range all {
		if (u.Expression == "") == (u.Mutation == "") || len(u.Answers) == 0 {
			return nil, fmt.Errorf("upgrades.yaml: %s needs answers and either an expression or a mutation", u.Name)
		}
		if u.Object == nil {
			u.Object = map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
		}
		if u.APIVersion == "" {
			u.APIVersion = "admissionregistration.k8s.io/v1"
		}
		u.Object["metadata"] = map[string]any{"name": u.Name, "labels": map[string]any{"row": u.Name}}
	}
	return all, nil
}

// AnswerOf is the answer that a minor gives.
func (u *Upgrade) AnswerOf(minor string) string {
	given := ""
	for _, first := range slices.SortedFunc(maps.Keys(u.Answers), func(a, b string) int { return -newestFirst(a, b) }) {
		if version.MustParseGeneric(minor).AtLeast(version.MustParseGeneric(first)) {
			given = u.Answers[first]
		}
	}
	return given
}

// PolicyName is the name of the policy and of its binding.
func (u *Upgrade) PolicyName() string { return u.Name + ".example.com" }

// Policy returns the policy and its binding.
func (u *Upgrade) Policy() (policy, binding map[string]any) {
	of := ResourceOf(u.Object)
	kind, metadata := "ValidatingAdmissionPolicy", map[string]any{"name": u.PolicyName()}
	spec := map[string]any{
		"matchConstraints": map[string]any{
			"objectSelector": map[string]any{"matchLabels": map[string]any{"row": u.Name}},
			"resourceRules": []any{map[string]any{
				"apiGroups": []any{of.Group}, "apiVersions": []any{of.Version}, "operations": []any{"CREATE"},
				"resources": []any{of.Resource},
			}},
		},
	}
	if u.Variables != nil {
		spec["variables"] = u.Variables
	}
	bound := map[string]any{"policyName": u.PolicyName()}
	if u.Mutation != "" {
		kind = "MutatingAdmissionPolicy"
		spec["reinvocationPolicy"] = "Never"
		spec["mutations"] = []any{map[string]any{
			"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": u.Mutation},
		}}
	} else {
		spec["validations"] = []any{map[string]any{"expression": u.Expression}}
		bound["validationActions"] = []any{"Deny"}
	}
	policy = map[string]any{"apiVersion": u.APIVersion, "kind": kind, "metadata": metadata, "spec": spec}
	binding = map[string]any{"apiVersion": u.APIVersion, "kind": kind + "Binding", "metadata": metadata, "spec": bound}
	return policy, binding
}

// ResourceOf returns the resource of an object, named after its kind.
func ResourceOf(object map[string]any) schema.GroupVersionResource {
	kind := schema.FromAPIVersionAndKind(object["apiVersion"].(string), object["kind"].(string))
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource
}

// An UpgradeReport is what celgate diff -o json says about two minors.
type UpgradeReport struct {
	Requests                 int
	OldRejected, NewRejected []rejection
	Items                    []struct {
		Request  struct{ Name string }
		Old, New *struct {
			Response struct{ Allowed bool }
			Mutated  bool
		}
		Causes []struct{ Quirk string }
	}
}

type rejection struct{ Object struct{ Kind, Name string } }

// Check compares the report with the answers of both minors. It returns "" if they agree.
func (r *UpgradeReport) Check(u *Upgrade, want [2]string) string {
	refused := func(of []rejection) bool {
		return slices.ContainsFunc(of, func(one rejection) bool { return one.Object.Name == u.PolicyName() })
	}
	answer := func(refused bool, allowed, mutated bool) string {
		switch {
		case refused:
			return "refused"
		case !allowed:
			return "denied"
		case mutated:
			return "changed"
		}
		return "allowed"
	}
	for _, item := range r.Items {
		if item.Request.Name != u.Name {
			continue
		}
		if item.Old == nil || item.New == nil {
			return u.Name + ": one side has no answer"
		}
		got := [2]string{
			answer(refused(r.OldRejected), item.Old.Response.Allowed, item.Old.Mutated),
			answer(refused(r.NewRejected), item.New.Response.Allowed, item.New.Mutated),
		}
		if got != want {
			return fmt.Sprintf("%s: reported as %v, not %v", u.Name, got, want)
		}
		return ""
	}
	got := [2]bool{refused(r.OldRejected), refused(r.NewRejected)}
	switch {
	case got != [2]bool{want[0] == "refused", want[1] == "refused"}:
		return fmt.Sprintf("%s: refused %v, not %v", u.Name, got, want)
	case want[0] != want[1] && !slices.Contains(want[:], "refused"), want[0] == "refused" && want[1] == "denied",
		want[0] == "denied" && want[1] == "refused", slices.Contains(want[:], "changed") && want[0] != want[1]:
		return fmt.Sprintf("%s: %v is not reported", u.Name, want)
	}
	return ""
}
