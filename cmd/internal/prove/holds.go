package prove

import (
	"context"
	"fmt"
	"slices"

	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// claimName is the name of the policy that represents a claim.
const claimName = "claim"

// A ClaimError reports a claim that does not compile.
type ClaimError struct{ Message string }

func (e *ClaimError) Error() string { return "the claim: " + e.Message }

// Holds proves that a claim, a CEL expression, is true of every object that a set admits when it is created or updated:
// that the set is as strict as a policy with the claim as its validation. It covers the resources that the policies
// name, or only the given ones, such as pods or deployments.apps.
func (r *Room) Holds(ctx context.Context, claim string, s *Side, resources []string) (*Result, error) {
	var policies []*policy.Policy
	for _, p := range s.programs {
		policies = append(policies, p.Policy)
	}
	var rules []any
	seen := map[*schema.Resource]bool{}
	for _, c := range casesOf(r.Types, policies) {
		name := c.Resource.Resource
		if c.Resource.Group != "" {
			name += "." + c.Resource.Group
		}
		isMeant := len(resources) == 0 || slices.Contains(resources, name) ||
			slices.Contains(resources, c.Resource.Resource)
		if c.SubResource != "" || c.Operation == "DELETE" || !isMeant || seen[c.Resource] {
			continue
		}
		seen[c.Resource] = true
		rules = append(rules, map[string]any{"apiGroups": []any{c.Resource.Group},
			"apiVersions": []any{c.Resource.Version}, "operations": []any{"CREATE", "UPDATE"}, // also those without a rule
			"resources": []any{c.Resource.Resource}})
	}
	if len(rules) == 0 {
		return nil, &ClaimError{"the rules of the policies do not match any of its resources"}
	}
	set := &policy.Set{}
	const api = "admissionregistration.k8s.io/v1"
	for _, object := range []map[string]any{
		{"apiVersion": api, "kind": string(policy.Validating), "metadata": map[string]any{"name": claimName},
			"spec": map[string]any{
				"matchConstraints": map[string]any{"resourceRules": rules, "matchPolicy": string(policy.Exact)},
				"validations":      []any{map[string]any{"expression": claim}}}},
		{"apiVersion": api, "kind": policy.Validating.Binding(), "metadata": map[string]any{"name": claimName},
			"spec": map[string]any{"policyName": claimName, "validationActions": []any{string(policy.Deny)}}},
	} {
		if err := set.Add(object, nil); err != nil {
			return nil, err
		}
	}
	old, err := r.NewSide(set, nil)
	if err != nil {
		return nil, err
	}
	for _, rejected := range old.engine.Rejections() {
		return nil, &ClaimError{fmt.Sprint(rejected.Status.Message)}
	}
	return r.Stricter(ctx, old, s)
}
