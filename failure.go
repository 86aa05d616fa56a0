package celgate

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/eval"
)

// A policyError is an error to which the failurePolicy of its policy applies.
type policyError struct {
	hook    *hook
	binding *compiledBinding // nil for an error of the policy itself
	message string
	reason  metav1.StatusReason
	outcome *eval.Outcome
	param   string // of the invocation; empty: none
	err     error

	mutation string // the name of the failed mutation; empty: none
	denied   bool   // by a verdict, to which failurePolicy does not apply
	coded    bool   // the status has the code of the reason
}

// addOwn adds the mutation's own reason and code of failures.
func (f *policyError) addOwn(o *eval.Outcome) {
	f.denied = o.Verdict == eval.Deny
	f.coded = f.denied || o.Reason != ""
	f.reason = cmp.Or(o.Reason, metav1.StatusReasonInvalid)
	if o.Expression != nil && o.Index < len(f.hook.Policy.Mutations) {
		f.mutation = f.hook.Policy.Mutations[o.Index].Name
	}
}

// mutationName names the mutation in the text of a denial.
func (f *policyError) mutationName() string {
	if f.mutation == "" {
		return ""
	}
	return ", mutation '" + f.mutation + "'"
}

// dryRun reports whether the failed mutations are not applied.
func (f *policyError) dryRun() bool {
	if f.binding != nil {
		return f.binding.DryRun()
	}
	return !slices.ContainsFunc(f.hook.bindings, func(b *compiledBinding) bool { return !b.DryRun() })
}
