// Package v1alpha1 holds the Go types of policy.celgate.dev/v1alpha1, celgate's dialect of admission policies.
//
// A spec of a policy or binding of admissionregistration.k8s.io/v1 means the same here. The comments of the fields are
// the reference in docs/dialect.md.
package v1alpha1

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group and Version are those of the kinds of this package.
const (
	Group   = "policy.celgate.dev"
	Version = "v1alpha1"
)

// An AdmissionPolicy changes objects, judges them, or does both. It is cluster-scoped, and in force where an
// AdmissionPolicyBinding names it.
type AdmissionPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// Standard metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the policy does, and for which requests.
	Spec AdmissionPolicySpec `json:"spec"`
}

// An AdmissionPolicySpec is the specs of a MutatingAdmissionPolicy and of a ValidatingAdmissionPolicy in one. Mutations
// are evaluated in the mutating phase of admission, everything else of the policy in the validating phase; match
// conditions and variables are for both.
type AdmissionPolicySpec struct {
	// The kind of the params; without it the policy takes none.
	ParamKind *admissionv1.ParamKind `json:"paramKind,omitempty"`

	// The requests that the policy is for. Required. A policy that only mutates is for no DELETE, as a
	// MutatingAdmissionPolicy; mutations of a policy that validates too are left out on DELETE.
	MatchConstraints *admissionv1.MatchResources `json:"matchConstraints,omitempty"`

	// Expressions that must all be true for the policy to be evaluated; in both phases, on the object of that phase.
	MatchConditions []admissionv1.MatchCondition `json:"matchConditions,omitempty"`

	// Named expressions that others use as variables.NAME.
	Variables []admissionv1.Variable `json:"variables,omitempty"`

	// The changes, in their order.
	Mutations []Mutation `json:"mutations,omitempty"`

	// Whether the mutations may run a second time in one request: Never or IfNeeded. Required with mutations.
	ReinvocationPolicy string `json:"reinvocationPolicy,omitempty"`

	// The rules. A policy has at least one mutation, validation or audit annotation.
	Validations []admissionv1.Validation `json:"validations,omitempty"`

	// The audit annotations that a request gets.
	AuditAnnotations []admissionv1.AuditAnnotation `json:"auditAnnotations,omitempty"`

	// What an error in the policy means for the request: Fail (the default) or Ignore.
	FailurePolicy *admissionv1.FailurePolicyType `json:"failurePolicy,omitempty"`
}

// A Mutation is one change that a policy makes. Its expression may also come to null, or to an optional without a
// value, which changes nothing; to true, which accepts the request and changes nothing; or to false, which denies it,
// whatever failurePolicy is. mutations.skip() and mutations.deny() are null and false of every type.
type Mutation struct {
	// A DNS label that messages call the mutation by. No other mutation of the policy has it.
	Name string `json:"name,omitempty"`

	// A condition of the mutation, which sees variables, and the object as the mutations before left it; match
	// conditions do not. Where it is false the mutation is not made.
	Condition string `json:"condition,omitempty"`

	// The text of a denial, and in place of the text of an error: one line.
	Message string `json:"message,omitempty"`

	// An expression of such a text. Where it has none, or more than a line, message is the text.
	MessageExpression string `json:"messageExpression,omitempty"`

	// Forbidden, Invalid (the default of a denial) or RequestEntityTooLarge: the reason of a denial or an error, and
	// its code.
	Reason *metav1.StatusReason `json:"reason,omitempty"`

	// In place of the policy's for this mutation: Never or IfNeeded.
	ReinvocationPolicy string `json:"reinvocationPolicy,omitempty"`

	// How the result is applied: ApplyConfiguration, JSONPatch or JSONMergePatch. Required.
	PatchType string `json:"patchType"`

	// With patchType ApplyConfiguration: what is merged into the object.
	ApplyConfiguration *admissionv1.ApplyConfiguration `json:"applyConfiguration,omitempty"`

	// With patchType JSONPatch: the operations.
	JSONPatch *admissionv1.JSONPatch `json:"jsonPatch,omitempty"`

	// With patchType JSONMergePatch: the patch.
	JSONMergePatch *JSONMergePatch `json:"jsonMergePatch,omitempty"`
}

// A JSONMergePatch is a patch as of RFC 7386: members are merged, null takes a member away, a list takes the place of
// the one before.
type JSONMergePatch struct {
	// Comes to a map or an Object.
	Expression string `json:"expression"`
}

// An AdmissionPolicyBinding puts a policy in force. It is cluster-scoped.
type AdmissionPolicyBinding struct {
	metav1.TypeMeta `json:",inline"`

	// Standard metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is put in force, and where.
	Spec AdmissionPolicyBindingSpec `json:"spec"`
}

// A PolicyReference names a policy.
type PolicyReference struct {
	// AdmissionPolicy (the default), or one of the released kinds: ValidatingAdmissionPolicy, MutatingAdmissionPolicy.
	Kind string `json:"kind,omitempty"`

	// The name of the policy. Required.
	Name string `json:"name"`
}

// An AdmissionPolicyBindingSpec is the specs of a MutatingAdmissionPolicyBinding and of a
// ValidatingAdmissionPolicyBinding in one.
type AdmissionPolicyBindingSpec struct {
	// The AdmissionPolicy that is put in force. This or policies is required.
	PolicyName string `json:"policyName,omitempty"`

	// Several policies that are put in force together: all of them, or none while one of them is invalid or does not
	// exist. Those with params have one paramKind.
	Policies []PolicyReference `json:"policies,omitempty"`

	// The params, of a policy with paramKind.
	ParamRef *admissionv1.ParamRef `json:"paramRef,omitempty"`

	// Those requests of the policy that the binding is for; without it all of them.
	MatchResources *admissionv1.MatchResources `json:"matchResources,omitempty"`

	// What becomes of a mutation: Apply, Warn, Audit. Apply if it is left out. Without Apply the object stays as it is,
	// and nothing that goes wrong in a mutation denies the request: Warn tells the client what would change or fail,
	// Audit puts it into the audit annotation would_mutate.
	MutationActions []string `json:"mutationActions,omitempty"`

	// What becomes of a failed validation: Deny, Warn, Audit; not Deny and Warn together. Deny if it is left out.
	ValidationActions []admissionv1.ValidationAction `json:"validationActions,omitempty"`
}
