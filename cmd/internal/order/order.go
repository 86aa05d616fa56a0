// Package order finds out whether a decision depends on the order of mutating policies, which a server chooses at
// random.
package order

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// most is the number of mutating policies up to which all orders are tried.
const most = 4

// An Outcome is a decision in another order than the usual one, with another result.
type Outcome struct {
	Policies        []string
	Usual, Decision *celgate.Decision // of the mutating phase
}

// TryOthers makes the mutations of a request in other orders of policies and returns the first whose result is not the
// usual one; nil if there is none. The policies are given in their usual order; those of the dialect keep their places.
func TryOthers(ctx context.Context, engine *celgate.Engine, req *celgate.Prepared, usually []policy.Ref) (*Outcome,
	error) {
	var names []string
	for _, ref := range usually {
		if ref.Kind == string(policy.Mutating) {
			names = append(names, ref.Name)
		}
	}
	if len(names) < 2 {
		return nil, nil
	}
	usual, err := engine.Mutate(ctx, req)
	if err != nil {
		return nil, err
	}
	for moved := range orders(names) {
		order := place(usually, moved)
		other, err := engine.Explain(ctx, req, explain.Options{Order: order, MutatingOnly: true})
		if err != nil {
			return nil, err
		}
		if other.Allowed != usual.Allowed || !tree.Equal(other.Object, usual.Object) {
			return &Outcome{order, usual, other}, nil
		}
	}
	return nil, nil
}

// place puts names into the places that released policies have among others.
func place(usually []policy.Ref, names []string) []string {
	var all []string
	for _, ref := range usually {
		if ref.Kind == string(policy.Mutating) {
			ref.Name, names = names[0], names[1:]
		}
		all = append(all, ref.Name)
	}
	return all
}

// Note returns the note about a decision that depends on the order of mutating policies; nil if none is known to.
func Note(ctx context.Context, engine *celgate.Engine, req *celgate.Prepared, d *celgate.Decision) (*celgate.Note,
	error) {
	var names []policy.Ref
	for _, o := range d.Outcomes {
		if ref := o.Kind.Ref(o.Policy); o.Phase == policy.PhaseMutation && !slices.Contains(names, ref) {
			names = append(names, ref)
		}
	}
	if len(d.Changes) == 0 && !hasFailed(d) {
		return nil, nil // every policy sees the object as it came, in every order
	}
	other, err := TryOthers(ctx, engine, req, names)
	if err != nil || other == nil {
		return nil, err
	}
	return &celgate.Note{Message: fmt.Sprintf(
		"the order of mutating policies matters: in the order %s the result is another one, and the API server chooses the order at random; celgate explain shows both", strings.Join(other.Policies, ", "))}, nil
}

// hasFailed reports whether a mutating policy failed, which may hide the changes of others.
func hasFailed(d *celgate.Decision) bool {
	return slices.ContainsFunc(d.Violations, func(v celgate.Violation) bool { return v.Phase == policy.PhaseMutation })
}

// orders yields the other orders of a few names, and of many the reverse and those in which one name comes first.
func orders(names []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		if len(names) > most {
			reversed := slices.Clone(names)
			slices.Reverse(reversed)
			if !yield(reversed) {
				return
			}
			for i := 1; i < len(names); i++ {
				if !yield(slices.Concat(names[i:i+1], names[:i], names[i+1:])) {
					return
				}
			}
			return
		}
		var permute func(done, rest []string) bool
		permute = func(done, rest []string) bool {
			if len(rest) == 0 {
				return slices.Equal(done, names) || yield(slices.Clone(done))
			}
			for i := range rest {
				if !permute(append(done, rest[i]), slices.Concat(rest[:i], rest[i+1:])) {
					return false
				}
			}
			return true
		}
		permute(nil, names)
	}
}
