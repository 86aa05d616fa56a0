package celenv_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
)

// An olderAnswer is what cel-go v0.26.0 with the libraries of k8s.io/apiserver v0.36.3 and the environment for the
// stored expressions of a server 1.36 made of an expression.
type olderAnswer struct {
	Expression string
	Refused    string // what the compiler says
	Value      string
	Error      string
	Cost       uint64
}

type object map[string]any

func (o object) ResolveName(name string) (any, bool) {
	v, ok := o[name]
	return v, ok
}

func (object) Parent() cel.Activation { return nil }

// TestOlder compares values, errors and costs of expressions in minor 1.36 with the libraries of that minor, by cel-go
// and by plans.
func TestOlder(t *testing.T) {
	text, err := os.ReadFile("testdata/older.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []olderAnswer
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	variables := object{"object": types.DefaultTypeAdapter.NativeToValue(map[string]any{
		"metadata": map[string]any{"name": "a"},
		"data":     map[string]any{"q": "100000000000000000000.5", "long": strings.Repeat("x", 95)},
	})}
	changed := map[string]bool{} // what 1.37 answers otherwise
	for _, minor := range []string{"1.36", "1.37"} {
		set, err := celenv.New(minor, quirks.Of(minor))
		if err != nil {
			t.Fatal(err)
		}
		scope := set.Scope(celenv.Run, true)
		env, err := scope.Env(celenv.Declared{})
		if err != nil {
			t.Fatal(err)
		}
		fns, err := scope.Functions(celenv.Declared{})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range recorded {
			src := want.Expression
			got := olderAnswer{Expression: src}
			checked, issues := celenv.Compile(env, src)
			if issues.Err() != nil {
				got.Refused = issues.String()
			} else {
				p := plan.New(env, fns, checked, celenv.ExpressionLimit)
				for range 2 { // a quantity that a plan keeps would be another one the second time
					if p == nil {
						break
					}
					v, cost, ok := p.Eval(variables, nil)
					answer := olderAnswer{Expression: src, Value: fmt.Sprint(valueOf(v)), Cost: cost}
					if minor == "1.36" && ok && answer != want {
						t.Errorf("%s: the plan answers %+v, 1.36 %+v", src, answer, want)
					}
				}
				program, err := celenv.Program(env, checked)
				if err != nil {
					if want.Error != "program: "+err.Error() {
						t.Errorf("%s: %v, in 1.36 %+v", src, err, want)
					}
					continue
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
			}
			if got == want {
				continue
			}
			if minor == "1.37" {
				changed[src] = true
				continue
			}
			t.Errorf("%s:\n%+v, in 1.36\n%+v", src, got, want)
		}
	}
	for src := range changed {
		t.Log("otherwise in 1.37:", src)
	}
	if len(changed) < 20 {
		t.Errorf("only %d expressions tell the minors apart", len(changed))
	}
}

func valueOf(v interface{ Value() any }) any {
	if v == nil {
		return nil
	}
	return v.Value()
}
