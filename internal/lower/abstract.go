package lower

import (
	"fmt"
	"slices"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// withBindingRules returns the manifest of an abstract policy with the resource rules of its bindings; the manifest of
// another policy is unchanged.
func withBindingRules(object map[string]any, p *policy.Policy) map[string]any {
	if !p.Abstract {
		return object
	}
	spec, _ := object["spec"].(map[string]any)
	constraints, _ := spec["matchConstraints"].(map[string]any)
	constraints = tree.Object(constraints).With(map[string]any{"resourceRules": rulesTree(p.MatchConstraints.ResourceRules)})
	return setMember(object, "spec", setMember(spec, "matchConstraints", constraints))
}

// checkAbstract refuses an abstract policy whose native form would behave differently: without bindings it matches
// nothing, and the version of a resource that it sees would depend on all of its bindings.
func (l *Lowering) checkAbstract(p *policy.Policy) []Refusal {
	switch {
	case !p.Abstract:
		return nil
	case len(p.MatchConstraints.ResourceRules) == 0:
		return []Refusal{{"spec.abstract", "none of the given bindings has resourceRules for it"}}
	case p.MatchConstraints.MatchPolicy == policy.Exact || l.countBindings(p) < 2:
		return nil
	}
	for _, r := range l.types.Resources() {
		if versions := l.namedVersions(p, r); len(versions) > 1 {
			return []Refusal{{"spec.abstract", fmt.Sprintf("rules of its bindings name %s as %s and as %s, and kube-apiserver "+
				"has one policy for all of them", r.Resource, versions[0].GroupVersion(), versions[1].GroupVersion())}}
		}
	}
	return nil
}

func (l *Lowering) countBindings(p *policy.Policy) (n int) {
	for _, b := range l.set.Bindings {
		if b.Binds(p) {
			n++
		}
	}
	return n
}

// namedVersions returns the versions of a resource that rules of p name, unless all of these rules name all versions.
func (l *Lowering) namedVersions(p *policy.Policy, r *schema.Resource) (named []*schema.Resource) {
	all := l.types.Equivalents(r.GroupVersionResource, "")
	some := false
	for _, rule := range p.MatchConstraints.ResourceRules {
		count := 0
		for _, as := range all {
			if typed.CoversAny(rule, as) {
				if count++; !slices.Contains(named, as) {
					named = append(named, as)
				}
			}
		}
		some = some || count > 0 && count < len(all)
	}
	if !some {
		return nil
	}
	return named
}
