package serve

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// A mutationResult is what became of one mutation in one request, with one binding and param.
type mutationResult struct {
	kind                              policy.Kind
	policy, binding, mutation, result string
}

// mutationResults are those of a decision, in the order of evaluation; set has the names of mutations.
func mutationResults(d *celgate.Decision, set *policy.Set) []mutationResult {
	var all []mutationResult
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
		case condition && known && !p.Mutations[index].RunsOnce(): // which was asked for each of some values
			continue
		case o.Verdict == celgate.Error:
			result = "error"
		case o.Verdict == celgate.Denied:
			result = "denied"
		case o.Verdict == celgate.Skip:
			result = "skipped"
		case condition:
			continue // the mutation itself follows
		default:
			switch {
			case changes(d.Changes, o, index):
				result = "changed"
			case changes(d.DryRun, o, index):
				result = "would_change"
			default:
				result = "evaluated"
			}
		}
		all = append(all, mutationResult{o.Kind, o.Policy, o.Binding, nameOfMutation(p, index), result})
	}
	return all
}

// changes reports whether a mutation, which an outcome is about, is one of those that changed something.
func changes(all []celgate.Change, o *celgate.Outcome, index int) bool {
	return slices.ContainsFunc(all, func(c celgate.Change) bool {
		return c.Policy == o.Policy && c.Binding == o.Binding && c.Param == o.Param && c.Kind == o.Kind &&
			(c.Mutations == nil && index == 0 || slices.Contains(c.Mutations, index))
	})
}

// dialectPolicy returns the policy of an outcome, of which mutations may have names and conditions; nil for one of the
// released kinds, whose mutations have none.
func dialectPolicy(set *policy.Set, o *celgate.Outcome) *policy.Policy {
	if o.Kind != policy.Admission {
		return nil
	}
	return set.Policy(o.Kind.Ref(o.Policy))
}

// nameOfMutation is the name of a mutation, or its index.
func nameOfMutation(p *policy.Policy, index int) string {
	name := ""
	if p != nil && index < len(p.Mutations) {
		name = p.Mutations[index].Name
	}
	return cmp.Or(name, strconv.Itoa(index))
}

// mutationOf returns the index of the mutation that an outcome is about, and which of its expressions.
func mutationOf(o *celgate.Outcome) (index int, of string, ok bool) {
	if o.Phase != policy.PhaseMutation {
		return 0, "", false
	}
	list, index, of := partOf(o.Field)
	return index, of, list == "mutations"
}

// partOf returns the list of a policy that an expression is in, its place there and what it is of the item; "" for a
// field that is in no list.
func partOf(field string) (list string, index int, member string) {
	list, rest, _ := strings.Cut(strings.TrimPrefix(field, "spec."), "[")
	number, member, _ := strings.Cut(rest, "].")
	index, err := strconv.Atoi(number)
	if err != nil {
		return "", 0, ""
	}
	return list, index, member
}
