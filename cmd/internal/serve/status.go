package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate"
	analysis "github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// status returns the conditions of a policy or binding.
func (l *loader) status(w *writing, s kube.Source) kube.Status {
	compiled := kube.Condition{Type: "Compiled", True: true, Reason: "Compiled"}
	switch {
	case s.Err != nil:
		compiled = kube.Condition{Type: "Compiled", Reason: "Invalid", Message: s.Err.Error()}
	default:
		if r, bad := w.rejected[s.Ref()]; bad && w.partialReason(s) == "" {
			compiled = kube.Condition{Type: "Compiled", Reason: "Invalid", Message: r.Status.Message}
		}
		if r, fails := w.failing[s.Ref()]; fails {
			compiled = kube.Condition{Type: "Compiled", Reason: "Imports", Message: r.Status.Message}
		}
	}
	ready := w.readyCondition(s, compiled.True, l.paramsObstacle(w, s))
	is := kube.Status{Conditions: []kube.Condition{compiled, ready}}
	if s.Withheld != nil && compiled.True { // it was not compiled
		is.Conditions = is.Conditions[1:]
		return is
	}
	if s.Library != nil { // a library is not bound and has no requests
		return is
	}
	if !compiled.True || s.Disabled || s.Native || w.isHandedOver(s) || w.partialReason(s) != "" {
		return is
	}
	is.Conditions = append(is.Conditions, w.reachCondition(s))
	if s.Policy == nil {
		return is
	}
	if s.Policy.ParamKind != nil {
		is.Conditions = append(is.Conditions, l.paramsCondition(s.Policy))
	}
	checked := w.checks.checkOf(w.loaded, s)
	if s.Policy.Validates() || s.Policy.Kind == policy.Admission {
		is.TypeChecking = checked.types
	}
	turn := w.turns[s.Policy.Ref()]
	is.Order = turn.place
	if s.Policy.Kind == policy.Admission {
		is.Reads, is.Writes, is.Why = turn.Reads, turn.Writes, turn.Why
		is.MatchedKinds, is.EstimatedCost = w.kindsOf(w.set.Complete(s.Policy)), checked.costs
		if p := s.Policy.ParamKind; p != nil {
			of := w.kindOf(apischema.FromAPIVersionAndKind(p.APIVersion, p.Kind))
			is.ParamKind = &of
		}
		if turn.place > 0 {
			is.Conditions = append(is.Conditions, turn.orderCondition())
			if s.Policy.MayReinvoke() {
				is.Conditions = append(is.Conditions, w.converges(s.Policy))
			}
		}
	}
	return is
}

// paramsCondition is the condition that celgate may read the params of a policy.
func (l *loader) paramsCondition(of *policy.Policy) kube.Condition {
	readable := kube.Condition{Type: "ParamsReadable", True: true, Reason: "Watched"}
	p := of.ParamKind
	if p == nil {
		return readable
	}
	err := l.world.Load().ParamError(apischema.FromAPIVersionAndKind(p.APIVersion, p.Kind))
	if err == nil {
		return readable
	}
	readable = kube.Condition{Type: "ParamsReadable", Reason: "Unreadable", Message: err.Error()}
	if apierrors.IsForbidden(err) { // the same words for listing and watching
		readable = kube.Condition{Type: "ParamsReadable", Reason: "Forbidden", Message: fmt.Sprintf(
			"celgate may not read %s %s: grant get, list and watch with a ClusterRole labelled policy.celgate.dev/aggregate-to-params: \"true\"", p.APIVersion, p.Kind)}
	}
	return readable
}

// paramsObstacle says why the params of a policy, or of all policies of a binding, cannot be read; "" if they can.
func (l *loader) paramsObstacle(w *writing, s kube.Source) (first string) {
	policies := []*policy.Policy{s.Policy}
	if s.Binding != nil {
		policies = nil
		for _, ref := range s.Binding.PolicyRefs() {
			if p := w.set.Policy(ref); p != nil {
				policies = append(policies, p)
			}
		}
	}
	for _, p := range policies {
		if p == nil { // there is no policy whose params could be read
			return ""
		}
		readable := l.paramsCondition(p)
		if readable.True {
			return ""
		}
		first = cmp.Or(first, readable.Message)
	}
	return first
}

// partialReason says why a valid binding of several policies cannot have all of them in force together; "" if it can.
func (w *writing) partialReason(s kube.Source) string {
	if s.Binding == nil || len(s.Binding.Policies) == 0 {
		return ""
	}
	errs := s.Binding.CheckTogether(validOf(w.set, w.rejected))
	r, bad := w.rejected[s.Ref()]
	if len(errs) == 0 || !bad || r.Status.Message != s.Binding.Ref().Invalid(errs).Message {
		return ""
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// isHandedOver reports whether the API server enforces a policy natively, by some of its bindings, and celgate does
// not.
func (w *writing) isHandedOver(s kube.Source) bool {
	of := func(b *policy.Binding) bool {
		return b != nil && b.Binds(s.Policy)
	}
	return s.Policy != nil && !slices.ContainsFunc(w.set.Bindings, of) &&
		slices.ContainsFunc(w.sources, func(o kube.Source) bool { return o.Native && of(o.Binding) })
}

// readyCondition is the condition that a policy or binding is in force on all replicas, with the reason if it is in
// force on none; unreadable is the reason why its params cannot be read.
func (w *writing) readyCondition(s kube.Source, compiled bool, unreadable string) kube.Condition {
	not := func(reason, message string) kube.Condition {
		return kube.Condition{Type: "Ready", Reason: reason, Message: message}
	}
	if r, fails := w.failing[s.Ref()]; fails && s.Err == nil && !s.Disabled {
		return not("Imports", "every request that the policy matches is an error, and its failurePolicy decides: "+
			r.Status.Message)
	}
	switch {
	case !compiled:
		return not("Invalid", "see the condition Compiled")
	case s.Disabled:
		return not("Disabled", "disabled by the annotation celgate.dev/disabled")
	case (s.Native || w.isHandedOver(s)) && !w.shadow:
		return not("Native", "the API server itself enforces the "+s.Ref().Kind+" of this name")
	case s.Withheld != nil:
		return *s.Withheld
	}
	if why := w.partialReason(s); why != "" {
		return not("Partial", why)
	}
	if s.Policy != nil && !slices.Contains(w.set.Policies, s.Policy) ||
		s.Binding != nil && !slices.Contains(w.set.Bindings, s.Binding) ||
		s.Library != nil && !slices.Contains(w.set.Libraries, s.Library) {
		return not("Directory", "the directory of policies contains another object of this kind and name")
	}
	if s.Library != nil {
		return w.loadedBy(s)
	}
	if none := w.obstacle(s); none != (why{}) {
		return not(none.reason, none.message)
	}
	if w.unasked != nil {
		return not("NotAsked", "the webhook configurations are not written: "+w.unasked.Error())
	}
	if unreadable != "" {
		return not("ParamsUnreadable",
			unreadable+": every request that the policy matches is an error, and its failurePolicy decides")
	}
	return w.loadedBy(s)
}

// loadedBy is the condition that all replicas have loaded a policy, binding or library.
func (w *writing) loadedBy(s kube.Source) kube.Condition {
	have := 0
	for _, replica := range w.all {
		if replica.Loaded.Has(s.Object) {
			have++
		}
	}
	ready := kube.Condition{Type: "Ready", True: have == len(w.all) && have > 0, Reason: "InForce",
		Message: fmt.Sprintf("in force on %d of %d replicas", have, len(w.all))}
	if !ready.True {
		ready.Reason = "Waiting"
		w.waiting = true
	}
	if w.shadow {
		ready.True, ready.Reason, ready.Message = false, "Shadow",
			strings.Replace(ready.Message, "in force", "evaluated, but not acted on,", 1)
	}
	return ready
}

// exempt reports whether everything that a policy matches is exempt from policies: reviews, policies, and celgate's own
// kinds.
func exempt(p *policy.Policy) bool {
	if p.MatchConstraints == nil {
		return false
	}
	return !slices.ContainsFunc(p.Rules(), func(r policy.Rule) bool {
		return slices.ContainsFunc(r.APIGroups, func(group string) bool {
			switch group {
			case policy.OwnGroup,
				"authentication.k8s.io",
				"authorization.k8s.io": // as in the match conditions of the configurations
				return false
			}
			return slices.ContainsFunc(r.Resources, func(resource string) bool {
				name, _, _ := strings.Cut(resource, "/")
				return !celgate.Exempt(schema.GroupResource{Group: group, Resource: name}, p.Static)
			})
		})
	})
}

// A turn is the place of a mutating policy in the order of those in force, from 1.
type turn struct {
	explain.Turn
	place   int64
	problem *explain.OrderProblem // nil: none
}

// orderCondition is the condition that the mutations of a policy run in the order that it asks for, or needs.
func (t turn) orderCondition() kube.Condition {
	if t.problem == nil {
		return kube.Condition{Type: "Ordered", True: true, Reason: "Ordered"}
	}
	return kube.Condition{Type: "Ordered", Reason: t.problem.Reason, Message: t.problem.Message}
}

// turnsOf returns the turns of the mutating policies of engines, in the order in which the API server calls them.
func turnsOf(engines ...*celgate.Engine) (map[policy.Ref]turn, error) {
	all := map[policy.Ref]turn{}
	for _, e := range engines {
		turns, err := e.Turns()
		if err != nil {
			return nil, err
		}
		for _, t := range turns {
			all[t.Ref] = turn{Turn: t, place: int64(len(all) + 1)}
		}
		problems, err := e.OrderProblems()
		if err != nil {
			return nil, err
		}
		for _, p := range problems {
			for _, name := range append([]string{p.Ref.Name}, p.Of...) {
				ref := p.Ref
				ref.Name = name
				if of, runs := all[ref]; runs && of.problem == nil {
					of.problem = &p
					all[ref] = of
				}
			}
		}
	}
	return all, nil
}

// typeChecks remembers the results of type checking until policies or kinds change.
type typeChecks struct {
	types  *schema.Registry
	known  map[string]*typeCheck // by uid and generation, and the policy's libraries
	linked *policy.Set
	of     *loaded // whose policies are linked
}

// link returns a policy with its imports inlined.
func (c *typeChecks) link(in *loaded, p *policy.Policy) *policy.Policy {
	if c.of != in {
		c.of, c.linked = in, in.set.Link(c.linked)
	}
	if linked := c.linked.Policy(p.Ref()); linked != nil {
		return linked
	}
	return p
}

// A typeCheck is the result of checking a policy against the types of kinds: warnings and costs.
type typeCheck struct {
	types *kube.TypeChecking
	costs []kube.EstimatedCost
}

func (c *typeChecks) checkOf(in *loaded, s kube.Source) *typeCheck {
	if c.types != in.types {
		c.types, c.known = in.types, map[string]*typeCheck{}
	}
	object := unstructured.Unstructured{Object: s.Object}
	p := c.link(in, s.Policy)
	key := fmt.Sprint(object.GetUID(), object.GetGeneration())
	for _, l := range p.Libraries() {
		key += fmt.Sprintf(" %s/%d", l.Metadata.UID, l.Metadata.Generation)
	}
	if c.known[key] == nil {
		c.known[key] = &typeCheck{typesOf(in, p), costsOf(in, p)}
	}
	return c.known[key]
}

// costsOf estimates the highest cost of a policy of the dialect, by budget.
func costsOf(in *loaded, p *policy.Policy) (all []kube.EstimatedCost) {
	if p.Kind != policy.Admission {
		return nil
	}
	costs, err := analysis.Estimate(context.Background(), analysis.Input{
		Set: &policy.Set{Policies: []*policy.Policy{p}}, Types: in.types, KubeVersion: in.minor})
	if err != nil {
		return nil // an engine in force never fails here
	}
	for _, c := range costs[p.Ref()] {
		all = append(all, kube.EstimatedCost{Of: c.Of, Units: c.Estimated, Limit: c.Limit})
	}
	return all
}

// typesOf returns the warnings of the server's type checker, and those about mutations.
func typesOf(in *loaded, p *policy.Policy) *kube.TypeChecking {
	checked := &kube.TypeChecking{}
	found, err := analysis.Run(context.Background(), analysis.Input{
		Set: &policy.Set{Policies: []*policy.Policy{p}}, Types: in.types, KubeVersion: in.minor,
	}, analysis.ServerWarnings())
	if err != nil {
		return checked // an engine in force never fails here
	}
	for _, v := range p.Validations { // in the server's order
		for _, e := range []policy.Expr{v.Expr, v.MessageExpr} {
			i := slices.IndexFunc(found, func(d analysis.Diagnostic) bool {
				return d.Server != nil &&
					d.Field == e.Field
			})
			if i >= 0 {
				checked.ExpressionWarnings = append(checked.ExpressionWarnings,
					kube.ExpressionWarning{FieldRef: e.Field, Warning: found[i].Server()})
			}
		}
	}
	checked.ExpressionWarnings = slices.Concat(checked.ExpressionWarnings, scopeWarnings(in, p),
		mutationWarnings(in, p))
	return checked
}

// mostKinds is the number of kinds for which the mutations of one policy are checked.
const mostKinds = 20

// scopeWarnings are about scopes whose path exists in none of the matched kinds.
func scopeWarnings(in *loaded, p *policy.Policy) (all []kube.ExpressionWarning) {
	if p.Kind != policy.Admission || p.TypeChecking == policy.IgnoreTypes {
		return nil
	}
	kinds := typed.KindsOf(in.types, p.MatchConstraints)
	for x, s := range p.Scopes() {
		if problem, meant := typed.Astray(kinds, s); problem != "" {
			if meant != "" {
				problem += " (" + meant + ")"
			}
			all = append(all, kube.ExpressionWarning{FieldRef: x.Field, Warning: problem})
		}
	}
	return all
}

// mutationWarnings are the warnings about the mutations of a policy of the dialect against the types of the matched
// kinds, one for an expression.
func mutationWarnings(in *loaded, p *policy.Policy) (all []kube.ExpressionWarning) {
	if p.Kind != policy.Admission || !p.Mutates() || p.TypeChecking == policy.IgnoreTypes {
		return nil
	}
	set, err := celenv.New(in.minor, quirks.SetOf(in.minor))
	if err != nil {
		return nil // an engine in force never fails here
	}
	kinds := typed.KindsOf(in.types, p.MatchConstraints)
	var params *shape.Type
	if p.ParamKind != nil {
		params = in.types.Type(apischema.FromAPIVersionAndKind(p.ParamKind.APIVersion, p.ParamKind.Kind))
	}
	found, err := typed.NewChecker(set).Policy(p, kinds[:min(len(kinds), mostKinds)], params, typed.Warn)
	if err != nil {
		return nil
	}
	for _, c := range found {
		i := slices.IndexFunc(all, func(w kube.ExpressionWarning) bool { return w.FieldRef == c.Field })
		if i < 0 {
			all = append(all, kube.ExpressionWarning{FieldRef: c.Field, Warning: c.Detail})
			continue
		}
		all[i].Warning += "\n" + c.Detail
	}
	return all
}
