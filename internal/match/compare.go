package match

import (
	"fmt"
	"slices"
	"strings"
)

// A Comparison is one comparison of a criterion of a policy or binding with a request.
type Comparison struct {
	Field string // in the match resources, such as "resourceRules[0].operations" or "namespaceSelector"
	Want  string // the value in the policy or binding
	Got   string // the value in the request
	Holds bool   // they match
}

// Compare returns the comparisons behind the result of [Criteria.Match], for explanations. It uses the same code as
// Match.
func (c *Criteria) Compare(a *Attributes, w World) []Comparison {
	if c == nil {
		return nil
	}
	return append(c.compareReleased(a, w), c.compareOwn(a, w)...)
}

// compareReleased returns the comparisons of fields that native policies have, too.
func (c *Criteria) compareReleased(a *Attributes, w World) []Comparison {
	var all []Comparison
	if !c.namespaces.Empty() && (a.Namespace != "" || a.Resource.Resource == "namespaces") {
		holds, err := c.matchNamespace(a, w)
		got := "namespace " + a.Namespace + " does not exist"
		if err == nil {
			got = c.namespaceLabels(a, w)
		}
		all = append(all, Comparison{"namespaceSelector", c.namespaces.String(), got, holds})
		if !holds && err == nil {
			return all
		}
	}
	if !c.objects.Empty() {
		holds, err := c.matchObject(a)
		got := "the object has " + shownLabels(c.objects, a.Object)
		if a.OldObject != nil {
			if old := "the stored object has " + shownLabels(c.objects, a.OldObject); a.Object == nil {
				got = old
			} else {
				got += ", " + old
			}
		}
		all = append(all, Comparison{"objectSelector", c.objects.String(), got, holds})
		if !holds && err == nil {
			return all
		}
	}
	for i := range c.excludes {
		if r, err := c.matchRules(c.excludes[i:i+1], a, w); err == nil && r.Matched {
			return append(all, Comparison{fmt.Sprintf("excludeResourceRules[%d]", i), c.excludes[i].String(),
				a.String(), true})
		}
	}
	for i := range c.rules { // the resource as requested comes before equivalent ones, in all rules
		if c.rules[i].matches(a, a.Resource, w) && c.rules[i].matchesName(a.Name) {
			return append(all, Comparison{fmt.Sprintf("resourceRules[%d]", i), c.rules[i].String(), a.String(), true})
		}
	}
	for i := range c.rules {
		r, err := c.matchRules(c.rules[i:i+1], a, w)
		if err != nil || !r.Matched {
			continue
		}
		return append(all, Comparison{
			fmt.Sprintf("resourceRules[%d]", i), c.rules[i].String(),
			a.String() + ", as " + r.Resource.GroupVersion().String() + " " + r.Kind.Kind + " (matchPolicy Equivalent)",
			true,
		})
	}
	for i := range c.rules {
		all = append(all, c.rules[i].differences(fmt.Sprintf("resourceRules[%d]", i), a, w)...)
	}
	return all
}

// namespaceLabels returns the labels that the namespace selector reads, in words.
func (c *Criteria) namespaceLabels(a *Attributes, w World) string {
	if a.Resource.Resource == "namespaces" && a.SubResource == "" &&
		(a.Operation == "CREATE" || a.Operation == "UPDATE") {
		got := "the Namespace in the request has " + shownLabels(c.namespaces, a.Object)
		if a.OldObject != nil {
			got += " (the stored one has " + shownLabels(c.namespaces, a.OldObject) + ", which does not count)"
		}
		return got
	}
	object, err := w.Namespace(a.Namespace)
	if err != nil {
		return err.Error()
	}
	return "namespace " + a.Namespace + " has " + shownLabels(c.namespaces, object)
}

// shownLabels returns the labels of an object that a selector reads, in words.
func shownLabels(s selector, object map[string]any) string {
	set := labelsOf(object)
	requirements, _ := s.Requirements()
	var shown []string
	for _, r := range requirements {
		text := "no " + r.Key()
		if set.Has(r.Key()) {
			text = r.Key() + "=" + set.Get(r.Key())
		}
		if !slices.Contains(shown, text) {
			shown = append(shown, text)
		}
	}
	return strings.Join(shown, ", ")
}

// String returns the rule in words.
func (r *rule) String() string {
	text := strings.Join(r.operations, ", ") + " of " + r.resourcesText() + " in " + groupsText(
		r.groups) + " " + strings.Join(r.versions, ", ")
	if r.scope != "" && r.scope != "*" {
		text += ", scope " + r.scope
	}
	if len(r.names) > 0 {
		text += ", named " + strings.Join(r.names, ", ")
	}
	return text
}

// resourcesText returns the resources of a rule in its own notation.
func (r *rule) resourcesText() string {
	if len(r.kinds) > 0 {
		return strings.Join(r.kinds, ", ")
	}
	shown := make([]string, len(r.resources))
	for i, p := range r.resources {
		shown[i] = p.resource
		if p.subresource != "" {
			shown[i] += "/" + p.subresource
		}
	}
	return strings.Join(shown, ", ")
}

func groupsText(groups []string) string {
	shown := slices.Clone(groups)
	for i, g := range shown {
		if g == "" {
			shown[i] = `""`
		}
	}
	return strings.Join(shown, ", ")
}

// String returns the operation and the resource in words.
func (a *Attributes) String() string { return a.Operation + " of " + describe(a) }

// differences returns the parts of a rule that do not match the request as sent.
func (r *rule) differences(field string, a *Attributes, w World) []Comparison {
	var all []Comparison
	add := func(part, want, got string) {
		all = append(all, Comparison{Field: field + "." + part, Want: want, Got: got})
	}
	if !contains(r.operations, a.Operation) {
		add("operations", strings.Join(r.operations, ", "), a.Operation)
	}
	if !contains(r.groups, a.Resource.Group) {
		add("apiGroups", groupsText(r.groups), groupsText([]string{a.Resource.Group}))
	}
	if !contains(r.versions, a.Resource.Version) {
		add("apiVersions", strings.Join(r.versions, ", "), a.Resource.Version)
	}
	if !r.matchesKind(a, a.Resource, w.Types) {
		add("kinds", strings.Join(r.kinds, ", "), a.String())
	} else if !r.matchesResource(a.Resource.Resource, a.SubResource) {
		got := a.Resource.Resource
		if a.SubResource != "" {
			got += "/" + a.SubResource
			if slices.ContainsFunc(r.resources, func(p resourcePattern) bool {
				return p.subresource == "" && (p.resource == "*" || p.resource == a.Resource.Resource)
			}) {
				got += " (a rule without /" + a.SubResource + " is not for subresources)"
			}
		}
		add("resources", r.resourcesText(), got)
	}
	if !r.matchesScope(a.Resource, a.Namespace) {
		got := "Cluster"
		if r.scope == "Cluster" {
			got = "Namespaced"
		}
		add("scope", r.scope, got)
	}
	if !r.matchesName(a.Name) {
		got := a.Name
		if got == "" {
			got = "none yet (generateName)"
		}
		add("resourceNames", strings.Join(r.names, ", "), got)
	}
	return all
}
