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
		Title: "the policy does not have a binding",
		Text: `A policy has no effect until a binding names it in spec.policyName: a ValidatingAdmissionPolicyBinding
for a ValidatingAdmissionPolicy, a MutatingAdmissionPolicyBinding for a MutatingAdmissionPolicy. Without one the
policy is never evaluated, so its errors do not show either.`,
		run: func(p *pass) {
			for _, f := range p.facts {
				if len(f.bindings) == 0 {
					p.reportField(f.Policy, "metadata.name",
						bindingHint(f.Policy),
						"%s does not have a binding: it has no effect", f.Name)
				}
			}
		},
	},
	{
		Code: "CG011", Name: "binding-without-policy", Severity: Warning,
		Title: "the binding names a policy that is not among the files",
		Text: `The API server stores a binding whatever its spec.policyName says. If the name is misspelt, or is that
of a policy of the other kind, the policy is silently not enforced.`,
		run: bindingWithoutPolicy,
	},
	{
		Code: "CG012", Name: "param-references", Severity: Warning,
		Title: "a paramKind without a paramRef, or a paramRef that cannot work",
		Text: `If a policy has spec.paramKind and its binding does not have spec.paramRef, params is null and params.x
is an error. If only the binding has a paramRef, it is ignored. For a namespaced paramKind, a paramRef without a
namespace selects from the namespace of the request; for cluster-scoped requests this is an error, unless the policy
has the defaultParams of the dialect. For a cluster-scoped paramKind, a paramRef with a namespace is always an error.
If the server does not know the paramKind, every request that the policy matches fails. It is a note if the kind
belongs to a group that is not part of Kubernetes and its CustomResourceDefinition is not among the files.`,
		Before: "kind: ValidatingAdmissionPolicyBinding\nspec:\n  policyName: replicas   # has paramKind",
		After:  "kind: ValidatingAdmissionPolicyBinding\nspec:\n  policyName: replicas\n  paramRef: {name: limits, namespace: policies, parameterNotFoundAction: Deny}",
		run:    paramReferences,
	},
	{
		Code: "CG013", Name: "redundant-rule", Severity: Note,
		Title: "an earlier resource rule already covers this one",
		Text:  `An earlier rule of the same list matches every request that this rule matches. Remove this rule.`,
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
		Title: "a resource rule does not match any resource",
		Text: `The API server does not check whether the groups, versions and resources of a rule exist. A rule matches
nothing if its resource is singular or misspelt, is a kind instead of a resource, or belongs to another group, or if
its version is no longer served. With matchPolicy Equivalent a rule also matches other versions of a resource, but
only if it names a version that is served. A custom resource whose CustomResourceDefinition is not among the files is
reported once, as a note.`,
		Before: "resourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [deployments]}",
		After:  "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}",
		run:    findUnmatchable,
	},
	{
		Code: "CG015", Name: "binding-matches-nothing", Severity: Warning,
		Title: "the binding cannot match any request that the policy matches",
		Text: `A request must match both the matchConstraints of the policy and the matchResources of the binding. If
these do not share an operation, resource or scope, the policy is never evaluated through this binding.`,
		run: findUnmatchedBindings,
	},
	{
		Code: "CG016", Name: "param-may-be-missing", Severity: Note,
		Title: "the params that the binding selects may be missing",
		Text: `If the paramRef selects nothing, parameterNotFoundAction decides. With Allow the binding is skipped, so
nothing is validated. With Deny it is an error, and failurePolicy Fail denies every request that the binding matches,
even if validationActions contains only Warn or Audit. It is a warning if the files contain other objects of the kind
but not this one, and is not reported if they contain this one.`,
		run: missingParams,
	},
	{
		Code: "CG019", Name: "namespace-ignored", Severity: Warning,
		Title: "metadata.namespace of a policy or binding for the whole cluster",
		Text: `Policies, bindings and libraries are cluster-scoped, so that the API server removes metadata.namespace
when it stores one: a binding written with a namespace acts in all of them. Only a NamespacedAdmissionPolicyBinding of
the dialect has a namespace, and acts there.`,
		Before: "kind: ValidatingAdmissionPolicyBinding\nmetadata: {name: replicas, namespace: shop}",
		After: "kind: ValidatingAdmissionPolicyBinding\nmetadata: {name: replicas}\nspec:\n  matchResources:\n" +
			"    namespaceSelector:\n      matchLabels: {kubernetes.io/metadata.name: shop}",
		run: ignoredNamespaces,
	},
}

func ignoredNamespaces(p *pass) {
	const path, ignored = "metadata.namespace", "%s is cluster-scoped: the server removes its namespace"
	for _, f := range p.facts {
		if f.Metadata.Namespace != "" {
			p.reportField(f.Policy, path, "remove it", ignored, f.Ref().Kind)
		}
	}
	for _, l := range p.Set.Libraries {
		if l.Metadata.Namespace != "" {
			p.reportLibrary(l, path, "remove it", ignored, l.Ref().Kind)
		}
	}
	for _, b := range p.Set.Bindings {
		if b.Metadata.Namespace == "" || b.Namespace != "" {
			continue
		}
		hint := "select the namespace in spec.matchResources"
		if b.Kind == policy.Admission {
			hint += ", or write a " + policy.NamespacedBinding
		}
		p.reportBinding(b, path, hint, "%s is cluster-scoped: it acts in all namespaces", b.Ref().Kind)
	}
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
			missing := "the selector does not match any " + kind.Kind
			if ref.Name != "" {
				missing = kind.Kind + " " + ref.Name
				if ref.Namespace != "" {
					missing = kind.Kind + " " + ref.Namespace + "/" + ref.Name
				} else if resource.Namespaced {
					missing += " in the namespace of the request"
				}
				missing += " does not exist"
			}
			then := "the binding is skipped and the policy is not evaluated"
			if ref.NotFoundAction == policy.NotFoundDeny {
				then = "every request that the binding matches is denied"
				if f.FailurePolicy == policy.Ignore {
					then = "the error is ignored, as failurePolicy is Ignore"
				} else if len(b.Actions) > 0 && !slices.Contains(b.Actions, policy.Deny) {
					then += ", although its validationActions do not contain Deny"
				}
			}
			severity := Note
			if given > 0 && (ref.Namespace != "" || !resource.Namespaced || ref.Selector != nil) {
				severity = Warning
			}
			at := "spec.paramRef"
			p.report(Diagnostic{
				Severity: severity, Message: fmt.Sprintf("if %s, %s", missing, then),
				Suggestion: "add the param to the files, and create it before the binding",
				Ref:        b.Ref(), Field: at, Position: b.Locate(&field.Error{Field: at}),
			})
		}
	}
}

// bindingHint describes the binding that a policy needs.
func bindingHint(p *policy.Policy) string {
	hint := "add a " + p.Kind.Binding() + " with spec.policyName: " + p.Name
	if p.Kind == policy.Admission {
		hint = "add an " + p.Kind.Binding() + " with spec.policyName: " + p.Name
	}
	if p.Abstract {
		hint += " and spec.matchResources.resourceRules"
	}
	return hint
}

func bindingWithoutPolicy(p *pass) {
	for _, b := range p.Set.Bindings {
		for i, ref := range b.Policies {
			if p.Set.Policy(ref) == nil {
				p.reportBinding(b, fmt.Sprintf("spec.policies[%d]", i), "", "%s is not among the files", ref)
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
			p.reportBinding(b, "spec.policyName", "use a binding of the policy's own kind",
				"%s is a policy of the other kind, which a %sBinding cannot bind", b.PolicyName, b.Kind)
		case near != "":
			p.reportBinding(b, "spec.policyName", "did you mean "+near+"?", "%s %s is not among the files", b.Kind, b.PolicyName)
		default:
			p.reportBinding(b, "spec.policyName", "", "%s %s is not among the files", b.Kind, b.PolicyName)
		}
	}
}

// Texts about a custom resource whose definition is not in the files.
const (
	undefinedMessage = "%s is unknown: its CustomResourceDefinition is not among the files"
	undefinedHint    = "add its CustomResourceDefinition to the files"
)

// undefinedGroup reports whether a group is one of custom resources, whose definitions may not be among the files.
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
					p.reportField(f.Policy, "spec.paramKind", undefinedHint, undefinedMessage, what)
					p.found[len(p.found)-1].Severity = Note
				}
			} else if params == nil {
				p.reportField(f.Policy, "spec.paramKind",
					"correct apiVersion and kind, or add the kind's CustomResourceDefinition to the files",
					"%s is not a kind in %s: every request that the policy matches fails", f.ParamKind.Kind,
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
						"the binding does not have a paramRef, but %s has a paramKind: params is null", f.Name)
				}
			case ref != nil && f.ParamKind == nil:
				p.reportBinding(b, "spec.paramRef", "add spec.paramKind to the policy, or remove the paramRef",
					"%s does not have a paramKind: the paramRef is ignored", f.Name)
				p.fix(func(object map[string]any) { delete(memberOf(object, "spec"), "paramRef") })
			case ref != nil && ref.NotFoundAction == policy.NotFoundDefault && f.DefaultParams == nil:
				p.reportBinding(b, "spec.paramRef.parameterNotFoundAction", "add defaultParams to the policy",
					"%s does not have defaultParams: it is an error if the paramRef selects nothing", f.Name)
			case ref != nil && params != nil && !params.Namespaced && ref.Namespace != "":
				p.reportBinding(b, "spec.paramRef.namespace", "remove the namespace",
					"%s is cluster-scoped: a paramRef with a namespace is always an error", f.ParamKind.Kind)
				p.fix(func(object map[string]any) {
					delete(memberOf(memberOf(object, "spec"), "paramRef"), "namespace")
				})
			case ref != nil && params != nil && params.Namespaced && ref.Namespace == "" &&
				ref.NotFoundAction != policy.NotFoundDefault:
				const hint = "set spec.paramRef.namespace"
				for _, t := range f.targets {
					if !t.named || t.namespaced {
						continue
					}
					if t.resource.GroupResource() != (schema.GroupResource{Resource: "namespaces"}) {
						p.reportBinding(b, "spec.paramRef", hint,
							"without a namespace, the paramRef selects from the namespace of the request, but %s are "+
								"cluster-scoped", t.resource.Resource)
						break
					}
					if f.operations()["CREATE"] {
						p.reportBinding(b, "spec.paramRef", hint, "without a namespace, the paramRef selects from the "+
							"requested namespace itself, and a new one is empty")
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

// removeItem removes an item from the list at a path such as spec.matchConstraints.resourceRules.
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
	lists := func(of policy.Ref, m *policy.MatchResources, own bool, path string, report reporter) {
		if m == nil {
			return
		}
		if own {
			visit(of, m.ResourceRules, path+".resourceRules", report)
		}
		visit(of, m.ExcludeRules, path+".excludeResourceRules", report)
	}
	for _, f := range p.facts { // the resource rules of an abstract policy are those of its bindings
		report := func(path, suggestion, format string, args ...any) {
			p.reportField(f.Policy, path, suggestion, format, args...)
		}
		lists(f.Ref(), f.MatchConstraints, !f.Abstract, "spec.matchConstraints", report)
	}
	for _, b := range p.Set.Bindings {
		lists(b.Ref(), b.MatchResources, true, "spec.matchResources", func(path, suggestion, format string, args ...any) {
			p.reportBinding(b, path, suggestion, format, args...)
		})
	}
}

// includes reports whether a matches everything that b matches.
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
						report(fmt.Sprintf("%s[%d].resources[%d]", path, i, j), undefinedHint, undefinedMessage, what)
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

// unknownKinds reports the kinds of a rule that do not exist in its groups and versions.
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
		report(fmt.Sprintf("%s[%d]", path, j), hint, "%s is not a kind in %s %s", kind,
			strings.Join(quotedGroups(rule), ", "), strings.Join(rule.APIVersions, ", "))
		if hint == "" && !slices.ContainsFunc(rule.APIGroups, func(g string) bool { return !p.undefinedGroup(g) }) {
			p.found[len(p.found)-1].Severity = Note
		}
	}
}

// defines reports whether the files define the resource, or a similar one: with another version or spelling.
func (p *pass) defines(rule policy.Rule, pattern string) bool {
	name, _, _ := strings.Cut(pattern, "/")
	return slices.ContainsFunc(p.Types.Resources(), func(r *schema.Resource) bool {
		return slices.Contains(rule.APIGroups, r.Group) &&
			(nearest(name, []string{r.Resource, strings.ToLower(r.Kind)}) != "" || r.Resource == name)
	})
}

func coversAny(rule policy.Rule, r *schema.Resource) bool {
	return !r.NotServed && typed.CoversAny(rule, r)
}

// unknownResource returns why a rule does not match any resource, and a hint.
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
				"the served version is " + r.Version
		case same && !slices.Contains(rule.APIGroups, "*"):
			hint = fmt.Sprintf("%s is in the group %q, version %s", name, r.Group, r.Version)
		case strings.EqualFold(r.Kind, name) && inGroup:
			return "there is no resource " + text, "use the plural in lower case: " + r.Resource
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
		return r.Resource + " does not have subresources"
	}
	return "the subresources are " + strings.Join(names, ", ")
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

// rulesMeet reports whether a request may match both rules. It ignores versions, since equivalent ones match too.
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

// nearest returns the candidate that differs from s by a few typing errors; "" if there is none.
func nearest(s string, candidates []string) string { return spell.Nearest(s, candidates, len(s)/3) }
