package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/pattern"
	dialect "github.com/celgate/celgate/policy/internal/v1alpha1"
)

// policiesResource is the resource of the policies of the dialect.
const policiesResource = "admissionpolicies"

// ownMatch returns the match resources of the dialect.
func (c converter) ownMatch(in *dialect.MatchResources) *MatchResources {
	if in == nil {
		return nil
	}
	out := matchResources(&in.MatchResources)
	out.ResourceRules, out.ExcludeRules = ownRules(in.ResourceRules), ownRules(in.ExcludeResourceRules)
	out.Namespaces, out.ExcludeNamespaces = in.Namespaces, in.ExcludeNamespaces
	subjects := func(in []dialect.Subject) (out []Subject) {
		for _, s := range in {
			out = append(out, Subject{s.Kind, s.Namespace, s.Name})
		}
		return out
	}
	permissions := func(in []dialect.Permission) (out []Permission) {
		for _, p := range in {
			out = append(out, Permission(p))
		}
		return out
	}
	out.Subjects, out.ExcludeSubjects = subjects(in.Subjects), subjects(in.ExcludeSubjects)
	out.Permissions, out.ExcludePermissions = permissions(in.Permissions), permissions(in.ExcludePermissions)
	return out
}

func ownRules(in []dialect.Rule) (out []Rule) {
	for _, r := range in {
		released := r.NamedRuleWithOperations
		if released.Resources = r.Resources; len(r.Kinds) > 0 && released.Resources == nil {
			released.Resources = []string{"*"}
		}
		rule := rules([]admissionv1.NamedRuleWithOperations{released})[0]
		rule.Kinds = r.Kinds
		out = append(out, rule)
	}
	return out
}

// defaultToPolicy fills permissions without a resource with the policy itself.
func defaultToPolicy(permissions []Permission, name string) {
	for i, p := range permissions {
		if p == (Permission{Verb: p.Verb}) {
			permissions[i] = Permission{Verb: p.Verb, APIGroup: OwnGroup, Resource: policiesResource, Name: name}
		}
	}
}

// ownMatch checks the members that only match resources of the dialect have.
func (v *validator) ownMatch(m *MatchResources, path *field.Path) {
	for i, r := range slices.Concat(m.ResourceRules, m.ExcludeRules) {
		at := path.Child("resourceRules").Index(i)
		if i >= len(m.ResourceRules) {
			at = path.Child("excludeResourceRules").Index(i - len(m.ResourceRules))
		}
		v.kinds(r, at)
	}
	exclusive := func(both bool, name, other string) {
		if both {
			v.add(field.Forbidden(path.Child(other), name+" and "+other+" are mutually exclusive"))
		}
	}
	exclusive(m.Namespaces != nil && m.ExcludeNamespaces != nil, "namespaces", "excludeNamespaces")
	exclusive(m.Subjects != nil && m.ExcludeSubjects != nil, "subjects", "excludeSubjects")
	exclusive(m.Permissions != nil && m.ExcludePermissions != nil, "permissions", "excludePermissions")
	v.namespacePatterns(m.Namespaces, path.Child("namespaces"))
	v.namespacePatterns(m.ExcludeNamespaces, path.Child("excludeNamespaces"))
	v.subjects(m.Subjects, path.Child("subjects"))
	v.subjects(m.ExcludeSubjects, path.Child("excludeSubjects"))
	v.permissions(m.Permissions, path.Child("permissions"))
	v.permissions(m.ExcludePermissions, path.Child("excludePermissions"))
}

func (v *validator) kinds(r Rule, path *field.Path) {
	if len(r.Kinds) > 0 && !slices.Equal(r.Resources, []string{"*"}) {
		v.add(field.Forbidden(path.Child("kinds"), "resources and kinds are mutually exclusive"))
	}
	for i, kind := range r.Kinds {
		at := path.Child("kinds").Index(i)
		v.texts(at, kind, validation.IsDNS1035Label(strings.ToLower(kind)))
		if slices.Contains(r.Kinds[:i], kind) {
			v.add(field.Duplicate(at, kind))
		}
	}
}

var namespacePattern = pattern.New(`^[a-z0-9*]([-a-z0-9*]{0,61}[a-z0-9*])?$`)

func (v *validator) namespacePatterns(list []string, path *field.Path) {
	for i, pattern := range list {
		if !namespacePattern().MatchString(pattern) {
			v.add(field.Invalid(path.Index(i), pattern, "must be the name of a namespace, in which * may stand for any text"))
		}
		if slices.Contains(list[:i], pattern) {
			v.add(field.Duplicate(path.Index(i), pattern))
		}
	}
}

func (v *validator) subjects(list []Subject, path *field.Path) {
	for i, s := range list {
		at := path.Index(i)
		oneOf(v, at.Child("kind"), s.Kind, []string{GroupSubject, AccountSubject, UserSubject})
		if s.Name == "" {
			v.add(field.Required(at.Child("name"), ""))
		}
		switch {
		case s.Kind == AccountSubject && s.Namespace == "":
			v.add(field.Required(at.Child("namespace"), "a ServiceAccount has one"))
		case s.Kind != AccountSubject && s.Namespace != "":
			v.add(field.Forbidden(at.Child("namespace"), "only a ServiceAccount has one"))
		}
		if slices.Contains(list[:i], s) {
			v.add(field.Duplicate(at, s.String()))
		}
	}
}

func (v *validator) permissions(list []Permission, path *field.Path) {
	for i, p := range list {
		at := path.Index(i)
		if p.Verb == "" {
			v.add(field.Required(at.Child("verb"), ""))
		}
		if p.Resource == "" {
			v.add(field.Required(at.Child("resource"), "may be omitted only in a policy, with a verb only: the permission is then for the policy itself"))
		}
		if slices.Contains(list[:i], p) {
			v.add(field.Duplicate(at, p.String()))
		}
	}
}

// IsPattern reports whether a namespace name is a pattern.
func IsPattern(name string) bool { return strings.Contains(name, "*") }

// PatternExpr returns a regular expression that matches exactly the names that the patterns match.
func PatternExpr(patterns []string) string {
	var all []string
	for _, p := range patterns {
		all = append(all, strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*"))
	}
	return fmt.Sprintf("^(%s)$", strings.Join(all, "|"))
}
