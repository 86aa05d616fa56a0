package prove

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/storable"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/state"
	"k8s.io/apimachinery/pkg/runtime"
)

// model returns a model of a goal, preferably a typical object.
func (r *request) model(ctx context.Context, goal solve.Formula, supported map[string][]string) (*solve.Model, error) {
	s := r.m.store
	nice := r.niceties(supported)
	for _, wishes := range [][]solve.Formula{slices.Concat(nice[0], nice[1]), nice[0], nil} {
		model, err := s.Solve(ctx, append(slices.Clone(wishes), goal)...)
		if model != nil || err != nil {
			return model, err
		}
	}
	return nil, nil
}

// niceties are properties of typical objects: those of the first list apply to everything that a registry stores.
func (r *request) niceties(supported map[string][]string) [2][]solve.Formula {
	s := r.m.store
	label, _ := s.Matching(`\A[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\z`)
	plain, _ := s.Matching(`\A[!-~]([ -~]*[!-~])?\z`)
	key, _ := s.Matching(`\A([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\z`)
	value, _ := s.Matching(`\A([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\z`)
	first, second := slices.Clone(r.m.wishes), []solve.Formula(nil)
	names := []textLeaf{r.name, r.inNamespace}
	for _, key := range slices.Sorted(maps.Keys(r.params)) {
		names = append(names, r.params[key].name)
	}
	for _, t := range names {
		first = append(first, r.m.isIn(t, label))
	}
	for _, n := range r.m.nodes {
		if n.null != solve.False {
			first = append(first, n.null.Negate())
		}
		if n.val != nil && n.fixed == nil && n.typ.Kind == shape.String {
			first = append(first, r.isSupported(n, supported))
		}
		switch {
		case n.val == nil || n.fixed != nil:
		case n.isInt != 0:
		case n.typ.Kind == shape.String && n.isCalled("name"):
			first = append(first, s.Member(n.text, label))
		case n.typ.Kind == shape.String && (hasSuffix(n.class, ".labels{}") || hasSuffix(n.class, ".matchLabels{}")):
			first = append(first, s.Member(n.text, value))
		case n.typ.Kind == shape.String:
			second = append(second, s.Member(n.text, plain))
		case n.typ.Kind == shape.Integer && n.num != 0:
			second = append(second, s.Difference(0, n.num, 0))
		}
		for _, e := range n.slots {
			if e.key.isVar {
				first = append(first, s.Member(e.key.x, key))
			}
		}
	}
	return [2][]solve.Formula{first, second}
}

func hasSuffix(s, suffix string) bool {
	return len(s) >= len(suffix) && s[len(s)-len(suffix):] == suffix
}

// toExample converts a model to a request.
func (r *request) toExample(m *solve.Model) *Example {
	req := &celgate.Request{Kind: r.Kind, Resource: r.Resource.GroupVersionResource, SubResource: r.SubResource,
		Operation: celgate.Operation(r.Operation), Name: textIn(m, r.name), DryRun: m.Holds(r.dryRun)}
	if r.hasNamespace() {
		req.Namespace = textIn(m, r.inNamespace)
	}
	object := func(n *node) map[string]any {
		if n == nil {
			return nil
		}
		made, _ := n.tree(m).(map[string]any)
		if r.Kind == r.Resource.GroupVersionKind() {
			storable.Complete(made, r.Kind)
		}
		return made
	}
	req.Object, req.OldObject = object(r.object), object(r.oldObject)
	user, _ := r.user.tree(m).(map[string]any)
	req.UserInfo = userOf(user)
	ex := &Example{Request: req}
	if r.namespace != nil {
		made, _ := r.namespace.tree(m).(map[string]any)
		made["apiVersion"], made["kind"] = "v1", "Namespace"
		ex.Objects = append(ex.Objects, made)
	}
	return ex
}

func userOf(user map[string]any) celgate.UserInfo {
	text := func(v any) string { s, _ := v.(string); return s }
	out := celgate.UserInfo{Username: text(user["username"]), UID: text(user["uid"])}
	if out.Username == "" {
		out.Username = celgate.DefaultUser
	}
	groups, _ := user["groups"].([]any)
	for _, g := range groups {
		out.Groups = append(out.Groups, text(g))
	}
	return out
}

// mostRepairs is the maximum number of repairs of an object that the registry refuses.
const mostRepairs = 6

// A trial asks engines whether they confirm an example. If they do not, it returns the policies that prevented it, if
// it knows them.
type trial func(ctx context.Context, ex *Example) (confirmed bool, deniers []string, err error)

// trialOf asks whether old denies a request and now admits it.
func (r *Room) trialOf(old, now *Side) trial {
	return func(ctx context.Context, ex *Example) (bool, []string, error) { return r.ask(ctx, ex, old, now) }
}

// replay asks engines about a model: it returns whether they confirm it, and which policies prevented it. The names of
// items may matter or not.
func (r *Room) replay(ctx context.Context, req *request, m *solve.Model, confirm trial) (ex *Example, confirmed bool,
	deniers []string, err error) {
	defer func() { req.m.exact = false }()
	for _, req.m.exact = range []bool{false, true} {
		ex, confirmed, deniers, err = r.replayAs(ctx, req, m, confirm)
		if confirmed || err != nil || len(deniers) > 0 {
			break
		}
	}
	return ex, confirmed, deniers, err
}

func (r *Room) replayAs(ctx context.Context, req *request, m *solve.Model, confirm trial) (ex *Example, confirmed bool,
	deniers []string, err error) {
	ex = req.toExample(m)
	ex.Objects = append(ex.Objects, req.paramObjects(m)...)
	for i, a := range req.m.accesses {
		if m.Holds(a.truth) {
			grants := a.grant(i, func(l textLeaf) string { return textIn(m, l) }, ex.Request.UserInfo)
			ex.Objects = append(ex.Objects, grants...)
		}
	}
	for range mostRepairs {
		ex.refusal, ex.causes = "", nil
		confirmed, deniers, err = confirm(ctx, ex)
		if confirmed || err != nil || len(deniers) > 0 || len(ex.causes) == 0 || req.object == nil {
			break
		}
		repaired := r.repair(ex.Request.Object, req.object.typ, ex.causes)
		if ex.Request.OldObject != nil { // the server may take the part from it
			repaired = r.repair(ex.Request.OldObject, req.object.typ, ex.causes) || repaired
		}
		if !repaired {
			break
		}
	}
	return ex, confirmed, deniers, err
}

// paramObjects returns the params of a model.
func (r *request) paramObjects(m *solve.Model) []map[string]any {
	var all []map[string]any
	for _, key := range slices.Sorted(maps.Keys(r.params)) {
		p := r.params[key]
		if p.node == nil || !m.Holds(p.exists) {
			continue
		}
		object, _ := p.node.tree(m).(map[string]any)
		metadata := map[string]any{"name": textIn(m, p.name)}
		if p.ref.Selector != nil {
			labels := map[string]any{}
			storable.Satisfy(labels, p.ref.Selector)
			metadata["labels"] = labels
		}
		if res := r.types.ResourceFor(p.kind); res != nil && res.Namespaced {
			metadata["namespace"] = cmp.Or(p.ref.Namespace, textIn(m, r.inNamespace))
		}
		object["metadata"] = metadata
		if !slices.ContainsFunc(all, func(o map[string]any) bool { return isSame(o, object) }) {
			all = append(all, object)
		}
	}
	return all
}

func isSame(a, b map[string]any) bool {
	x, y := tree.Object(a), tree.Object(b)
	return x.Kind() == y.Kind() && x.Name() == y.Name() && x.Namespace() == y.Namespace()
}

// ask asks both engines about an example: confirmed means that old denies it and now admits it.
func (r *Room) ask(ctx context.Context, ex *Example, old, now *Side) (confirmed bool, deniers []string, err error) {
	cluster := r.clusterOf(ex)
	if cluster == nil {
		return false, nil, nil
	}
	decide := func(s *Side) (a Asked, err error) {
		a.Engine, err = celgate.New(s.Set,
			celgate.Options{KubeVersion: r.KubeVersion, Types: r.Types, Cluster: cluster, Before: s.engine})
		if err != nil {
			return a, err
		}
		if a.Prepared, err = a.Engine.Prepare(ctx, ex.Request); err != nil {
			ex.refusal = "the API server refuses the candidate object: " + err.Error()
			return a, nil
		}
		a.Decision, err = a.Engine.Admit(ctx, a.Prepared)
		return a, err
	}
	if ex.Old, err = decide(old); err != nil || ex.Old.Decision == nil || ex.Old.Decision.Denial == nil {
		ex.noteRefusal(ex.Old.Decision)
		return false, nil, err
	}
	if ex.New, err = decide(now); err != nil || ex.New.Decision == nil {
		return false, nil, err
	}
	for _, v := range ex.New.Decision.Violations {
		if len(v.Actions) == 0 || slices.Contains(v.Actions, policy.Deny) {
			deniers = append(deniers, v.Policy)
		}
	}
	return ex.New.Decision.Allowed, deniers, nil
}

// clusterOf returns a cluster with the objects of an example; nil: one of them cannot exist.
func (r *Room) clusterOf(ex *Example) *state.Cluster {
	var stored []map[string]any
	for _, o := range ex.Objects {
		object, _, err := prepare.ReadStored(o, r.Types, tree.Object(o).Kind())
		if err != nil {
			return nil
		}
		stored = append(stored, object)
	}
	cluster, err := state.New(r.Types, stored...)
	if err != nil {
		return nil
	}
	return cluster
}

// noteRefusal records why the server refuses a request that policies do not deny.
func (ex *Example) noteRefusal(d *celgate.Decision) {
	if d == nil || d.Allowed || d.Denial != nil || d.Status == nil {
		return
	}
	ex.refusal = "the API server refuses the candidate object: " + d.Status.Message
	if d.Status.Details != nil {
		ex.causes = d.Status.Details.Causes
	}
}

// mostShrinks is the maximum number of questions to engines about smaller examples.
const mostShrinks = 300

// shrink removes the parts of an example that do not affect the answers of the engines.
func (r *Room) shrink(ctx context.Context, ex *Example, confirm trial) (*Example, error) {
	best, asked := ex, 0
	try := func(change func(*Example) bool) (bool, error) {
		next := *best
		request := *best.Request
		next.Request = &request
		request.Object = clone(request.Object)
		request.OldObject = clone(request.OldObject)
		next.Objects = nil
		for _, o := range best.Objects {
			next.Objects = append(next.Objects, clone(o))
		}
		if asked++; asked > mostShrinks || !change(&next) {
			return false, nil
		}
		ok, _, err := confirm(ctx, &next)
		if ok {
			best = &next
		}
		return ok, err
	}
	parts := []func(*Example) map[string]any{
		func(e *Example) map[string]any { return e.Request.Object },
		func(e *Example) map[string]any { return e.Request.OldObject },
	}
	for i := range ex.Objects {
		parts = append(parts, func(e *Example) map[string]any { return e.Objects[i] })
	}
	for _, of := range parts {
		for path := 0; ; {
			var ended bool
			removed, err := try(func(e *Example) bool {
				left := path
				ended = !removeAt(of(e), &left)
				return !ended
			})
			if err != nil {
				return nil, err
			}
			if ended || asked > mostShrinks {
				break
			}
			if !removed {
				path++
			}
		}
	}
	return best, nil
}

func clone(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	return runtime.DeepCopyJSON(object)
}

// removeAt removes the n-th member or item of an object at any depth, outer ones first.
func removeAt(v any, n *int) bool {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		for _, k := range keys {
			if k == "apiVersion" || k == "kind" {
				continue
			}
			if *n == 0 {
				delete(v, k)
				return true
			}
			*n--
			if list, ok := v[k].([]any); ok {
				for i := range list {
					if *n == 0 {
						v[k] = slices.Delete(list, i, i+1)
						return true
					}
					*n--
					if removeAt(list[i], n) {
						return true
					}
				}
				continue
			}
			if removeAt(v[k], n) {
				return true
			}
		}
	}
	return false
}
