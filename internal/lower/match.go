package lower

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// nameLabel is the label of a Namespace that holds its name.
const nameLabel = "kubernetes.io/metadata.name"

// conditionPrefix is the prefix of the names of match conditions that replace fields.
const conditionPrefix = policy.OwnGroup + "/"

// A matching lowers match resources of the dialect.
type matching struct {
	*policy.MatchResources
	path       string // of the match resources
	types      *schema.Registry
	conditions []any    // match conditions in place of fields
	from       []string // the fields that they replace
	refusals   []Refusal
}

func (l *matching) refuse(field, reason string) {
	l.refusals = append(l.refusals, Refusal{l.path + "." + field, reason})
}

// condition adds a match condition that replaces a field.
func (l *matching) condition(field, expression string) {
	l.conditions = append(l.conditions, map[string]any{"name": conditionPrefix + field, "expression": expression})
	l.from = append(l.from, field)
}

// resources returns the native form of match resources, except for refused parts.
func (l *matching) resources(in any) any {
	members, _ := in.(map[string]any)
	if l.MatchResources == nil || members == nil {
		return in
	}
	out := without(members, "namespaces", "excludeNamespaces", "subjects", "excludeSubjects", "permissions",
		"excludePermissions")
	for field, rules := range map[string][]policy.Rule{"resourceRules": l.ResourceRules,
		"excludeResourceRules": l.ExcludeRules} {
		if slices.ContainsFunc(rules, func(r policy.Rule) bool { return len(r.Kinds) > 0 }) {
			out[field] = l.kinds(field, rules, members[field])
		}
	}
	l.namespaces(out)
	l.subjects("subjects", l.Subjects, "")
	l.subjects("excludeSubjects", l.ExcludeSubjects, "!")
	l.permissions("permissions", l.Permissions, "")
	l.permissions("excludePermissions", l.ExcludePermissions, "!")
	return out
}

// namespaces turns names of namespaces into a selector by their label, and patterns into a match condition. A selector
// also matches cluster-scoped objects, so that namespaces also needs a scope.
func (l *matching) namespaces(out map[string]any) {
	if len(l.Namespaces) > 0 {
		l.confineToNamespaced(out)
		if slices.ContainsFunc(l.Namespaces, policy.IsPattern) {
			l.condition("namespaces", "request.namespace.matches("+quote(policy.PatternExpr(l.Namespaces))+")")
		} else {
			selectNames(out, "In", l.Namespaces)
		}
	}
	if len(l.ExcludeNamespaces) > 0 {
		if slices.ContainsFunc(l.ExcludeNamespaces, policy.IsPattern) {
			l.condition("excludeNamespaces", "!has(request.namespace) || !request.namespace.matches("+
				quote(policy.PatternExpr(l.ExcludeNamespaces))+")")
		} else {
			selectNames(out, "NotIn", l.ExcludeNamespaces)
		}
	}
}

// selectNames adds a requirement to the namespace selector: one of the given names, or none of them.
func selectNames(out map[string]any, operator string, names []string) {
	selector, _ := out["namespaceSelector"].(map[string]any)
	selector = maps.Clone(selector)
	if selector == nil {
		selector = map[string]any{}
	}
	expressions, _ := selector["matchExpressions"].([]any)
	values := make([]any, len(names))
	for i, name := range names {
		values[i] = name
	}
	selector["matchExpressions"] = append(slices.Clone(expressions),
		map[string]any{"key": nameLabel, "operator": operator, "values": values})
	out["namespaceSelector"] = selector
}

// confineToNamespaced restricts the rules to namespaced objects. Without rules it adds one for all of these.
func (l *matching) confineToNamespaced(out map[string]any) {
	rules, _ := out["resourceRules"].([]any)
	if len(rules) == 0 {
		every := func(item string) []any { return []any{item} }
		rules = []any{map[string]any{"apiGroups": every("*"), "apiVersions": every("*"), "operations": every("*"),
			"resources": every("*/*")}}
	}
	var left []any
	for _, item := range rules {
		rule, _ := item.(map[string]any)
		if rule["scope"] != "Cluster" {
			left = append(left, tree.Object(rule).With(map[string]any{"scope": "Namespaced"}))
		}
	}
	if len(left) == 0 {
		l.refuse("namespaces", "none of the rules matches namespaced objects: there is nothing to enforce")
	}
	out["resourceRules"] = left
}

// kinds turns kinds into their resources in the registry.
func (l *matching) kinds(field string, rules []policy.Rule, in any) []any {
	items, _ := in.([]any)
	var out []any
	for i, rule := range rules {
		if len(rule.Kinds) == 0 || i >= len(items) {
			out = append(out, items[i])
			continue
		}
		at := fmt.Sprintf("%s[%d].kinds", field, i)
		if slices.Contains(rule.APIGroups, "*") {
			l.refuse(at, "kube-apiserver matches resources, and the resources of a kind in all groups are not known")
			continue
		}
		item, _ := items[i].(map[string]any)
		for _, group := range rule.APIGroups {
			if resources := l.resourcesOf(group, rule); len(resources) > 0 {
				of := without(item, "kinds")
				of["apiGroups"], of["resources"] = []any{group}, resources
				out = append(out, of)
			}
		}
		for _, kind := range rule.Kinds {
			if !slices.ContainsFunc(rule.APIGroups, func(group string) bool {
				return len(l.resourcesOf(group, policy.Rule{APIVersions: rule.APIVersions, Kinds: []string{kind}})) > 0
			}) {
				l.refuse(at, fmt.Sprintf("%s is not a kind in %q %s", kind, rule.APIGroups,
					strings.Join(rule.APIVersions, ", ")))
			}
		}
	}
	return out
}

// resourcesOf returns the names of the resources of a group with the kinds of a rule.
func (l *matching) resourcesOf(group string, rule policy.Rule) (names []any) {
	for _, r := range l.types.Resources() {
		if r.Group == group && slices.Contains(rule.Kinds, r.Kind) && !slices.Contains(names, any(r.Resource)) &&
			(slices.Contains(rule.APIVersions, "*") || slices.Contains(rule.APIVersions, r.Version)) {
			names = append(names, r.Resource)
		}
	}
	return names
}

func (l *matching) subjects(field string, list []policy.Subject, not string) {
	if len(list) == 0 {
		return
	}
	var users, groups []string
	for _, s := range list {
		if s.Kind == policy.GroupSubject {
			groups = append(groups, quote(s.Name))
		} else {
			users = append(users, quote(s.Username()))
		}
	}
	var any []string
	if len(users) > 0 {
		any = append(any, "request.userInfo.username in ["+strings.Join(users, ", ")+"]")
	}
	if len(groups) > 0 {
		any = append(any, "has(request.userInfo.groups) && request.userInfo.groups.exists(g, g in ["+
			strings.Join(groups, ", ")+"])")
	}
	l.condition(field, negate(not, strings.Join(any, " || ")))
}

func (l *matching) permissions(field string, list []policy.Permission, not string) {
	if len(list) == 0 {
		return
	}
	var any []string
	for _, p := range list {
		resource, subresource, _ := strings.Cut(p.Resource, "/")
		text := "authorizer.group(" + quote(p.APIGroup) + ").resource(" + quote(resource) + ")"
		for _, part := range []struct{ name, value string }{
			{"subresource", subresource}, {"namespace", p.Namespace}, {"name", p.Name},
		} {
			if part.value != "" {
				text += "." + part.name + "(" + quote(part.value) + ")"
			}
		}
		any = append(any, text+".check("+quote(p.Verb)+").allowed()")
	}
	l.condition(field, negate(not, strings.Join(any, " || ")))
}

func negate(not, expression string) string {
	if not == "" {
		return expression
	}
	return not + "(" + expression + ")"
}

// quote quotes a text for CEL.
func quote(text string) string { return strconv.Quote(text) }

// maxConditions is the largest number of match conditions in a native policy.
const maxConditions = 64

// matchOfPolicy lowers the match constraints of a spec, with match conditions for the parts that they cannot express.
func matchOfPolicy(spec map[string]any, p *policy.Policy, types *schema.Registry) []Refusal {
	l := matching{MatchResources: p.MatchConstraints, path: "spec.matchConstraints", types: types}
	spec["matchConstraints"] = l.resources(spec["matchConstraints"])
	if len(l.conditions) == 0 {
		return l.refusals
	}
	given, _ := spec["matchConditions"].([]any)
	if n := len(given) + len(l.conditions); n > maxConditions {
		l.refuse(l.from[0], fmt.Sprintf("kube-apiserver has at most %d match conditions, these are %d", maxConditions, n))
	}
	for i, c := range p.MatchConditions {
		if slices.ContainsFunc(l.from, func(field string) bool { return conditionPrefix+field == c.Name }) {
			l.refusals = append(l.refusals, Refusal{fmt.Sprintf("spec.matchConditions[%d].name", i),
				"a match condition of this name is generated from a field"})
		}
	}
	spec["matchConditions"] = append(l.conditions, given...)
	return l.refusals
}

// matchOfBinding lowers the match resources of a spec.
func matchOfBinding(spec map[string]any, b *policy.Binding, types *schema.Registry) []Refusal {
	scope := b.Scope()
	if scope == nil {
		return nil
	}
	l := matching{MatchResources: scope, path: "spec.matchResources", types: types}
	given := spec["matchResources"]
	if given == nil {
		given = map[string]any{}
	}
	spec["matchResources"] = l.resources(given)
	if ref, ok := spec["paramRef"].(map[string]any); ok && b.Namespace != "" {
		spec["paramRef"] = tree.Object(ref).With(map[string]any{"namespace": b.Namespace})
	}
	for _, field := range l.from {
		l.refuse(field, "kube-apiserver has match conditions in policies only")
	}
	return l.refusals
}
