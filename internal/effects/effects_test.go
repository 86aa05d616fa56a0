package effects_test

import (
	"slices"
	"testing"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/google/cel-go/common/ast"
)

func parse(t *testing.T, src string) ast.Expr {
	t.Helper()
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	scope := set.Scope(celenv.Run, false)
	defer scope.Close()
	env, err := scope.Env(celenv.Declared{Params: true, Patch: true})
	if err != nil {
		t.Fatal(err)
	}
	parsed, issues := env.Parse(src)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	return parsed.NativeRep().Expr()
}

func TestReads(t *testing.T) {
	containers := effects.NewPath("object", "spec", "containers")
	for _, c := range []struct {
		src      string
		unsafe   []string // the leaves that the expression reads without a guard
		guarded  []string
		variable map[string]effects.Result
	}{
		{src: "object.spec.replicas <= params.data['max']",
			unsafe: []string{"object.spec.replicas", "params.data.max"}},
		{src: "has(object.a.b) && object.a.b", unsafe: []string{"object.a.b"}, guarded: []string{"object.a.b"}},
		{src: "'x' in object.m", unsafe: []string{"object.m"}, guarded: []string{"object.m.x"}},
		{src: "object.?a.b.c.orValue('')", guarded: []string{"object.a", "object.a.b", "object.a.b.c"}},
		{src: "object.a.?b[?'x/y'].hasValue()", unsafe: []string{"object.a"},
			guarded: []string{"object.a.b", `object.a.b["x/y"]`}},
		{src: "(object.a + object.b).all(c, c.d)", unsafe: []string{"object.a[].d", "object.b[].d"}},
		{src: "object.a.filter(x, x.b > 1).map(y, y.c)", unsafe: []string{"object.a[].b", "object.a[].c"}},
		{src: "object == null ? oldObject.x : object.x", unsafe: []string{"oldObject.x", "object.x"},
			guarded: []string{"object"}},
		{
			src: "variables.all.exists(c, c.image == '')", unsafe: []string{"object.spec.containers[].image"},
			variable: map[string]effects.Result{"all": {Paths: []effects.Path{containers}}},
		},
		{src: "object.m.exists(k, k == 'x') && object.m['x'] == ''", unsafe: []string{"object.m.x"},
			guarded: []string{"object.m.x"}},
		{src: "object.m.all(k, v, 'x' != k || v == '')", unsafe: []string{"object.m"}, guarded: []string{"object.m.x"}},
		{src: "object.m.filter(k, k in ['x', 'y']).size() == 2", unsafe: []string{"object.m"},
			guarded: []string{"object.m.x", "object.m.y"}},
		{src: "object.?a.optMap(v, v.b).orValue('')", unsafe: []string{"object.a.b"},
			guarded: []string{"object.a", "object.a"}},
	} {
		t.Run(c.src, func(t *testing.T) {
			reads := effects.ReadsOf(parse(t, c.src), c.variable)
			var unsafe, guarded []string
			for _, r := range reads.List {
				switch {
				case r.Test || r.Safe:
					guarded = append(guarded, r.Path.String())
				case r.Path.Steps != "" && !slices.ContainsFunc(reads.List, func(o effects.Read) bool {
					return !o.Test && !o.Safe && o.Path != r.Path && r.Path.Contains(o.Path)
				}):
					unsafe = append(unsafe, r.Path.String())
				}
			}
			for _, p := range reads.Nulls {
				guarded = append(guarded, p.String())
			}
			if !slices.Equal(unsafe, c.unsafe) || !slices.Equal(guarded, c.guarded) {
				t.Errorf("reads %q, asks for %q; want %q and %q", unsafe, guarded, c.unsafe, c.guarded)
			}
		})
	}
}

func TestWrites(t *testing.T) {
	for _, c := range []struct {
		src  string
		want []string
	}{
		{"Object{spec: Object.spec{replicas: 1, paused: true}}",
			[]string{"object.spec.replicas", "object.spec.paused"}},
		{"Object{spec: Object.spec{c: [Object.spec.c{name: 'a', image: 'b'}]}}",
			[]string{"object.spec.c[name=a].name", "object.spec.c[name=a].image"}},
		{"Object{spec: Object.spec{c: object.spec.c.map(x, Object.spec.c{name: x.name})}}",
			[]string{"object.spec.c[].name"}},
		{"Object{metadata: Object.metadata{labels: {'a/b': 'c'}}}", []string{`object.metadata.labels["a/b"]`}},
		{"[JSONPatch{op: 'add', path: '/spec/a~1b/0/c', value: 1}]", []string{`object.spec["a/b"][].c`}},
		{"has(object.x) ? [JSONPatch{op: 'add', path: '/x/-', value: 1}] : []", []string{"object.x[] append"}},
		{"[JSONPatch{op: 'add', path: '/m/' + jsonpatch.escapeKey('a/b'), value: 1}]", []string{`object.m["a/b"]`}},
		{"[JSONPatch{op: 'add', path: '/m/' + object.key, value: 1}]", []string{"object.m[]"}},
	} {
		t.Run(c.src, func(t *testing.T) {
			e := parse(t, c.src)
			var got []string
			for _, w := range append(effects.AppliedLeaves(e), effects.PatchOperations(e)...) {
				if w.Op == "apply" && w.Path.Root == "object" && len(effects.PatchOperations(e)) > 0 {
					continue
				}
				text := w.Path.String()
				if w.Append {
					text += " append"
				}
				got = append(got, text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("writes %q, want %q", got, c.want)
			}
		})
	}
}
