package celgate

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/eval"
)

// A policyError is an error that obeys the failurePolicy of its policy.
type policyError struct {
	hook    *hook
	binding *compiledBinding // nil for an error of the policy
	message string
	reason  metav1.StatusReason
	outcome *eval.Outcome
	param   string // of the invocation; empty without
	err     error

	mutation string // the name of the one that failed; empty without
	denied   bool   // by a verdict, which failurePolicy is not about
	coded    bool   // the code is that of the reason
}

// addOwn adds what mutations of the dialect say of their failures.
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

// dryRun reports that a failure is one of mutations that are not applied.
func (f *policyError) dryRun() bool {
	if f.binding != nil {
		return f.binding.DryRun()
	}
	return !slices.ContainsFunc(f.hook.bindings, func(b *compiledBinding) bool { return !b.DryRun() })
}
