// Package proofs asks the questions of celgate prove about sets of policies, and returns the answers as what reports
// print. The command line and the page in a browser share it.
package proofs

import (
	"context"
	"fmt"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/prove"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// A Set is a set of policies with the name that claims use for it.
type Set struct {
	Name string
	Side *prove.Side
}

// ManifestsIn returns the objects of documents by the policies and bindings that were made from them.
func ManifestsIn(docs []*manifest.Document) prove.Manifest {
	return func(ref policy.Ref) map[string]any {
		for _, d := range docs {
			if policy.IsRecognised(d.Object) && policy.RefOf(d.Object) == ref {
				return d.Object
			}
		}
		return nil
	}
}

// Stricter answers whether the new set denies every request that the old one denies.
func Stricter(ctx context.Context, room *prove.Room, old, now Set) (report.Proof, error) {
	result, err := room.Stricter(ctx, old.Side, now.Side)
	if err != nil {
		return report.Proof{}, err
	}
	return newProof(ctx, room, fmt.Sprintf("%s denies every request that %s denies", now.Name, old.Name), old, now,
		result), nil
}

// Holds answers whether a claim is true of every object that a set admits. The resources, such as "pods", limit the
// claim; none: all that the policies match.
func Holds(ctx context.Context, room *prove.Room, claim string, s Set, resources []string) (report.Proof, error) {
	result, err := room.Holds(ctx, claim, s.Side, resources)
	if err != nil {
		return report.Proof{}, err
	}
	return newProof(ctx, room, fmt.Sprintf("every object that %s admits satisfies %s", s.Name, claim), Set{}, s, result), nil
}

// Accepts answers whether the validating policies of one set admit every object that the mutating ones of another
// change.
func Accepts(ctx context.Context, room *prove.Room, checks, changes Set) (report.Proof, error) {
	result, err := room.Accepts(ctx, changes.Side, checks.Side)
	if err != nil {
		return report.Proof{}, err
	}
	proof := newProof(ctx, room, fmt.Sprintf("%s admits every object that %s changes", checks.Name, changes.Name), changes,
		checks, result)
	proof.About = report.AboutResults
	return proof, nil
}

// ErrorFree answers for each expression of a set whether it is never an error.
func ErrorFree(ctx context.Context, room *prove.Room, s Set) (all []report.Proof, err error) {
	answers, err := room.ErrorFree(ctx, s.Side)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		all = append(all, newErrorProof(ctx, room, s, a))
	}
	return append(all, outside(ctx, room, s, "does not have an expression that is an error")...), nil
}

// Idempotence answers for each mutating policy whether it leaves its own result as it is.
func Idempotence(ctx context.Context, room *prove.Room, s Set) ([]report.Proof, error) {
	answers, err := room.Idempotence(ctx, s.Side)
	if err != nil {
		return nil, err
	}
	return append(changesOf(ctx, room, s, report.AboutAgain, answers, func(names []string) string {
		return fmt.Sprintf("policy %s does not change its own result", names[0])
	}), outside(ctx, room, s, "does not change its own result")...), nil
}

// Commutativity answers for each pair of mutating policies whether both orders have the same result.
func Commutativity(ctx context.Context, room *prove.Room, s Set) ([]report.Proof, error) {
	answers, err := room.Commutativity(ctx, s.Side)
	if err != nil {
		return nil, err
	}
	return append(changesOf(ctx, room, s, report.AboutOrder, answers, func(names []string) string {
		return fmt.Sprintf("policies %s and %s have the same result in both orders", names[0], names[1])
	}), outside(ctx, room, s, "has the same result in every order")...), nil
}

func changesOf(ctx context.Context, room *prove.Room, s Set, about report.Subject, answers []prove.Changing,
	claim func([]string) string) (all []report.Proof) {
	for _, a := range answers {
		proof := newProof(ctx, room, claim(a.Policies), s, s, a.Result)
		proof.About, proof.Policies = about, a.Policies
		all = append(all, proof)
	}
	return all
}

// outside returns the answers about policies of the dialect without a native form.
func outside(ctx context.Context, room *prove.Room, s Set, property string) (all []report.Proof) {
	for _, r := range s.Side.Outside() {
		all = append(all, newProof(ctx, room, "policy "+r.Policy+" "+property, s, s,
			&prove.Result{Answer: prove.Undecided, Reasons: []prove.Reason{r}}))
	}
	return all
}

// newErrorProof returns the answer about one expression, with the error of a counterexample.
func newErrorProof(ctx context.Context, room *prove.Room, s Set, a prove.ErrorFree) report.Proof {
	out := newProof(ctx, room, a.Claim(), s, s, a.Result)
	out.About, out.Error = report.AboutErrors, &report.ProofError{Policy: a.Policy, Part: a.Part}
	if a.Found == nil {
		return out
	}
	e, found := out.Error, a.Found.Old
	e.Binding = a.Binding.Name
	e.Message, e.Reason, _ = blame.ReasonOfError(ctx, found.Engine, found.Prepared, a.Policy.Ref(), a.Part.Field)
	for _, o := range found.Decision.Outcomes {
		if o.Policy == a.Policy.Name && o.Binding == a.Binding.Name {
			e.Param = o.Param
		}
		if o.Field() == a.Part.Field && o.Verdict == celgate.Error {
			e.Message, e.Err = o.Message, o.Err
		}
	}
	return out
}

// newProof returns the answer to a claim about two sets.
func newProof(ctx context.Context, room *prove.Room, claim string, old, now Set, result *prove.Result) report.Proof {
	out := report.Proof{Claim: claim, Result: result, Old: old.Name, New: now.Name, Types: room.Types}
	if result.Answer == prove.Counterexample {
		a := result.Found.Old
		out.Reasons = blame.Reasons(ctx, a.Engine, a.Prepared, a.Decision.Outcomes)
	}
	return out
}
