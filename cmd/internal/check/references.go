package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

var references = []*Analyzer{
	{
		Code: "CG010", Name: "policy-without-binding", Severity: Warning,
		Title: "no binding puts the policy in force",
		Text: `A policy does nothing until a binding of its own kind names it in spec.policyName. Not even its errors show: a policy
without a binding is never evaluated.`,
		run: func(p *pass) {
			for _, f := range p.facts {
				if len(f.bindings) == 0 {
					p.reportField(f.Policy, "metadata.name",
						"add a "+f.Kind.Binding()+" with spec.policyName: "+f.Name, "no binding puts %s in force",
						f.Name)
				}
			}
		},
	},
	{
		Code: "CG011", Name: "binding-without-policy", Severity: Warning,
		Title: "the binding names a policy that is not given",
		Text: `The server stores a binding whatever its spec.policyName says. A misspelt name, or the name of a policy of the other kind,
leaves the policy without force, silently.`,
		run: bindingWithoutPolicy,
	},
	{
		Code: "CG012", Name: "param-references", Severity: Warning,
		Title: "paramKind and paramRef do not go together",
		Text: `A policy with spec.paramKind whose binding has no spec.paramRef is evaluated with params null, and params.x is an error; a binding's paramRef
without a paramKind is ignored. A paramRef without a namespace for a namespaced paramKind means the namespace of the
request, and is an error for cluster-scoped requests, but with the defaultParams of the dialect; one with a namespace
for a cluster-scoped paramKind is always an error. A paramKind that the server does not know makes every request
fail that the policy matches; one of a group that Kubernetes does not have, whose CustomResourceDefinition is not
among the files, is a note.`,
		Before: "kind: ValidatingAdmissionPolicyBinding\nspec:\n  policyName: replicas   # has paramKind",
		After:  "kind: ValidatingAdmissionPolicyBinding\nspec:\n  policyName: replicas\n  paramRef: {name: limits, namespace: policies, parameterNotFoundAction: Deny}",
		run:    paramReferences,
	},
	{
		Code: "CG013", Name: "redundant-rule", Severity: Note,
		Title: "a resource rule that an earlier rule already covers",
		Text:  `Every request that the rule matches is matched by an earlier rule of the same list. It can go.`,
		run: func(p *pass) {
			each(p, func(_ policy.Ref, list []policy.Rule, path string, report reporter) {
				for i, r := range list {
					for j, other := range list[:i] {
						if includes(other, r) {
							report(fmt.Sprintf("%s[%d]", path, i), "remove it", "rule %d already covers this rule", j)
							p.fix(func(object map[string]any) { removeItem(object, path, i) })
							break
						}
					}
				}
			})
		},
	},
	{
		Code: "CG014", Name: "rule-matches-nothing", Severity: Warning,
		Title: "a resource rule that matches no resource",
		Text: `The server does not check that the groups, versions and resources of a rule exist. A singular or misspelt resource, a kind in the place of a
resource, a resource under the wrong group, or a version that is no longer served matches nothing. With matchPolicy
Equivalent a rule matches other versions of the same resource, but only if it names one that is served. A custom
resource whose CustomResourceDefinition is not among the files is a note, once.`,
		Before: "resourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [deployments]}",
		After:  "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}",
		run:    findUnmatchable,
	},
	{
		Code: "CG015", Name: "binding-matches-nothing", Severity: Warning,
		Title: "the binding can never match what its policy matches",
		Text: `A request has to match the policy's matchConstraints and the binding's matchResources. If no operation, resource or scope is in both, the
policy is never evaluated through this binding.`,
		run: findUnmatchedBindings,
	},
	{
		Code: "CG016", Name: "param-may-be-missing", Severity: Note,
		Title: "what happens without the param",
		Text: `A binding whose paramRef selects nothing is skipped with parameterNotFoundAction Allow, so that nothing is validated, and an error with Deny: failurePolicy Fail then denies every request that the binding matches, also where
validationActions are only Warn or Audit. It is a warning where objects of the kind are among the files but this one is not, and is not reported where it is.`,
		run: missingParams,
	},
}

func missingParams(p *pass) {
	for _, f := range p.facts {
		kind := p.paramKind(f)
		resource := p.Types.ResourceFor(kind)
		if resource == nil {
			continue
		}
		for _, b := range f.bindings {
			ref := b.ParamRef
			if ref == nil || ref.NotFoundAction == policy.NotFoundDefault {
				continue
			}
			given, found := 0, false
			for _, object := range p.State {
				metadata := tree.Object(object).Metadata()
				if object["kind"] != kind.Kind || object["apiVersion"] != kind.GroupVersion().String() {
					continue
				}
				given++
				namespace := cmp.Or(ref.Namespace, fmt.Sprint(metadata["namespace"]))
				found = found || ref.Name != "" && metadata["name"] == ref.Name &&
					(!resource.Namespaced || metadata["namespace"] == namespace)
				if ref.Selector != nil {
					if selector, err := metav1.LabelSelectorAsSelector(ref.Selector); err == nil {
						labels := map[string]string{}
						for key, value := range metadata.At("labels") {
							labels[key] = fmt.Sprint(value)
						}
						found = found || selector.Matches(apilabels.Set(labels))
					}
				}
			}
			if found {
				continue
			}
			what := "a " + kind.Kind + " with the labels of the selector"
			if ref.Name != "" {
				what = kind.Kind + " " + ref.Name
				if ref.Namespace != "" {
					what = kind.Kind + " " + ref.Namespace + "/" + ref.Name
				} else if resource.Namespaced {
					what += " of the namespace of the request"
				}
			}
			then := "the binding is skipped and nothing is decided"
			if ref.NotFoundAction == policy.NotFoundDeny {
				then = "every request that the binding matches is denied"
				if f.FailurePolicy == policy.Ignore {
					then = "that is an error, which failurePolicy Ignore lets pass"
				} else if len(b.Actions) > 0 && !slices.Contains(b.Actions, policy.Deny) {
					then += ", though its validationActions do not deny"
				}
			}
			severity := Note
			if given > 0 && (ref.Namespace != "" || !resource.Namespaced || ref.Selector != nil) {
				severity = Warning
			}
			at := "spec.paramRef"
			p.report(Diagnostic{
				Severity: severity, Message: fmt.Sprintf("without %s %s", what, then),
				Suggestion: "give the param beside the policies, and create it before the binding",
				Ref:        b.Ref(), Field: at, Position: b.Locate(&field.Error{Field: at}),
			})
		}
	}
}

func bindingWithoutPolicy(p *pass) {
	for _, b := range p.Set.Bindings {
		for i, ref := range b.Policies {
			if p.Set.Policy(ref) == nil {
				p.reportBinding(b, fmt.Sprintf("spec.policies[%d]", i), "", "there is no %s among the given files", ref)
			}
		}
		if b.PolicyName == "" {
			continue
		}
		var names []string
		other, found := false, false
		for _, f := range p.facts {
			switch {
			case f.Name != b.PolicyName:
				if f.Kind == b.Kind {
					names = append(names, f.Name)
				}
			case f.Kind == b.Kind:
				found = true
			default:
				other = true
			}
		}
		switch near := nearest(b.PolicyName, names); {
		case found:
		case other:
			p.reportBinding(b, "spec.policyName", "bind it with the other kind of binding",
				"%s is a policy of the other kind, which a %sBinding does not put in force", b.PolicyName, b.Kind)
		case near != "":
			p.reportBinding(b, "spec.policyName", "did you mean "+near+"?", "there is no %s %s", b.Kind, b.PolicyName)
		default:
			p.reportBinding(b, "spec.policyName", "", "there is no %s %s among the given files", b.Kind, b.PolicyName)
		}
	}
}

// undefinedGroup reports a group of custom resources of which not all may be among the files: none that Kubernetes
// serves.
func (p *pass) undefinedGroup(group string) bool {
	return strings.Contains(group, ".") && !slices.ContainsFunc(p.Types.Resources(), func(r *schema.Resource) bool {
		return r.Definition == nil &&
			(r.Group == group || strings.HasSuffix(group, ".k8s.io") && spell.Distance(r.Group, group) <= 2)
	})
}

func paramReferences(p *pass) {
	told := map[string]bool{}
	for _, f := range p.facts {
		var params *schema.Resource
		if f.ParamKind != nil {
			gv, err := apischema.ParseGroupVersion(f.ParamKind.APIVersion)
			if err != nil {
				continue // refused
			}
			if params = p.Types.ResourceFor(gv.WithKind(f.ParamKind.Kind)); params == nil &&
				p.undefinedGroup(gv.Group) {
				if what := f.ParamKind.Kind + " in " + f.ParamKind.APIVersion; !told[what] {
					told[what] = true
					p.reportField(f.Policy, "spec.paramKind", "give its CustomResourceDefinition",
						"%s is not known: no definition of it is among the files", what)
					p.found[len(p.found)-1].Severity = Note
				}
			} else if params == nil {
				p.reportField(f.Policy, "spec.paramKind",
					"give the CustomResourceDefinition of the kind, or correct apiVersion and kind",
					"there is no kind %s in %s: every request that the policy matches will fail", f.ParamKind.Kind,
					f.ParamKind.APIVersion)
			}
		}
		for _, b := range f.bindings {
			switch ref := b.ParamRef; {
			case ref == nil && f.ParamKind != nil && f.DefaultParams != nil:
			case ref == nil && f.ParamKind != nil:
				if used := slices.ContainsFunc(f.exprs,
					func(e *expression) bool { return e.reads != nil && e.reads.Uses(paramsRoot) }); used &&
					!guardsParams(f) {
					p.reportBinding(b, "spec", "add spec.paramRef",
						"no paramRef, though %s has a paramKind: params will be null", f.Name)
				}
			case ref != nil && f.ParamKind == nil:
				p.reportBinding(b, "spec.paramRef", "give the policy a paramKind, or remove the paramRef",
					"%s has no paramKind: the paramRef is ignored", f.Name)
				p.fix(func(object map[string]any) { delete(memberOf(object, "spec"), "paramRef") })
			case ref != nil && ref.NotFoundAction == policy.NotFoundDefault && f.DefaultParams == nil:
				p.reportBinding(b, "spec.paramRef.parameterNotFoundAction", "give the policy defaultParams",
					"%s has no defaultParams: where the paramRef selects nothing it is an error", f.Name)
			case ref != nil && params != nil && !params.Namespaced && ref.Namespace != "":
				p.reportBinding(b, "spec.paramRef.namespace", "remove the namespace",
					"%s is cluster-scoped: a paramRef with a namespace is always an error", f.ParamKind.Kind)
				p.fix(func(object map[string]any) {
					delete(memberOf(memberOf(object, "spec"), "paramRef"), "namespace")
				})
			case ref != nil && params != nil && params.Namespaced && ref.Namespace == "" &&
				ref.NotFoundAction != policy.NotFoundDefault:
				const hint = "name the namespace of the params"
				for _, t := range f.targets {
					if !t.named || t.namespaced {
						continue
					}
					if t.resource.GroupResource() != (schema.GroupResource{Resource: "namespaces"}) {
						p.reportBinding(b, "spec.paramRef", hint,
							"without a namespace the params come from the namespace of the request, and %s has none",
							t.resource.Resource)
						break
					}
					if f.operations()["CREATE"] {
						p.reportBinding(b, "spec.paramRef", hint, "without a namespace the params of a namespace are those "+
							"that it holds itself, and a new one holds none")
						break
					}
				}
			}
		}
	}
}

func memberOf(object map[string]any, name string) map[string]any {
	member, _ := object[name].(map[string]any)
	return member
}

// removeItem takes an item out of the list at a path such as spec.matchConstraints.resourceRules.
func removeItem(object map[string]any, path string, index int) {
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		object = memberOf(object, step)
	}
	last := steps[len(steps)-1]
	if list, ok := object[last].([]any); ok && index < len(list) {
		object[last] = slices.Delete(slices.Clone(list), index, index+1)
	}
}

func guardsParams(f *facts) bool {
	return slices.ContainsFunc(f.exprs, func(e *expression) bool {
		return e.reads != nil &&
			e.reads.Guards(paramsRoot)
	})
}

// A reporter reports about a field of a policy or binding.
type reporter func(path, suggestion, format string, args ...any)

// each calls visit for every list of rules, with the policy or binding that has it.
func each(p *pass, visit func(of policy.Ref, list []policy.Rule, path string, report reporter)) {
	lists := func(of policy.Ref, m *policy.MatchResources, path string, report reporter) {
		if m != nil {
			visit(of, m.ResourceRules, path+".resourceRules", report)
			visit(of, m.ExcludeRules, path+".excludeResourceRules", report)
		}
	}
	for _, f := range p.facts {
		lists(f.Ref(), f.MatchConstraints, "spec.matchConstraints", func(path, suggestion, format string, args ...any) {
			p.reportField(f.Policy, path, suggestion, format, args...)
		})
	}
	for _, b := range p.Set.Bindings {
		lists(b.Ref(), b.MatchResources, "spec.matchResources", func(path, suggestion, format string, args ...any) {
			p.reportBinding(b, path, suggestion, format, args...)
		})
	}
}

// includes reports that a matches all that b matches.
func includes(a, b policy.Rule) bool {
	all := func(a, b []string) bool {
		return slices.Contains(a, "*") || !slices.ContainsFunc(b, func(s string) bool { return !slices.Contains(a, s) })
	}
	resources := func(pattern string) bool {
		resource, sub, _ := strings.Cut(pattern, "/")
		return slices.ContainsFunc(a.Resources, func(p string) bool {
			r, s, _ := strings.Cut(p, "/")
			return (r == "*" || r == resource) && (s == "*" || s == sub)
		})
	}
	if len(a.Kinds) > 0 && (len(b.Kinds) == 0 || !all(a.Kinds, b.Kinds)) {
		return false
	}
	return all(a.Operations, b.Operations) && all(a.APIGroups, b.APIGroups) && all(a.APIVersions, b.APIVersions) &&
		!slices.ContainsFunc(b.Resources, func(s string) bool { return !resources(s) }) &&
		(a.Scope == "*" || a.Scope == "" || a.Scope == b.Scope) &&
		(len(a.ResourceNames) == 0 || len(b.ResourceNames) > 0 && all(a.ResourceNames, b.ResourceNames))
}

func findUnmatchable(p *pass) {
	resources := p.Types.Resources()
	told := map[string]bool{}
	each(p, func(_ policy.Ref, list []policy.Rule, path string, report reporter) {
		for i, rule := range list {
			if len(rule.Kinds) > 0 {
				p.unknownKinds(rule, fmt.Sprintf("%s[%d].kinds", path, i), report)
				continue
			}
			for j, pattern := range rule.Resources {
				one := rule
				one.Resources = []string{pattern}
				one.Scope = "*"
				if slices.ContainsFunc(resources, func(r *schema.Resource) bool { return coversAny(one, r) }) {
					if one.Scope = rule.Scope; one.Scope != "*" && one.Scope != "" &&
						!slices.ContainsFunc(resources, func(r *schema.Resource) bool { return coversAny(one, r) }) {
						report(fmt.Sprintf("%s[%d].scope", path, i), "",
							"%s is not in the scope %s: the rule never matches it", pattern, rule.Scope)
					}
					continue
				}
				if !slices.ContainsFunc(rule.APIGroups, func(g string) bool { return !p.undefinedGroup(g) }) &&
					!p.defines(rule, pattern) {
					if what := pattern + " in " + strings.Join(rule.APIGroups, ", "); !told[what] {
						told[what] = true
						report(fmt.Sprintf("%s[%d].resources[%d]", path, i, j), "give its CustomResourceDefinition",
							"%s is not known: no definition of it is among the files", what)
						p.found[len(p.found)-1].Severity = Note
					}
					continue
				}
				if why, hint := p.unknownResource(rule, pattern, resources); why != "" {
					report(fmt.Sprintf("%s[%d].resources[%d]", path, i, j), hint, "%s", why)
				}
			}
		}
	})
}

// unknownKinds reports the kinds of a rule that no resource of its groups and versions has.
func (p *pass) unknownKinds(rule policy.Rule, path string, report reporter) {
	var names []string
	one := rule
	one.Kinds, one.Scope = nil, "*"
	for _, r := range p.Types.Resources() {
		if coversAny(one, r) {
			names = append(names, r.Kind)
		}
	}
	for j, kind := range rule.Kinds {
		if slices.Contains(names, kind) {
			continue
		}
		hint := ""
		if near := nearest(kind, names); near != "" {
			hint = "did you mean " + near + "?"
		}
		report(fmt.Sprintf("%s[%d]", path, j), hint, "no kind %s is known in %s %s", kind,
			strings.Join(rule.APIGroups, ", "), strings.Join(rule.APIVersions, ", "))
		if hint == "" && !slices.ContainsFunc(rule.APIGroups, func(g string) bool { return !p.undefinedGroup(g) }) {
			p.found[len(p.found)-1].Severity = Note
		}
	}
}

// defines reports that a definition among the files has the resource, or one that is spelt or versioned in another way.
func (p *pass) defines(rule policy.Rule, pattern string) bool {
	name, _, _ := strings.Cut(pattern, "/")
	return slices.ContainsFunc(p.Types.Resources(), func(r *schema.Resource) bool {
		return slices.Contains(rule.APIGroups, r.Group) &&
			(nearest(name, []string{r.Resource, strings.ToLower(r.Kind)}) != "" || r.Resource == name)
	})
}

func coversAny(rule policy.Rule, r *schema.Resource) bool {
	if r.NotServed {
		return false
	}
	if typed.Covers(rule, r, "") {
		return true
	}
	return slices.ContainsFunc(r.Subresources, func(s schema.Subresource) bool { return typed.Covers(rule, r, s.Name) })
}

// unknownResource says why a rule finds no resource; nothing for groups of custom resources that were not given.
func (p *pass) unknownResource(rule policy.Rule, pattern string, resources []*schema.Resource) (why, hint string) {
	name, sub, _ := strings.Cut(pattern, "/")
	text := pattern + " in " + strings.Join(quotedGroups(rule), ", ")
	known := false
	var names []string
	for _, r := range resources {
		inGroup := slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIGroups, r.Group)
		known = known || inGroup
		same := r.Resource == name
		switch {
		case same && inGroup && sub != "" && sub != "*" && slices.Contains(rule.APIVersions, r.Version):
			return "there is no subresource " + pattern, subresources(r)
		case same && inGroup && !r.NotServed:
			return fmt.Sprintf("there is no %s in version %s", text, strings.Join(rule.APIVersions, ", ")),
				"it is served as " + r.Version
		case same && !slices.Contains(rule.APIGroups, "*"):
			hint = fmt.Sprintf("%s is in the group %q, version %s", name, r.Group, r.Version)
		case strings.EqualFold(r.Kind, name) && inGroup:
			return "there is no resource " + text, "resources are plural and in lower case: " + r.Resource
		}
		if inGroup {
			names = append(names, r.Resource)
		}
	}
	if hint != "" {
		return "there is no resource " + text, hint
	}
	if !known {
		var groups []string
		for _, r := range resources {
			groups = append(groups, r.Group)
		}
		if near := nearest(rule.APIGroups[0], groups); near != "" {
			hint = "did you mean " + near + "?"
		}
		return "there is no API group " + strings.Join(quotedGroups(rule), ", "), hint
	}
	if near := nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	return "there is no resource " + text, hint
}

func subresources(r *schema.Resource) string {
	var names []string
	for _, s := range r.Subresources {
		names = append(names, r.Resource+"/"+s.Name)
	}
	if len(names) == 0 {
		return r.Resource + " has no subresources"
	}
	return "there are " + strings.Join(names, ", ")
}

func quotedGroups(rule policy.Rule) []string {
	var all []string
	for _, g := range rule.APIGroups {
		if g == "" {
			g = `the core group ""`
		}
		all = append(all, g)
	}
	return all
}

func findUnmatchedBindings(p *pass) {
	for _, f := range p.facts {
		for _, b := range f.bindings {
			if b.MatchResources == nil || f.MatchConstraints == nil || len(b.MatchResources.ResourceRules) == 0 {
				continue
			}
			meet := slices.ContainsFunc(f.MatchConstraints.ResourceRules, func(a policy.Rule) bool {
				return slices.ContainsFunc(b.MatchResources.ResourceRules,
					func(b policy.Rule) bool { return p.rulesMeet(a, b) })
			})
			if !meet {
				p.reportBinding(b, "spec.matchResources.resourceRules", "compare them with the policy's matchConstraints",
					"no request matches both these rules and those of %s", f.Name)
			}
		}
	}
}

// rulesMeet reports that some request may match both rules. Versions are left out: equivalent ones match too.
func (p *pass) rulesMeet(a, b policy.Rule) bool {
	some := func(a, b []string) bool {
		return slices.Contains(a, "*") || slices.Contains(b, "*") ||
			slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
	}
	resources := slices.ContainsFunc(a.Resources, func(x string) bool {
		xr, xs, _ := strings.Cut(x, "/")
		return slices.ContainsFunc(b.Resources, func(y string) bool {
			yr, ys, _ := strings.Cut(y, "/")
			return (xr == "*" || yr == "*" || xr == yr) && (xs == "*" || ys == "*" || xs == ys)
		})
	})
	scopes := a.Scope == b.Scope || a.Scope == "*" || b.Scope == "*" || a.Scope == "" || b.Scope == ""
	names := len(a.ResourceNames) == 0 || len(b.ResourceNames) == 0 || some(a.ResourceNames, b.ResourceNames)
	groups := some(a.APIGroups, b.APIGroups) ||
		slices.ContainsFunc(append(slices.Clone(a.APIGroups), b.APIGroups...), func(g string) bool {
			return g == "" || g == "events.k8s.io" || g == "extensions" // events are in two groups
		}) && slices.Contains(a.Resources, "events")
	return some(a.Operations, b.Operations) && groups && resources && scopes && names
}

// nearest returns the candidate that a few typing errors turn into s; "" if there is none.
func nearest(s string, candidates []string) string { return spell.Nearest(s, candidates, len(s)/3) }
