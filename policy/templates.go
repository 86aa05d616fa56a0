package policy

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/scope"
)

// TemplatesOfPods is the item of [Policy.Templates] for rules about Pods that apply to the Pod templates of workloads,
// too.
const TemplatesOfPods = "pods"

// JudgesTemplates reports that the policy also judges the templates of Pods in workloads.
func (p *Policy) JudgesTemplates() bool { return len(p.Templates) > 0 && p.Validates() }

// TemplateActions returns what a binding of the policy does about a template where it would do actions about a Pod.
func (p *Policy) TemplateActions(actions []Action) []Action {
	return capActions(actions, p.TemplateEnforcement)
}

// Rules returns the resource rules of the requests that the policy is for: those that it has, and those for workloads
// whose templates of Pods it judges.
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

// Templates returns the match resources of workloads that correspond to m, which are about Pods: with the workloads'
// resources in place of that of Pods. False says that m is for no Pods.
func (m *MatchResources) Templates() (*MatchResources, bool) { return m.templatesIn(scope.Templates) }

// TemplatesAt is as Templates for workloads that have the template at a path alone.
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

// templateRules are rules for workloads with the templates, made of those for Pods.
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

// coversPods reports that a rule is for Pods whatever their names are.
func (r Rule) coversPods() bool {
	has := func(list []string, names ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return slices.Contains(names, s) })
	}
	return len(r.ResourceNames) == 0 && has(r.APIGroups, "", "*") && has(r.APIVersions, "v1", "*") &&
		has(r.Resources, "pods", "*", "*/*") && (len(r.Kinds) == 0 || slices.Contains(r.Kinds, "Pod")) && r.Scope != "Cluster"
}

// templates checks what a policy says of templates of Pods.
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
	if m := p.MatchConstraints; m != nil {
		if _, ok := m.Templates(); !ok {
			v.add(field.Invalid(path, p.Templates, "matchConstraints are for no Pods, or for some by their names"))
		}
	}
}
