package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

var reach = []*Analyzer{
	{
		Code: "CG501", Name: "blast-radius", Severity: Warning,
		Title: "an error in the policy stops the cluster's own writes",
		Text: `The rules match leases or the status of nodes, which the control plane and every node write all the time, and failurePolicy is Fail: an evaluation error, or a param that is missing, keeps
leader election and heartbeats from being written. Name the resources that the policy is about, or exclude these with excludeResourceRules, a namespaceSelector or a match condition.`,
		Before: "failurePolicy: Fail\nresourceRules:\n- {apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*/*']}",
		After:  "failurePolicy: Fail\nresourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}",
		run:    blastRadius,
	},
	{
		Code: "CG502", Name: "subresource-not-covered", Severity: Note,
		Title: "a subresource can change what the policy looks at",
		Text: `A rule for a resource does not match its subresources. Some of them write fields that policies guard: replicas through scale, containers of a running Pod through ephemeralcontainers, their resources through
resize. It is a warning where the rules name the resource of what the last two write.`,
		Before: "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}\n…\nexpression: object.spec.replicas <= 5",
		After:  "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/scale]}",
		run:    findUncovered,
	},
	{
		Code: "CG503", Name: "update-not-covered", Severity: Note,
		Title:  "an update can change what the policy looks at",
		Text:   `The rules match CREATE but not UPDATE. What the policy asks of a new object, a later update may take away. Where the API lets the field change, match UPDATE too; where it does not, nothing is wrong.`,
		Before: "operations: [CREATE]\n…\nexpression: object.spec.replicas <= 5",
		After:  "operations: [CREATE, UPDATE]\n…\nexpression: object.spec.replicas <= 5",
		run:    updates,
	},
	{
		Code: "CG504", Name: "exempt-resource", Severity: Warning,
		Title:  "the server asks no policy about the resource",
		Text:   `Policies and their bindings, token reviews and access reviews never reach a policy, or nobody could repair a policy that denies everything. A rule that names them matches nothing. Webhook configurations are not exempt.`,
		Before: "resourceRules:\n- {apiGroups: [admissionregistration.k8s.io], apiVersions: ['*'], operations: ['*'], resources: [validatingadmissionpolicies]}",
		After:  "# who may write policies is a matter of RBAC",
		run:    exemptResources,
	},
	{
		Code: "CG505", Name: "namespace-leaves-selector", Severity: Warning,
		Title: "an update of a Namespace can leave the namespaceSelector",
		Text: `For a request on a Namespace itself the selector looks at the labels in the request, not at those that are stored. Who removes the label with an update is not matched by it: the policy does not see the very
update that it would have to deny. Leave out the selector and ask for oldObject's labels.`,
		Before: "namespaceSelector: {matchLabels: {env: prod}}\nresourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [namespaces]}",
		After:  "resourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [namespaces]}\n…\nmatchConditions:\n- name: was-prod\n  expression: oldObject.metadata.?labels[?'env'].orValue('') == 'prod'",
		run:    leavesSelector,
	},
	{
		Code: "CG506", Name: "matches-own-params", Severity: Warning,
		Title: "the policy matches the kind of its own params",
		Text: `The rules match the kind that spec.paramKind names: the params are judged by the policy that they configure. A param that makes the policy fail, or that it does not allow, may then not be corrected
or deleted. Leave the kind out of the rules, or exclude the params with excludeResourceRules, a namespaceSelector or a match condition. It is a note where one of these, or a condition, may do so already.`,
		Before: "paramKind: {apiVersion: v1, kind: ConfigMap}\nresourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: ['*']}",
		After:  "paramKind: {apiVersion: v1, kind: ConfigMap}\nresourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: ['*']}\nexcludeResourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [configmaps]}",
		run:    matchesParams,
	},
	{
		Code: "CG507", Name: "templates-not-covered", Severity: Note,
		Title: "a workload is stored though its Pods are refused",
		Text: `The policy denies Pods, and most Pods are made by controllers: whoever applies a Deployment is told that all is well, and its Pods are refused later. No policy of the set looks at the template that they are made
of. A warning about a Pod is heard by its controller alone. celgate apply and celgate test follow workloads to their Pods, so that CI tells; to tell whoever applies the workload, write a policy for the kinds with templates, with the action Warn, as the Pods are refused anyway; an AdmissionPolicy has templates: [pods].`,
		Before: "resourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}\n…\nexpression: object.spec.?hostNetwork != optional.of(true)",
		After:  "# beside it, with validationActions: [Warn]\nresourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, statefulsets, daemonsets]}\n…\nexpression: object.spec.template.spec.?hostNetwork != optional.of(true)",
		run:    findUncoveredTemplates,
	},
	{
		Code: "CG508", Name: "excluded-entirely", Severity: Warning,
		Title:  "the exclude rules take away all that is included",
		Text:   `A request that an exclude rule matches is not matched by the policy or binding, whatever its resourceRules say. Where the exclude rules cover every resource and operation that is included, nothing is left.`,
		Before: "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}\nexcludeResourceRules:\n- {apiGroups: [apps], apiVersions: ['*'], operations: ['*'], resources: ['*']}",
		After:  "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}",
		run:    findExcluded,
	},
}

// matchesParams finds policies that judge their own params.
func matchesParams(p *pass) {
	for _, f := range p.facts {
		kind, ops := p.paramKind(f), f.operations()
		if kind.Kind == "" || !ops["UPDATE"] && !ops["DELETE"] && !ops["CREATE"] {
			continue
		}
		i := slices.IndexFunc(f.targets, func(t target) bool { return t.kind == kind && t.subresource == "" })
		if i < 0 {
			continue
		}
		r := p.Types.Resource(f.targets[i].resource)
		if r == nil || excludes(f.MatchConstraints, r, "", ops) {
			continue
		}
		for j, rule := range f.MatchConstraints.ResourceRules {
			if !typed.Covers(rule, r, "") {
				continue
			}
			path := fmt.Sprintf("spec.matchConstraints.resourceRules[%d]", j)
			p.reportField(f.Policy, path, "exclude "+r.Resource+", or keep the params out by a match condition",
				"the rule matches %s, the kind of the policy's own params", r.Resource)
			if f.isSelective() || len(rule.ResourceNames) > 0 {
				p.found[len(p.found)-1].Severity = Note
			}
			break
		}
	}
}

// templates are the resources that controllers make Pods of, without those that controllers make themselves, and where
// the template is.
var templates = []struct {
	group, resource string
	at              effects.Path
}{
	{"apps", "deployments", effects.NewPath("object", "spec", "template")},
	{"apps", "statefulsets", effects.NewPath("object", "spec", "template")},
	{"apps", "daemonsets", effects.NewPath("object", "spec", "template")},
	{"batch", "jobs", effects.NewPath("object", "spec", "template")},
	{"batch", "cronjobs", effects.NewPath("object", "spec", "jobTemplate")},
}

// findUncoveredTemplates finds policies that deny Pods, or warn about them, whose set looks at no template of some
// workloads.
func findUncoveredTemplates(p *pass) {
	var uncovered []string
	for _, w := range templates {
		if !slices.ContainsFunc(p.facts, func(f *facts) bool {
			return f.JudgesTemplates() || f.Validates() && slices.ContainsFunc(f.targets, func(t target) bool {
				return t.subresource == "" && t.resource.Group == w.group && t.resource.Resource == w.resource
			}) && f.readsWithin(w.at)
		}) {
			uncovered = append(uncovered, w.resource)
		}
	}
	if len(uncovered) == 0 {
		return
	}
	for _, f := range p.facts {
		does := func(action policy.Action) bool {
			return slices.ContainsFunc(f.bindings,
				func(b *policy.Binding) bool { return slices.Contains(b.Actions, action) })
		}
		what := "they are stored, and Pods that " + f.Name + " denies are refused later"
		if !does(policy.Deny) {
			what = "controllers are warned by " + f.Name + " of Pods, and read no warnings"
		}
		if !f.Validates() || !does(policy.Deny) && !does(policy.Warn) || !f.operations()["CREATE"] ||
			!f.readsWithin(effects.NewPath("object", "spec")) {
			continue
		}
		suggestion := "celgate apply and test follow workloads to their Pods; a policy with the action Warn for these kinds tells who applies them"
		if f.Kind == policy.Admission {
			suggestion = "templates: [pods] has the policy warn of them, too"
		}
		for i, rule := range f.MatchConstraints.ResourceRules {
			if slices.Contains(rule.Resources, "pods") && slices.Contains(rule.APIGroups, "") {
				p.reportField(f.Policy, fmt.Sprintf("spec.matchConstraints.resourceRules[%d]", i), suggestion,
					"no policy of the set looks at the templates of %s: %s", strings.Join(uncovered, ", "), what)
				break
			}
		}
	}
}

// readsWithin reports that an expression reads something at a path or below it.
func (f *facts) readsWithin(path effects.Path) bool {
	for e := range f.parsedExpressions() {
		if slices.ContainsFunc(e.reads.List, func(r effects.Read) bool { return path.Contains(r.Path) }) {
			return true
		}
	}
	return false
}

// excludes reports that exclude rules cover a resource for all of some operations.
func excludes(m *policy.MatchResources, r *schema.Resource, subresource string, ops map[string]bool) bool {
	for op := range ops {
		if op != "*" && !slices.ContainsFunc(m.ExcludeRules, func(x policy.Rule) bool {
			return len(x.ResourceNames) == 0 && typed.Covers(x, r, subresource) &&
				(slices.Contains(x.Operations, "*") || slices.Contains(x.Operations, op))
		}) {
			return false
		}
	}
	return len(m.ExcludeRules) > 0
}

func findExcluded(p *pass) {
	for _, f := range p.facts {
		const message, hint = "the exclude rules cover all that %s matches: nothing is left",
			"remove the exclude rules, or name less in them"
		all := func(m *policy.MatchResources) bool {
			return len(f.targets) > 0 && !slices.ContainsFunc(f.targets, func(t target) bool {
				r := p.Types.Resource(t.resource)
				return r == nil || !excludes(m, r, t.subresource, f.operations())
			})
		}
		if f.MatchConstraints == nil {
			continue
		}
		if all(f.MatchConstraints) {
			p.reportField(f.Policy, "spec.matchConstraints.excludeResourceRules", hint, message, "the policy")
			continue
		}
		for _, b := range f.bindings {
			if b.MatchResources != nil && all(b.MatchResources) {
				p.reportBinding(b, "spec.matchResources.excludeResourceRules", hint, message, f.Name)
			}
		}
	}
}

// isChangeable reports a kind that a rule names and whose spec updates can change.
func isChangeable(t target) bool {
	return t.named && t.subresource == "" && t.kind.Kind != "Pod" && t.kind.Kind != "Job"
}

// updates finds policies that look at new objects only.
func updates(p *pass) {
	for _, f := range p.facts {
		ops := f.operations()
		if !f.Validates() || !ops["CREATE"] || ops["UPDATE"] ||
			!slices.ContainsFunc(f.targets, isChangeable) {
			continue
		}
		for e := range f.parsedExpressions() {
			if e.Use != policy.UseValidation || f.asksOperation(e) {
				continue
			}
			i := slices.IndexFunc(e.reads.List, func(r effects.Read) bool {
				return effects.NewPath("object", "spec").Contains(r.Path) && r.Path.Steps != "spec"
			})
			if i < 0 {
				continue
			}
			d := f.diagnosticAt(e, e.reads.List[i].ID)
			d.Message = fmt.Sprintf("an update can change %s, and the rules match no UPDATE", e.reads.List[i].Path)
			d.Suggestion = "add UPDATE to the operations, if the API lets the field change"
			p.report(d)
			break
		}
	}
}

func exemptResources(p *pass) {
	each(p, func(of policy.Ref, list []policy.Rule, path string, report reporter) {
		for i, rule := range list {
			for j, pattern := range rule.Resources {
				name, _, _ := strings.Cut(pattern, "/")
				for _, group := range rule.APIGroups {
					if celgate.Exempt(schema.GroupResource{Group: group, Resource: name}, of.Static) &&
						strings.HasSuffix(path, "resourceRules") {
						report(fmt.Sprintf("%s[%d].resources[%d]", path, i, j), "leave it out",
							"the API server asks no policy about %s", name)
					}
				}
			}
		}
	})
}

func leavesSelector(p *pass) {
	for _, f := range p.facts {
		updated := f.Validates() && f.operations()["UPDATE"] &&
			slices.ContainsFunc(f.targets, func(t target) bool { return t.named && t.kind == namespaceKind })
		if !updated {
			continue
		}
		selects := func(m *policy.MatchResources) bool {
			return m != nil && m.NamespaceSelector != nil &&
				len(m.NamespaceSelector.MatchLabels)+len(m.NamespaceSelector.MatchExpressions) > 0
		}
		const message, hint = "an update that changes the labels of the Namespace is matched by its new labels",
			"leave out the selector and ask for oldObject's labels"
		if selects(f.MatchConstraints) {
			p.reportField(f.Policy, "spec.matchConstraints.namespaceSelector", hint, message)
		}
		for _, b := range f.bindings {
			if selects(b.MatchResources) {
				p.reportBinding(b, "spec.matchResources.namespaceSelector", hint, message)
			}
		}
	}
}

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// vital are resources that the control plane and nodes write to stay alive.
var vital = []struct {
	resource    schema.GroupVersionResource
	subresource string
}{
	{schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, ""},
	{schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "status"},
}

func blastRadius(p *pass) {
	for _, f := range p.facts {
		ops := f.operations()
		if f.FailurePolicy != policy.Fail || f.isSelective() || !ops["UPDATE"] || len(f.bindings) == 0 {
			continue
		}
		for i, rule := range f.MatchConstraints.ResourceRules {
			var names []string
			for _, v := range vital {
				r := p.Types.Resource(v.resource)
				if r == nil || !typed.Covers(rule, r, v.subresource) || len(rule.ResourceNames) > 0 ||
					slices.ContainsFunc(f.MatchConstraints.ExcludeRules,
						func(x policy.Rule) bool { return typed.Covers(x, r, v.subresource) }) {
					continue
				}
				if !slices.Contains(rule.APIGroups, "*") &&
					!slices.ContainsFunc(rule.Resources, func(s string) bool { return strings.Contains(s, "*") }) {
					continue // it is meant
				}
				names = append(names, resourceName(r, v.subresource))
			}
			if len(names) > 0 {
				p.reportField(f.Policy, fmt.Sprintf("spec.matchConstraints.resourceRules[%d]", i),
					"name the resources that the policy is about, or exclude these",
					"the rule matches %s too, with everything in kube-system, and failurePolicy is Fail: an error stops them from being written", strings.Join(names, ", "))
			}
		}
	}
}

// writers are the subresources that write fields of their resource: below the given path, in the object of the
// resource.
var writers = []struct {
	subresource string
	paths       []effects.Path
}{
	{"scale", []effects.Path{effects.NewPath("object", "spec", "replicas")}},
	{"ephemeralcontainers", []effects.Path{effects.NewPath("object", "spec", "ephemeralContainers")}},
	{"resize", []effects.Path{
		effects.NewPath("object", "spec", "containers", effects.Item, "resources"),
		effects.NewPath("object", "spec", "initContainers", effects.Item, "resources"),
	}},
}

func findUncovered(p *pass) {
	for _, f := range p.facts {
		if !f.Validates() || f.MatchConstraints == nil || !f.operations()["UPDATE"] {
			continue
		}
		wild := map[string]bool{}
		for _, t := range f.targets {
			r := p.Types.Resource(t.resource)
			if t.subresource != "" || r == nil || t.typ == nil {
				continue
			}
			for _, w := range writers {
				if r.Subresource(w.subresource) == nil ||
					slices.ContainsFunc(f.MatchConstraints.ResourceRules,
						func(rule policy.Rule) bool { return typed.Covers(rule, r, w.subresource) }) {
					continue
				}
				for e := range f.parsedExpressions() {
					i := slices.IndexFunc(e.reads.List, func(read effects.Read) bool {
						return slices.ContainsFunc(w.paths,
							func(path effects.Path) bool { return path.Contains(read.Path) }) &&
							typed.Locate(t.typ, read.Path.Split()).Type != nil
					})
					if e.Use == policy.UseMessageExpression || e.Use == policy.UseAuditAnnotation || i < 0 {
						continue
					}
					if !t.named && wild[e.Field+w.subresource] {
						continue // one of the kinds of a wildcard says it
					}
					wild[e.Field+w.subresource] = !t.named
					d := f.diagnosticAt(e, e.reads.List[i].ID)
					d.Message = fmt.Sprintf("%s/%s writes %s, and no rule matches it", r.Resource, w.subresource,
						e.reads.List[i].Path)
					d.Suggestion = fmt.Sprintf("add the resource %s/%s to the rules", r.Resource, w.subresource)
					if w.subresource != "scale" && t.named {
						d.Severity = Warning // containers of a running Pod pass by unseen
					} else if w.subresource == "scale" {
						d.Suggestion += " (its object is an autoscaling/v1 Scale)"
					}
					p.report(d)
					break
				}
			}
		}
	}
}
