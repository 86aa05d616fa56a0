package policy

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/scope"
)

// TemplatesOfPods is the item of [Policy.Templates] for rules about Pods that apply to the Pod templates of workloads,
// too.
const TemplatesOfPods = "pods"

// JudgesTemplates reports whether the policy also validates the Pod templates of workloads.
func (p *Policy) JudgesTemplates() bool { return len(p.Templates) > 0 && p.Validates() }

// TemplateActions returns the actions for a Pod template if the actions for a Pod are the given ones.
func (p *Policy) TemplateActions(actions []Action) []Action {
	return capActions(actions, p.TemplateEnforcement)
}

// Rules returns the resource rules of the policy, with those of the workloads whose Pod templates it validates.
func (p *Policy) Rules() []Rule {
	if p.MatchConstraints == nil {
		return nil
	}
	if !p.JudgesTemplates() {
		return p.MatchConstraints.ResourceRules
	}
	own := p.MatchConstraints.ResourceRules
	return slices.Concat(own, templateRules(own, scope.Templates))
}

// Templates converts match resources for Pods to those for workloads, with the workloads' resources in place of Pods.
// It returns false if m does not match Pods.
func (m *MatchResources) Templates() (*MatchResources, bool) { return m.templatesIn(scope.Templates) }

// TemplatesAt is like Templates for workloads with the template at one path.
func (m *MatchResources) TemplatesAt(path string) (*MatchResources, bool) {
	return m.templatesIn(slices.DeleteFunc(slices.Clone(scope.Templates), func(t scope.Template) bool {
		return t.Path != path
	}))
}

func (m *MatchResources) templatesIn(templates []scope.Template) (*MatchResources, bool) {
	if m == nil {
		return nil, true
	}
	of := *m
	of.ResourceRules = templateRules(m.ResourceRules, templates)
	of.ExcludeRules = templateRules(m.ExcludeRules, templates)
	return &of, len(of.ResourceRules) > 0 || len(m.ResourceRules) == 0
}

// templateRules converts rules for Pods to rules for workloads with the templates.
func templateRules(rules []Rule, templates []scope.Template) (all []Rule) {
	for _, r := range rules {
		if !r.coversPods() {
			continue
		}
		operations := slices.DeleteFunc(slices.Clone(r.Operations), func(op string) bool { return op == "CONNECT" })
		if len(operations) == 0 {
			continue
		}
		from := len(all)
		for _, t := range templates {
			i := slices.IndexFunc(all[from:], func(r Rule) bool { return r.APIGroups[0] == t.Group })
			if i < 0 {
				i = len(all) - from
				all = append(all, Rule{
					Operations: operations, Scope: r.Scope,
					APIGroups: []string{t.Group}, APIVersions: []string{t.Version},
				})
			}
			all[from+i].Resources = append(all[from+i].Resources, t.Resource)
		}
	}
	return all
}

// coversPods reports whether a rule matches Pods regardless of their names.
func (r Rule) coversPods() bool {
	has := func(list []string, names ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return slices.Contains(names, s) })
	}
	return len(r.ResourceNames) == 0 && has(r.APIGroups, "", "*") && has(r.APIVersions, "v1", "*") &&
		has(r.Resources, "pods", "*", "*/*") && (len(r.Kinds) == 0 || slices.Contains(r.Kinds, "Pod")) && r.Scope != "Cluster"
}

// templates checks the members about Pod templates.
func (v *validator) templates(p *Policy, spec *field.Path) {
	path := spec.Child("templates")
	for i, of := range p.Templates {
		oneOf(v, path.Index(i), of, []string{TemplatesOfPods})
		if slices.Contains(p.Templates[:i], of) {
			v.add(field.Duplicate(path.Index(i), of))
		}
	}
	if at := spec.Child("templateEnforcement"); p.templated {
		oneOf(v, at, p.TemplateEnforcement, actions)
		if len(p.Templates) == 0 {
			v.add(field.Forbidden(at, "the policy has no templates"))
		}
	}
	if len(p.Templates) == 0 {
		return
	}
	if !p.Validates() {
		v.add(field.Forbidden(path, "the policy has no validations"))
	}
	if m := p.Source().MatchConstraints; m != nil {
		if _, ok := m.Templates(); !ok {
			v.add(field.Invalid(path, p.Templates, "matchConstraints do not match Pods, or only some by name"))
		}
	}
}
