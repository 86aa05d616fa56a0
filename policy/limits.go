package policy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits are the largest sizes of a policy, and of the number of its bindings; 0: unlimited, as on an API server. They
// apply to written objects: an old object beyond them may keep its size or shrink.
type Limits struct {
	Bindings    int // of a policy
	Rules       int // of each list of rules in a policy or a binding, and match conditions
	Validations int // of a policy
	Mutations   int // of a policy
}

// PolicyErrors returns errors for lists of a policy that exceed the limits and those of old; old may be nil.
func (l Limits) PolicyErrors(p, old *Policy) field.ErrorList {
	if old == nil {
		old = &Policy{}
	}
	spec := field.NewPath("spec")
	var c limitChecker
	c.list(spec.Child("validations"), len(p.Validations), len(old.Validations), l.Validations)
	c.list(spec.Child("mutations"), len(p.Mutations), len(old.Mutations), l.Mutations)
	c.list(spec.Child("matchConditions"), len(p.MatchConditions), len(old.MatchConditions), l.Rules)
	c.match(spec.Child("matchConstraints"), p.Source().MatchConstraints, old.Source().MatchConstraints,
		l.Rules)
	return c.errs
}

// BindingErrors returns errors for lists of a binding that exceed the limits and those of old; old may be nil.
func (l Limits) BindingErrors(b, old *Binding) field.ErrorList {
	if old == nil {
		old = &Binding{}
	}
	var c limitChecker
	c.match(field.NewPath("spec", "matchResources"), b.MatchResources, old.MatchResources, l.Rules)
	return c.errs
}

// ManyBindings returns errors for policies of a binding that already have the largest number of other bindings. An
// update may keep its policies.
func (l Limits) ManyBindings(b, old *Binding, others func(Ref) int) (errs field.ErrorList) {
	if l.Bindings == 0 {
		return nil
	}
	for i, ref := range b.PolicyRefs() {
		n := others(ref) + 1
		if n <= l.Bindings || old != nil && old.Names(ref) {
			continue
		}
		errs = append(errs, &field.Error{Type: field.ErrorTypeTooMany, Field: b.PolicyPath(i).String(), BadValue: n,
			Detail: fmt.Sprintf("%s may have at most %d bindings", ref, l.Bindings)})
	}
	return errs
}

// A limitChecker collects the lists that are too long.
type limitChecker struct{ errs field.ErrorList }

func (c *limitChecker) list(at *field.Path, n, had, most int) {
	if most > 0 && n > max(most, had) {
		c.errs = append(c.errs, field.TooMany(at, n, most))
	}
}

func (c *limitChecker) match(at *field.Path, m, old *MatchResources, most int) {
	if m == nil || most == 0 {
		return
	}
	if old == nil {
		old = &MatchResources{}
	}
	c.rules(at.Child("resourceRules"), m.ResourceRules, old.ResourceRules, most)
	c.rules(at.Child("excludeResourceRules"), m.ExcludeRules, old.ExcludeRules, most)
	c.selector(at.Child("namespaceSelector"), m.NamespaceSelector, old.NamespaceSelector, most)
	c.selector(at.Child("objectSelector"), m.ObjectSelector, old.ObjectSelector, most)
	c.list(at.Child("namespaces"), len(m.Namespaces), len(old.Namespaces), most)
	c.list(at.Child("excludeNamespaces"), len(m.ExcludeNamespaces), len(old.ExcludeNamespaces), most)
	c.list(at.Child("subjects"), len(m.Subjects), len(old.Subjects), most)
	c.list(at.Child("excludeSubjects"), len(m.ExcludeSubjects), len(old.ExcludeSubjects), most)
	c.list(at.Child("permissions"), len(m.Permissions), len(old.Permissions), most)
	c.list(at.Child("excludePermissions"), len(m.ExcludePermissions), len(old.ExcludePermissions), most)
}

func (c *limitChecker) rules(at *field.Path, rules, old []Rule, most int) {
	c.list(at, len(rules), len(old), most)
	for i := range rules {
		r, was := &rules[i], &Rule{}
		if i < len(old) {
			was = &old[i]
		}
		for _, l := range []struct {
			name    string
			now, of []string
		}{
			{"resourceNames", r.ResourceNames, was.ResourceNames}, {"operations", r.Operations, was.Operations},
			{"apiGroups", r.APIGroups, was.APIGroups}, {"apiVersions", r.APIVersions, was.APIVersions},
			{"resources", r.Resources, was.Resources}, {"kinds", r.Kinds, was.Kinds},
		} {
			c.list(at.Index(i).Child(l.name), len(l.now), len(l.of), most)
		}
	}
}

func (c *limitChecker) selector(at *field.Path, s, old *metav1.LabelSelector, most int) {
	if s == nil {
		return
	}
	if old == nil {
		old = &metav1.LabelSelector{}
	}
	c.list(at.Child("matchLabels"), len(s.MatchLabels), len(old.MatchLabels), most)
	c.list(at.Child("matchExpressions"), len(s.MatchExpressions), len(old.MatchExpressions), most)
	for i, x := range s.MatchExpressions {
		had := 0
		if i < len(old.MatchExpressions) {
			had = len(old.MatchExpressions[i].Values)
		}
		c.list(at.Child("matchExpressions").Index(i).Child("values"), len(x.Values), had, most)
	}
}
