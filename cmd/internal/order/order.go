// Package order checks whether a decision depends on the order of mutating policies, which is random on a server.
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

// most is the maximum number of mutating policies for which all orders are tried.
const most = 4

// An Outcome is a different decision in another order than the usual one.
type Outcome struct {
	Policies        []string
	Usual, Decision *celgate.Decision // of the mutating phase
}

// TryOthers runs the mutations of a request in other orders of policies and returns the first result that differs from
// the usual one; nil if there is none. The policies are given in their usual order; those of the dialect keep their
// positions.
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

// place puts names into the positions of released policies among others.
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

// Note returns a note if the decision is known to depend on the order of mutating policies, otherwise nil.
func Note(ctx context.Context, engine *celgate.Engine, req *celgate.Prepared, d *celgate.Decision) (*celgate.Note,
	error) {
	var names []policy.Ref
	for _, o := range d.Outcomes {
		if ref := o.Kind.Ref(o.Policy); o.Phase == policy.PhaseMutation && !slices.Contains(names, ref) {
			names = append(names, ref)
		}
	}
	if len(d.Changes) == 0 && !hasFailed(d) {
		return nil, nil // in every order, every policy sees the original object
	}
	other, err := TryOthers(ctx, engine, req, names)
	if err != nil || other == nil {
		return nil, err
	}
	return &celgate.Note{Message: fmt.Sprintf(
		"the order of mutating policies matters: in the order %s the result is another one, and the API server chooses the order at random; celgate explain shows both", strings.Join(other.Policies, ", "))}, nil
}

// hasFailed reports whether a mutating policy failed, which may hide the changes of other policies.
func hasFailed(d *celgate.Decision) bool {
	return slices.ContainsFunc(d.Violations, func(v celgate.Violation) bool { return v.Phase == policy.PhaseMutation })
}

// orders yields all other orders of a few names; for many names, it yields the reverse order and those with another
// first name.
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
