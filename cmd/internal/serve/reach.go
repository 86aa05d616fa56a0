package serve

import (
	"fmt"
	"slices"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// An operationOn is an operation on a resource, in any version, or on a subresource.
type operationOn struct {
	storage, subresource, operation string
	namespaced                      bool
}

// A reach is the set of operations that the rules of a policy or binding cover.
type reach struct {
	targets map[operationOn]bool
	kinds   []apischema.GroupVersionKind // each once, in the order of their names
}

var operations = []string{"CREATE", "UPDATE", "DELETE", "CONNECT"}

// reachOf returns the served resources that the rules match, without the excluded ones. A binding without rules matches
// everything that it does not exclude.
func reachOf(types *schema.Registry, m *policy.MatchResources) reach {
	all := reach{targets: map[operationOn]bool{}}
	if m == nil {
		m = &policy.MatchResources{}
	}
	rules := m.ResourceRules
	if rules == nil {
		rules = []policy.Rule{{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*", "*"},
			Operations: []string{"*"}}}
	}
	byName := func(x policy.Rule) bool { return len(x.ResourceNames) > 0 }
	exclude := slices.DeleteFunc(slices.Clone(m.ExcludeRules), byName)
	excluded := map[operationOn]bool{}
	each := func(do func(r *schema.Resource, subresource string, kind apischema.GroupVersionKind)) {
		for _, r := range types.Resources() {
			if r.NotServed {
				continue
			}
			do(r, "", r.GroupVersionKind())
			for _, sub := range r.Subresources {
				do(r, sub.Name, sub.Kind)
			}
		}
	}
	if m.MatchPolicy != policy.Exact { // a resource excluded in one version is excluded in all
		each(func(r *schema.Resource, subresource string, _ apischema.GroupVersionKind) {
			for _, op := range operationsOf(exclude, r, subresource) {
				excluded[operationOn{r.Storage, subresource, op, r.Namespaced}] = true
			}
		})
	}
	each(func(r *schema.Resource, subresource string, kind apischema.GroupVersionKind) {
		without := operationsOf(exclude, r, subresource)
		matched := false
		for _, op := range operationsOf(rules, r, subresource) {
			to := operationOn{r.Storage, subresource, op, r.Namespaced}
			if !excluded[to] && !slices.Contains(without, op) {
				all.targets[to], matched = true, true
			}
		}
		if matched && !slices.Contains(all.kinds, kind) {
			all.kinds = append(all.kinds, kind)
		}
	})
	slices.SortFunc(all.kinds, func(a, b apischema.GroupVersionKind) int {
		return strings.Compare(a.String(), b.String())
	})
	return all
}

// operationsOf returns the operations on a resource that rules cover.
func operationsOf(rules []policy.Rule, r *schema.Resource, subresource string) (all []string) {
	for _, op := range operations {
		if slices.ContainsFunc(rules, func(x policy.Rule) bool {
			return (slices.Contains(x.Operations, "*") || slices.Contains(x.Operations, op)) && typed.Covers(x, r, subresource)
		}) {
			all = append(all, op)
		}
	}
	return all
}

// meets reports whether two reaches have an operation in common; inNamespaces: only on namespaced objects.
func (r reach) meets(other reach, inNamespaces bool) bool {
	for t := range r.targets {
		if other.targets[t] && (t.namespaced || !inNamespaces) {
			return true
		}
	}
	return false
}

// reachFor memoises reachOf.
func (w *writing) reachFor(m *policy.MatchResources) reach {
	known, ok := w.reaches[m]
	if !ok {
		if w.reaches == nil {
			w.reaches = map[*policy.MatchResources]reach{}
		}
		known = reachOf(w.types, m)
		w.reaches[m] = known
	}
	return known
}

// A why is a reason why a policy or binding cannot act; zero: unknown.
type why struct{ reason, message string }

// obstacle says why a policy or binding cannot affect any request: it is not bound, no resource matches, or its actions
// do nothing.
func (w *writing) obstacle(s kube.Source) why {
	var policies []*policy.Policy
	var bindings []*policy.Binding
	if s.Policy != nil {
		policies = []*policy.Policy{s.Policy}
		for b := range w.set.EachBinding() {
			if b.Binds(s.Policy) {
				bindings = append(bindings, b)
			}
		}
		if len(bindings) == 0 {
			return why{"Unbound", "it does not have a binding"}
		}
	} else {
		for _, ref := range s.Binding.PolicyRefs() {
			p := w.set.Policy(ref)
			if p == nil {
				return why{"NoPolicy", fmt.Sprintf("%s is not in force", ref)}
			}
			policies = append(policies, p)
		}
		bindings = []*policy.Binding{s.Binding}
	}
	var first why
	for _, p := range policies {
		for _, b := range bindings {
			none := w.obstacleTo(p, b)
			if none == (why{}) {
				return none
			}
			if first == (why{}) {
				first = none
			}
		}
	}
	return first
}

// obstacleTo says why a policy does nothing by one of its bindings.
func (w *writing) obstacleTo(p *policy.Policy, b *policy.Binding) why {
	if p = p.With(b); exempt(p) {
		return why{"Exempt", "policies are not evaluated for the resources of its resourceRules"}
	}
	if kind := p.ParamKind; kind != nil &&
		w.types.ResourceFor(apischema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)) == nil {
		return why{"NoParamKind", fmt.Sprintf(
			"the cluster does not serve the kind %s of %s: every request that the policy matches is an error",
			kind.Kind, kind.APIVersion)}
	}
	of := w.reachFor(p.MatchConstraints)
	if len(of.targets) == 0 {
		return why{"NoResource",
			fmt.Sprintf("the cluster does not serve any resource that matches the rules of %s", p.Ref())}
	}
	if !of.meets(w.reachFor(b.MatchResources), b.Namespace != "") {
		return why{"NoOverlap",
			fmt.Sprintf("the rules of %s and those of %s do not match a common resource", b.Ref(), p.Ref())}
	}
	reaches := func(x policy.Validation) bool { return b.Reaches(&x) }
	if !p.Mutates() && len(p.AuditAnnotations) == 0 && !slices.ContainsFunc(p.Validations, reaches) {
		return why{"NoValidation", fmt.Sprintf("the level of %s excludes all validations of %s", b.Ref(), p.Ref())}
	}
	return why{}
}

// reachCondition is the condition that a compiled and enabled policy or binding can affect a request.
func (w *writing) reachCondition(s kube.Source) kube.Condition {
	if none := w.obstacle(s); none != (why{}) {
		return kube.Condition{Type: "Reachable", Reason: none.reason, Message: none.message}
	}
	c := kube.Condition{Type: "Reachable", True: true, Reason: "Reachable",
		Message: "it has a binding, and the cluster serves resources that match its rules"}
	if s.Binding != nil {
		c.Message = "the cluster serves resources that match its rules and its policies"
	}
	return c
}

// kindsOf returns the kinds that a policy matches, with the generations of their definitions.
func (w *writing) kindsOf(p *policy.Policy) []kube.MatchedKind {
	var all []kube.MatchedKind
	for _, kind := range w.reachFor(p.MatchConstraints).kinds {
		all = append(all, w.kindOf(kind))
	}
	return all
}

// kindOf returns a kind as the present types define it.
func (w *writing) kindOf(kind apischema.GroupVersionKind) kube.MatchedKind {
	is := kube.MatchedKind{Kind: kind.Kind}
	is.APIVersion, _ = kind.ToAPIVersionAndKind()
	if r := w.types.ResourceFor(kind); r != nil {
		metadata, _ := r.Definition["metadata"].(map[string]any)
		is.Generation, _ = metadata["generation"].(int64)
	}
	return is
}
