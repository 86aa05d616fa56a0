package wording_test

import (
	"encoding/json"
	"testing"

	"github.com/google/cel-go/cel"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/quirks"
	. "github.com/celgate/celgate/internal/wording"
)

// TestProblems compiles an expression with two mistakes.
func TestProblems(t *testing.T) {
	env := environment(t)
	_, issues := env.Compile("x.a == 1 &&\n  é\n || nothing || other")
	if issues == nil {
		t.Fatal("it compiles")
	}
	got := Problems("spec: Invalid value: " + issues.String())
	if len(got) == 0 {
		t.Fatalf("no problem is found in %s", issues)
	}
	_, issues = env.Compile("x.a == 1 &&\n  nothing || 'é' == other")
	got = Problems(issues.String())
	want := []Problem{{2, 3, "undeclared reference to 'nothing'"}, {2, 21, "undeclared reference to 'other'"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Fatalf("%v in %s", got, issues)
	}
	if again := Problems(got[0].Detail()); len(again) != 1 || again[0] != got[0] {
		t.Errorf("%q is read as %v", got[0].Detail(), again)
	}
	if got := Problems("Required value"); got != nil {
		t.Errorf("a sentence of others has the problems %v", got)
	}
}

// TestSentences gets each sentence from cel-go.
func TestSentences(t *testing.T) {
	env := environment(t)
	seen := map[Kind]bool{WrongResult: true} // a sentence of the server: see the corpus, area policy
	for expression, want := range map[string]Sentence{
		"int('a')":            {Kind: TypeConversion},
		"x.a < 'a'":           {Kind: NoSuchOverload},
		"[1][x.a]":            {Kind: OutOfBounds},
		"1 / (x.a - 5)":       {Kind: DivisionByZero},
		"nothing":             {Kind: Undeclared, Name: "nothing"},
		"'a'.startWith('a')":  {Kind: Undeclared, Name: "startWith"},
		"request.none":        {Kind: UndefinedField, Name: "none"},
		"1 + 'a'":             {Kind: NoOverload, Name: "_+_", Got: "(int, string)"},
		"[1, 'a']":            {Kind: MixedTypes},
		"{'a': 1, 'b': 'c'}":  {Kind: MixedTypes},
		"x.a = 1":             {Kind: SingleOperator, Name: "="},
		"x.a == 1 & x.b == 1": {Kind: SingleOperator, Name: "&"},
		"x.a == 1 | x.b == 1": {Kind: SingleOperator, Name: "|"},
		"x.a == 1 and x.b":    {Kind: WordForOperator, Name: "and"},
	} {
		message := answer(env, expression)
		if got := Read(message); got != want {
			t.Errorf("%s: %q is read as %+v, not %+v", expression, message, got, want)
		}
		seen[want.Kind] = true
	}
	for _, kind := range Kinds() {
		if !seen[kind] {
			t.Errorf("cel-go is not asked for a sentence of kind %d", kind)
		}
	}
	if got := Read("must evaluate to one of [string null_type] but got dyn"); got !=
		(Sentence{Kind: WrongResult, Want: "one of [string null_type]", Got: "dyn"}) {
		t.Errorf("a result of another type is read as %+v", got)
	}
	if got := Read("must evaluate to list(JSONPatch) but got list(dyn)"); got !=
		(Sentence{Kind: WrongResult, Want: "list(JSONPatch)", Got: "list(dyn)"}) {
		t.Errorf("a result of another type is read as %+v", got)
	}
	if got := Read("the name is too long"); got != (Sentence{}) {
		t.Errorf("a sentence of others is read as %+v", got)
	}
}

func environment(t *testing.T) *cel.Env {
	t.Helper()
	set, err := celenv.New("1.37", quirks.SetOf("1.37"))
	if err != nil {
		t.Fatal(err)
	}
	scope := set.Scope(celenv.Run, true)
	t.Cleanup(scope.Close)
	env, err := scope.Env(celenv.Declared{})
	if err != nil {
		t.Fatal(err)
	}
	if env, err = env.Extend(cel.Variable("x", cel.MapType(cel.StringType, cel.DynType))); err != nil {
		t.Fatal(err)
	}
	return env
}

// answer returns the error of compiling or evaluating an expression.
func answer(env *cel.Env, expression string) string {
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return issues.String()
	}
	program, err := env.Program(ast)
	if err == nil {
		_, _, err = program.Eval(map[string]any{"x": map[string]any{"a": int64(5), "b": true}})
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestWrongBoolean(t *testing.T) {
	type ObjectMeta struct {
		Labels map[string]string `json:"labels"`
	}
	type ConfigMap struct {
		ObjectMeta `json:"metadata"`
	}
	var into ConfigMap
	err := json.Unmarshal([]byte(`{"metadata": {"labels": {"on": true}}}`), &into)
	if got := WrongBoolean(err.Error()); got != "metadata.labels" {
		t.Errorf("%v is about %q", err, got)
	}
	if got := WrongBoolean("not found"); got != "" {
		t.Errorf("another answer is about %q", got)
	}
}

func TestDenier(t *testing.T) {
	for message, want := range map[string]string{
		`deployments.apps "a" is forbidden: ValidatingAdmissionPolicy 'limits' with binding 'all' denied request: no`: "limits",
		`configmaps "a" is forbidden: policy 'labels' with binding 'all' denied request: x`:                           "labels",
		`configmaps "a" is forbidden: policy "labels" denied request: x`:                                              "labels",
		`the policy 'limits' is somewhere else`:                                                                       "",
		``:                                                                                                            "",
	} {
		if got := Denier(message); got != want {
			t.Errorf("%q is a denial of %q, not %q", message, got, want)
		}
	}
}
