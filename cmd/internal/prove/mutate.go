package prove

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/google/cel-go/common/ast"
)

// A mutated is an object after mutating policies.
type mutated struct {
	object  *value
	ran     solve.Formula // the match conditions of one of the policies hold
	dirty   solve.Formula // a mutation was applied, whether or not it changed the object
	failing solve.Formula // a failure denies the request

	mutations []failing // of the last policy
}

// A failing is the condition under which an expression is an error that has an effect, and its evaluator.
type failing struct {
	when solve.Formula
	from *evaluator // nil: its variables are not evaluated
}

// reviewed are the built-in resources whose defaults and registries allow proofs about mutations: what the server
// changes after a mutation is described by the facts of package storable, follow and register.
var reviewed = []string{"pods", "configmaps", "secrets", "serviceaccounts", "persistentvolumeclaims",
	"deployments.apps", "daemonsets.apps", "statefulsets.apps", "replicasets.apps", "cronjobs.batch",
	"ingresses.networking.k8s.io"}

// unmutable returns the reason why mutations of a case cannot be decided; empty: they can.
func (c Case) unmutable() string {
	name := c.Resource.Resource
	if c.Resource.Group != "" {
		name += "." + c.Resource.Group
	}
	switch {
	case c.SubResource != "":
		return c.String() + ": prove does not support mutations of subresources yet"
	case c.Resource.Definition == nil && !slices.Contains(reviewed, name):
		return c.String() + ": prove does not know what the server sets by itself after a mutation of this kind"
	}
	return ""
}

// mutationCases returns the classes of requests whose objects the mutating policies may change.
func (r *Room) mutationCases(programs []*program) []Case {
	var policies []*policy.Policy
	for _, p := range programs {
		policies = append(policies, p.Policy)
	}
	return slices.DeleteFunc(casesOf(r.Types, policies), func(c Case) bool {
		return c.Operation != "CREATE" && c.Operation != "UPDATE"
	})
}

// start returns the object as mutating policies see it first: the name of a new object may not be generated yet.
func (r *request) start() *value {
	r.m.mutates = true
	v := r.roots["object"]
	if r.object == nil || r.Operation != "CREATE" {
		return v
	}
	name, root := r.m.unknownPart("generated name", textType, "a name that is generated after the mutation"), r.object
	given := r.m.store.NewBool()
	r.m.wishes = append(r.m.wishes, given)
	meta := root.member("metadata")
	if meta == nil {
		return v
	}
	r.named = given
	top := r.m.newRecord("start", root.path, root.typ, root.builtin, alternative{solve.True, root})
	inner := r.m.newRecord("start", meta.node.path, meta.node.typ, true,
		alternative{solve.True, meta.node})
	inner.parts["name"] = r.m.pick(given, &held{solve.True, newLeaf(r.name)}, name)
	top.parts["metadata"] = &held{solve.True, newLeaf(inner)}
	return newLeaf(top)
}

// names that a mutation sees: the object so far, and a request whose name may not be known yet.
func (r *request) mutationRoots(roots map[string]*value, object *value) map[string]*value {
	out := cloneRoots(roots)
	out["object"] = object
	if r.named != 0 {
		if d, ok := roots["request"].alts[0].leaf.(*dict); ok {
			changed := &dict{keys: d.keys, values: cloneRoots(d.values)}
			changed.values["name"] = r.m.choose(r.named, d.values["name"], newLeaf(textOf("")))
			out["request"] = newLeaf(changed)
		}
	}
	return out
}

// mutate runs mutating policies in the given order. Policies match the incoming object; each sees the changes of those
// before it. After a change, the server evaluates all match conditions once more, and it may run the policies again
// that allow it.
func (r *request) mutate(s *Side, order []*program, object *value) mutated {
	first := r.pass(s, order, object, func(*program) solve.Formula { return solve.True })
	again := *r
	again.after = first.object
	second := again.pass(s, order, first.object, func(p *program) solve.Formula {
		if !p.MayReinvoke() {
			return solve.False
		}
		return r.m.store.Conjoin(first.dirty, r.m.store.NewBool())
	})
	first.object = second.object
	first.failing = r.m.store.Disjoin(first.failing, r.m.store.Conjoin(first.dirty, second.failing))
	return first
}

// pass runs mutating policies once, each if its condition is true.
func (r *request) pass(s *Side, order []*program, object *value, when func(*program) solve.Formula) mutated {
	st := r.m.store
	out := mutated{object: object, ran: solve.False, dirty: solve.False, failing: solve.False}
	for _, p := range order {
		for b := range s.native.set.EachBinding() {
			if !b.Binds(p.Policy) || b.DryRun() {
				continue
			}
			next := r.invokeMutation(p, b, out.object, when(p))
			out.object = next.object
			out.ran, out.dirty = st.Disjoin(out.ran, next.ran), st.Disjoin(out.dirty, next.dirty)
			out.failing = st.Disjoin(out.failing, next.failing)
		}
	}
	return out
}

// invokeMutation evaluates the match conditions of a policy with a binding, and runs its mutations if a condition is
// true.
func (r *request) invokeMutation(p *program, b *policy.Binding, object *value, when solve.Formula) mutated {
	m, s := r.m, r.m.store
	out := mutated{object: object, ran: solve.False, dirty: solve.False, failing: solve.False}
	in := r.match(p, b, object)
	if in.matched == solve.False {
		out.mutations = repeatFailing(p, solve.False)
		return out
	}
	if r.matchesEquivalent(p.Policy, p.MatchConstraints) || r.matchesEquivalent(p.Policy, b.MatchResources) {
		m.at = source{policy: p.Policy}
		out.object = m.opaqueValue("converted "+p.Name, nil, "a mutation through an equivalent version")
		out.ran, out.dirty = in.matched, in.matched
		fails := m.toBool(m.opaqueValue("converted "+p.Name+" fails", nil, "a mutation through an equivalent version"))
		out.mutations = repeatFailing(p, s.Conjoin(in.matched, fails.truth))
		return out
	}
	out.ran, out.failing = in.applies, in.failing
	ignores := p.FailurePolicy == policy.Ignore
	if out.ran = s.Conjoin(out.ran, when); out.ran == solve.False {
		out.mutations = repeatFailing(p, solve.False)
		return out
	}
	isMany := b.ParamRef != nil && b.ParamRef.Selector != nil
	for i, x := range p.mutations {
		change := p.Policy.Mutations[i]
		expressions, doubted := r.evaluator(p, r.mutationRoots(in.roots, out.object)), len(m.doubts)
		v := expressions.valueOf(x, change.Expr)
		m.at = source{policy: p.Policy, expr: change.Expr}
		e := &patcher{frame: &frame{machine: m}, builtin: r.Resource.Definition == nil, failing: solve.False,
			ignores: ignores, origin: p.Name + "/" + b.Name + "/" + strconv.Itoa(i)}
		was := &held{solve.True, out.object}
		now := was
		switch {
		case r.object == nil || isMany || !change.RunsOnce():
			now = e.undecide(out.ran, was, nil, "a mutation with several params or without a type")
		case change.PatchType == policy.JSONPatch:
			now = e.patch(r.object.typ, out.ran, was, v)
		case change.PatchType == policy.ApplyConfiguration:
			if m.inserted { // two items may have the same key, and then a merge fails
				e.fail(m.unknownPart("repeated", nil, "items that a JSON patch added").present)
			}
			v = withoutField(withoutField(v, "apiVersion"), "kind") // which a merge ignores
			now = e.apply(r.object.path, r.object.typ, false, out.ran, was, v)
		default:
			now = e.undecide(out.ran, was, nil, string(change.PatchType))
		}
		e.tidy()
		m.at = source{}
		failed := s.Conjoin(out.ran, e.failing)
		mayFail := s.Disjoin(failed, m.doubtsFrom(doubted))
		out.mutations = append(out.mutations, failing{s.Conjoin(mayFail, out.failing.Negate()), expressions})
		out.dirty = s.Disjoin(out.dirty, s.Conjoin(out.ran, failed.Negate()))
		if ignores {
			out.object = m.choose(failed, out.object, now.value)
		} else {
			out.object, out.failing = now.value, s.Disjoin(out.failing, failed)
		}
	}
	return out
}

// repeatFailing returns one condition for all mutations of a policy.
func repeatFailing(p *program, when solve.Formula) []failing {
	return slices.Repeat([]failing{{when: when}}, len(p.mutations))
}

// matchesEquivalent reports whether rules match requests of the case only through another version of its resource.
func (r *request) matchesEquivalent(p *policy.Policy, c *policy.MatchResources) bool {
	if c == nil || c.MatchPolicy == policy.Exact {
		return false
	}
	for _, rule := range c.ResourceRules {
		if coversOperation(rule, r.Operation) && typed.Covers(rule, r.Resource, r.SubResource) {
			return false
		}
	}
	return slices.ContainsFunc(c.ResourceRules, func(rule policy.Rule) bool {
		return slices.ContainsFunc(r.types.Equivalents(r.Resource.GroupVersionResource, r.SubResource),
			func(other *schema.Resource) bool {
				return other != r.Resource && typed.Covers(rule, other, r.SubResource)
			})
	})
}

// later returns the request as validating policies see it after mutations: the registry has set the name, the status
// and other members.
func (r *request) later(object *value) *request {
	out := *r
	out.roots = cloneRoots(r.roots)
	out.after = r.register(object)
	out.roots["object"] = out.after
	return &out
}

// registryMetadata are the metadata members that a registry or the server sets.
var registryMetadata = []string{"uid", "creationTimestamp", "generation", "resourceVersion", "selfLink",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "generateName"}

// register returns an object as the registry makes it between mutations and validations.
func (r *request) register(object *value) *value {
	if r.object == nil {
		return object
	}
	p := &patcher{frame: &frame{machine: r.m}, builtin: r.object.builtin, origin: "registry"}
	was := &held{solve.True, object}
	top := p.open(r.object.path, r.object.typ, was)
	if top == nil {
		return object
	}
	unset := func(to *record, names ...string) {
		for _, name := range names {
			if f := to.typ.Field(name); f != nil {
				path := to.path + "." + name
				to.write(name, r.m.unknownPart("registry "+path, f.Type, path))
			}
		}
	}
	within := func(name string, change func(*record)) {
		f := r.object.typ.Field(name)
		if f == nil {
			return
		}
		inner := p.open(top.path+"."+name, f.Type, top.member(name))
		if inner == nil {
			unset(top, name)
			return
		}
		inner.builtin = inner.builtin || name == "metadata"
		change(inner)
		top.write(name, p.close(solve.True, top.member(name), inner))
	}
	unset(top, "status")
	within("metadata", func(meta *record) {
		unset(meta, registryMetadata...)
		meta.write("name", &held{solve.True, newLeaf(r.name)})
		if r.Resource.Namespaced {
			meta.write("namespace", &held{solve.True, newLeaf(r.inNamespace)})
		}
		if r.Kind.Kind == "DaemonSet" {
			unset(meta, "annotations")
		}
	})
	if r.object.builtin && r.Kind.Kind == "Pod" {
		within("spec", func(spec *record) { unset(spec, "topologySpreadConstraints", "affinity", "resources") })
	}
	if r.object.builtin && r.Kind.Kind == "PersistentVolumeClaim" {
		within("spec", func(spec *record) { unset(spec, "dataSource", "dataSourceRef", "volumeAttributesClassName") })
	}
	if r.object.builtin && r.Kind.Kind == "ServiceAccount" {
		unset(top, "secrets")
	}
	return p.close(solve.True, was, top).value
}

// compileMutations checks the mutations of a policy.
func compileMutations(out *program, check func(policy.Expr, policy.Use) (*ast.AST, error)) error {
	for i := range out.Policy.Mutations {
		change := &out.Policy.Mutations[i]
		checked, err := check(change.Expr, change.Use())
		if err != nil {
			return fmt.Errorf("policy %s: %w", out.Name, err)
		}
		out.mutations = append(out.mutations, checked)
	}
	return nil
}
