package typed

import (
	"cmp"
	"slices"
	"strings"

	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// KindsOf returns the kinds that the rules of a policy match, each once, by group, version and kind.
func KindsOf(types *schema.Registry, m *policy.MatchResources) []Kind {
	if m == nil {
		return nil
	}
	var all []Kind
	for _, r := range types.Resources() {
		if r.NotServed {
			continue
		}
		for sub := -1; sub < len(r.Subresources); sub++ {
			name, kind := "", r.GroupVersionKind()
			if sub >= 0 {
				name, kind = r.Subresources[sub].Name, r.Subresources[sub].Kind
			}
			matched := slices.ContainsFunc(m.ResourceRules, func(rule policy.Rule) bool {
				return Covers(rule, r, name) && (!r.OffByDefault || slices.Contains(rule.APIVersions, r.Version))
			})
			if matched && !slices.ContainsFunc(all, func(k Kind) bool { return k.GroupVersionKind == kind }) {
				all = append(all, Kind{kind, types.Type(kind)})
			}
		}
	}
	slices.SortFunc(all, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}

// Covers reports that a rule names a resource or its subresource, in some version.
func Covers(rule policy.Rule, r *schema.Resource, subresource string) bool {
	has := func(list []string, s string) bool { return slices.Contains(list, "*") || slices.Contains(list, s) }
	if !has(rule.APIGroups, r.Group) || !has(rule.APIVersions, r.Version) {
		return false
	}
	if rule.Scope == "Cluster" && r.Namespaced || rule.Scope == "Namespaced" && !r.Namespaced {
		return false
	}
	if len(rule.Kinds) > 0 && (subresource != "" || !slices.Contains(rule.Kinds, r.Kind)) {
		return false
	}
	for _, pattern := range rule.Resources {
		resource, sub, _ := strings.Cut(pattern, "/")
		if (resource == "*" || resource == r.Resource) && (sub == "*" || sub == subresource) {
			return true
		}
	}
	return false
}
