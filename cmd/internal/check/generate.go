package check

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/storable"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
	"github.com/google/cel-go/common/ast"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Some questions are answered by running policies. What they run on is made here: objects of the matched kinds with the
// fields that the policies read and write, in part present and in part not, whose values are taken from the texts of
// the policies, in a cluster with the params and namespaces that the policies ask for. The same policies always get the
// same objects.

// specimens is how many objects are made for each kind.
const specimens = 24

// largeSpecimens is how many objects with long lists are made for each kind.
const largeSpecimens = 3

// maxKindsRun bounds the kinds that a policy with wildcards is run on.
const maxKindsRun = 4

// A maker makes objects for some policies that run together.
type maker struct {
	*subject
	facts []*facts
	rand  *rand.Rand

	object, params []effects.Path // what the policies read and write
	texts          []string       // literals of the policies
	numbers        []int64
	items          int // of a list, fewer of lists in it; 0: one or two
	made           int // items of all lists
	within         int // depth of list nesting
}

func (s *subject) newMaker(of ...*facts) *maker {
	m := &maker{subject: s, facts: of, rand: rand.New(rand.NewPCG(37, 1))}
	add := func(list *[]effects.Path, p effects.Path) {
		if p.Steps != "" && !slices.Contains(*list, p) {
			*list = append(*list, p)
		}
	}
	for _, f := range of {
		for e := range f.parsedExpressions() {
			for _, r := range e.reads.List {
				switch r.Path.Root {
				case "object", "oldObject":
					add(&m.object, effects.Path{Root: "object", Steps: r.Path.Steps})
				case "params":
					add(&m.params, r.Path)
				}
			}
			visit(e.ast.Expr(), func(x ast.Expr) {
				switch v := constant(x).(type) {
				case string:
					if len(v) <= 63 && !slices.Contains(m.texts, v) {
						m.texts = append(m.texts, v)
					}
				case int64:
					if !slices.Contains(m.numbers, v) {
						m.numbers = append(m.numbers, v)
					}
				}
			})
		}
		for _, w := range f.writes() {
			add(&m.object, w.Path)
		}
	}
	return m
}

// madeNamespace is the namespace of the objects.
const madeNamespace = "example"

// cluster is what exists around the objects.
func (m *maker) cluster() (*state.Cluster, error) { return state.New(m.Types, m.objects()...) }

// objects are those of the cluster: the namespace with the labels that selectors ask for, and params.
func (m *maker) objects() []map[string]any {
	labels := map[string]any{}
	for _, f := range m.facts {
		satisfy(labels, f.MatchConstraints, func(r *policy.MatchResources) *metav1.LabelSelector {
			return r.NamespaceSelector
		})
		for _, b := range f.bindings {
			satisfy(labels, b.MatchResources,
				func(r *policy.MatchResources) *metav1.LabelSelector { return r.NamespaceSelector })
		}
	}
	objects := []map[string]any{{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": madeNamespace, "labels": labels},
	}}
	seen := map[string]bool{}
	for _, f := range m.facts {
		kind := m.paramKind(f)
		resource := m.Types.ResourceFor(kind)
		if resource == nil {
			continue
		}
		for _, b := range f.bindings {
			if b.ParamRef == nil {
				continue
			}
			param := m.minimal(kind, cmp.Or(b.ParamRef.Name, "params"))
			metadata := tree.Object(param).Metadata()
			if resource.Namespaced {
				metadata["namespace"] = cmp.Or(b.ParamRef.Namespace, madeNamespace)
			}
			if s := b.ParamRef.Selector; s != nil {
				selected := map[string]any{}
				storable.Satisfy(selected, s)
				metadata["labels"] = selected
			}
			id := fmt.Sprint(kind, metadata["namespace"], "/", metadata["name"])
			if seen[id] {
				continue
			}
			seen[id] = true
			for _, p := range m.params {
				m.put(param, m.Types.Type(kind), p.Split())
			}
			objects = append(objects, param)
		}
	}
	return objects
}

// satisfy adds the labels that a selector of match resources asks for.
func satisfy(labels map[string]any, r *policy.MatchResources, of func(*policy.MatchResources) *metav1.LabelSelector) {
	if r != nil {
		storable.Satisfy(labels, of(r))
	}
}

// requests returns requests that the policies may match: creations of objects of the kinds that all of them match.
func (m *maker) requests() []*celgate.Request {
	var all []*celgate.Request
	kinds := 0
	for _, t := range m.facts[0].targets {
		shared := !slices.ContainsFunc(m.facts[1:], func(f *facts) bool {
			return !slices.ContainsFunc(f.targets, func(o target) bool { return o.kind == t.kind })
		})
		if t.typ == nil || t.subresource != "" || !shared {
			continue
		}
		if kinds++; kinds > maxKindsRun {
			break
		}
		if m.items > 0 { // a few large ones do
			for range largeSpecimens {
				all = append(all, m.request(t, 1))
			}
			continue
		}
		for i := range specimens {
			all = append(all, m.request(t, float64(i)/specimens))
		}
	}
	return all
}

// request makes one request; presence is the part of the fields that are there.
func (m *maker) request(t target, presence float64) *celgate.Request {
	m.made = 0
	object := m.minimal(t.kind, "a")
	metadata := tree.Object(object).Metadata()
	namespace := ""
	if t.namespaced {
		namespace = madeNamespace
		metadata["namespace"] = namespace
	}
	for _, p := range m.object {
		if m.rand.Float64() < presence {
			m.put(object, t.typ, p.Split())
		}
	}
	storable.Complete(object, t.kind)
	labels, _ := metadata["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	for _, f := range m.facts {
		satisfy(labels, f.MatchConstraints, func(r *policy.MatchResources) *metav1.LabelSelector {
			return r.ObjectSelector
		})
		for _, b := range f.bindings {
			satisfy(labels, b.MatchResources,
				func(r *policy.MatchResources) *metav1.LabelSelector { return r.ObjectSelector })
		}
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	metadata["name"] = "a"
	if t.kind.Kind == "Namespace" && t.kind.Group == "" {
		namespace = "a"
	}
	object["apiVersion"], object["kind"] = t.kind.GroupVersion().String(), t.kind.Kind
	r := &celgate.Request{
		Kind: t.kind, Resource: t.resource, Name: "a", Namespace: namespace, Operation: celgate.Create, Object: object,
		UserInfo: celgate.UserInfo{Username: "someone", Groups: []string{"system:authenticated"}},
	}
	all := func(op string) bool {
		return !slices.ContainsFunc(m.facts, func(f *facts) bool { return !f.operations()[op] })
	}
	switch {
	case all("CREATE"):
	case all("UPDATE"):
		r.Operation, r.OldObject = celgate.Update, object
	case all("DELETE"):
		r.Operation, r.Object, r.OldObject = celgate.Delete, nil, object
	}
	return r
}

// minimal is an object of a kind with nothing but what its schema requires.
func (m *maker) minimal(kind schema.GroupVersionKind, name string) map[string]any {
	object := map[string]any{}
	if t := m.Types.Type(kind); t != nil {
		if made, ok := m.value(t, 0).(map[string]any); ok {
			object = made
		}
	}
	object["apiVersion"], object["kind"] = kind.GroupVersion().String(), kind.Kind
	object["metadata"] = map[string]any{"name": name}
	return object
}

// deepest bounds what is made below a required member.
const deepest = 8

// value makes a value of a type.
func (m *maker) value(t *shape.Type, depth int) any {
	switch t.Kind {
	case shape.Boolean:
		return m.rand.IntN(2) == 0
	case shape.Integer, shape.Number:
		return m.number()
	case shape.String:
		return m.text()
	case shape.Bytes:
		return "YQ=="
	case shape.Quantity:
		return []string{"1", "100m", "64Mi", "2Gi"}[m.rand.IntN(4)]
	case shape.Time:
		return "2026-01-01T00:00:00Z"
	case shape.MicroTime:
		return "2026-01-01T00:00:00.000000Z"
	case shape.Duration:
		return "1m0s"
	case shape.IntOrString:
		if m.rand.IntN(2) == 0 {
			return "25%"
		}
		return int64(1)
	case shape.List:
		if depth > deepest {
			return []any{}
		}
		items := make([]any, m.length())
		m.within++
		defer func() { m.within-- }()
		for i := range items {
			items[i] = m.value(t.Elem, depth+1)
			name(items[i], t, i)
		}
		return items
	case shape.Map:
		if depth > deepest {
			return map[string]any{}
		}
		return map[string]any{m.key(): m.value(t.Elem, depth+1)}
	case shape.Struct:
		object := map[string]any{}
		for i := range t.Fields {
			if f := &t.Fields[i]; f.Required && depth < deepest {
				object[f.Name] = m.value(f.Type, depth+1)
			}
		}
		return object
	}
	return nil
}

// name gives the i-th item of a keyed list keys of its own.
func name(item any, list *shape.Type, i int) {
	object, ok := item.(map[string]any)
	if !ok || list.Merge != shape.Keyed {
		return
	}
	for _, key := range list.Keys {
		f := list.Elem.Field(key)
		switch {
		case f == nil:
		case f.Type.Kind == shape.String && key != "protocol":
			object[key] = fmt.Sprintf("a%d", i)
		case f.Type.Kind == shape.Integer:
			object[key] = int64(8000 + i)
		}
	}
}

func (m *maker) length() int {
	n := 1 + m.rand.IntN(2)
	if m.items > 0 && m.made < mostItems {
		n = max(1, m.items>>(2*m.within))
	}
	m.made += n
	return n
}

// mostItems bounds the items of one object.
const mostItems = 4000

func (m *maker) number() int64 {
	if len(m.numbers) == 0 || m.rand.IntN(4) == 0 {
		return int64(m.rand.IntN(5))
	}
	return m.numbers[m.rand.IntN(len(m.numbers))] + int64(m.rand.IntN(3)) - 1
}

func (m *maker) text() string {
	if len(m.texts) == 0 || m.rand.IntN(4) == 0 {
		return "a"
	}
	return m.texts[m.rand.IntN(len(m.texts))]
}

// key is the key of a map: one that could be the name of a label.
func (m *maker) key() string {
	if text := m.text(); strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-./_") == "" && text != "" {
		return text
	}
	return "a"
}

// put makes the field at a path exist.
func (m *maker) put(object map[string]any, t *shape.Type, steps []string) {
	if len(steps) == 0 || t == nil || t.Kind != shape.Struct && t.Kind != shape.Map && t.Kind != shape.Any {
		return
	}
	step := steps[0]
	var below *shape.Type
	switch t.Kind {
	case shape.Struct:
		f := t.Field(step)
		if f == nil {
			return
		}
		below = f.Type
	case shape.Map:
		if below = t.Elem; strings.HasPrefix(step, "[") {
			step = m.key()
		}
	default:
		return
	}
	if len(steps) == 1 {
		if _, there := object[step]; !there || below.Kind != shape.Struct && below.Kind != shape.List {
			object[step] = m.value(below, 1)
		}
		return
	}
	rest := steps[1:]
	if below.Kind != shape.List {
		next, ok := object[step].(map[string]any)
		if !ok {
			made, isMap := m.value(below, 1).(map[string]any)
			if !isMap {
				return
			}
			next = made
			object[step] = next
		}
		m.put(next, below, rest)
		return
	}
	items, ok := object[step].([]any)
	if !ok {
		items, _ = m.value(below, 1).([]any)
		object[step] = items
	}
	if named, isName := strings.CutPrefix(rest[0], "[name="); isName && m.rand.IntN(2) == 0 && len(items) > 0 {
		if first, ok := items[0].(map[string]any); ok {
			first["name"] = strings.TrimSuffix(named, "]")
		}
	}
	if len(rest) == 1 || len(rest) == 2 && slices.Contains(below.Keys, rest[1]) {
		return // items have their keys
	}
	m.within++
	defer func() { m.within-- }()
	for _, item := range items {
		if member, ok := item.(map[string]any); ok && m.rand.IntN(4) > 0 {
			m.put(member, below.Elem, rest[1:])
		}
	}
}
