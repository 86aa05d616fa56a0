package typed

import (
	"cmp"
	"slices"
	"strings"

	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// KindsOf returns the kinds that the rules of a policy match, without duplicates, by group, version and kind.
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

// KnowsAll reports whether types contains every resource, group and kind that the rules of a policy name. Then only
// wildcards match objects of unknown kinds.
func KnowsAll(types *schema.Registry, m *policy.MatchResources) bool {
	if m == nil {
		return true
	}
	resources := types.Resources()
	known := func(rule policy.Rule) bool {
		return slices.ContainsFunc(resources, func(r *schema.Resource) bool { return CoversAny(rule, r) })
	}
	for _, rule := range m.ResourceRules {
		one := rule
		for _, name := range rule.Resources {
			if one.Resources = []string{name}; !known(one) {
				return false
			}
		}
		one = rule
		for _, name := range rule.APIGroups {
			if one.APIGroups = []string{name}; !known(one) {
				return false
			}
		}
		one = rule
		for _, name := range rule.Kinds {
			if one.Kinds = []string{name}; !known(one) {
				return false
			}
		}
	}
	return true
}

// CoversAny reports whether a rule names a resource, or a subresource of it, in any version.
func CoversAny(rule policy.Rule, r *schema.Resource) bool {
	return Covers(rule, r, "") ||
		slices.ContainsFunc(r.Subresources, func(s schema.Subresource) bool { return Covers(rule, r, s.Name) })
}

// Covers reports whether a rule names a resource or its subresource, in any version.
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
