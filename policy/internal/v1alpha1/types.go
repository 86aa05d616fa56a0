// Package v1alpha1 holds the Go types of policy.celgate.dev/v1alpha1, celgate's dialect of admission policies.
//
// A spec of a policy or binding of admissionregistration.k8s.io/v1 means the same here. The comments of the fields are
// the reference in docs/dialect.md, and the CustomResourceDefinitions in deploy/crds are made from them. What these say
// beside the types and the comments stands in directives:
//
//	//crd:enum A B         the texts that there may be
//	//crd:required         the field is not to be left out, which omitempty would say otherwise
//	//crd:minLength 1      of a text; also minItems, maxItems, minimum and maximum
//	//crd:rule EXPR: TEXT  what must hold of a type or a field, and what is said if it does not
//
// Fields of the released kinds have the schema that they have in the definitions of those.
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

	// What has become of the policy in a cluster.
	Status AdmissionPolicyStatus `json:"status,omitzero"`
}

// An AdmissionPolicySpec is the specs of a MutatingAdmissionPolicy and of a ValidatingAdmissionPolicy in one. Mutations
// are evaluated in the mutating phase of admission, everything else of the policy in the validating phase; match
// conditions and variables are for both.
//
//crd:rule [has(self.mutations) && size(self.mutations) > 0, has(self.validations) && size(self.validations) > 0, has(self.auditAnnotations) && size(self.auditAnnotations) > 0].exists(some, some): mutations, validations or auditAnnotations must contain at least one item
type AdmissionPolicySpec struct {
	// Who may bind the policy: Cluster, an AdmissionPolicyBinding (the default), or Namespaces, bindings of namespaces,
	// written by users with the verb bind on the policy.
	//
	//crd:enum Cluster Namespaces
	//crd:minItems 1
	Bindable []string `json:"bindable,omitempty"`

	// The kind of the params; without it the policy takes none.
	ParamKind *admissionv1.ParamKind `json:"paramKind,omitempty"`

	// The params where a binding finds none, and its parameterNotFoundAction is Default or it has no paramRef: an
	// object of the paramKind without a name. It is what the API server would store: it gets the defaults of the kind,
	// and is refused where the server would refuse it or drop a field.
	DefaultParams map[string]any `json:"defaultParams,omitempty"`

	// What becomes of defaultParams where there is a param: Replace (the default) puts the param in their place, Merge
	// merges it into them as a JSON merge patch.
	//
	//crd:enum Replace Merge
	ParamMerge string `json:"paramMerge,omitempty"`

	// The requests that the policy is for. Required. A policy that only mutates is for no DELETE, as a
	// MutatingAdmissionPolicy; mutations of a policy that validates too are left out on DELETE.
	//
	//crd:required
	MatchConstraints *MatchResources `json:"matchConstraints,omitempty"`

	// Expressions that must all be true for the policy to be evaluated; in both phases, on the object of that phase.
	MatchConditions []admissionv1.MatchCondition `json:"matchConditions,omitempty"`

	// Named expressions that others use as variables.NAME.
	Variables []admissionv1.Variable `json:"variables,omitempty"`

	// The changes, in their order.
	Mutations []Mutation `json:"mutations,omitempty"`

	// Whether the mutations may run a second time in one request: Never or IfNeeded. Required with mutations.
	//
	//crd:enum Never IfNeeded
	ReinvocationPolicy string `json:"reinvocationPolicy,omitempty"`

	// Whether Object literals and what expressions read are checked against the types of the matched kinds when the
	// policy is written: Enforce (the default) refuses what is wrong for all of them, whatever the values are; Warn and
	// Off do not.
	//
	//crd:enum Enforce Warn Off
	TypeChecking string `json:"typeChecking,omitempty"`

	// What becomes of a request in which a mutation no longer holds once all mutations are made, those of other
	// webhooks too: Fail denies it, Warn warns the client, Skip looks at nothing. Without it nothing is looked at
	// either, and no mutation may say what is to hold.
	//
	//crd:enum Fail Warn Skip
	MutationValidationPolicy string `json:"mutationValidationPolicy,omitempty"`

	// How often the mutations run in one request at most, with reinvocationPolicy IfNeeded: 2 (the default) to 5.
	MaxPasses *int32 `json:"maxPasses,omitempty"`

	// Which mutating policies this one runs after or before. Without it, what policies read and write decides.
	Order *Order `json:"order,omitempty"`

	// The rules. A policy has at least one mutation, validation or audit annotation.
	Validations []Validation `json:"validations,omitempty"`

	// Whether a request has to satisfy all bindings of the policy that are for it: All (the default) or Any, one of
	// them with all its params. With Any nothing is said of the bindings that it does not satisfy, if there is one that
	// it does.
	//
	//crd:enum All Any
	Combine string `json:"combine,omitempty"`

	// What the rules are for beside the objects of matchConstraints: pods, the templates of Pods in workloads, wherever
	// the policy is for Pods. Expressions see a template as if it were the Pod; the metadata of a template has labels
	// and annotations.
	//
	//crd:enum pods
	Templates []string `json:"templates,omitempty"`

	// The strongest that a binding may do where a template fails: Deny, Warn (the default) or Audit.
	//
	//crd:enum Deny Warn Audit
	TemplateEnforcement admissionv1.ValidationAction `json:"templateEnforcement,omitempty"`

	// The audit annotations that a request gets.
	AuditAnnotations []admissionv1.AuditAnnotation `json:"auditAnnotations,omitempty"`

	// Whether the policy is in force without a binding, for all requests of matchConstraints. It takes no params, no
	// binding may name it, and it stays what it was created as.
	SingletonPolicy bool `json:"singletonPolicy,omitempty"`

	// What becomes of a mutation of a singleton policy, as in a binding: Apply if it is left out.
	//
	//crd:enum Apply Warn Audit
	//crd:minItems 1
	MutationActions []string `json:"mutationActions,omitempty"`

	// What becomes of a failed validation of a singleton policy, as in a binding: Deny if it is left out.
	ValidationActions []admissionv1.ValidationAction `json:"validationActions,omitempty"`

	// What an error in the policy means for the request: Fail (the default) or Ignore.
	FailurePolicy *admissionv1.FailurePolicyType `json:"failurePolicy,omitempty"`
}

// An Order is the place of a policy among other mutating policies, by their names. It overrides what policies read and
// write. A name that no mutating policy in force has, and an order that contradicts another one, are errors.
type Order struct {
	// The policies that run before this one.
	After []string `json:"after,omitempty"`

	// The policies that run after this one.
	Before []string `json:"before,omitempty"`
}

// A Validation is one rule. With a scope it is one for each value there: every value that fails is a violation of its
// own, with the path of the value in details.causes[].field, and its message begins with the path, unless
// messageExpression makes the text.
type Validation struct {
	// Must be true. Required.
	Expression string `json:"expression"`

	// The text of a denial: one line.
	Message string `json:"message,omitempty"`

	// Unauthorized, Forbidden, Invalid (the default) or RequestEntityTooLarge: the reason of a denial, and its code.
	Reason *metav1.StatusReason `json:"reason,omitempty"`

	// An expression of the text of a denial. Where it has none, or more than a line, message is the text.
	MessageExpression string `json:"messageExpression,omitempty"`

	// The values that the rule is for: a path such as spec.containers[*], spec.ports[name=http],
	// metadata.labels["a.b/c"] or spec.x[key].y[index].field, or kubernetes.allContainers or kubernetes.podSpec.
	// Expressions see the value as scope, its path as scopePath.field, keys and indexes that the path names as
	// scopePath.key, and as oldScope the value that it takes the place of, null if there is none. An absent field is no
	// value, and no error.
	Scope string `json:"scope,omitempty"`

	// A DNS label that bindings, audit annotations and metrics call the rule by. No other rule of the policy has it.
	Name string `json:"name,omitempty"`

	// The code of a denial, from 400 to 499, in place of that of the reason. 401, 403 and 413 belong to their reasons.
	Code *int32 `json:"code,omitempty"`

	// Whether the rule is evaluated before those that are no guards. If it fails, the rules after it and the audit
	// annotations are not evaluated, so that their texts tell nothing.
	Guard bool `json:"guard,omitempty"`

	// From 1 to 9: bindings of a lower enforcement.level leave the rule out.
	Level *int32 `json:"level,omitempty"`

	// The strongest that a binding may do where the rule fails: Deny, Warn or Audit, in this order. It takes the place
	// of stronger ones.
	//
	//crd:enum Deny Warn Audit
	MaxEnforcement admissionv1.ValidationAction `json:"maxEnforcement,omitempty"`

	// What an error in the rule means, in place of the policy's: Fail or Ignore.
	//
	//crd:enum Fail Ignore
	FailurePolicy admissionv1.FailurePolicyType `json:"failurePolicy,omitempty"`
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
	//
	//crd:enum Forbidden Invalid RequestEntityTooLarge
	Reason *metav1.StatusReason `json:"reason,omitempty"`

	// The values that the mutation changes: a path or a name as in the scope of a validation. The condition and the
	// expression are evaluated for each value there; they see it as item, its key or index as key, its path as
	// scopePath.field. The result is merged into the value: an ApplyConfiguration is an Item, whose type is that of the
	// value, the paths of a JSON patch begin at it. objects.unset() takes the value away, objects.replace(v) puts
	// another one in its place. All values are those before the mutation.
	Scope string `json:"scope,omitempty"`

	// The mutation is made once for each item of a list, in its order. Each time sees what the time before has made.
	ForEach *ForEach `json:"forEach,omitempty"`

	// In place of the policy's for this mutation: Never or IfNeeded.
	//
	//crd:enum Never IfNeeded
	ReinvocationPolicy string `json:"reinvocationPolicy,omitempty"`

	// What is to hold of the mutation at the end: see mutationValidationPolicy. Exact (the default there) says that the
	// mutation, made once more, changes nothing; it is refused where a match condition or the condition reads what the
	// mutation writes, since such a mutation is not made again. Overwritable says that others may change what it made.
	// {expression: …} is what must be true of the object at the end, wherever the match conditions hold on that.
	Validation any `json:"validation,omitempty"`

	// How the result is applied: ApplyConfiguration, JSONPatch or JSONMergePatch. Required.
	//
	//crd:enum ApplyConfiguration JSONPatch JSONMergePatch
	PatchType string `json:"patchType"`

	// With patchType ApplyConfiguration: what is merged into the object.
	ApplyConfiguration *admissionv1.ApplyConfiguration `json:"applyConfiguration,omitempty"`

	// With patchType JSONPatch: the operations.
	JSONPatch *admissionv1.JSONPatch `json:"jsonPatch,omitempty"`

	// With patchType JSONMergePatch: the patch.
	JSONMergePatch *JSONMergePatch `json:"jsonMergePatch,omitempty"`
}

// A ForEach is a list whose items a mutation is made for. The condition, the expression and the messageExpression see
// the item. If one time fails or denies, none counts. All share the budget of the mutation; 64 items are the most.
type ForEach struct {
	// What the item is called.
	//
	//crd:minLength 1
	Name string `json:"name"`

	// Comes to a list, such as params.spec.sidecars. An optional without a value is one without items.
	//
	//crd:minLength 1
	Expression string `json:"expression"`
}

// A JSONMergePatch is a patch as of RFC 7386: members are merged, null takes a member away, a list takes the place of
// the one before.
type JSONMergePatch struct {
	// Comes to a map or an Object.
	//
	//crd:minLength 1
	Expression string `json:"expression"`
}

// An AdmissionPolicyBinding puts a policy in force. It is cluster-scoped.
type AdmissionPolicyBinding struct {
	metav1.TypeMeta `json:",inline"`

	// Standard metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is put in force, and where.
	Spec AdmissionPolicyBindingSpec `json:"spec"`

	// What has become of the binding in a cluster.
	Status AdmissionPolicyBindingStatus `json:"status,omitzero"`
}

// A NamespacedAdmissionPolicyBinding puts a policy in force for the objects of its namespace, if the policy is bindable
// in namespaces. The params are of the namespace, too, and matchResources name no namespaces.
type NamespacedAdmissionPolicyBinding struct {
	metav1.TypeMeta `json:",inline"`

	// Standard metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is put in force, and for what of the namespace.
	Spec AdmissionPolicyBindingSpec `json:"spec"`

	// What has become of the binding in a cluster.
	Status AdmissionPolicyBindingStatus `json:"status,omitzero"`
}

// A PolicyReference names a policy.
type PolicyReference struct {
	// AdmissionPolicy (the default), or one of the released kinds: ValidatingAdmissionPolicy, MutatingAdmissionPolicy.
	//
	//crd:enum AdmissionPolicy ValidatingAdmissionPolicy MutatingAdmissionPolicy
	Kind string `json:"kind,omitempty"`

	// The name of the policy. Required.
	//
	//crd:minLength 1
	Name string `json:"name"`
}

// An AdmissionPolicyBindingSpec is the specs of a MutatingAdmissionPolicyBinding and of a
// ValidatingAdmissionPolicyBinding in one.
//
//crd:rule (has(self.policyName) && self.policyName != '') != (has(self.policies) && size(self.policies) > 0): one of policyName and policies must be given, not both
type AdmissionPolicyBindingSpec struct {
	// The AdmissionPolicy that is put in force. This or policies is required.
	PolicyName string `json:"policyName,omitempty"`

	// Several policies that are put in force together: all of them, or none while one of them is invalid or does not
	// exist. Those with params have one paramKind.
	Policies []PolicyReference `json:"policies,omitempty"`

	// What the client is told.
	Visibility *Visibility `json:"visibility,omitempty"`

	// The params, of a policy with paramKind.
	ParamRef *ParamRef `json:"paramRef,omitempty"`

	// Those requests of the policy that the binding is for; without it all of them.
	MatchResources *MatchResources `json:"matchResources,omitempty"`

	// What becomes of a mutation: Apply, Warn, Audit. Apply if it is left out. Without Apply the object stays as it is,
	// and nothing that goes wrong in a mutation denies the request: Warn tells the client what would change or fail,
	// Audit puts it into the audit annotation would_mutate.
	//
	//crd:enum Apply Warn Audit
	//crd:minItems 1
	MutationActions []string `json:"mutationActions,omitempty"`

	// What becomes of a failed validation: Deny, Warn, Audit; not Deny and Warn together. Deny if it is left out.
	ValidationActions []admissionv1.ValidationAction `json:"validationActions,omitempty"`

	// What becomes of single rules and of errors, in place of validationActions and never stronger than these.
	Enforcement *Enforcement `json:"enforcement,omitempty"`
}

// An Enforcement refines the validationActions of a binding.
type Enforcement struct {
	// From 1 to 9: rules of a higher level are left out. Without it none is.
	Level *int32 `json:"level,omitempty"`

	// What becomes of errors that failurePolicy Fail makes failures, and of a param that is missing and must not be;
	// without it such errors are treated as the rule that fails, and what is missing denies.
	OnError []admissionv1.ValidationAction `json:"onError,omitempty"`

	// What becomes of rules, by their names.
	Validations map[string][]admissionv1.ValidationAction `json:"validations,omitempty"`
}

// A Visibility says what of a binding the client of a request is told.
type Visibility struct {
	// Client (the default): the client is told what was violated. Admin: the client gets the reason, the code and a
	// reference, in status and warnings; the text is in the audit annotation validation_failure, with the reference,
	// whatever validationActions are.
	//
	//crd:enum Client Admin
	Violations string `json:"violations,omitempty"`

	// Always: of a request that is a dry run, violations that are only audited are warnings, too, so that it shows what
	// Deny would do.
	//
	//crd:enum Always
	DryRun string `json:"dryRun,omitempty"`
}

// A ParamRef selects params: one by its name, or all with the labels of a selector.
//
//crd:rule (has(self.name) && self.name != '') != has(self.selector): one of name and selector must be given, not both
type ParamRef struct {
	// The name of the param. This or selector is required.
	Name string `json:"name,omitempty"`

	// The namespace of the params; without it, that of the request. Only for a paramKind with namespaces.
	Namespace string `json:"namespace,omitempty"`

	// The labels of the params.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// What a binding does that finds no param: Allow lets the request pass, Deny is an error, for which failurePolicy
	// decides, Default takes the defaultParams of the policy, also for cluster-scoped objects where params are those of
	// the request's namespace. Required.
	//
	//crd:enum Allow Deny Default
	ParameterNotFoundAction *admissionv1.ParameterNotFoundActionType `json:"parameterNotFoundAction,omitempty"`
}

// MatchResources say which requests a policy or a binding is for: those that all of its fields match. They have the
// fields of released ones, and these.
type MatchResources struct {
	admissionv1.MatchResources `json:",inline"`

	// The requests by what they are made to. In matchConstraints there must be one.
	ResourceRules []Rule `json:"resourceRules,omitempty"`

	// Requests by what they are made to that are left out.
	ExcludeResourceRules []Rule `json:"excludeResourceRules,omitempty"`

	// The namespaces of objects, by names in which * stands for any text. Objects without a namespace are in none of
	// them, Namespaces too.
	Namespaces []string `json:"namespaces,omitempty"`

	// The namespaces whose objects are left out, and they themselves. Other objects without a namespace are not left
	// out. Not together with namespaces.
	ExcludeNamespaces []string `json:"excludeNamespaces,omitempty"`

	// Who makes the request: one of these.
	Subjects []Subject `json:"subjects,omitempty"`

	// Who does not make it: none of these. Not together with subjects.
	ExcludeSubjects []Subject `json:"excludeSubjects,omitempty"`

	// What the user may do: at least one of these, which the authorizer of the API server is asked about.
	Permissions []Permission `json:"permissions,omitempty"`

	// What the user may not do: none of these. Not together with permissions.
	ExcludePermissions []Permission `json:"excludePermissions,omitempty"`
}

// A Rule is a rule of a released policy, or one that names kinds.
//
//crd:rule has(self.resources) != has(self.kinds): one of resources and kinds must be given, not both
type Rule struct {
	admissionv1.NamedRuleWithOperations `json:",inline"`

	// The resources. These or kinds are required.
	Resources []string `json:"resources,omitempty"`

	// The kinds of the objects, such as Deployment: their resources, without subresources.
	//
	//crd:minItems 1
	Kinds []string `json:"kinds,omitempty"`
}

// A Subject is a user, a group or a ServiceAccount, as in a RoleBinding.
type Subject struct {
	// User, Group or ServiceAccount. Required.
	//
	//crd:enum User Group ServiceAccount
	Kind string `json:"kind"`

	// The name. Required.
	//
	//crd:minLength 1
	Name string `json:"name"`

	// The namespace of a ServiceAccount.
	Namespace string `json:"namespace,omitempty"`
}

// A Permission is what a user may do with a resource. Without a resource it is about the policy: the verb is one of
// your own then, which a role gives on the AdmissionPolicy by its name.
type Permission struct {
	// The verb. Required.
	//
	//crd:minLength 1
	Verb string `json:"verb"`

	// The group of the resource.
	APIGroup string `json:"apiGroup,omitempty"`

	// The resource, such as deployments or pods/exec. A binding must name one.
	Resource string `json:"resource,omitempty"`

	// The namespace; without it, all of them.
	Namespace string `json:"namespace,omitempty"`

	// The name of the object; without it, all of them.
	Name string `json:"name,omitempty"`
}

// An AdmissionPolicyStatus is what celgate serve writes of a policy.
type AdmissionPolicyStatus struct {
	// The generation of the policy that the rest is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Compiled, Reachable, Ready, ParamsReadable: whether the policy is well-formed, could be asked about anything, is in
	// force, and may read its params; Ordered:
	// whether its mutations run in the order that it asks for or needs; Converges, with reinvocationPolicy IfNeeded:
	// whether no request has shown that they do not come to rest, because other mutations undo what they do.
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// What the type checker of the API server would warn about, and what the types of the matched kinds say about the
	// mutations.
	TypeChecking *admissionv1.TypeChecking `json:"typeChecking,omitempty"`

	// The place of the mutations among those of all policies in force, from 1.
	Order int64 `json:"order,omitempty"`

	// The fields that the mutations, their conditions and the match conditions read.
	Reads []string `json:"reads,omitempty"`

	// The fields that the mutations write.
	Writes []string `json:"writes,omitempty"`

	// Why the mutations run behind those of others.
	Why []string `json:"why,omitempty"`

	// The kind of the params, and the generation of its definition that the policy is in force with.
	ParamKind *StatusKind `json:"paramKind,omitempty"`

	// The kinds that the rules match among those that the cluster serves, at most 100 of them.
	MatchedKinds []StatusKind `json:"matchedKinds,omitempty"`

	// How many kinds the rules match.
	MatchedKindsTotal int64 `json:"matchedKindsTotal,omitempty"`

	// What the policy may cost at most of each budget, for lists and maps of 32 items and texts of 1,000 characters. A
	// budget that is spent is an error of the request.
	EstimatedCost []EstimatedCost `json:"estimatedCost,omitempty"`
}

// A StatusKind is a kind of the cluster.
type StatusKind struct {
	// Such as apps/v1.
	//
	//crd:required
	APIVersion string `json:"apiVersion,omitempty"`

	// Such as Deployment.
	//
	//crd:required
	Kind string `json:"kind,omitempty"`

	// The generation of the CustomResourceDefinition; left out for a built-in kind.
	Generation int64 `json:"generation,omitempty"`
}

// An EstimatedCost is what a policy may cost of one budget.
type EstimatedCost struct {
	// What the budget is for: matchConditions, validations, auditAnnotations or a mutation, such as mutations[0].
	//
	//crd:required
	Of string `json:"of,omitempty"`

	// CEL cost units.
	//
	//crd:required
	Units int64 `json:"units,omitempty"`

	// The units that the budget has.
	//
	//crd:required
	Limit int64 `json:"limit,omitempty"`
}

// An AdmissionPolicyBindingStatus is what celgate serve writes of a binding.
type AdmissionPolicyBindingStatus struct {
	// The generation of the binding that the rest is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Compiled, Reachable and Ready: whether the binding is well-formed, could do anything, and is in force.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
