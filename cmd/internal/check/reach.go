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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var reach = []*Analyzer{
	{
		Code: "CG501", Name: "blast-radius", Severity: Warning,
		Title: "an error in the policy blocks writes of the control plane",
		Text: `The rules match leases or the status of nodes, which the control plane and every node write
continuously, and failurePolicy is Fail. An evaluation error or a missing param then blocks leader election and
heartbeats. Name the resources that the policy is about, or exclude these with excludeResourceRules, a
namespaceSelector or a match condition.`,
		Before: "failurePolicy: Fail\nresourceRules:\n- {apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*/*']}",
		After:  "failurePolicy: Fail\nresourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}",
		run:    blastRadius,
	},
	{
		Code: "CG502", Name: "subresource-not-covered", Severity: Note,
		Title: "a subresource can change a field that the policy checks",
		Text: `A rule for a resource does not match its subresources, and some of them write fields that policies
check: scale writes replicas, ephemeralcontainers adds containers to a running Pod, resize changes the resources of
its containers. For the last two it is a warning if the rules name the resource.`,
		Before: "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}\n…\nexpression: object.spec.replicas <= 5",
		After:  "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/scale]}",
		run:    findUncovered,
	},
	{
		Code: "CG503", Name: "update-not-covered", Severity: Note,
		Title: "an update can change a field that the policy checks",
		Text: `The rules match CREATE but not UPDATE, so a later update may undo what the policy requires of a new
object. If the API allows the field to change, match UPDATE too; if it does not, nothing is wrong.`,
		Before: "operations: [CREATE]\n…\nexpression: object.spec.replicas <= 5",
		After:  "operations: [CREATE, UPDATE]\n…\nexpression: object.spec.replicas <= 5",
		run:    updates,
	},
	{
		Code: "CG504", Name: "exempt-resource", Severity: Warning,
		Title: "the API server does not evaluate policies for the resource",
		Text: `Policies and their bindings, token reviews and access reviews are exempt from policies; otherwise nobody
could repair a policy that denies everything. A rule that names one of them matches nothing. Webhook configurations
are not exempt.`,
		Before: "resourceRules:\n- {apiGroups: [admissionregistration.k8s.io], apiVersions: ['*'], operations: ['*'], resources: [validatingadmissionpolicies]}",
		After:  "# who may write policies is a matter of RBAC",
		run:    exemptResources,
	},
	{
		Code: "CG505", Name: "namespace-leaves-selector", Severity: Warning,
		Title: "an update of a Namespace can evade the namespaceSelector",
		Text: `For a request about a Namespace itself, the selector is compared with the labels in the request, not
with the stored labels. An update that removes the label is not matched, so the policy does not see the very update
that it should deny. Remove the selector and test the labels of oldObject. A selector by the name of the Namespace, with
the label kubernetes.io/metadata.name, is not reported: that label cannot change.`,
		Before: "namespaceSelector: {matchLabels: {env: prod}}\nresourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [namespaces]}",
		After:  "resourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [namespaces]}\n…\nmatchConditions:\n- name: was-prod\n  expression: oldObject.metadata.?labels[?'env'].orValue('') == 'prod'",
		run:    leavesSelector,
	},
	{
		Code: "CG506", Name: "matches-own-params", Severity: Warning,
		Title: "the policy matches the kind of its own params",
		Text: `The rules match the kind that spec.paramKind names, so the policy decides about its own params. If a
param makes the policy fail, or the policy denies it, it may be impossible to correct or delete the param. Remove the
kind from the rules, or exclude the params with excludeResourceRules, a namespaceSelector or a match condition. It is
a note if the policy has one of these, which may exclude the params already.`,
		Before: "paramKind: {apiVersion: v1, kind: ConfigMap}\nresourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: ['*']}",
		After:  "paramKind: {apiVersion: v1, kind: ConfigMap}\nresourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: ['*']}\nexcludeResourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [configmaps]}",
		run:    matchesParams,
	},
	{
		Code: "CG507", Name: "templates-not-covered", Severity: Note,
		Title: "a workload is stored although its Pods are denied",
		Text: `The policy denies Pods, and controllers create most Pods: applying a Deployment succeeds, and its Pods
are denied later. None of the policies reads the Pod template. If the policy only warns about Pods, only the
controller receives the warning. celgate apply and celgate test follow workloads to their Pods, so CI reports the
denial. To report it when a workload is applied, add a policy for the kinds with templates; its action can be Warn,
since the Pods are denied anyway. An AdmissionPolicy can set templates: [pods] instead.`,
		Before: "resourceRules:\n- {apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}\n…\nexpression: object.spec.?hostNetwork != optional.of(true)",
		After:  "# beside it, with validationActions: [Warn]\nresourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, statefulsets, daemonsets]}\n…\nexpression: object.spec.template.spec.?hostNetwork != optional.of(true)",
		run:    findUncoveredTemplates,
	},
	{
		Code: "CG508", Name: "excluded-entirely", Severity: Warning,
		Title: "the exclude rules cover everything that is included",
		Text: `A policy or binding does not match a request that one of its exclude rules matches, whatever its
resourceRules say. If the exclude rules cover every resource and operation that is included, nothing is left.`,
		Before: "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}\nexcludeResourceRules:\n- {apiGroups: [apps], apiVersions: ['*'], operations: ['*'], resources: ['*']}",
		After:  "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}",
		run:    findExcluded,
	},
}

// matchesParams finds policies that match their own params.
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
			p.reportField(f.Policy, path, "exclude "+r.Resource+", or exempt the params by a match condition",
				"the rule matches %s, the kind of the policy's own params", r.Resource)
			if f.isSelective() || len(rule.ResourceNames) > 0 {
				p.found[len(p.found)-1].Severity = Note
			}
			break
		}
	}
}

// templates are the workloads that users create, with the path of the Pod template.
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

// findUncoveredTemplates finds policies that deny Pods, or warn about them, in a set that does not read the templates
// of some workloads.
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
		what := "they are stored, and " + f.Name + " denies their Pods later"
		if !does(policy.Deny) {
			what = "only controllers receive the warnings of " + f.Name + " about Pods"
		}
		if !f.Validates() || !does(policy.Deny) && !does(policy.Warn) || !f.operations()["CREATE"] ||
			!f.readsWithin(effects.NewPath("object", "spec")) {
			continue
		}
		suggestion := "add a policy with the action Warn for these kinds; celgate apply and celgate test follow workloads " +
			"to their Pods"
		if f.Kind == policy.Admission {
			suggestion = "set templates: [pods], so that the policy warns about the templates too"
		}
		for i, rule := range f.MatchConstraints.ResourceRules {
			if slices.Contains(rule.Resources, "pods") && slices.Contains(rule.APIGroups, "") {
				p.reportField(f.Policy, fmt.Sprintf("spec.matchConstraints.resourceRules[%d]", i), suggestion,
					"none of the policies reads the templates of %s: %s", strings.Join(uncovered, ", "), what)
				break
			}
		}
	}
}

// readsWithin reports whether an expression reads a path or something below it.
func (f *facts) readsWithin(path effects.Path) bool {
	for e := range f.parsedExpressions() {
		if slices.ContainsFunc(e.reads.List, func(r effects.Read) bool { return path.Contains(r.Path) }) {
			return true
		}
	}
	return false
}

// excludes reports whether exclude rules cover a resource for all of some operations.
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
		const message, hint = "the exclude rules cover everything that %s matches: nothing is left",
			"remove the exclude rules, or narrow them"
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

// isChangeable reports whether a rule names the kind and updates can change its spec.
func isChangeable(t target) bool {
	return t.named && t.subresource == "" && t.kind.Kind != "Pod" && t.kind.Kind != "Job"
}

// updates finds policies that check new objects only.
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
			d.Message = fmt.Sprintf("an update can change %s, but the rules do not match UPDATE", e.reads.List[i].Path)
			d.Suggestion = "add UPDATE to the operations, if the API allows the field to change"
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
						report(fmt.Sprintf("%s[%d].resources[%d]", path, i, j), "remove it",
							"the API server does not evaluate policies for %s", name)
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
		const message, hint = "the selector is compared with the new labels of the Namespace, so an update can evade it",
			"remove the selector and test the labels of oldObject"
		if selectsByLabels(f.MatchConstraints) {
			p.reportField(f.Policy, "spec.matchConstraints.namespaceSelector", hint, message)
		}
		for _, b := range f.bindings {
			if selectsByLabels(b.MatchResources) {
				p.reportBinding(b, "spec.matchResources.namespaceSelector", hint, message)
			}
		}
	}
}

// nameLabel is the label of a Namespace that the server sets to its name whenever it decodes one.
const nameLabel = "kubernetes.io/metadata.name"

// selectsByLabels reports whether match resources select namespaces by labels that an update can change.
func selectsByLabels(m *policy.MatchResources) bool {
	if m == nil || m.NamespaceSelector == nil {
		return false
	}
	for key := range m.NamespaceSelector.MatchLabels {
		if key != nameLabel {
			return true
		}
	}
	return slices.ContainsFunc(m.NamespaceSelector.MatchExpressions,
		func(e metav1.LabelSelectorRequirement) bool { return e.Key != nameLabel })
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
					continue // it is intended
				}
				names = append(names, resourceName(r, v.subresource))
			}
			if len(names) > 0 {
				p.reportField(f.Policy, fmt.Sprintf("spec.matchConstraints.resourceRules[%d]", i),
					"name the resources that the policy is about, or exclude these",
					"the rule also matches %s, even in kube-system, and failurePolicy is Fail: an error blocks their writes",
					strings.Join(names, ", "))
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
						continue // reported for another kind of the wildcard
					}
					wild[e.Field+w.subresource] = !t.named
					d := f.diagnosticAt(e, e.reads.List[i].ID)
					d.Message = fmt.Sprintf("%s/%s writes %s, but the rules do not match it", r.Resource, w.subresource,
						e.reads.List[i].Path)
					d.Suggestion = fmt.Sprintf("add the resource %s/%s to the rules", r.Resource, w.subresource)
					if w.subresource != "scale" && t.named {
						d.Severity = Warning // the policy does not see changes of a running Pod
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
