package eval_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

var deployment = map[string]any{
	"apiVersion": "apps/v1", "kind": "Deployment",
	"metadata": map[string]any{"name": "web", "labels": map[string]any{"b": "2", "a": "1"}},
	"spec": map[string]any{
		"replicas": int64(3),
		"template": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "app", "image": "app:1", "resources": map[string]any{}},
		}}},
	},
}

func program(t *testing.T, p policy.Policy) *compile.Program {
	t.Helper()
	p.Kind = policy.Validating
	prog, err := compile.Policy(environments(), &p)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

var environments = sync.OnceValue(func() *celenv.Set {
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		panic(err)
	}
	return set
})

func validation(src string) policy.Validation { return policy.Validation{Expr: policy.Expr{Src: src}} }

// one evaluates a single validation on the deployment.
func one(t *testing.T, form eval.Form, src string, variables ...policy.NamedExpr) eval.Outcome {
	t.Helper()
	prog := program(t, policy.Policy{Variables: variables, Validations: []policy.Validation{validation(src)}})
	in := eval.Inputs{Object: eval.Value(deployment, form)}
	return new(eval.Validator).Validate(context.Background(), prog, &in, nil).Outcomes[0]
}

func TestExpressions(t *testing.T) {
	const both = 2
	for _, c := range []struct {
		src     string
		form    eval.Form
		message string // empty: true
	}{
		{src: "object.spec.replicas == 3", form: both},
		{src: "object.spec.replicas > 3", form: both, message: "failed expression: object.spec.replicas > 3"},
		{src: "oldObject == null && !has(oldObject.metadata)", form: both},
		{src: "oldObject.metadata.name == ''", form: both,
			message: "expression 'oldObject.metadata.name == ''' resulted in error: no such key: metadata"},
		{src: "object.metadata.labels.c == ''", form: both,
			message: "expression 'object.metadata.labels.c == ''' resulted in error: no such key: c"},
		{src: "object.metadata.labels == {'a': '1', 'b': '2'} && {'a': '1', 'b': '2'} == object.metadata.labels",
			form: both},
		{src: "object.metadata.labels.map(k, k).join(',') == 'a,b'", form: both},
		{src: "object.metadata.labels.all(k, v, object.metadata.labels[k] == v)", form: both},
		{src: "object.spec.template.spec.containers.map(c, c.name) == ['app']", form: both},
		{src: "(object.spec.template.spec.containers + [{'name': 'b'}]).size() == 2", form: both},
		{src: "object.spec.template.spec.containers[1].name == ''", form: both,
			message: "expression 'object.spec.template.spec.containers[1].name == ''' resulted in error: index out of bounds: 1"},
		{src: "object.?spec.?paused.orValue(false) == false", form: both},
		{src: "type(object.spec) == map && type(object.spec.replicas) == int", form: both},
		// An empty struct counts as a value only in a tree that is read by reflection.
		{src: "optional.ofNonZeroValue(object.spec.template.spec.containers[0].resources).hasValue()",
			form: eval.Reflected},
		{src: "!optional.ofNonZeroValue(object.spec.template.spec.containers[0].resources).hasValue()",
			form: eval.Plain},
		{src: "object.spec.template.spec.containers[0.0].name == 'app'", form: eval.Plain},
	} {
		forms := []eval.Form{c.form}
		if c.form == both {
			forms = []eval.Form{eval.Plain, eval.Reflected}
		}
		for _, form := range forms {
			if got := one(t, form, c.src).Message; got != c.message {
				t.Errorf("%s in form %d: %q, want %q", c.src, form, got, c.message)
			}
		}
	}
}

func TestVariables(t *testing.T) {
	vars := func(pairs ...string) (out []policy.NamedExpr) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, policy.NamedExpr{Name: pairs[i], Expr: policy.Expr{Src: pairs[i+1]}})
		}
		return out
	}
	for _, c := range []struct {
		src, message string
		vars         []policy.NamedExpr
	}{
		{src: "variables.n == 3", vars: vars("n", "object.spec.replicas")},
		{src: "variables.twice == 6", vars: vars("n", "object.spec.replicas", "twice", "variables.n * 2")},
		{src: "true || variables.bad", vars: vars("bad", "object.nope")},
		{src: "variables.bad == 1", vars: vars("bad", "object.nope"),
			message: `composited variable "bad" fails to evaluate: no such key: nope`},
		{src: "variables.bad == 1", vars: vars("bad", "nope("),
			message: `composited variable "bad" fails to compile: compilation failed:`},
		{src: "variables.self == 1", vars: vars("self", "dyn(variables).self"),
			message: `composited variable "self" fails to evaluate:`},
		{src: "variables.a == 1", vars: vars("a", "dyn(variables).b", "b", "dyn(variables).a"),
			message: `composited variable "a" fails to evaluate:`},
		{src: "variables.none == 1", message: "undefined field 'none'"},
	} {
		got := one(t, eval.Plain, c.src, c.vars...)
		if (c.message == "") != (got.Verdict == eval.Admit) || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %q, want %q", c.src, got.Message, c.message)
		}
	}
}

func TestVariableCostsOnce(t *testing.T) {
	prog := program(t, policy.Policy{
		Variables:   []policy.NamedExpr{{Name: "n", Expr: policy.Expr{Src: "lists.range(100).map(i, i * 2).size()"}}},
		Validations: []policy.Validation{validation("variables.n == 100"), validation("variables.n == 100")},
	})
	out := new(eval.Validator).Validate(context.Background(), prog, &eval.Inputs{}, nil).Outcomes
	if out[0].Cost <= out[1].Cost || out[1].Cost == 0 || out[1].Cost > 10 {
		t.Errorf("costs %d and %d: want the variable to be paid for by the first", out[0].Cost, out[1].Cost)
	}
}

// A million list elements cost more than one expression may.
const expensive = "lists.range(1000).all(i, lists.range(1000).all(j, i + j >= 0))"

func TestLimits(t *testing.T) {
	t.Run("per expression", func(t *testing.T) {
		got := one(t, eval.Plain, "true || "+expensive+" || "+expensive)
		if got.Verdict != eval.Admit {
			t.Errorf("what is not evaluated costs nothing: %q", got.Message)
		}
		got = one(t, eval.Plain, expensive+" || true")
		if !strings.Contains(got.Message, "operation cancelled: actual cost limit exceeded") {
			t.Errorf("got %q", got.Message)
		}
	})
	t.Run("per invocation", func(t *testing.T) {
		var p policy.Policy
		for range 40 {
			p.Validations = append(p.Validations,
				validation("lists.range(300).all(i, lists.range(300).all(j, i + j >= 0))"))
		}
		out := new(eval.Validator).Validate(context.Background(), program(t, p), &eval.Inputs{}, nil).Outcomes
		want := "validation failed due to running out of cost budget, no further validation rules will be run"
		if len(out) != 1 || out[0].Message != want {
			t.Errorf("got %d outcomes, first %q", len(out), out[0].Message)
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		prog := program(t, policy.Policy{Validations: []policy.Validation{validation(expensive)}})
		out := new(eval.Validator).Validate(ctx, prog, &eval.Inputs{}, nil).Outcomes
		if !strings.Contains(out[0].Message, "operation interrupted") {
			t.Errorf("got %q", out[0].Message)
		}
	})
}

func TestMessages(t *testing.T) {
	text := func(s string) policy.Expr { return policy.Expr{Src: s} }
	for _, c := range []struct {
		name string
		v    policy.Validation
		want string
	}{
		{"message expression", policy.Validation{MessageExpr: text("'replicas: ' + string(object.spec.replicas)"),
			Message: "m"}, "replicas: 3"},
		{"trimmed", policy.Validation{MessageExpr: text("'  x\\n '")}, "x"},
		{"two lines", policy.Validation{MessageExpr: text("'a\\nb'"), Message: " m "}, "m"},
		{"blank", policy.Validation{MessageExpr: text("' '")}, "failed expression: false"},
		{"error", policy.Validation{MessageExpr: text("object.nope"), Message: "m"}, "m"},
		{"too long", policy.Validation{MessageExpr: text("lists.range(5121).map(i, 'x').join('')"), Message: "m"}, "m"},
		{"not too long", policy.Validation{MessageExpr: text("lists.range(5120).map(i, 'x').join('')")},
			strings.Repeat("x", 5120)},
		{"authorizer through a variable", policy.Validation{MessageExpr: text("string(variables.may)"), Message: "m"},
			"m"},
	} {
		c.v.Expr = text(" false ")
		prog := program(t, policy.Policy{
			Variables:   []policy.NamedExpr{{Name: "may", Expr: text("authorizer.path('/x').check('get').allowed()")}},
			Validations: []policy.Validation{c.v},
		})
		in := eval.Inputs{Object: eval.Value(deployment, eval.Reflected)}
		if got := new(eval.Validator).Validate(context.Background(), prog, &in, nil).Outcomes[0].Message; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMatch(t *testing.T) {
	conditions := func(src ...string) (out []policy.NamedExpr) {
		for _, s := range src {
			out = append(out, policy.NamedExpr{Name: "c", Expr: policy.Expr{Src: s}})
		}
		return out
	}
	for _, c := range []struct {
		name    string
		src     []string
		failure policy.FailurePolicy
		matched bool
		err     string
	}{
		{name: "none", matched: true},
		{name: "true", src: []string{"true", "namespaceObject == null"}, matched: true},
		{name: "false wins over errors", src: []string{"object.x == 1", "false", "object.y == 1"}},
		{name: "one error", src: []string{"object.x == 1"},
			err: "expression 'object.x == 1' resulted in error: no such key: x"},
		{name: "equal errors", src: []string{"object.x == 1", "object.x == 1"},
			err: "expression 'object.x == 1' resulted in error: no such key: x"},
		{name: "two errors", src: []string{"object.x == 1", "true", "object.y == 1"},
			err: "[expression 'object.x == 1' resulted in error: no such key: x, expression 'object.y == 1' resulted in error: no such key: y]"},
		{name: "ignored", src: []string{"object.x == 1"}, failure: policy.Ignore},
		{name: "budget wins over false", src: []string{"false", expensive, expensive, expensive, expensive},
			err: "validation failed due to running out of cost budget, no further validation rules will be run"},
	} {
		prog := program(t, policy.Policy{FailurePolicy: c.failure, MatchConditions: conditions(c.src...)})
		in := eval.Inputs{Object: eval.Value(deployment, eval.Reflected),
			Namespace: eval.Made{Val: eval.Value(deployment, eval.Plain)}}
		got := eval.Match(context.Background(), prog, in)
		text := ""
		if got.Err != nil {
			text = got.Err.Error()
		}
		if got.Matched != c.matched || text != c.err {
			t.Errorf("%s: %v %q, want %v %q", c.name, got.Matched, text, c.matched, c.err)
		}
	}
}

func TestAnnotations(t *testing.T) {
	annotation := func(src string) policy.NamedExpr {
		return policy.NamedExpr{Name: "k", Expr: policy.Expr{Src: src}}
	}
	prog := program(t, policy.Policy{AuditAnnotations: []policy.NamedExpr{
		annotation("' replicas ' + string(object.spec.replicas) + ' '"),
		annotation("''"),
		annotation("null"),
		annotation("string(object.nope)"),
		annotation("string(authorizer.path('/x').check('get').allowed())"),
		annotation("lists.range(10241).map(i, 'x').join('')"),
		annotation("string(dyn(namespaceObject).metadata.whole)"),
	}})
	whole := eval.Made{Val: eval.Value(map[string]any{"metadata": map[string]any{"whole": "yes"}}, eval.Reflected)}
	authorizer := whole // any value will do: it must not be bound
	in := eval.Inputs{Object: eval.Value(deployment, eval.Plain), Authorizer: authorizer}
	var got []string
	for _, a := range new(eval.Validator).Validate(context.Background(), prog, &in, whole).Annotations {
		switch {
		case a.Err != nil:
			got = append(got, a.Err.Error())
		case len(a.Value) > 100:
			got = append(got, a.Value[:1]+"…")
		default:
			got = append(got, a.Value)
		}
	}
	want := []string{
		"replicas 3",
		"expression 'string(object.nope)' resulted in error: no such key: nope",
		"expression 'string(authorizer.path('/x').check('get').allowed())' resulted in error: no such attribute(s): authorizer",
		"x…",
		"yes",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A loop beyond the limit ends at once, with cel-go's text, for which cel-go itself takes minutes.
func TestLoopOverTheLimit(t *testing.T) {
	prog := program(t, policy.Policy{Validations: []policy.Validation{
		validation("lists.range(300000).all(i, i >= 0)")}})
	seen := loops(0)
	in := eval.Inputs{Object: eval.Value(deployment, eval.Plain), Witness: &seen}
	start := time.Now()
	o := new(eval.Validator).Validate(context.Background(), prog, &in, nil).Outcomes[0]
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if !strings.Contains(o.Message, "operation cancelled: actual cost limit exceeded") ||
		o.Cost <= celenv.ExpressionLimit ||
		o.Cost > celenv.ExpressionLimit+10 {
		t.Errorf("%q for %d", o.Message, o.Cost)
	}
	if seen < 100_000 {
		t.Errorf("told about %d iterations", seen)
	}
}

// TestErrorsInALoop has an error for each item, with which cel-go takes the square of their number.
func TestErrorsInALoop(t *testing.T) {
	prog := program(t, policy.Policy{Validations: []policy.Validation{
		validation("object.l.split('').all(x, int(x) > 0)")}})
	object := map[string]any{"l": strings.Repeat("z", 100_000)} // for half a minute
	meter := &bound.Meter{Limits: bound.Limits{Bytes: bound.Served.Bytes, Steps: 2_000_000}}
	in := eval.Inputs{Object: eval.Value(object, eval.Plain), Meter: meter}
	start := time.Now()
	o := new(eval.Validator).Validate(t.Context(), prog, &in, nil).Outcomes[0]
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	if !strings.Contains(o.Message, "evaluation stopped: it needs about 200ms, more than the limit of 20ms") {
		t.Error(o.Message)
	}
	if _, refused := meter.Excess(); !refused {
		t.Error("not refused")
	}
}

type loops uint64

func (l *loops) NoteVariable(string, bool)  {}
func (l *loops) NoteLoop(iterations uint64) { *l = max(*l, loops(iterations)) }
func (l *loops) NoteQuirk(quirks.ID)        {}
