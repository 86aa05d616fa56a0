package serve

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// A mutationResult is the result of one mutation in one request, with one binding and param.
type mutationResult struct {
	kind                              policy.Kind
	policy, binding, mutation, result string
}

// mutationResults returns the results of a decision, in the order of evaluation; set has the names of mutations.
func mutationResults(d *celgate.Decision, set *policy.Set) iter.Seq[mutationResult] {
	return func(yield func(mutationResult) bool) {
		for i := range d.Outcomes {
			o := &d.Outcomes[i]
			index, of, ok := mutationOf(o)
			if !ok {
				continue
			}
			p := dialectPolicy(set, o)
			known := p != nil && index < len(p.Mutations)
			result := ""
			switch condition := of == "condition"; {
			case condition && known && !p.Mutations[index].RunsOnce(): // evaluated for each of several values
				continue
			case o.Verdict == celgate.Error:
				result = "error"
			case o.Verdict == celgate.Denied:
				result = "denied"
			case o.Verdict == celgate.Skip:
				result = "skipped"
			case condition:
				continue // the outcome of the mutation itself follows
			default:
				switch {
				case changes(d.Changes, o, index):
					result = "changed"
				case changes(d.DryRun(), o, index):
					result = "would_change"
				default:
					result = "evaluated"
				}
			}
			if !yield(mutationResult{o.Kind, o.Policy, o.Binding, nameOfMutation(p, index), result}) {
				return
			}
		}
	}
}

// changes reports whether the mutation of an outcome changed something.
func changes(all []celgate.Change, o *celgate.Outcome, index int) bool {
	return slices.ContainsFunc(all, func(c celgate.Change) bool {
		return c.Policy == o.Policy && c.Binding == o.Binding && c.Param == o.Param && c.Kind == o.Kind &&
			(c.Mutations == nil && index == 0 || slices.Contains(c.Mutations, index))
	})
}

// dialectPolicy returns the policy of an outcome if its mutations may have names and conditions; nil for the native
// kinds.
func dialectPolicy(set *policy.Set, o *celgate.Outcome) *policy.Policy {
	if o.Kind != policy.Admission {
		return nil
	}
	return set.Policy(o.Kind.Ref(o.Policy))
}

// nameOfMutation returns the name of a mutation, or its index.
func nameOfMutation(p *policy.Policy, index int) string {
	name := ""
	if p != nil && index < len(p.Mutations) {
		name = p.Mutations[index].Name
	}
	return cmp.Or(name, strconv.Itoa(index))
}

// mutationOf returns the index of the mutation of an outcome, and which of its expressions the outcome is about.
func mutationOf(o *celgate.Outcome) (index int, of string, ok bool) {
	if o.Phase != policy.PhaseMutation {
		return 0, "", false
	}
	list, index, of := partOf(o.Field())
	return index, of, list == "mutations"
}

// partOf splits the field of an expression into a list of the policy, an index and a member of that item; list is ""
// for a field outside of lists.
func partOf(field string) (list string, index int, member string) {
	list, rest, _ := strings.Cut(strings.TrimPrefix(field, "spec."), "[")
	number, member, _ := strings.Cut(rest, "].")
	index, err := strconv.Atoi(number)
	if err != nil {
		return "", 0, ""
	}
	return list, index, member
}
