package eval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

type met []quirks.ID

func (m *met) NoteLoop(uint64)           {}
func (m *met) NoteVariable(string, bool) {}
func (m *met) NoteQuirk(id quirks.ID)    { *m = append(*m, id) }

var minors = map[string]*celenv.Set{} // by minor; the tests take turns

// evaluateMinor returns the results of the validations of a policy in a minor, and the quirks that they trigger.
func evaluateMinor(t *testing.T, minor string, p policy.Policy, object map[string]any) (string, []quirks.ID) {
	t.Helper()
	set := minors[minor]
	if set == nil {
		var err error
		if set, err = celenv.New(minor, quirks.SetOf(minor)); err != nil {
			t.Fatal(err)
		}
		minors[minor] = set
	}
	prog, err := compile.Policy(set, &p)
	if err != nil {
		t.Fatal(err)
	}
	var seen met
	in := eval.Inputs{Object: eval.Value(object, eval.Plain), Witness: &seen}
	var all []string
	for _, o := range new(eval.Validator).Validate(context.Background(), prog, &in, nil).Outcomes {
		all = append(all, fmt.Sprintf("%v %s", o.Verdict, o.Message))
	}
	slices.Sort(seen)
	return strings.Join(all, "\n"), slices.Compact(seen)
}

// TestOlderTold evaluates the recorded expressions of a 1.36 server: a quirk is reported exactly if 1.37 answers
// differently.
func TestOlderTold(t *testing.T) {
	text, err := os.ReadFile("../celenv/testdata/older.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []struct{ Expression string }
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	object := map[string]any{
		"metadata": map[string]any{"name": "a"},
		"data":     map[string]any{"q": "100000000000000000000.5", "long": strings.Repeat("x", 95)},
	}
	told := map[quirks.ID]int{}
	for _, r := range recorded {
		p := policy.Policy{
			Variables:   []policy.NamedExpr{{Name: "x", Expr: policy.Expr{Src: r.Expression}}},
			Validations: []policy.Validation{validation("dyn(variables.x) == true"), validation("string(dyn(variables.x)) == ''")},
		}
		p.Validations[1].MessageExpr = policy.Expr{Src: "string(dyn(variables.x))"}
		older, seen := evaluateMinor(t, "1.36", p, object)
		newer, none := evaluateMinor(t, "1.37", p, object)
		if strings.Contains(older, "undeclared reference") {
			continue // a function that 1.36 does not have
		}
		if len(none) > 0 {
			t.Errorf("%s: %v of 1.37", r.Expression, none)
		}
		if (older != newer) != (len(seen) > 0) {
			t.Errorf("%s: told %v\n%s\n%s", r.Expression, seen, older, newer)
		}
		for _, id := range seen {
			told[id]++
		}
	}
	if len(told) != 5 {
		t.Errorf("told %v", told)
	}
}

// Costs of texts are met where a budget is spent by them alone: that of an expression, or that of all together.
func TestTextCostsTold(t *testing.T) {
	object := map[string]any{"long": strings.Repeat("x", 900)}
	for expression, count := range map[string]int{
		"lists.range(12000).all(i, object.long.startsWith('x'))": 1,
		"lists.range(9000).all(i, object.long.endsWith('x'))":    12,
	} {
		for less, want := range []string{"[text-costs]", "[]"} {
			p := policy.Policy{}
			for range max(1, count-3*less) {
				p.Validations = append(p.Validations, validation(expression))
			}
			if less == 1 && count == 1 {
				p.Validations[0] = validation("object.long.startsWith('x')")
			}
			if result, seen := evaluateMinor(t, "1.36", p, object); fmt.Sprint(seen) != want {
				t.Errorf("%s, %d times: %v\n%s", expression, len(p.Validations), seen, result)
			}
		}
	}
}
