package prove

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

var editsOf = flag.String("edited", "../../../examples", "folders whose validations are edited, with commas")

// edits are typical mistakes: each replaces one text by another.
var edits = [][2]string{
	{" <= ", " < "}, {" < ", " <= "}, {" >= ", " > "}, {" > ", " >= "}, {" == ", " != "}, {" != ", " == "},
	{" && ", " || "}, {" || ", " && "}, {".all(", ".exists("}, {".exists(", ".all("}, {"!has(", "has("}, {"has(", "!has("},
	{"orValue(false)", "orValue(true)"}, {"== true", "== false"}, {"== false", "== true"}, {"startsWith(", "contains("},
	{" > 0", " > 1"}, {"true)", "false)"}, {"'ALL'", "'All'"}, {"\"ALL\"", "\"All\""}, {"/\")", "\")"}, {"/')", "')"},
}

// TestEdits edits each validation of real policies and compares both directions: each answer is a proof that the edit
// denies everything that was denied, or a counterexample. Undecided answers are counted, and limited for the examples:
// they must have an undecided part.
func TestEdits(t *testing.T) {
	if testing.Short() && *editsOf == "../../../examples" {
		t.Skip("some hundred questions")
	}
	r := room(t)
	for folder := range strings.SplitSeq(*editsOf, ",") {
		docs, _ := (&manifest.Loader{}).Load(folder)
		tally, edited := map[Answer]int{}, 0
		for _, d := range docs {
			set := &policy.Set{}
			if d.Object["kind"] != string(policy.Validating) || set.Add(d.Object, d.Place) != nil ||
				len(casesOf(r.Types, set.Policies)) == 0 || set.Policies[0].ParamKind != nil {
				continue
			}
			p := set.Policies[0]
			for i, v := range p.Validations {
				for _, e := range edits {
					text := strings.Replace(v.Expr.Src, e[0], e[1], 1)
					if text == v.Expr.Src {
						continue
					}
					was, is := bind(t, r, p), bind(t, r, withValidation(p, i, text))
					if len(is.engine.Rejections()) > 0 {
						continue
					}
					edited++
					for _, pair := range [][2]*Side{{was, is}, {is, was}} {
						got, err := r.Stricter(context.Background(), pair[0], pair[1])
						if err != nil {
							t.Fatal(err)
						}
						tally[got.Answer]++
						if got.Answer == Undecided || got.Answer == NotFound {
							t.Logf("%s: %s for %s: %s: %s %+v", d.Position(), e[1], e[0], got.Answer, got.Case, messages(got))
						}
					}
				}
			}
		}
		t.Logf("%s: %d edits, both directions: %v", folder, edited, tally)
		if folder == "../../../examples" && (edited < 25 || tally[Undecided]+tally[NotFound] > tally[Counterexample]/4) {
			t.Errorf("%d edits: %v", edited, tally)
		}
	}
}

func messages(r *Result) (all []string) {
	for _, x := range r.Reasons {
		all = append(all, x.Message)
	}
	return slices.Compact(all)
}

// bind puts a policy in force.
func bind(t *testing.T, r *Room, p *policy.Policy) *Side {
	t.Helper()
	s, err := r.NewSide(&policy.Set{Policies: []*policy.Policy{p}, Bindings: []*policy.Binding{{Kind: p.Kind,
		APIVersion: p.APIVersion, Name: p.Name, PolicyName: p.Name, Actions: []policy.Action{policy.Deny}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// withValidation returns a policy with a replaced expression of a validation.
func withValidation(p *policy.Policy, i int, text string) *policy.Policy {
	next := *p
	next.Validations = slices.Clone(p.Validations)
	next.Validations[i].Expr = policy.Expr{Src: text, Field: p.Validations[i].Expr.Field}
	return &next
}
