package celenv_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
)

// An olderExpression is an expression that tools/celanswers evaluated with the CEL libraries of minors.
type olderExpression struct {
	Expression string
	Answers    []olderAnswer
}

// An olderAnswer is the result of the libraries of some minors, in their environment for stored expressions.
type olderAnswer struct {
	Minors  []string
	Refused string // by the compiler
	Unknown string // to new expressions
	Value   string
	Error   string
	Cost    uint64
}

func (a olderAnswer) String() string {
	return fmt.Sprintf("refused %q, new %q, value %q, error %q, cost %d", a.Refused, a.Unknown, a.Value, a.Error, a.Cost)
}

type object map[string]any

func (o object) ResolveName(name string) (any, bool) {
	v, ok := o[name]
	return v, ok
}

func (object) Parent() cel.Activation { return nil }

// olderLimits are the expressions for which celgate is known to answer differently from the libraries of earlier minors
// than the named one, with the reason. docs/design/0008-versions.md lists them.
var olderLimits = func() map[string]olderLimit {
	const (
		name     = "the type of optional values is called optional"
		spaces   = "exponents have no spaces around the sign"
		literals = "lists and maps inside of dyn must be of one type, too"
	)
	return map[string]olderLimit{
		"object.metadata.name.orValue(object.nope) == 'a' && object.metadata.name.or(optional.none()) == 'a'": {"1.31", name},
		"type(optional.of(1)) == optional_type":                   {"1.31", name},
		"type(optional.of(1))":                                    {"1.31", name},
		"string(type(object.?metadata))":                          {"1.31", name},
		"'%d %s %e %x'.format([1, 'a', 1.5, 255])":                {"1.33", spaces},
		"'%x %X %o %b %e'.format([255, 255, 8, 5, 1.5])":          {"1.33", spaces},
		"'%e'.format([123456.789])":                               {"1.33", spaces},
		"'%s'.format([dyn({'b': 1, 'a': [1, 2.5, true, null]})])": {"1.31", literals},
	}
}()

type olderLimit struct{ until, why string }

// TestOlder compares refusals, values, errors and costs of expressions with the libraries of each minor, by cel-go and
// by plans.
func TestOlder(t *testing.T) {
	text, err := os.ReadFile("testdata/older.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []olderExpression
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	variables := object{"object": types.DefaultTypeAdapter.NativeToValue(map[string]any{
		"metadata": map[string]any{"name": "a"},
		"data":     map[string]any{"q": "100000000000000000000.5", "long": strings.Repeat("x", 95)},
	})}
	for _, minor := range []string{"1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"} {
		t.Run(minor, func(t *testing.T) {
			asker := newAsker(t, minor)
			differ := 0
			for _, e := range recorded {
				i := slices.IndexFunc(e.Answers, func(a olderAnswer) bool { return slices.Contains(a.Minors, minor) })
				if i < 0 {
					t.Fatalf("%s was not asked", e.Expression)
				}
				want := e.Answers[i]
				want.Minors = nil
				got := asker.ask(t, e.Expression, want, variables)
				limit, known := olderLimits[e.Expression]
				known = known && minor < limit.until
				switch same := fmt.Sprint(got) == fmt.Sprint(want); {
				case same && known:
					t.Errorf("%s: answers as the libraries do, but is known to differ: %s", e.Expression, limit.why)
				case known:
					differ++
				case !same:
					t.Errorf("%s:\n%s, in %s\n%s", e.Expression, got, minor, want)
				}
			}
			t.Logf("%d expressions, %d known to differ", len(recorded), differ)
		})
	}
}

// An asker has the environments of a minor.
type asker struct {
	minor      string
	run, write *cel.Env
	functions  *plan.Functions
}

func newAsker(t *testing.T, minor string) *asker {
	t.Helper()
	set, err := celenv.New(minor, quirks.SetOf(minor))
	if err != nil {
		t.Fatal(err)
	}
	a := &asker{minor: minor}
	scope := set.Scope(celenv.Run, true)
	if a.run, err = scope.Env(celenv.Declared{}); err != nil {
		t.Fatal(err)
	}
	if a.functions, err = scope.Functions(celenv.Declared{}); err != nil {
		t.Fatal(err)
	}
	if a.write, err = set.Scope(celenv.Write, true).Env(celenv.Declared{}); err != nil {
		t.Fatal(err)
	}
	return a
}

// ask compiles and evaluates an expression; a plan must have the same result as cel-go.
func (a *asker) ask(t *testing.T, src string, want olderAnswer, variables object) (got olderAnswer) {
	t.Helper()
	checked, issues := celenv.Compile(a.run, src)
	if issues.Err() != nil {
		return olderAnswer{Refused: issues.String()}
	}
	if _, issues := celenv.Compile(a.write, src); issues.Err() != nil {
		got.Unknown = issues.String()
	}
	p := plan.New(a.run, a.functions, checked, celenv.ExpressionLimit)
	program, err := celenv.Program(a.run, checked)
	if err != nil {
		got.Error = "program: " + err.Error()
		return got
	}
	v, details, err := program.ContextEval(t.Context(), variables)
	if details.ActualCost() != nil {
		got.Cost = *details.ActualCost()
	}
	if err != nil {
		got.Error = err.Error()
	} else {
		got.Value = fmt.Sprint(v.Value())
	}
	for range 2 { // a plan would return a kept quantity changed the second time
		if p == nil {
			break
		}
		if v, cost, ok := p.Eval(variables, nil, nil); ok &&
			(cost != got.Cost || fmt.Sprint(v.Value()) != got.Value || got.Error != "") {
			t.Errorf("%s: the plan answers %v for %d, cel-go %s", src, v.Value(), cost, got)
		}
	}
	return got
}
