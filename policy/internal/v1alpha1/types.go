// Package v1alpha1 holds the Go types of policy.celgate.dev/v1alpha1, celgate's dialect of admission policies.
//
// A spec of a policy or binding of admissionregistration.k8s.io/v1 means the same here. The comments of the fields are
// the reference in docs/dialect.md, and the CustomResourceDefinitions in deploy/crds are made from them. Directives
// contain information that neither the types nor the comments express:
//
//	//crd:enum A B         the allowed texts
//	//crd:required         the field is required, despite omitempty
//	//crd:minLength 1      of a text; also minItems, maxItems, minimum and maximum
//	//crd:rule EXPR: TEXT  a rule for a type or a field, and the error if it is violated
//
// Fields of the released kinds have the schema of the released definitions.
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

// An AdmissionPolicy changes objects, validates them, or does both. It is cluster-scoped, and takes effect where an
// AdmissionPolicyBinding names it.
type AdmissionPolicy struct {
	metav1.TypeMeta `json:",inline"`

	// Standard metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the policy does, and for which requests.
	Spec AdmissionPolicySpec `json:"spec"`

	// The state of the policy in a cluster.
	Status AdmissionPolicyStatus `json:"status,omitzero"`
}

// An AdmissionPolicySpec combines the specs of a MutatingAdmissionPolicy and a ValidatingAdmissionPolicy. Mutations are
// evaluated in the mutating phase of admission, everything else in the validating phase; match conditions and variables
// serve both.
//
//crd:rule [has(self.mutations) && size(self.mutations) > 0, has(self.validations) && size(self.validations) > 0, has(self.auditAnnotations) && size(self.auditAnnotations) > 0].exists(some, some): mutations, validations or auditAnnotations must contain at least one item
//crd:rule has(self.matchConstraints) || has(self.abstract) && self.abstract: matchConstraints must be given, unless the policy is abstract
type AdmissionPolicySpec struct {
	// The bindings that may name the policy. Cluster (the default) permits an AdmissionPolicyBinding. Namespaces
	// permits a NamespacedAdmissionPolicyBinding, written by a user with the verb bind on the policy.
	//
	//crd:enum Cluster Namespaces
	//crd:minItems 1
	Bindable []string `json:"bindable,omitempty"`

	// The kind of the params. Without it, the policy takes no params.
	ParamKind *admissionv1.ParamKind `json:"paramKind,omitempty"`

	// The params of a binding that finds none with the parameterNotFoundAction Default, and of a binding without a
	// paramRef. They are an object of the paramKind without a name, treated as the API server would store it: the
	// object gets the defaults of the kind, and is refused if the server would refuse it or drop a field.
	DefaultParams map[string]any `json:"defaultParams,omitempty"`

	// How a param combines with defaultParams: Replace (the default) uses the param instead, Merge merges the param
	// into defaultParams as a JSON merge patch.
	//
	//crd:enum Replace Merge
	ParamMerge string `json:"paramMerge,omitempty"`

	// Whether the policy leaves its resourceRules to its bindings, each of which must have at least one. The rules of a
	// binding then have the effect of resourceRules in the policy.
	Abstract bool `json:"abstract,omitempty"`

	// The requests that the policy applies to. Required, with resourceRules, unless the policy is abstract. Like a
	// MutatingAdmissionPolicy, a policy that only mutates cannot apply to DELETE. If a policy also validates, its
	// mutations are skipped on DELETE.
	MatchConstraints *MatchResources `json:"matchConstraints,omitempty"`

	// Expressions that must all be true for the policy to be evaluated. Each phase evaluates them on its own object.
	MatchConditions []admissionv1.MatchCondition `json:"matchConditions,omitempty"`

	// The AdmissionPolicyLibraries whose variables, functions and scopes the policy uses, by name. While one of them
	// does not exist or is not valid, the policy fails, and failurePolicy decides.
	Imports []string `json:"imports,omitempty"`

	// Named expressions that other expressions use as variables.NAME.
	Variables []admissionv1.Variable `json:"variables,omitempty"`

	// The changes, in order.
	Mutations []Mutation `json:"mutations,omitempty"`

	// Whether the mutations may run a second time in one request: Never or IfNeeded. Required with mutations.
	//
	//crd:enum Never IfNeeded
	ReinvocationPolicy string `json:"reinvocationPolicy,omitempty"`

	// Whether Object literals, the fields that expressions of mutations read, and scopes are checked against the types
	// of the matched kinds when the policy is written. Enforce (the default) refuses an expression that is wrong for
	// every matched kind, whatever the values are, and a scope that has values in none; Warn and Off refuse nothing.
	//
	//crd:enum Enforce Warn Off
	TypeChecking string `json:"typeChecking,omitempty"`

	// How to treat a request in which a mutation no longer holds after all mutations, including those of other
	// webhooks: Fail denies the request, Warn warns the client, Skip checks nothing. Without this field nothing is
	// checked, and a mutation may not have a validation.
	//
	//crd:enum Fail Warn Skip
	MutationValidationPolicy string `json:"mutationValidationPolicy,omitempty"`

	// With reinvocationPolicy IfNeeded, how many times the mutations may run in one request: 2 (the default) to 5.
	MaxPasses *int32 `json:"maxPasses,omitempty"`

	// The mutating policies that this one runs after or before. Without it, the fields that policies read and write
	// decide.
	Order *Order `json:"order,omitempty"`

	// The rules. A policy has at least one mutation, validation or audit annotation.
	Validations []Validation `json:"validations,omitempty"`

	// Which of the matching bindings of the policy a request must satisfy: All (the default), or Any one of them, with
	// all its params. With Any, if the request satisfies one binding, failures of the other bindings are not reported.
	//
	//crd:enum All Any
	Combine string `json:"combine,omitempty"`

	// What the rules apply to besides the objects of matchConstraints: pods, the Pod templates of workloads, wherever
	// the policy applies to Pods. Expressions see a template as if it were the Pod; the metadata of a template has
	// labels and annotations.
	//
	//crd:enum pods
	Templates []string `json:"templates,omitempty"`

	// The strongest action of a binding when a template fails: Deny, Warn (the default) or Audit.
	//
	//crd:enum Deny Warn Audit
	TemplateEnforcement admissionv1.ValidationAction `json:"templateEnforcement,omitempty"`

	// The audit annotations of a request.
	AuditAnnotations []admissionv1.AuditAnnotation `json:"auditAnnotations,omitempty"`

	// Whether the policy takes effect without a binding, for all requests of matchConstraints. A singleton policy takes
	// no params, a binding may not name it, and the field cannot be changed after creation.
	SingletonPolicy bool `json:"singletonPolicy,omitempty"`

	// The actions for a mutation of a singleton policy, as in a binding. Apply by default.
	//
	//crd:enum Apply Warn Audit
	//crd:minItems 1
	MutationActions []string `json:"mutationActions,omitempty"`

	// The actions for a failed validation of a singleton policy, as in a binding. Deny by default.
	ValidationActions []admissionv1.ValidationAction `json:"validationActions,omitempty"`

	// How an error in the policy affects the request: Fail (the default) or Ignore.
	FailurePolicy *admissionv1.FailurePolicyType `json:"failurePolicy,omitempty"`
}

// An Order places a policy among other mutating policies, by name. It overrides the order that follows from reads and
// writes. A name that does not belong to a mutating policy in force is an error, and so is an order that contradicts
// another one.
type Order struct {
	// The policies that run before this one.
	After []string `json:"after,omitempty"`

	// The policies that run after this one.
	Before []string `json:"before,omitempty"`
}

// A Validation is one rule. With a scope, the rule is evaluated for each value in it: each value that fails is a
// separate violation, with its path in details.causes[].field. The message begins with the path, unless
// messageExpression produces it.
type Validation struct {
	// The expression that must be true. Required.
	Expression string `json:"expression"`

	// The text of a denial: one line.
	Message string `json:"message,omitempty"`

	// Unauthorized, Forbidden, Invalid (the default) or RequestEntityTooLarge: the reason of a denial, and its code.
	Reason *metav1.StatusReason `json:"reason,omitempty"`

	// An expression for the text of a denial. If it fails, or its result is empty or longer than one line, message is
	// the text.
	MessageExpression string `json:"messageExpression,omitempty"`

	// The values that the rule applies to: a path such as spec.containers[*], spec.ports[name=http],
	// metadata.labels["a.b/c"] or spec.x[key].y[index].field, or the name kubernetes.allContainers, kubernetes.podSpec
	// or LIBRARY.NAME of an imported library. Expressions see the value as scope, its path as scopePath.field, the keys
	// and indexes that the path names as scopePath.key, and the value that it replaces as oldScope, which is null if
	// there is none. An absent field is skipped, without an error.
	Scope string `json:"scope,omitempty"`

	// The name of the rule in bindings, audit annotations and metrics: a DNS label, unique in the policy.
	Name string `json:"name,omitempty"`

	// The code of a denial, from 400 to 499, instead of the code of the reason. 401, 403 and 413 belong to their
	// reasons.
	Code *int32 `json:"code,omitempty"`

	// Whether the rule is evaluated before the rules that are not guards. If it fails, later rules and audit
	// annotations are not evaluated, so their texts reveal nothing.
	Guard bool `json:"guard,omitempty"`

	// From 1 to 9. Bindings with a lower enforcement.level skip the rule.
	Level *int32 `json:"level,omitempty"`

	// The strongest action of a binding when the rule fails: Deny, Warn or Audit, from strongest to weakest. It
	// replaces stronger actions.
	//
	//crd:enum Deny Warn Audit
	MaxEnforcement admissionv1.ValidationAction `json:"maxEnforcement,omitempty"`

	// How an error in the rule affects the request, instead of the policy's failurePolicy: Fail or Ignore.
	//
	//crd:enum Fail Ignore
	FailurePolicy admissionv1.FailurePolicyType `json:"failurePolicy,omitempty"`
}

// A Mutation is one change that a policy makes. Its expression may also return null or an optional without a value,
// which changes nothing; true, which accepts the request and changes nothing; or false, which denies the request,
// whatever failurePolicy is. mutations.skip() and mutations.deny() are null and false of any type.
type Mutation struct {
	// The name of the mutation in messages: a DNS label, unique among the mutations of the policy.
	Name string `json:"name,omitempty"`

	// A condition of the mutation. If it is false, the mutation is skipped. Unlike match conditions, it sees variables
	// and the object as earlier mutations left it.
	Condition string `json:"condition,omitempty"`

	// The text of a denial, also used instead of the text of an error: one line.
	Message string `json:"message,omitempty"`

	// An expression for this text. If it fails, or its result is empty or longer than one line, message is the text.
	MessageExpression string `json:"messageExpression,omitempty"`

	// Forbidden, Invalid (the default of a denial) or RequestEntityTooLarge: the reason of a denial or an error, and
	// its code.
	//
	//crd:enum Forbidden Invalid RequestEntityTooLarge
	Reason *metav1.StatusReason `json:"reason,omitempty"`

	// The values that the mutation changes: a path or a name, as in the scope of a validation. The condition and the
	// expression are evaluated for each value; they see it as item, its key or index as key, and its path as
	// scopePath.field. The result is merged into the value: an ApplyConfiguration is an Item, which has the type of the
	// value, and the paths of a JSON patch start at the value. objects.unset() removes the value, objects.replace(v)
	// replaces it. All values are read before the mutation changes any of them.
	Scope string `json:"scope,omitempty"`

	// A list: the mutation runs once for each item, in order. Each run sees the result of the previous one.
	ForEach *ForEach `json:"forEach,omitempty"`

	// The reinvocationPolicy of this mutation, instead of the policy's: Never or IfNeeded.
	//
	//crd:enum Never IfNeeded
	ReinvocationPolicy string `json:"reinvocationPolicy,omitempty"`

	// What must hold after all mutations, with mutationValidationPolicy. Exact (the default there): running the
	// mutation again changes nothing. Exact is refused if a match condition or the condition reads what the mutation
	// writes, because such a mutation does not run again. Overwritable: other policies and webhooks may change the
	// result. {expression: …}: the expression is true of the final object, wherever the match conditions hold on it.
	Validation any `json:"validation,omitempty"`

	// How the result is applied: ApplyConfiguration, JSONPatch or JSONMergePatch. Required.
	//
	//crd:enum ApplyConfiguration JSONPatch JSONMergePatch
	PatchType string `json:"patchType"`

	// With patchType ApplyConfiguration: the configuration that is merged into the object.
	ApplyConfiguration *admissionv1.ApplyConfiguration `json:"applyConfiguration,omitempty"`

	// With patchType JSONPatch: the operations.
	JSONPatch *admissionv1.JSONPatch `json:"jsonPatch,omitempty"`

	// With patchType JSONMergePatch: the patch.
	JSONMergePatch *JSONMergePatch `json:"jsonMergePatch,omitempty"`
}

// A ForEach runs a mutation for each item of a list. The condition, the expression and the messageExpression see the
// item. If one run fails or denies, the changes of all runs are discarded. All runs share the budget of the mutation. A
// list may have at most 64 items.
type ForEach struct {
	// The name of the item in expressions.
	//
	//crd:minLength 1
	Name string `json:"name"`

	// The list, such as params.spec.sidecars. An optional without a value is an empty list.
	//
	//crd:minLength 1
	Expression string `json:"expression"`
}

// A JSONMergePatch is a patch according to RFC 7386: members are merged, null removes a member, and a list replaces the
// previous list.
type JSONMergePatch struct {
	// The patch: a map or an Object.
	//
	//crd:minLength 1
	Expression string `json:"expression"`
}

// An AdmissionPolicyBinding puts a policy in force. It is cluster-scoped.
type AdmissionPolicyBinding struct {
	metav1.TypeMeta `json:",inline"`

	// Standard metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy, and where it takes effect.
	Spec AdmissionPolicyBindingSpec `json:"spec"`

	// The state of the binding in a cluster.
	Status AdmissionPolicyBindingStatus `json:"status,omitzero"`
}

// A NamespacedAdmissionPolicyBinding puts a policy in force for the objects of its namespace, if the policy is bindable
// in namespaces. The params must be in the namespace, too, and matchResources may not name namespaces.
type NamespacedAdmissionPolicyBinding struct {
	metav1.TypeMeta `json:",inline"`

	// Standard metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy, and which objects of the namespace it applies to.
	Spec AdmissionPolicyBindingSpec `json:"spec"`

	// The state of the binding in a cluster.
	Status AdmissionPolicyBindingStatus `json:"status,omitzero"`
}

// A PolicyReference names a policy.
type PolicyReference struct {
	// The kind of the policy: AdmissionPolicy (the default), or a released kind, ValidatingAdmissionPolicy or
	// MutatingAdmissionPolicy.
	//
	//crd:enum AdmissionPolicy ValidatingAdmissionPolicy MutatingAdmissionPolicy
	Kind string `json:"kind,omitempty"`

	// The name of the policy. Required.
	//
	//crd:minLength 1
	Name string `json:"name"`
}

// An AdmissionPolicyBindingSpec combines the specs of a MutatingAdmissionPolicyBinding and a
// ValidatingAdmissionPolicyBinding.
//
//crd:rule (has(self.policyName) && self.policyName != '') != (has(self.policies) && size(self.policies) > 0): one of policyName and policies must be given, not both
type AdmissionPolicyBindingSpec struct {
	// The AdmissionPolicy to put in force. Either policyName or policies is required.
	PolicyName string `json:"policyName,omitempty"`

	// Several policies to put in force together. While one of them is invalid or missing, none is in force. Policies
	// with params must have the same paramKind.
	Policies []PolicyReference `json:"policies,omitempty"`

	// What the client learns about a violation.
	Visibility *Visibility `json:"visibility,omitempty"`

	// The params, of a policy with paramKind.
	ParamRef *ParamRef `json:"paramRef,omitempty"`

	// The requests of the policy that the binding applies to; all of them by default.
	MatchResources *MatchResources `json:"matchResources,omitempty"`

	// The actions for a mutation: Apply (the default), Warn, Audit. Without Apply, the object stays unchanged, and an
	// error or a denial of a mutation does not deny the request. Warn warns the client of changes and failures, Audit
	// records them in the audit annotation would_mutate.
	//
	//crd:enum Apply Warn Audit
	//crd:minItems 1
	MutationActions []string `json:"mutationActions,omitempty"`

	// The actions for a failed validation: Deny (the default), Warn, Audit. Deny and Warn may not be combined.
	ValidationActions []admissionv1.ValidationAction `json:"validationActions,omitempty"`

	// The actions for single rules and for errors, instead of validationActions and never stronger than those.
	Enforcement *Enforcement `json:"enforcement,omitempty"`
}

// An Enforcement refines the validationActions of a binding.
type Enforcement struct {
	// From 1 to 9. Rules with a higher level are skipped. Without it, every rule is evaluated.
	Level *int32 `json:"level,omitempty"`

	// The actions for errors under failurePolicy Fail, and for a missing param that is required. Without it, an error
	// is treated like a failure of its rule, and a missing param denies the request.
	OnError []admissionv1.ValidationAction `json:"onError,omitempty"`

	// The actions for single rules, by name.
	Validations map[string][]admissionv1.ValidationAction `json:"validations,omitempty"`
}

// A Visibility limits what the client of a request learns about violations.
type Visibility struct {
	// Client (the default): the client sees the violation. Admin: the client gets only the reason, the code and a
	// reference, in status and warnings. The audit annotation validation_failure holds the text and the reference,
	// whatever validationActions are.
	//
	//crd:enum Client Admin
	Violations string `json:"violations,omitempty"`

	// Always: in a dry run, violations that are only audited are also returned as warnings, to preview the effect of
	// Deny.
	//
	//crd:enum Always
	DryRun string `json:"dryRun,omitempty"`
}

// A ParamRef selects params: one by name, or all whose labels match a selector.
//
//crd:rule (has(self.name) && self.name != '') != has(self.selector): one of name and selector must be given, not both
type ParamRef struct {
	// The name of the param. Either name or selector is required.
	Name string `json:"name,omitempty"`

	// The namespace of the params; the namespace of the request by default. Only for a namespaced paramKind.
	Namespace string `json:"namespace,omitempty"`

	// The selector for the labels of the params.
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// The action if the binding finds no param. Allow lets the request pass, Deny is an error and failurePolicy
	// decides, Default uses the defaultParams of the policy. Default also covers cluster-scoped objects where params
	// come from the request's namespace. Required.
	//
	//crd:enum Allow Deny Default
	ParameterNotFoundAction *admissionv1.ParameterNotFoundActionType `json:"parameterNotFoundAction,omitempty"`
}

// MatchResources select the requests that a policy or a binding applies to: a request must match every field. They have
// the fields of the released kinds and the following.
type MatchResources struct {
	admissionv1.MatchResources `json:",inline"`

	// The operations and resources of matching requests. matchConstraints must have at least one rule, unless the
	// policy is abstract; then a binding of it must.
	ResourceRules []Rule `json:"resourceRules,omitempty"`

	// The operations and resources of requests that do not match.
	ExcludeResourceRules []Rule `json:"excludeResourceRules,omitempty"`

	// The namespaces of matching objects. In a name, * stands for any text. Objects without a namespace, which include
	// Namespaces, do not match.
	Namespaces []string `json:"namespaces,omitempty"`

	// The namespaces whose objects do not match; the Namespaces themselves do not match either. Other objects without a
	// namespace match. May not be combined with namespaces.
	ExcludeNamespaces []string `json:"excludeNamespaces,omitempty"`

	// The users whose requests match: at least one subject must describe the user.
	Subjects []Subject `json:"subjects,omitempty"`

	// The users whose requests do not match. May not be combined with subjects.
	ExcludeSubjects []Subject `json:"excludeSubjects,omitempty"`

	// The permissions of users whose requests match: the user must have at least one, according to the authorizer of
	// the API server.
	Permissions []Permission `json:"permissions,omitempty"`

	// The permissions of users whose requests do not match. May not be combined with permissions.
	ExcludePermissions []Permission `json:"excludePermissions,omitempty"`
}

// A Rule is a rule of a released policy, or a rule that names kinds.
//
//crd:rule has(self.resources) != has(self.kinds): one of resources and kinds must be given, not both
type Rule struct {
	admissionv1.NamedRuleWithOperations `json:",inline"`

	// The resources. Either resources or kinds is required.
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

// A Permission is an action on a resource. Without a resource, it is an action on the policy: a verb of your choice,
// which a role grants on the AdmissionPolicy by name.
type Permission struct {
	// The verb. Required.
	//
	//crd:minLength 1
	Verb string `json:"verb"`

	// The group of the resource.
	APIGroup string `json:"apiGroup,omitempty"`

	// The resource, such as deployments or pods/exec. A binding must name one.
	Resource string `json:"resource,omitempty"`

	// The namespace; all namespaces by default.
	Namespace string `json:"namespace,omitempty"`

	// The name of the object; all objects by default.
	Name string `json:"name,omitempty"`
}

// An AdmissionPolicyStatus is the state of a policy, written by celgate serve.
type AdmissionPolicyStatus struct {
	// The generation of the policy that the status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Compiled: whether the policy is well-formed. Reachable: whether any request could reach it. Ready: whether it is
	// in force. ParamsReadable: whether celgate may read its params. Ordered: whether its mutations run in the order
	// that it requests or needs. Converges, with reinvocationPolicy IfNeeded: False once a request has shown that the
	// mutations do not settle because other mutations undo their changes.
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The warnings of the API server's type checker, and type errors in the mutations for the matched kinds.
	TypeChecking *admissionv1.TypeChecking `json:"typeChecking,omitempty"`

	// The position of the mutations among those of all policies in force, starting at 1.
	Order int64 `json:"order,omitempty"`

	// The fields that the mutations, their conditions and the match conditions read.
	Reads []string `json:"reads,omitempty"`

	// The fields that the mutations write.
	Writes []string `json:"writes,omitempty"`

	// The reasons why the mutations run after those of other policies.
	Why []string `json:"why,omitempty"`

	// The kind of the params, and the generation of its definition that the policy uses.
	ParamKind *StatusKind `json:"paramKind,omitempty"`

	// The kinds of the cluster that the rules match, at most 100.
	MatchedKinds []StatusKind `json:"matchedKinds,omitempty"`

	// The number of kinds that the rules match.
	MatchedKindsTotal int64 `json:"matchedKindsTotal,omitempty"`

	// The most that the policy may spend of each budget, for lists and maps of 32 items and texts of 1,000 characters.
	// A request that exhausts a budget is an error.
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

// An EstimatedCost is the most that a policy may spend of one budget.
type EstimatedCost struct {
	// The subject of the budget: matchConditions, validations, auditAnnotations or a mutation, such as mutations[0].
	//
	//crd:required
	Of string `json:"of,omitempty"`

	// CEL cost units.
	//
	//crd:required
	Units int64 `json:"units,omitempty"`

	// The size of the budget in the same units.
	//
	//crd:required
	Limit int64 `json:"limit,omitempty"`
}

// An AdmissionPolicyBindingStatus is the state of a binding, written by celgate serve.
type AdmissionPolicyBindingStatus struct {
	// The generation of the binding that the status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Compiled: whether the binding is well-formed. Reachable: whether it could have an effect. Ready: whether it is in
	// force.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// An AdmissionPolicyLibrary shares variables, functions and scopes between policies. Policies that import the library
// use its parts as LIBRARY.NAME, and so does the library itself. It is cluster-scoped. The name of a library is letters
// and digits, beginning with a letter, and differs from every library, variable and type of CEL and of policies.
type AdmissionPolicyLibrary struct {
	metav1.TypeMeta `json:",inline"`

	// Standard metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The parts of the library.
	Spec AdmissionPolicyLibrarySpec `json:"spec"`

	// The state of the library in a cluster.
	Status AdmissionPolicyLibraryStatus `json:"status,omitzero"`
}

// An AdmissionPolicyLibrarySpec has the parts of a library. The name of each part is unique.
type AdmissionPolicyLibrarySpec struct {
	// The libraries whose parts this one uses, by name. Imports must not form a cycle.
	Imports []string `json:"imports,omitempty"`

	// Named expressions. A policy evaluates a variable when it first uses it, and once. A variable may use the names
	// that variables of a policy may use, except for the variables of the policy.
	Variables []admissionv1.Variable `json:"variables,omitempty"`

	// Functions. A function must not call itself, directly or through others.
	Functions []Function `json:"functions,omitempty"`

	// Scopes of validations and mutations.
	Scopes []NamedScope `json:"scopes,omitempty"`
}

// A Function is an expression with parameters. The expression may use its parameters and call other functions, so the
// result depends on the arguments alone. An argument is evaluated once. A call costs as much as its expression.
type Function struct {
	// The name of the function: a CEL identifier.
	//
	//crd:minLength 1
	Name string `json:"name"`

	// The parameters, in order.
	Params []FunctionParam `json:"params,omitempty"`

	// The type of the result, written like the type of a parameter. The result is converted to it. Without it, the
	// result has the type of the expression.
	Type string `json:"type,omitempty"`

	// The expression of the result.
	//
	//crd:minLength 1
	Expression string `json:"expression"`
}

// A FunctionParam is a parameter of a function.
type FunctionParam struct {
	// The name of the parameter in the expression: a CEL identifier.
	//
	//crd:minLength 1
	Name string `json:"name"`

	// bool, int, uint, double, string, bytes, duration, timestamp, list(TYPE), map(TYPE, TYPE) or dyn (the default). An
	// argument of another type is refused when the policy is written, if its type is known by then. Otherwise it is
	// converted to a scalar type, as string(argument) does.
	Type string `json:"type,omitempty"`
}

// A NamedScope is a scope that validations and mutations use by name: one path or several.
type NamedScope struct {
	// The name of the scope: a CEL identifier.
	//
	//crd:minLength 1
	Name string `json:"name"`

	// The paths, all with the same names for scopePath.
	//
	//crd:minItems 1
	Paths []string `json:"paths"`
}

// An AdmissionPolicyLibraryStatus is the state of a library, written by celgate serve.
type AdmissionPolicyLibraryStatus struct {
	// The generation of the library that the status describes.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Compiled: whether the library is well-formed. Ready: whether the replicas know it.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
