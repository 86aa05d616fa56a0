package plan_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
)

var pod = map[string]any{
	"apiVersion": "v1", "kind": "Pod",
	"metadata": map[string]any{
		"name": "web", "namespace": "shop", "labels": map[string]any{"app": "web", "tier": "front", "": ""},
		"creationTimestamp": nil,
	},
	"spec": map[string]any{
		"replicas": int64(3), "ratio": 0.5, "paused": false, "empty": map[string]any{}, "none": []any{},
		"numbers": []any{int64(1), int64(2), int64(3)}, "words": []any{"b", "a", "ü", ""},
		"mixed":  []any{int64(1), "a", 0.5, true, nil},
		"matrix": []any{[]any{int64(1)}, []any{int64(2), int64(3)}},
		"containers": []any{
			map[string]any{"name": "app", "image": "registry.example.com/app:1",
				"ports":     []any{map[string]any{"containerPort": int64(80)}},
				"resources": map[string]any{"limits": map[string]any{"memory": "64Mi", "cpu": "100m"}},
			},
			map[string]any{"name": "proxy", "image": "docker.io/proxy:latest",
				"securityContext": map[string]any{"runAsNonRoot": true}},
		},
	},
}

type variables map[string]ref.Val

func (v variables) ResolveName(name string) (any, bool) { x, ok := v[name]; return x, ok }

func (v variables) Parent() cel.Activation { return nil }

// records are variables of which request is a record.
type records struct{ variables }

func (r records) Record(variable string) (plan.Record, types.Adapter) {
	content, shows := r.variables[variable].(plan.Tree).Tree()
	return members(content.(map[string]any)), shows
}

type members map[string]any

func (m members) Member(name string) (any, bool) { v, found := m[name]; return v, found }

// environment has the variables and functions of policies.
type environment struct {
	env *cel.Env
	fns *plan.Functions

	trees int // how many Object literals were made without values
}

func newEnvironment(t testing.TB) *environment {
	t.Helper()
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	declared := celenv.Declared{Params: true, Authorizer: true, Patch: true}
	scope := set.Scope(celenv.Run, true)
	env, err := scope.Env(declared)
	if err != nil {
		t.Fatal(err)
	}
	fns, err := scope.Functions(declared)
	if err != nil {
		t.Fatal(err)
	}
	return &environment{env: env, fns: fns}
}

func inputs(form eval.Form) variables {
	object := eval.Value(pod, form)
	return variables{
		"object": object, "oldObject": types.NullValue, "params": object, "namespaceObject": types.NullValue,
		"request": eval.Value(map[string]any{"operation": "CREATE",
			"userInfo": map[string]any{"username": "alice", "groups": []any{"a", "b"}}}, eval.Reflected),
	}
}

// compare evaluates an expression with a plan and with cel-go's tracker; covered means that the plan answered. An
// expression that does not compile is not a difference.
func (e *environment) compare(src string, limit uint64) (covered bool, err error) {
	checked, err := e.compile(src)
	if err != nil {
		return false, err
	}
	program, err := e.env.Program(checked, cel.CostLimit(limit), cel.InterruptCheckFrequency(100))
	if err != nil {
		return false, err
	}
	p := plan.New(e.env, e.fns, checked, limit)
	if p == nil {
		return false, nil
	}
	for _, form := range []eval.Form{eval.Plain, eval.Reflected} {
		vars := inputs(form)
		got, cost, ok := p.Eval(vars, nil, nil)
		again, againCost, againOk := p.Eval(records{vars}, nil, nil)
		if againOk != ok || againCost != cost || ok && !isSame(got, again) {
			return covered, &differs{fmt.Sprintf("%s: %v for %d, with a record %v for %d", src, got, cost, again,
				againCost)}
		}
		if !ok {
			continue
		}
		covered = true
		want, details, err := program.ContextEval(context.Background(), vars)
		if err != nil {
			return true, &differs{fmt.Sprintf("%s: %v, cel-go fails: %v", src, got, err)}
		}
		if tracked := *details.ActualCost(); cost != tracked {
			return true, &differs{fmt.Sprintf("%s: costs %d, cel-go's tracker says %d", src, cost, tracked)}
		}
		if object, isObject := want.(*dynamic.ObjectVal); isObject {
			tree, treeCost, ok := p.Tree(vars, nil)
			if mismatched := object.CheckTypeNamesMatchFieldPathNames() != nil; mismatched == ok && mismatched {
				return true, &differs{fmt.Sprintf("%s: a type name does not match and the tree is there", src)}
			}
			if ok && (treeCost != cost || !reflect.DeepEqual(tree, object.Value())) {
				return true, &differs{fmt.Sprintf("%s: the tree %#v costs %d, cel-go says %#v for %d", src, tree,
					treeCost, object.Value(), cost)}
			}
			e.trees += map[bool]int{true: 1}[ok]
		}
		if !isSame(got, want) {
			return true, &differs{fmt.Sprintf("%s: %T %v, cel-go says %T %v", src, got, got, want, want)}
		}
	}
	return covered, nil
}

// compile fails where cel-go panics, as its validator of lists and maps does for {?'a': object}.
func (e *environment) compile(src string) (checked *cel.Ast, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cel-go panics: %v", p)
		}
	}()
	checked, issues := e.env.Compile(src)
	return checked, issues.Err()
}

type differs struct{ text string }

func (d *differs) Error() string { return d.text }

func isSame(a, b ref.Val) bool {
	if fmt.Sprintf("%T", a) != fmt.Sprintf("%T", b) {
		return false
	}
	switch a := a.(type) {
	case types.Double:
		return fmt.Sprint(a) == fmt.Sprint(b)
	case *dynamic.ObjectVal:
		return fmt.Sprint(a.Value()) == fmt.Sprint(b.Value())
	case *types.Optional:
		b := b.(*types.Optional)
		return a.HasValue() == b.HasValue() && (!a.HasValue() || isSame(a.GetValue(), b.GetValue()))
	case traits.Lister:
		b := b.(traits.Lister)
		if a.Size() != b.Size() {
			return false
		}
		for i := range a.Size().(types.Int) {
			if !isSame(a.Get(i), b.Get(i)) {
				return false
			}
		}
		return true
	}
	return types.Equal(a, b) == types.True || fmt.Sprint(a.Value()) == fmt.Sprint(b.Value())
}

// expressions reads testdata/expressions.cel: one a line; those after the line "# not covered" are left to cel-go.
func expressions(t testing.TB) (covered, others []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/expressions.cel")
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(text), "# not covered\n")
	lines := func(s string) (out []string) {
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				out = append(out, line)
			}
		}
		return out
	}
	return lines(before), lines(after)
}

func TestAsTheTracker(t *testing.T) {
	e := newEnvironment(t)
	covered, others := expressions(t)
	for _, src := range covered {
		ok, err := e.compare(src, celenv.ExpressionLimit)
		if err != nil {
			t.Error(err)
		} else if !ok {
			t.Errorf("%s: not covered", src)
		}
	}
	if e.trees < 20 {
		t.Errorf("%d trees", e.trees)
	}
	for _, src := range others {
		if ok, err := e.compare(src, celenv.ExpressionLimit); err != nil {
			t.Error(err)
		} else if ok {
			t.Errorf("%s: covered", src)
		}
	}
}

// The limit refuses exactly the evaluations that the tracker refuses.
func TestLimit(t *testing.T) {
	e := newEnvironment(t)
	covered, _ := expressions(t)
	for _, src := range covered {
		checked, issues := e.env.Compile(src)
		if issues != nil {
			t.Fatal(issues.Err())
		}
		p := plan.New(e.env, e.fns, checked, celenv.ExpressionLimit)
		_, cost, ok := p.Eval(inputs(eval.Plain), nil, nil)
		if !ok || cost == 0 {
			continue
		}
		if _, _, ok := plan.New(e.env, e.fns, checked, cost-1).Eval(inputs(eval.Plain), nil, nil); ok {
			t.Errorf("%s costs %d and passes a limit of %d", src, cost, cost-1)
		}
		if _, _, ok := plan.New(e.env, e.fns, checked, cost).Eval(inputs(eval.Plain), nil, nil); !ok {
			t.Errorf("%s costs %d and does not pass that limit", src, cost)
		}
	}
}

func FuzzAsTheTracker(f *testing.F) {
	e := newEnvironment(f)
	covered, others := expressions(f)
	for _, src := range append(covered, others...) {
		f.Add(src, uint16(1000))
	}
	f.Fuzz(func(t *testing.T, src string, limit uint16) {
		if len(src) > 500 {
			return
		}
		if _, err := e.compare(src, uint64(limit)); err != nil {
			if d := (*differs)(nil); errors.As(err, &d) {
				t.Error(d)
			}
		}
	})
}
