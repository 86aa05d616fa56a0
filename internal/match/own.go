package match

import (
	"regexp"
	"slices"
	"strings"

	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// Matchers of the dialect.
const (
	Namespaces         Matcher = "namespaces"
	ExcludeNamespaces  Matcher = "excludeNamespaces"
	Subjects           Matcher = "subjects"
	ExcludeSubjects    Matcher = "excludeSubjects"
	Permissions        Matcher = "permissions"
	ExcludePermissions Matcher = "excludePermissions"
)

// An own matcher is one criterion of the dialect.
type own struct {
	by      Matcher
	want    string                            // in words
	matches func(a *Attributes, w World) bool // ignoring exclude
	exclude bool                              // matching requests are excluded
	got     func(a *Attributes) string
}

func (o *own) holds(a *Attributes, w World) bool { return o.matches(a, w) != o.exclude }

// compileOwn returns the criteria of the dialect that are given.
func compileOwn(m *policy.MatchResources) (all []own) {
	inNamespace := func(patterns []string, namespacedOnly bool) func(*Attributes, World) bool {
		expr := regexp.MustCompile(policy.PatternExpr(patterns)) // the pattern is quoted
		return func(a *Attributes, _ World) bool {
			if a.Namespace == "" || namespacedOnly && a.Resource == namespaces {
				return false
			}
			return expr.MatchString(a.Namespace)
		}
	}
	if len(m.Namespaces) > 0 {
		all = append(all, own{Namespaces, strings.Join(m.Namespaces, ", "), inNamespace(m.Namespaces, true), false, placeOf})
	}
	if len(m.ExcludeNamespaces) > 0 {
		all = append(all, own{ExcludeNamespaces, strings.Join(m.ExcludeNamespaces, ", "),
			inNamespace(m.ExcludeNamespaces, false), true, placeOf})
	}
	for _, s := range []struct {
		by      Matcher
		list    []policy.Subject
		exclude bool
	}{{Subjects, m.Subjects, false}, {ExcludeSubjects, m.ExcludeSubjects, true}} {
		if len(s.list) > 0 {
			is := func(a *Attributes, _ World) bool { return isAny(s.list, a) }
			all = append(all, own{s.by, joinTexts(s.list), is, s.exclude, whoOf})
		}
	}
	for _, p := range []struct {
		by      Matcher
		list    []policy.Permission
		exclude bool
	}{{Permissions, m.Permissions, false}, {ExcludePermissions, m.ExcludePermissions, true}} {
		if len(p.list) > 0 {
			all = append(all, own{p.by, joinTexts(p.list), func(_ *Attributes, w World) bool {
				return slices.ContainsFunc(p.list, w.Permitted)
			}, p.exclude, whoOf})
		}
	}
	return all
}

func isAny(list []policy.Subject, a *Attributes) bool {
	return slices.ContainsFunc(list, func(s policy.Subject) bool {
		if s.Kind == policy.GroupSubject {
			return slices.Contains(a.Groups, s.Name)
		}
		return a.User == s.Username()
	})
}

func joinTexts[T interface{ String() string }](list []T) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = item.String()
	}
	return strings.Join(texts, ", ")
}

// placeOf describes the namespace of a request in words.
func placeOf(a *Attributes) string {
	switch {
	case a.Resource == namespaces:
		return "the request is for the Namespace " + a.Namespace
	case a.Namespace == "":
		return "the object does not have a namespace"
	}
	return "the object is in namespace " + a.Namespace
}

// whoOf describes the user of a request in words.
func whoOf(a *Attributes) string {
	text := "the user is " + a.User
	if len(a.Groups) > 0 {
		text += " of " + strings.Join(a.Groups, ", ")
	}
	return text
}

// reason says in words why a request did not match.
func (o *own) reason(a *Attributes) string { return string(o.by) + " says " + o.want + "; " + o.got(a) }

// compareOwn returns the comparisons of the criteria of the dialect.
func (c *Criteria) compareOwn(a *Attributes, w World) (all []Comparison) {
	for i := range c.own {
		o := &c.own[i]
		all = append(all, Comparison{string(o.by), o.want, o.got(a), o.holds(a, w)})
	}
	return all
}

// matchesKind reports whether the objects of a resource are of a kind that the rule names.
func (r *rule) matchesKind(a *Attributes, resource schema.GroupVersionResource, types *schema.Registry) bool {
	if len(r.kinds) == 0 {
		return true
	}
	known := types.Resource(resource)
	return a.SubResource == "" && known != nil && slices.Contains(r.kinds, known.Kind)
}
