package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/effects"
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
		Run:    blastRadius,
	},
	{
		Code: "CG502", Name: "subresource-not-covered", Severity: Note,
		Title: "a subresource can change what the policy looks at",
		Text: `A rule for a resource does not match its subresources. Some of them write fields that policies guard: replicas through scale, containers of a running Pod through ephemeralcontainers, their resources through
resize.`,
		Before: "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}\n…\nexpression: object.spec.replicas <= 5",
		After:  "resourceRules:\n- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, deployments/scale]}",
		Run:    uncovered,
	},
}

// vital are resources that the control plane and nodes write to stay alive.
var vital = []struct {
	resource    schema.GroupVersionResource
	subresource string
}{
	{schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, ""},
	{schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "status"},
}

func blastRadius(p *Pass) {
	for _, f := range p.facts {
		ops := f.operations()
		if f.FailurePolicy != policy.Fail || f.selective() || !ops["UPDATE"] || len(f.bindings) == 0 {
			continue
		}
		for i, rule := range f.MatchConstraints.ResourceRules {
			var names []string
			for _, v := range vital {
				r := p.Types.Resource(v.resource)
				if r == nil || !covers(rule, r, v.subresource) || len(rule.ResourceNames) > 0 || slices.ContainsFunc(f.MatchConstraints.ExcludeRules, func(x policy.Rule) bool { return covers(x, r, v.subresource) }) {
					continue
				}
				if !slices.Contains(rule.APIGroups, "*") && !slices.ContainsFunc(rule.Resources, func(s string) bool { return strings.Contains(s, "*") }) {
					continue // it is meant
				}
				names = append(names, resourceName(r, v.subresource))
			}
			if len(names) > 0 {
				p.atField(f.Policy, fmt.Sprintf("spec.matchConstraints.resourceRules[%d]", i), "name the resources that the policy is about, or exclude these",
					"the rule matches %s too, and failurePolicy is Fail: an error stops them from being written", strings.Join(names, ", "))
			}
		}
	}
}

// writers are the subresources that write fields of their resource: below the given path, in the object of the resource.
var writers = []struct {
	subresource string
	paths       []effects.Path
}{
	{"scale", []effects.Path{effects.At("object", "spec", "replicas")}},
	{"ephemeralcontainers", []effects.Path{effects.At("object", "spec", "ephemeralContainers")}},
	{"resize", []effects.Path{
		effects.At("object", "spec", "containers", effects.Item, "resources"), effects.At("object", "spec", "initContainers", effects.Item, "resources"),
	}},
}

func uncovered(p *Pass) {
	for _, f := range p.facts {
		if f.Kind != policy.Validating || f.MatchConstraints == nil || !f.operations()["UPDATE"] {
			continue
		}
		for _, t := range f.targets {
			r := p.Types.Resource(t.resource)
			if !t.named || t.subresource != "" || r == nil {
				continue
			}
			for _, w := range writers {
				if r.Subresource(w.subresource) == nil || slices.ContainsFunc(f.MatchConstraints.ResourceRules, func(rule policy.Rule) bool { return covers(rule, r, w.subresource) }) {
					continue
				}
				for e := range f.parsed() {
					i := slices.IndexFunc(e.reads.List, func(read effects.Read) bool {
						return slices.ContainsFunc(w.paths, func(path effects.Path) bool { return path.Contains(read.Path) })
					})
					if e.use == policy.UseMessageExpression || e.use == policy.UseAuditAnnotation || i < 0 {
						continue
					}
					d := f.at(e, e.reads.List[i].ID)
					d.Message = fmt.Sprintf("%s/%s writes %s, and no rule matches it", r.Resource, w.subresource, e.reads.List[i].Path)
					d.Suggestion = fmt.Sprintf("add the resource %s/%s to the rules", r.Resource, w.subresource)
					if w.subresource == "scale" {
						d.Suggestion += " (its object is an autoscaling/v1 Scale)"
					}
					p.report(d)
					break
				}
			}
		}
	}
}
