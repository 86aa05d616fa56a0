package policy

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// With returns an abstract policy with the resource rules of one of its bindings. It returns other policies unchanged.
func (p *Policy) With(b *Binding) *Policy {
	if !p.Abstract {
		return p
	}
	of := *p
	of.Abstract, of.MatchConstraints = false, p.constraints(b.rules())
	return &of
}

// Complete returns an abstract policy of the set with the resource rules of all its bindings. It returns other policies
// unchanged.
func (s *Set) Complete(p *Policy) *Policy {
	if !p.Abstract {
		return p
	}
	of := *p
	of.MatchConstraints = p.constraints(s.rulesFor(p.Ref()))
	return &of
}

// constraints returns the match constraints of an abstract policy with resource rules.
func (p *Policy) constraints(rules []Rule) *MatchResources {
	of := MatchResources{MatchPolicy: Equivalent}
	if written := p.Source().MatchConstraints; written != nil {
		of = *written
	}
	of.ResourceRules = rules
	return &of
}

// rules returns the resource rules of the binding; those of a namespaced binding match only namespaced objects.
func (b *Binding) rules() []Rule {
	switch {
	case b.MatchResources == nil:
		return nil
	case b.Namespace == "":
		return b.MatchResources.ResourceRules
	}
	var own []Rule
	for _, r := range b.MatchResources.ResourceRules {
		if r.Scope != "Cluster" {
			r.Scope = "Namespaced"
			own = append(own, r)
		}
	}
	return own
}

// rulesFor returns the rules of the bindings that name a policy, each once, ordered by the names of the bindings.
func (s *Set) rulesFor(ref Ref) (all []Rule) {
	bindings := slices.DeleteFunc(slices.Clone(s.Bindings), func(b *Binding) bool { return !b.Names(ref) })
	slices.SortFunc(bindings, func(a, b *Binding) int { return a.Ref().Compare(b.Ref()) })
	for _, b := range bindings {
		for _, r := range b.rules() {
			if !slices.ContainsFunc(all, func(other Rule) bool { return reflect.DeepEqual(r, other) }) {
				all = append(all, r)
			}
		}
	}
	return all
}

// CheckAbstract returns errors if b cannot bind those of its policies that are abstract, as far as they are known: it
// lacks resource rules, or they are not valid for the policy.
func (b *Binding) CheckAbstract(known map[Ref]*Policy) field.ErrorList {
	var v validator
	resources := field.NewPath("spec", "matchResources")
	for _, ref := range b.PolicyRefs() {
		p := known[ref]
		switch {
		case p == nil || !p.Abstract:
		case len(b.rules()) == 0:
			v.add(field.Required(resources.Child("resourceRules"), "the policy "+p.Name+" is abstract"))
		case p.Mutates() && !p.Validates():
			v.mutatingOperations(b.MatchResources, resources)
		}
	}
	return v.distinct()
}

// abstract checks that an abstract policy does not have resource rules.
func (v *validator) abstract(p *Policy, spec *field.Path) {
	if !p.Abstract {
		return
	}
	if m := p.Source().MatchConstraints; m != nil && len(m.ResourceRules) > 0 {
		v.add(field.Forbidden(spec.Child("matchConstraints", "resourceRules"), "must be set in the bindings of an abstract policy"))
	}
	if p.Singleton != nil {
		v.add(field.Forbidden(spec.Child("abstract"), "a singleton policy has no bindings"))
	}
}
