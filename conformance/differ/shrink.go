package differ

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/schema"
)

func equalTrees(a, b map[string]any) bool { return reflect.DeepEqual(a, b) }

// A trial is a case that is compiled on both sides.
type trial struct {
	*World
	c      *Case
	engine *celgate.Engine
	server *compiled
}

func (w *World) try(c *Case) *trial {
	engine, err := w.engineOf(c)
	if err != nil {
		return nil
	}
	server, err := w.upstream.compile(c)
	if err != nil {
		return nil
	}
	return &trial{w, c, engine, server}
}

// differs reports whether both sides answer differently, even if the request is repeated.
func (t *trial) differs(ctx context.Context, q *request) bool {
	if t == nil {
		return false
	}
	got, err := askEngine(ctx, t.engine, t.c, q)
	if err != nil {
		return false
	}
	got = got.settle()
	for range 12 {
		if sameAnswers(t.upstream.ask(ctx, t.server, q).settle(), got) {
			return false
		}
	}
	return true
}

// shrinkTime is how long one difference is made smaller.
const shrinkTime = 15 * time.Second

// shrink greedily removes parts that the difference does not need.
func (w *World) shrink(ctx context.Context, c *Case, q *request) (*Case, *request) {
	ctx, stop := context.WithTimeout(ctx, shrinkTime)
	defer stop()
	for changed := true; changed && ctx.Err() == nil; {
		changed = false
		for _, next := range smallerCases(c) {
			if ctx.Err() == nil && w.try(next).differs(context.WithoutCancel(ctx), q) {
				c, changed = next, true
				break
			}
		}
		if changed {
			continue
		}
		t := w.try(c)
		for again := true; again && ctx.Err() == nil; {
			again = false
			for next := range w.smallerRequests(q) {
				if ctx.Err() != nil {
					break
				}
				if t.differs(context.WithoutCancel(ctx), next) {
					q, again, changed = next, true, true
					break
				}
			}
		}
	}
	return c, q
}

func smallerCases(c *Case) []*Case {
	var all []*Case
	for _, spec := range shrinkTree(c.Policy["spec"], true) {
		p := maps.Clone(c.Policy)
		p["spec"] = spec
		all = append(all, &Case{p, c.Binding})
	}
	for _, spec := range shrinkTree(c.Binding["spec"], true) {
		b := maps.Clone(c.Binding)
		b["spec"] = spec
		all = append(all, &Case{c.Policy, b})
	}
	return all
}

// shrinkTree returns trees with one thing less.
func shrinkTree(tree any, expressions bool) []any {
	var all []any
	switch v := tree.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			less := maps.Clone(v)
			delete(less, k)
			all = append(all, less)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if text, ok := v[k].(string); ok {
				if expressions && (strings.HasSuffix(k, "xpression")) {
					for _, e := range smallerExpressions(text) {
						less := maps.Clone(v)
						less[k] = e
						all = append(all, less)
					}
				}
				continue
			}
			for _, inner := range shrinkTree(v[k], expressions) {
				less := maps.Clone(v)
				less[k] = inner
				all = append(all, less)
			}
		}
	case []any:
		for i := range v {
			all = append(all, slices.Delete(slices.Clone(v), i, i+1))
		}
		for i := range v {
			for _, inner := range shrinkTree(v[i], expressions) {
				less := slices.Clone(v)
				less[i] = inner
				all = append(all, less)
			}
		}
	}
	return all
}

var operators = regexp.MustCompile(` (?:&&|\|\||\+|==|[?:]) `)

// smallerExpressions returns shorter texts, most of which are not expressions.
func smallerExpressions(e string) []string {
	seen := map[string]bool{e: true}
	var all []string
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" && !seen[s] && len(s) < len(e) {
			seen[s] = true
			all = append(all, s)
		}
	}
	for _, constant := range []string{"true", "false", "'x'", "1", "Object{}",
		"[JSONPatch{op: 'remove', path: '/x'}]"} {
		add(constant)
	}
	for _, m := range operators.FindAllStringIndex(e, -1) {
		add(e[:m[0]])
		add(e[m[1]:])
	}
	opens := []int{}
	starts := []int{}
	for i := 0; i < len(e); i++ {
		switch e[i] {
		case '\'', '"':
			for j := i + 1; j < len(e); j++ {
				if e[j] == '\\' {
					j++
				} else if e[j] == e[i] {
					i = j
					break
				}
			}
		case '(', '[', '{':
			opens = append(opens, i)
			starts = append(starts, i+1)
		case ',':
			if len(starts) > 0 {
				begin := starts[len(starts)-1]
				add(e[:begin] + strings.TrimLeft(e[i+1:], " ")) // without the item before the comma
				add(e[:begin] + e[i:])
				starts[len(starts)-1] = i + 1
			}
		case ')', ']', '}':
			if len(opens) == 0 {
				return all
			}
			open, begin := opens[len(opens)-1], starts[len(starts)-1]
			opens, starts = opens[:len(opens)-1], starts[:len(starts)-1]
			add(e[open+1 : i])
			add(e[:open] + e[open+1:i] + e[i+1:])
			add(strings.TrimRight(e[:begin], ", ") + e[i:]) // without the last item
			add(e[:open] + e[i+1:])
			add(e[i+1:])
			add(e[:i+1])
			inner := e[open : i+1]
			add(inner)
			for _, m := range operators.FindAllStringIndex(inner, -1) {
				add(e[:open+1] + inner[m[1]:] + e[i+1:])
				add(e[:open] + inner[:m[0]] + inner[len(inner)-1:] + e[i+1:])
			}
		}
	}
	return all
}

func (w *World) kindFor(q *request) *kind {
	for _, k := range w.kinds {
		if k.resource == q.resource {
			return k
		}
	}
	return nil
}

// smallerRequests yields requests with one thing less.
func (w *World) smallerRequests(q *request) func(func(*request) bool) {
	k := w.kindFor(q)
	with := func(object, old *object) *request {
		r := *q
		inner := *q.Request
		r.Request, r.object, r.old = &inner, object, old
		r.Object, r.OldObject = nil, nil
		if object != nil {
			r.Object = object.tree
		}
		if old != nil {
			r.OldObject = old.tree
		}
		return &r
	}
	return func(yield func(*request) bool) {
		if q.DryRun {
			r := with(q.object, q.old)
			r.DryRun = false
			r.complete()
			if !yield(r) {
				return
			}
		}
		if q.object != nil && q.old != nil {
			r := with(q.object, nil)
			r.Operation = "CREATE"
			r.complete()
			if !yield(r) {
				return
			}
			if !equalTrees(q.Object, q.OldObject) && !yield(with(q.object, q.object)) {
				return
			}
		}
		size := func(tree map[string]any) int { text, _ := json.Marshal(tree); return len(text) }
		for _, old := range []bool{false, true} {
			o := q.object
			if old {
				o = q.old
			}
			if o == nil {
				continue
			}
			for _, less := range shrinkTree(o.tree, false) {
				tree := runtime.DeepCopyJSON(less.(map[string]any))
				if tree["kind"] == nil || tree["apiVersion"] == nil || tree["metadata"] == nil {
					continue
				}
				next := w.prepare(k, tree)
				if next == nil || size(next.tree) >= size(o.tree) {
					continue
				}
				r := with(next, q.old)
				if old {
					r = with(q.object, next)
				}
				if !yield(r) {
					return
				}
			}
		}
	}
}

// report writes a case as one of the corpus, with both answers.
func (w *World) report(ctx context.Context, c *Case, q *request) string {
	diff := ""
	if t := w.try(c); t != nil {
		if got, err := askEngine(ctx, t.engine, c, q); err == nil {
			diff = difference(w.upstream.ask(ctx, t.server, q).settle(), got.settle())
		}
	}
	return diff + "\n" + w.corpusCase(c, q.resource, q.OldObject, q.Object, map[string]any{
		"operation": q.Operation, "apiVersion": q.resource.GroupVersion().String(), "resource": q.resource.Resource,
		"namespace": q.Namespace,
		"name":      q.Name, "user": q.UserInfo.Username, "dryRun": q.DryRun,
	}, nil)
}

// corpusCase writes a case in the format of the corpus, with the objects that its policy may read and further ones.
func (w *World) corpusCase(c *Case, resource *schema.Resource, old, object, request map[string]any,
	further []map[string]any) string {
	archive := &txtar.Archive{}
	add := func(name string, trees ...map[string]any) {
		var all []string
		for _, tree := range trees {
			if tree != nil {
				text, _ := yaml.Marshal(tree)
				all = append(all, string(text))
			}
		}
		if len(all) > 0 {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(strings.Join(all, "---\n"))})
		}
	}
	add("policy.yaml", c.Policy, c.Binding)
	var state []map[string]any
	if resource.Definition != nil {
		state = append(state, resource.Definition)
	}
	spec, _ := c.Policy["spec"].(map[string]any)
	params, _ := spec["paramKind"].(map[string]any)
	if r := w.types.ResourceFor(kindOf(params)); r != nil && r.Definition != nil && r.Storage != resource.Storage {
		state = append(state, r.Definition)
	}
	for _, object := range w.state {
		metadata, _ := object["metadata"].(map[string]any)
		if params != nil && kindOf(object) == kindOf(params) ||
			object["kind"] == "Namespace" && metadata["name"] == request["namespace"] {
			state = append(state, object)
		}
	}
	add("state.yaml", append(state, further...)...)
	add("old.yaml", old)
	add("object.yaml", object)
	add("request.yaml", request)
	return string(txtar.Format(archive))
}
