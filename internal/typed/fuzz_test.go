package typed_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/patch/merge/mergetest"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
)

// FuzzAccepted generates types, objects and expressions, released ones and those of the dialect: the merge must not
// refuse an accepted expression because of its type.
func FuzzAccepted(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		choices := make([]byte, 300)
		for i := range choices {
			choices[i] = byte(random.Uint32())
		}
		f.Add(choices)
	}
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		f.Fatal(err)
	}
	counts := map[policy.Kind]*count{policy.Mutating: {}, policy.Admission: {}}
	f.Cleanup(func() {
		for kind, n := range counts {
			f.Logf("%s: %+v", kind, *n)
		}
	})
	f.Fuzz(func(t *testing.T, choices []byte) {
		for kind, n := range counts {
			n.compare(t, set, choices, kind)
		}
	})
}

type count struct{ Accepted, Found int }

func (n *count) compare(t *testing.T, set *celenv.Set, choices []byte, kind policy.Kind) {
	g := mergetest.Generator{Choices: choices}
	live, patch, root := g.Scenario()
	live, _ = withoutNulls(live).(map[string]any) // in stored form
	w := writer{root: declare(root, map[*shape.Type]bool{}), choices: choices, own: kind == policy.Admission}
	src := w.value(patch, root, "Object", 6)
	if !strings.HasPrefix(src, "Object") {
		return
	}
	p := &policy.Policy{Kind: kind, Mutations: []policy.Mutation{{
		PatchType: policy.ApplyConfiguration, Expr: policy.Expr{Src: src, Field: "expression"}}}}
	checker := typed.NewChecker(set)
	found, err := checker.Kind(p, root, nil)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := compile.Policy(set, p)
	if err != nil {
		t.Fatal(err)
	}
	if prog.Mutations[0].Err != nil || len(found) == 0 {
		return
	}
	problem := ""
	for _, p := range found[0].Problems {
		if p.Class != typed.AtomicValue && p.Class != typed.MissingKey {
			problem = p.Message
		}
	}
	if found[0].Dynamic || len(found[0].Issues) > 0 {
		return
	}
	merger := &merge.Merger{}
	apply := func(tree map[string]any) error {
		if kind == policy.Mutating {
			_, err := merge.Apply(live, tree, root)
			return err
		}
		_, err := merger.ApplyOwn(live, tree, root, nil)
		return err
	}
	tree, _, err := eval.ApplyConfiguration(t.Context(), prog, prog.Mutations[0],
		eval.Inputs{Object: eval.Value(live, eval.Plain), Kind: &eval.Kind{Name: "Thing", Type: root, Merger: merger}})
	if err == nil {
		err = apply(tree)
	}
	if err == nil {
		n.Accepted++
		return
	}
	if !aboutPatch(err, apply) {
		return
	}
	if problem == "" {
		t.Errorf("%s: accepted, but refused: %v\n%s\nlive %v", kind, err, src, live)
	}
	n.Found++
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, member any) bool { return withoutNulls(member) == nil })
	case []any:
		for _, item := range v {
			withoutNulls(item)
		}
	}
	return v
}

// aboutPatch reports an error about the types of a patch.
func aboutPatch(err error, apply func(map[string]any) error) bool {
	var problems merge.Problems
	if strings.Contains(err.Error(), "type mismatch: unexpected") {
		return true
	}
	if wrong := apply(map[string]any{}); wrong != nil || !errors.As(err, &problems) {
		return false
	}
	return slices.ContainsFunc(problems, func(p merge.Problem) bool {
		return !strings.Contains(p.Message, "duplicate entries") && !strings.Contains(p.Message, "key")
	})
}

// declare converts a type to one that a registry may have: all items have types, and members have names that CEL can
// write.
func declare(t *shape.Type, done map[*shape.Type]bool) *shape.Type {
	if t == nil || done[t] {
		return t
	}
	done[t] = true
	if (t.Kind == shape.List || t.Kind == shape.Map) && t.Elem == nil {
		t.Elem = &shape.Type{Kind: shape.Any}
	}
	declare(t.Elem, done)
	t.Fields = slices.DeleteFunc(t.Fields, func(f shape.Field) bool { return strings.Contains(f.Name, "/") })
	for i := range t.Fields {
		declare(t.Fields[i].Type, done)
	}
	return t
}

// A writer writes values as expressions, in all supported notations.
type writer struct {
	root    *shape.Type
	choices []byte
	at      int
	own     bool // with marks
}

func (w *writer) choose(n int) int {
	if len(w.choices) == 0 {
		return 0
	}
	w.at++
	return (int(w.choices[(w.at*7)%len(w.choices)]) + w.at/len(w.choices)) % n
}

// read selects a field of the object, with any type.
func (w *writer) read() string {
	text, t := "object", w.root
	for range 1 + w.choose(3) {
		if t.Kind != shape.Struct || len(t.Fields) == 0 {
			break
		}
		f := t.Fields[w.choose(len(t.Fields))]
		text, t = text+"."+f.Name, f.Type
	}
	if t.Kind == shape.List && w.choose(2) == 0 {
		return text + []string{".map(x, x)", "[0]", ".filter(x, true)"}[w.choose(3)]
	}
	return text
}

func (w *writer) value(v any, t *shape.Type, name string, depth int) string {
	if depth < 6 {
		switch w.choose(16) {
		case 0:
			return w.read()
		case 1:
			return "(" + w.writePlain(v, t, name, depth) + ")"
		case 2:
			text := w.writePlain(v, t, name, depth)
			return "(true ? " + text + " : " + text + ")"
		case 3:
			if w.own {
				return w.mark(v, t, name, depth)
			}
		}
	}
	return w.writePlain(v, t, name, depth)
}

// mark writes a mark around a value, or in its place.
func (w *writer) mark(v any, t *shape.Type, name string, depth int) string {
	switch w.choose(4) {
	case 0:
		return "objects.unset()"
	case 1:
		return "objects.remove(" + w.writePlain(v, t, name, depth) + ")"
	case 2:
		return "objects.replace(" + w.value(v, t, name, depth) + ")"
	}
	return "objects.apply(" + w.read() + ", " + w.writePlain(v, t, name, depth) + ")"
}

func (w *writer) writePlain(v any, t *shape.Type, name string, depth int) string {
	if t == nil {
		t = &shape.Type{}
	}
	switch v := v.(type) {
	case map[string]any:
		if depth == 0 {
			return "{}"
		}
		return w.members(v, t, name, depth)
	case []any:
		if depth == 0 {
			return "[]"
		}
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = w.value(item, t.Elem, name, depth-1)
		}
		text := "[" + strings.Join(items, ", ") + "]"
		return text + []string{"", "", "", "", " + []", ".map(x, x)", ".filter(x, true)"}[w.choose(7)]
	case string:
		return fmt.Sprintf("%q", v)
	case float64:
		return fmt.Sprintf("double(%v)", v)
	case bool, int64:
		return fmt.Sprint(v)
	case uint64:
		return fmt.Sprint(v, "u")
	case []byte:
		return "b'a'"
	}
	return []string{"null", "optional.none()", "timestamp('2020-01-01T00:00:00Z')"}[w.choose(3)]
}

// members writes a struct or a map as a struct literal or a map literal.
func (w *writer) members(v map[string]any, t *shape.Type, name string, depth int) string {
	literal := t.Kind == shape.Struct || w.choose(3) == 0
	if w.choose(20) == 0 {
		literal = !literal
	}
	if depth == 6 {
		literal = true
	}
	called := name
	if depth < 6 && w.choose(25) == 0 {
		called = "Object.other"
	}
	var all []string
	for _, member := range slices.Sorted(maps.Keys(v)) {
		if strings.Contains(member, "/") {
			continue
		}
		of := t.Elem
		if t.Kind == shape.Struct {
			of = nil
			if f := t.Field(member); f != nil {
				of = f.Type
			}
		}
		below := name + "." + member
		if !literal {
			below = name
		}
		text := w.value(v[member], of, below, depth-1)
		switch w.choose(8) {
		case 0:
			text = "optional.of(" + text + ")"
			if w.choose(8) != 0 {
				text = "?" + text
			}
		}
		mark := ""
		if strings.HasPrefix(text, "?") {
			mark, text = "?", text[1:]
		}
		if literal {
			all = append(all, mark+member+": "+text)
		} else {
			all = append(all, fmt.Sprintf("%s%q: %s", mark, member, text))
		}
	}
	if literal {
		return called + "{" + strings.Join(all, ", ") + "}"
	}
	return "{" + strings.Join(all, ", ") + "}"
}
