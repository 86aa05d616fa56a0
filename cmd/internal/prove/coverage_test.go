package prove

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

var coverageOf = flag.String("policies", "../../../examples", "folders whose validations are counted, with commas")

// TestCoverage counts the validations whose parts are all decided, for the first kind that their policies name, and
// reports the undecided parts of the others. It does not count policies of the dialect and mutations.
func TestCoverage(t *testing.T) {
	r := room(t)
	for folder := range strings.SplitSeq(*coverageOf, ",") {
		docs, _ := (&manifest.Loader{}).Load(folder)
		types := r.Types
		if with, err := types.WithCustomResources(manifest.Trees(manifest.Definitions(docs))...); err == nil {
			types = with
		}
		own := *r
		own.Types = types
		decided, all, outside := 0, 0, map[string]int{}
		for _, d := range docs {
			set := &policy.Set{}
			if d.Object["kind"] != string(policy.Validating) || set.Add(d.Object, d.Place) != nil {
				continue
			}
			made, err := compileProgram(r.envs, set.Policies[0])
			if err != nil {
				t.Fatal(err)
			}
			for i, why := range own.undecidedParts(made) {
				all++
				if len(why) == 0 {
					decided++
					continue
				}
				outside[strings.Join(why, ", ")]++
				t.Logf("%s: spec.validations[%d]: %s", d.Position(), i, strings.Join(why, ", "))
			}
		}
		share := 100 * float64(decided) / float64(max(all, 1))
		t.Logf("%s: %d of %d validations are decided (%.0f %%)", folder, decided, all, share)
		for _, what := range slices.Sorted(maps.Keys(outside)) {
			t.Logf("  %3d %s", outside[what], what)
		}
		if all == 0 {
			t.Errorf("%s has no validations", folder)
		}
		if folder == "../../../examples" && share < 85 {
			t.Errorf("%.0f %% of the validations of the examples are decided", share)
		}
	}
}

// undecidedParts returns the undecided parts of each validation and of the conditions before it.
func (r *Room) undecidedParts(p *program) [][]string {
	out := make([][]string, len(p.validations))
	cases := casesOf(r.Types, []*policy.Policy{p.Policy})
	cases = slices.DeleteFunc(cases, Case.isOutside)
	if len(cases) == 0 {
		for i := range out {
			out[i] = []string{"no known kind"}
		}
		return out
	}
	b := &policy.Binding{Name: "b", PolicyName: p.Name, Kind: p.Kind}
	if p.ParamKind != nil {
		b.ParamRef = &policy.ParamRef{Name: "p"}
	}
	for i := range out {
		sizes, keys := map[string]int{}, map[string][]string{}
		for range 60 {
			m := newMachine(sizes, keys)
			inv := newRequest(m, cases[0], r.Types).invoke(p, b)
			if !m.settle() {
				continue
			}
			used := m.store.Variables(inv.validations[i])
			for _, o := range m.unknown {
				if o.isIn(used) {
					out[i] = append(out[i], o.what)
				}
			}
			for _, u := range m.unbounded {
				out[i] = append(out[i], fmt.Sprint(u.what))
			}
			slices.Sort(out[i])
			out[i] = slices.Compact(out[i])
			break
		}
	}
	return out
}
