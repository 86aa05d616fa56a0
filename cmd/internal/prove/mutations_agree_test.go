package prove

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// changer writes random mutations of a kind.
type changer struct {
	*writer
	locals int
}

var changedNames = []string{"spec", "metadata", "template", "containers", "labels", "annotations", "image", "name",
	"ports", "securityContext", "runAsUser", "runAsNonRoot", "replicas", "hostNetwork", "volumes", "env", "data",
	"initContainers", "imagePullPolicy", "paused", "minReadySeconds", "emptyDir", "tolerations", "nodeSelector",
	"configMap", "resources", "limits", "requests", "strategy", "type", "immutable", "automountServiceAccountToken",
	"serviceAccountName", "allowPrivilegeEscalation"}

func (c *changer) member(t *shape.Type) *shape.Field {
	for range 20 {
		if f := t.Field(changedNames[c.rand.IntN(len(changedNames))]); f != nil {
			return f
		}
	}
	return &t.Fields[c.rand.IntN(len(t.Fields))]
}

// scalar writes a value of a type; empty: there is none.
func (c *changer) scalar(t *shape.Type) string {
	switch t.Kind {
	case shape.Boolean:
		return c.pick("true", "false")
	case shape.Integer:
		return c.pick("0", "1", "2", "5")
	case shape.String:
		return c.pick("'a'", "'b'", "''", "'x'", "object.metadata.name")
	case shape.IntOrString:
		return c.pick("1", "'a'", "'25%'")
	case shape.Quantity:
		return c.pick("'1'", "'1k'", "'1000m'", "'64Mi'")
	}
	return ""
}

// literal writes a value of a type that an ApplyConfiguration or a JSON patch has at a path of the object.
func (c *changer) literal(name, place string, t *shape.Type, depth int) string {
	switch t.Kind {
	case shape.Struct:
		return c.object(name, place, t, depth, "")
	case shape.Map:
		if v := c.scalar(t.Elem); v != "" {
			return "{" + c.pick("'a': "+v, "'b': "+v, "'a': "+v+", 'b': "+v, "") + "}"
		}
	case shape.List:
		return c.list(name, place, t, depth)
	}
	return c.scalar(t)
}

func (c *changer) object(name, place string, t *shape.Type, depth int, key string) string {
	var members []string
	seen := map[string]bool{}
	if key != "" {
		before, _, _ := strings.Cut(key, ":")
		members, seen[before] = append(members, key), true
	}
	for range 1 + c.rand.IntN(2) {
		f := c.member(t)
		if seen[f.Name] || depth == 0 {
			continue
		}
		if v := c.literal(name+"."+f.Name, place+".?"+f.Name, f.Type, depth-1); v != "" {
			seen[f.Name] = true
			members = append(members, f.Name+": "+v)
		}
	}
	return name + "{" + strings.Join(members, ", ") + "}"
}

func (c *changer) list(name, place string, t *shape.Type, depth int) string {
	if t.Elem.Kind != shape.Struct {
		if v := c.scalar(t.Elem); v != "" {
			return "[" + v + "]"
		}
		return ""
	}
	if len(t.Keys) != 1 || depth == 0 {
		return ""
	}
	item := func(key string) string { return c.object(name, "optional.none()", t.Elem, depth-1, t.Keys[0]+": "+key) }
	if c.rand.IntN(2) > 0 && place != "optional.none()" && !strings.HasPrefix(place, "optional") {
		c.locals++
		v := fmt.Sprintf("v%d", c.locals)
		over := place + ".orValue([])"
		if c.rand.IntN(3) == 0 {
			over += ".filter(" + v + ", " + v + "." + t.Keys[0] + " != 'a')"
		}
		return over + ".map(" + v + ", " + item(v+"."+t.Keys[0]) + ")"
	}
	if t.Elem.Field(t.Keys[0]).Type.Kind != shape.String {
		return "[" + item("1") + "]"
	}
	return c.pick("["+item("'a'")+"]", "["+item("'x'")+"]", "["+item("'a'")+", "+item("'b'")+"]", "[]")
}

// patch writes a JSON patch.
func (c *changer) patch(t *shape.Type) string {
	var all []string
	for range 1 + c.rand.IntN(2) {
		at, path := t, ""
		for depth := 0; ; depth++ {
			f := c.member(at)
			path, at = path+"/"+f.Name, f.Type
			if at.Kind == shape.List && at.Elem.Kind == shape.Struct && c.rand.IntN(2) > 0 {
				path, at = path+"/0", at.Elem
			}
			if at.Kind == shape.Map && c.rand.IntN(2) > 0 {
				path, at = path+"/"+c.pick("a", "b"), at.Elem
			}
			if at.Kind == shape.List && c.rand.IntN(2) > 0 {
				path, at = path+"/"+c.pick("-", "0"), at.Elem
				break
			}
			if at.Kind != shape.Struct || depth > 4 || depth > 1 && c.rand.IntN(4) == 0 {
				break
			}
		}
		if path == "/apiVersion" || path == "/kind" || strings.HasPrefix(path, "/metadata/name") {
			continue
		}
		op := c.pick("add", "add", "replace", "remove")
		v := c.literal("Object"+strings.NewReplacer("/-", "", "/0", "", "/", ".").Replace(path), "optional.none()", at, 2)
		if strings.HasPrefix(v, "Object") && strings.Contains(path, "/a") { // of a map
			continue
		}
		switch {
		case op == "remove":
			all = append(all, "JSONPatch{op: 'remove', path: '"+path+"'}")
		case v != "":
			all = append(all, "JSONPatch{op: '"+op+"', path: '"+path+"', value: "+v+"}")
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

var mutationKinds = []schema.GroupVersionKind{{Version: "v1", Kind: "Pod"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "ConfigMap"},
	{Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Version: "v1", Kind: "PersistentVolumeClaim"}, {Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}}

// TestMutationAgreement compares what formulas say of mutated objects with the engine, for random mutations and
// objects: whether the mutation fails, what a validation says of its result, and whether a second run changes it.
func TestMutationAgreement(t *testing.T) {
	want := *comparisonCount
	if want == 0 {
		want = 6000
		if testing.Short() {
			want = 1500
		}
	}
	r := room(t)
	a := newAgreement(t, r, *comparisonSeed, 11)
	for a.compared < want && !t.Failed() {
		kind := mutationKinds[a.rand.IntN(len(mutationKinds))]
		w := &writer{rand: a.rand, types: r.Types, kind: kind}
		c := &changer{writer: w}
		change := c.object("Object", "object", r.Types.Type(kind), 5, "")
		if a.rand.IntN(3) == 0 {
			change = c.patch(r.Types.Type(kind))
		}
		if a.rand.IntN(3) == 0 {
			change = "(" + w.boolean(1, w.roots()) + ") && true => " + change
		}
		check := "(" + w.boolean(2, w.roots()) + ") && true"
		if strings.Contains(change+check, "authorizer") { // whose costs end evaluations
			continue
		}
		a.mutation(kind, change, check)
	}
	t.Logf("%d comparisons of %d mutations: %v, outside %v", a.compared, a.expressions, a.seen, a.outside)
}

func (a *agreement) mutation(kind schema.GroupVersionKind, change, check string) {
	res := a.room.Types.ResourceFor(kind)
	text := changing("m", kind.Group, kind.Version, res.Resource, change) + "---\n" +
		one(kind.Group, kind.Version, res.Resource, check)
	if a.rand.IntN(3) == 0 {
		text = strings.Replace(text, "spec:\n", "spec:\n  failurePolicy: Ignore\n", 1)
	}
	side := a.trySide(text)
	if side == nil {
		a.seen["rejected"]++
		return
	}
	c := Case{Resource: res, Operation: "CREATE", Kind: kind}
	k := side.clauses()[0]
	sizes, keys := map[string]int{}, map[string][]string{}
	var m *machine
	var req *request
	var inv *invocation
	var once, twice mutated
	var differ solve.Formula
	for range 60 {
		m = newMachine(sizes, keys)
		req = newRequest(m, c, a.room.Types)
		once = req.mutate(side, side.mutators, req.roots["object"])
		later := *req
		later.roots, later.after = cloneRoots(req.roots), once.object
		later.roots["object"] = once.object
		inv = later.invoke(k.program, k.binding)
		twice = later.mutate(side, side.mutators, once.object)
		differ = req.differ(once.object, twice.object)
		if m.settle() {
			break
		}
	}
	if len(m.unbounded) > 0 {
		a.seen["unbounded"]++
		return
	}
	v := inv.values[0]
	isKnown := func(formulas ...solve.Formula) bool {
		used := m.store.Variables(m.store.All(formulas...))
		for _, f := range formulas {
			for b := range m.store.Variables(f).Bools {
				used.Bools[b] = true
			}
		}
		return !slices.ContainsFunc(m.unknown, func(o *opaque) bool {
			for _, f := range formulas {
				if !strings.HasPrefix(o.key, "doubt ") && o.isIn(m.store.Variables(f)) {
					a.outside[o.what]++
					return true
				}
			}
			return !strings.HasPrefix(o.key, "doubt ") && o.isIn(used)
		})
	}
	knowsRun, knowsValue := isKnown(once.ran, once.failing), isKnown(v.err, v.truth)
	knowsAgain := isKnown(twice.failing, differ)
	if !knowsRun || !knowsValue && !knowsAgain {
		a.seen["outside"]++
		return
	}
	a.expressions++
	p := newPool(k.program.validations[0])
	p.texts = append(p.texts, newPool(side.mutators[0].mutations[0]).texts...)
	for range objectsOfExpression {
		made, prepared := a.request(req, side, p)
		if made == nil {
			continue
		}
		at, fits := assign(req, made, prepared)
		if !fits || !a.derive(at, made) {
			a.seen["larger"]++
			continue
		}
		ctx := context.Background()
		facts := m.store.Evaluate(at, m.store.Facts()...)
		if slices.Contains(facts, false) && req.namespace == nil {
			a.fail(text, prepared.Request().Object, "a fact does not hold")
		}
		if slices.Contains(m.store.Evaluate(at, m.doubts...), true) ||
			slices.Contains(m.store.Evaluate(at, m.assumed...), false) {
			a.seen["open"]++
			continue
		}
		first, err := side.engine.Mutate(ctx, prepared)
		if err != nil {
			a.t.Fatal(err)
		}
		says := m.store.Evaluate(at, once.ran, once.failing, v.err, v.truth, twice.failing, differ)
		a.compared++
		if says[1] == first.Allowed {
			a.fail(text, prepared.Request().Object, fmt.Sprintf("formula: the mutation fails %v; engine %v %+v", says[1],
				!first.Allowed, first.Status))
			return
		}
		if !first.Allowed {
			a.seen["failed"]++
			continue
		}
		if knowsValue {
			d, err := side.engine.Validate(ctx, prepared.WithObject(first.Object))
			if err == nil && len(d.Outcomes) > 0 {
				verdict := map[bool]string{true: "Admit", false: "Deny"}[says[3]]
				if says[2] {
					verdict = "Error"
				}
				a.seen[verdict]++
				if verdict != string(d.Outcomes[0].Verdict) {
					a.fail(text, prepared.Request().Object, fmt.Sprintf("formula %s, engine %s %s", verdict,
						d.Outcomes[0].Verdict, d.Outcomes[0].Message))
					return
				}
			}
		}
		if knowsAgain {
			second, err := side.engine.Mutate(ctx, prepared.WithObject(first.Object))
			if err != nil {
				a.t.Fatal(err)
			}
			changed := !second.Allowed || !tree.Equal(second.Object, first.Object)
			a.seen[fmt.Sprintf("again %v", changed)]++
			if !changed && says[5] { // lists are compared item by item, which finds too many differences, never too few
				a.seen["coarser"]++
			} else if changed != (says[4] || says[5]) {
				a.fail(text, prepared.Request().Object, fmt.Sprintf("formula: a second run changes it %v %v, engine %v",
					says[4], says[5], changed))
				return
			}
		}
	}
}

// trySide returns a side of policies that the server accepts, otherwise nil.
func (a *agreement) trySide(text string) *Side {
	set := &policy.Set{}
	addAll(a.t, set, text)
	s, err := a.room.NewSide(set, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if len(s.engine.Rejections()) > 0 {
		return nil
	}
	return s
}

// TestRandomMutations asks about random mutations, and searches for counterexamples to the proofs, with lists that are
// longer than those of the formulas.
func TestRandomMutations(t *testing.T) {
	count := *comparisonCount / 200
	if count == 0 {
		count = 40
	}
	r := room(t)
	a := newAgreement(t, r, *comparisonSeed, 13)
	for range count {
		kind := mutationKinds[a.rand.IntN(len(mutationKinds))]
		w := &writer{rand: a.rand, types: r.Types, kind: kind}
		c := &changer{writer: w}
		write := func() string {
			if a.rand.IntN(3) == 0 {
				return c.patch(r.Types.Type(kind))
			}
			return c.object("Object", "object", r.Types.Type(kind), 5, "")
		}
		check := "(" + w.boolean(1, w.roots()) + ") || has(object.metadata)"
		if a.rand.IntN(2) == 0 {
			check = "(" + w.boolean(1, w.roots()) + ") && true"
		}
		a.proofs(kind, write(), write(), check)
	}
	t.Log(a.compared, a.seen)
}

// proofs asks all questions about two mutations and a validation.
func (a *agreement) proofs(kind schema.GroupVersionKind, first, two, check string) {
	ctx := context.Background()
	res := a.room.Types.ResourceFor(kind)
	text := changing("m", kind.Group, kind.Version, res.Resource, first) + "---\n" +
		changing("o", kind.Group, kind.Version, res.Resource, two) + "---\n" +
		one(kind.Group, kind.Version, res.Resource, check)
	side := a.trySide(text)
	if side == nil || len(side.mutators) < 2 {
		a.seen["rejected"]++
		return
	}
	accepts, err := a.room.Accepts(ctx, side, side)
	again, again1 := a.room.Idempotence(ctx, side)
	order, err2 := a.room.Commutativity(ctx, side)
	if err != nil || again1 != nil || err2 != nil {
		a.t.Fatal(err, again1, err2)
	}
	a.seen["accepts "+string(accepts.Answer)]++
	a.seen["idempotent "+string(again[0].Answer)]++
	a.seen["commutative "+string(order[0].Answer)]++
	m := newMachine(map[string]int{}, map[string][]string{})
	req := newRequest(m, Case{Resource: res, Operation: "CREATE", Kind: kind}, a.room.Types)
	for range 2 {
		req.invoke(side.programs[0], side.clauses()[0].binding)
		req.mutate(side, side.mutators, req.roots["object"])
	}
	p := newPool(side.programs[0].validations[0])
	for _, program := range side.mutators {
		p.texts = append(p.texts, newPool(program.mutations[0]).texts...)
	}
	p.longer = true
	pair, err := a.room.restrict(side, side.mutators...)
	if err != nil {
		a.t.Fatal(err)
	}
	forth, back := pair.mutators, []*program{pair.mutators[1], pair.mutators[0]}
	single, err := a.room.restrict(side, side.mutators[0])
	if err != nil {
		a.t.Fatal(err)
	}
	for range 40 {
		made, _ := a.request(req, side, p)
		if made == nil {
			continue
		}
		a.compared++
		for _, q := range []struct {
			answer Answer
			trial  trial
		}{{accepts.Answer, a.room.denialAfter(side, side.mutators)}, {again[0].Answer, a.room.changeAgain(single)},
			{order[0].Answer, a.room.orderMatters(pair, forth, back)}} {
			found, _, err := q.trial(ctx, &Example{Request: made})
			if err != nil {
				a.t.Fatal(err)
			}
			if found && q.answer == Proved {
				a.fail(text, made.Object, "a wrong proof")
			}
			if found {
				a.seen["found"]++
			}
		}
	}
}
