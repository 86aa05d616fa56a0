// Package policy represents admission policies, bindings and libraries, whatever their API version.
//
// ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings, in every API version, are converted to
// [Policy] and [Binding] (convert.go) and validated by the rules that the API server applies when such an object is
// written (validate.go). Packages that use this one do not know API versions. The package does not depend on CEL or a
// client.
package policy

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/celgate/celgate/internal/inline"
	"github.com/celgate/celgate/internal/scope"
)

// A Kind is one of the kinds of policy.
type Kind string

// Kinds of policy: the two of admissionregistration.k8s.io, and the one of the dialect, which mutates, validates or
// does both.
const (
	Validating Kind = "ValidatingAdmissionPolicy"
	Mutating   Kind = "MutatingAdmissionPolicy"
	Admission  Kind = "AdmissionPolicy"
)

// A Phase is one of the two parts of admission.
type Phase string

// Phases, in their order.
const (
	PhaseMutation   Phase = "mutation"
	PhaseValidation Phase = "validation"
)

// ReleasedKind returns the kind of admissionregistration.k8s.io whose policies run in the phase.
func (ph Phase) ReleasedKind() Kind {
	if ph == PhaseMutation {
		return Mutating
	}
	return Validating
}

// A Set holds the policies, bindings and libraries that are in force together. Their order does not matter: the engine
// sorts by name.
type Set struct {
	Policies  []*Policy
	Bindings  []*Binding
	Libraries []*Library // that policies import
}

// Deduplicate returns the set with the first of all policies, bindings and libraries of one kind and name, and errors
// about the others: no cluster has two.
func (s *Set) Deduplicate() (Set, []*DuplicateError) {
	var unique Set
	var errs []*DuplicateError
	seen := map[Ref]Position{}
	first := func(ref Ref, place Position) bool {
		before, known := seen[ref]
		if known {
			errs = append(errs, &DuplicateError{Ref: ref, Position: place, First: before})
		} else {
			seen[ref] = place
		}
		return !known
	}
	for _, p := range s.Policies {
		if first(p.Ref(), p.Position) {
			unique.Policies = append(unique.Policies, p)
		}
	}
	for _, b := range s.Bindings {
		if first(b.Ref(), b.Position) {
			unique.Bindings = append(unique.Bindings, b)
		}
	}
	for _, l := range s.Libraries {
		if first(l.Ref(), l.Position) {
			unique.Libraries = append(unique.Libraries, l)
		}
	}
	return unique, errs
}

// A DuplicateError is about the second of two policies, bindings or libraries of one kind and name.
type DuplicateError struct {
	Ref
	Position Position
	First    Position
}

// Error returns both positions, as far as they are known.
func (e *DuplicateError) Error() string {
	message := e.Ref.String() + " is given twice"
	if place := e.Position.String(); place != "" {
		message = place + ": " + message
	}
	if place := e.First.String(); place != "" {
		message += ", first at " + place
	}
	return message
}

// MarkStored marks new policies and bindings as stored in a cluster: see [Policy.Stored].
func (s *Set) MarkStored() {
	for _, p := range s.Policies {
		p.Stored = true
	}
	for _, b := range s.Bindings {
		b.Stored = true
	}
	for _, l := range s.Libraries {
		l.Stored = true
	}
}

// MarkStatic marks new policies and bindings as read from files of the API server: see [Policy.Static].
func (s *Set) MarkStatic() {
	for _, p := range s.Policies {
		p.Static = true
	}
	for _, b := range s.Bindings {
		b.Static = true
	}
}

// Policy returns a policy of the set; nil if the set does not have it.
func (s *Set) Policy(ref Ref) *Policy {
	if i := slices.IndexFunc(s.Policies, func(p *Policy) bool { return p.Ref() == ref }); i >= 0 {
		return s.Policies[i]
	}
	return nil
}

// Binding returns a binding of the set; nil if the set does not have it.
func (s *Set) Binding(ref Ref) *Binding {
	if i := slices.IndexFunc(s.Bindings, func(b *Binding) bool { return b.Ref() == ref }); i >= 0 {
		return s.Bindings[i]
	}
	return nil
}

// Library returns a library of the set; nil if the set does not have it.
func (s *Set) Library(ref Ref) *Library {
	if i := slices.IndexFunc(s.Libraries, func(l *Library) bool { return l.Ref() == ref }); i >= 0 {
		return s.Libraries[i]
	}
	return nil
}

// Binds reports whether a binding of the set names a policy, or whether it needs none.
func (s *Set) Binds(ref Ref) bool {
	if slices.ContainsFunc(s.Bindings, func(b *Binding) bool { return b.Names(ref) }) {
		return true
	}
	p := s.Policy(ref)
	return p != nil && p.Singleton != nil
}

// EachBinding yields the bindings of the set, and those that singleton policies stand for.
func (s *Set) EachBinding() iter.Seq[*Binding] {
	return func(yield func(*Binding) bool) {
		for _, b := range s.Bindings {
			if !yield(b) {
				return
			}
		}
		for _, p := range s.Policies {
			if p.Singleton != nil && !yield(p.Singleton) {
				return
			}
		}
	}
}

// A Policy is a policy of one of the kinds after the server's defaults. It is immutable.
type Policy struct {
	Kind       Kind
	APIVersion string // as written, such as "admissionregistration.k8s.io/v1"
	Name       string
	Metadata   metav1.ObjectMeta // as written
	Position   Position

	// Stored means that a cluster has stored the policy: the rules for new policies do not apply.
	Stored bool

	// Static means that the policy is in a file that the API server reads, not in the cluster: see [ValidateStatic].
	// Static policies are evaluated before all others, also for writes of policies and bindings, and only static
	// bindings put them in force.
	Static bool

	FailurePolicy    FailurePolicy
	ParamKind        *ParamKind // nil: without params
	MatchConstraints *MatchResources
	MatchConditions  []NamedExpr
	Variables        []NamedExpr

	Validations      []Validation // not Mutating
	AuditAnnotations []NamedExpr  // by key; not Mutating

	Mutations    []Mutation         // not Validating
	Reinvocation ReinvocationPolicy // not Validating

	// For Kind Admission only.
	After  []string // the mutating policies that it runs after
	Before []string // those that it runs before
	// TypeChecking defines how type errors in mutations and scopes are handled when the policy is written; empty:
	// Enforce, in the dialect.
	TypeChecking string

	// Lost defines how a request is handled in which a mutation no longer holds at the end; empty: as IgnoreLost.
	Lost string

	// Bindable lists the bindings that may name the policy: BindableCluster, BindableNamespaces; nil: BindableCluster.
	Bindable []string

	// DefaultParams are the params if the binding does not select any; with ParamMerge [MergeParams], selected params
	// are merged into them; nil: none.
	DefaultParams map[string]any
	ParamMerge    string

	Singleton *Binding // the binding, of the same name, that a singleton policy stands for; else nil

	// Abstract says that the policy has no resource rules: each binding has its own. [Set.Link] gives it those of all
	// its bindings.
	Abstract bool

	Combine string // CombineAny, or CombineAll; empty: CombineAll

	Templates           []string // additional subjects of rules: TemplatesOfPods
	TemplateEnforcement Action   // the strongest action about a template; without Templates empty

	MaxPasses int // passes of mutations in one request; 0: DefaultPasses

	Imports []string // libraries, by name
	linked  *linked  // their linked form; nil: before [Set.Link]

	templated   bool // TemplateEnforcement was written
	acts        bool // actions were written, which only singleton policies may have
	emptyPasses bool // MaxPasses was written as 0, which the write-time rules refuse

	place func(path string) Locator
}

// EnforcesTypes reports whether a policy with type errors in mutations or scopes is refused.
func (p *Policy) EnforcesTypes() bool {
	return p.Kind == Admission && (p.TypeChecking == "" || p.TypeChecking == EnforceTypes)
}

// DefaultPasses is the maximum number of passes of a policy's mutations in one request if its MaxPasses is 0.
const DefaultPasses = 2

// Passes returns the maximum number of passes of p's mutations in one request.
func (p *Policy) Passes() int { return cmp.Or(p.MaxPasses, DefaultPasses) }

// ActsIn reports whether the policy takes part in a phase.
func (p *Policy) ActsIn(phase Phase) bool {
	switch p.Kind {
	case Mutating:
		return phase == PhaseMutation
	case Validating:
		return phase == PhaseValidation
	}
	if phase == PhaseMutation {
		return len(p.Mutations) > 0
	}
	return p.Validates() || p.ChecksMutations()
}

// ChecksMutations reports whether the policy checks, after all mutations, that its own mutations still hold.
func (p *Policy) ChecksMutations() bool {
	return (p.Lost == DenyLost || p.Lost == WarnOfLost) &&
		slices.ContainsFunc(p.Mutations, func(m Mutation) bool { return !m.Overwritable })
}

// Mutates reports whether the policy changes objects.
func (p *Policy) Mutates() bool { return p.ActsIn(PhaseMutation) }

// Validates reports whether the policy validates objects, apart from checking its own mutations.
func (p *Policy) Validates() bool {
	return p.Kind == Validating || p.Kind == Admission && (len(p.Validations) > 0 || len(p.AuditAnnotations) > 0)
}

// WithoutMutations returns the policy without its mutations: the same policy if it has none, nil if nothing remains.
func (p *Policy) WithoutMutations() *Policy {
	switch {
	case !p.Mutates():
		return p
	case !p.Validates():
		return nil
	}
	judges := *p
	judges.Mutations, judges.Reinvocation, judges.Lost, judges.TypeChecking = nil, "", "", ""
	judges.After, judges.Before, judges.MaxPasses = nil, nil, 0
	return &judges
}

// Reinvokes reports whether mutation i may run a second time.
func (p *Policy) Reinvokes(i int) bool {
	return cmp.Or(p.Mutations[i].Reinvocation, p.Reinvocation) == IfNeeded
}

// MayReinvoke reports whether any mutation may run a second time.
func (p *Policy) MayReinvoke() bool {
	for i := range p.Mutations {
		if p.Reinvokes(i) {
			return true
		}
	}
	return false
}

// A Binding puts a policy in force.
type Binding struct {
	Kind       Kind   // of the policies that policyName names
	Namespace  string // of a NamespacedAdmissionPolicyBinding, whose Name includes it; empty: cluster-scoped
	APIVersion string
	Name       string
	Metadata   metav1.ObjectMeta // as written
	Position   Position

	Stored bool // see [Policy.Stored]
	Static bool // see [Policy.Static]

	PolicyName     string
	ParamRef       *ParamRef       // nil: none
	MatchResources *MatchResources // nil: matches everything that the policy matches
	Actions        []Action        // of failed validations; not Mutating

	MutationActions []Action     // Admission only; nil: Apply
	Policies        []Ref        // Admission only, in place of PolicyName: all of them or none
	Visibility      Visibility   // Admission only
	Enforcement     *Enforcement // Admission only; nil: Actions apply to everything

	place func(path string) Locator
}

// DryRun reports whether the results of mutations are only reported, not applied.
func (b *Binding) DryRun() bool {
	return len(b.MutationActions) > 0 && !slices.Contains(b.MutationActions, Apply)
}

// Names reports whether the binding puts a policy in force.
func (b *Binding) Names(ref Ref) bool { return slices.Contains(b.PolicyRefs(), ref) }

// Binds reports whether the binding puts p in force.
func (b *Binding) Binds(p *Policy) bool { return b.Names(p.Ref()) }

// An Expr is a CEL expression with the position from which it was read.
type Expr struct {
	Src   string // as written, not trimmed
	Field string // the server's field path, such as "spec.validations[0].expression"
	Place Locator

	inlined    *inline.Text  // Src with the parts of libraries inlined; nil: it does not use any
	unresolved *inline.Error // the error about a missing part of a library
}

// Code returns the text to compile: Src, with the parts of libraries that it names inlined.
func (e Expr) Code() string {
	if e.inlined != nil {
		return e.inlined.Code
	}
	return e.Src
}

// InlinedText maps the bytes of Code to those of Src; nil if Code is Src.
func (e Expr) InlinedText() *inline.Text { return e.inlined }

// IsZero reports whether the expression is absent.
func (e Expr) IsZero() bool { return e.Src == "" }

// A Locator finds places inside one scalar value of a source file.
type Locator interface {
	// Locate returns the place of the byte at offset of the decoded text.
	Locate(offset int) Position
}

// Locate returns the position of the byte at offset of e.Src; the zero Position if it is not known.
func (e Expr) Locate(offset int) Position {
	if e.Place == nil {
		return Position{}
	}
	return e.Place.Locate(offset)
}

// TrimValue removes the prefix with the invalid value from a message about e that field.Error.ErrorBody made.
func (e Expr) TrimValue(message string) string {
	if e.IsZero() {
		return message
	}
	for _, src := range []string{e.Src, strings.TrimSpace(e.Src)} {
		quoted := (&field.Error{Type: field.ErrorTypeInvalid, BadValue: src}).ErrorBody()
		if detail, ok := strings.CutPrefix(message, quoted+": "); ok {
			return detail
		}
	}
	return message
}

// A NamedExpr is a match condition, a variable or an audit annotation.
type NamedExpr struct {
	Name    string
	Expr    Expr
	Library string // that declares the variable, and is part of Name; empty: the policy itself
}

// A Validation is one rule of a policy.
type Validation struct {
	Expr        Expr
	Message     string
	MessageExpr Expr // zero: none
	Reason      metav1.StatusReason

	// For policies of the dialect.
	Name           string        // in violations and metrics; empty: none
	Scope          Expr          // the path of the values that the rule applies to; zero: the object
	Code           int32         // of a denial; 0: that of the reason
	Guard          bool          // it is evaluated before the others, which are skipped if it fails
	Level          int           // bindings of a lower level skip it; 0: none
	MaxEnforcement Action        // the strongest action of bindings; empty: Deny
	FailurePolicy  FailurePolicy // empty: that of the policy

	within *scope.Scope

	emptyCode, emptyLevel bool // like emptyReason
	emptyReason           bool // the reason was written as "", which the write-time rules refuse
}

// A Mutation is one mutation of a policy.
type Mutation struct {
	PatchType PatchType
	Expr      Expr // of the member for PatchType

	// For policies of the dialect.
	Name         string // in messages; empty: none
	Scope        Expr   // the path of the values that it changes; zero: the object
	within       *scope.Scope
	ForEach      NamedExpr           // a list and the name of its items; zero: the mutation is applied once
	Condition    Expr                // zero: none
	Message      string              // in place of the text of an error, and of a denial
	MessageExpr  Expr                // like Message; zero: none
	Reason       metav1.StatusReason // of errors and denials; empty: Invalid
	Reinvocation ReinvocationPolicy  // empty: that of the policy
	Overwritable bool                // the mutation need not hold in the final object
	AtEnd        Expr                // a condition for the final object; zero: see IsExact

	// For the write-time rules about the two members.
	absent      bool   // the member for PatchType was not written
	emptyReason bool   // like that of a Validation
	check       any    // the value written for Overwritable and AtEnd
	extra       bool   // the other member was written
	other       string // its name, if native mutations do not have it
}

// The values of Policy.TypeChecking: how type errors in mutations and scopes are handled when a policy is written.
const (
	EnforceTypes = "Enforce"
	WarnOfTypes  = "Warn"
	IgnoreTypes  = "Off"
)

// The values of Policy.Lost: how a request is handled in which a mutation no longer holds.
const (
	DenyLost   = "Fail"
	WarnOfLost = "Warn"
	IgnoreLost = "Skip"
)

// RunsOnce reports whether the mutation is made once, not for each value of a scope or list.
func (m *Mutation) RunsOnce() bool { return m.Scope.IsZero() && m.ForEach == (NamedExpr{}) }

// IsExact reports whether the mutation, repeated after all mutations of a request, must not change the object.
func (m *Mutation) IsExact() bool { return !m.Overwritable && m.AtEnd.IsZero() }

// The values of Policy.ParamMerge: whether params replace the default params or are merged into them.
const (
	ReplaceParams = "Replace" // what an empty paramMerge means, too
	MergeParams   = "Merge"
)

// A PatchType defines how the result of a mutation is applied.
type PatchType = admissionv1.PatchType

// The patch types.
const (
	ApplyConfiguration PatchType = "ApplyConfiguration"
	JSONPatch          PatchType = "JSONPatch"
	JSONMergePatch     PatchType = "JSONMergePatch" // dialect only
)

// A FailurePolicy defines the effect of an error in a policy on the request.
type FailurePolicy = admissionv1.FailurePolicyType

// The failure policies.
const (
	Fail   FailurePolicy = "Fail"
	Ignore FailurePolicy = "Ignore"
)

// A ReinvocationPolicy defines whether a mutating policy may run a second time.
type ReinvocationPolicy = admissionv1.ReinvocationPolicyType

// The reinvocation policies.
const (
	Never    ReinvocationPolicy = "Never"
	IfNeeded ReinvocationPolicy = "IfNeeded"
)

// An Action is the effect of a failed validation by a binding.
type Action = admissionv1.ValidationAction

// Validation actions.
const (
	Deny  Action = "Deny"
	Warn  Action = "Warn"
	Audit Action = "Audit"
	Apply Action = "Apply" // mutations only
)

// A ParamKind names the kind of a policy's params.
type ParamKind = admissionv1.ParamKind

// A ParamRef selects the params of a binding.
type ParamRef struct {
	Name           string
	Namespace      string
	Selector       *metav1.LabelSelector
	NotFoundAction NotFoundAction
}

// A NotFoundAction defines the effect of a binding whose ParamRef selects nothing.
type NotFoundAction = admissionv1.ParameterNotFoundActionType

// The parameterNotFoundActions.
const (
	NotFoundAllow NotFoundAction = "Allow"
	NotFoundDeny  NotFoundAction = "Deny"

	NotFoundDefault NotFoundAction = "Default" // dialect only: use the default params of the policy
)

// MatchResources selects the requests that a policy or binding matches.
type MatchResources struct {
	NamespaceSelector *metav1.LabelSelector
	ObjectSelector    *metav1.LabelSelector
	ResourceRules     []Rule
	ExcludeRules      []Rule
	MatchPolicy       MatchPolicy

	// For policies of the dialect.
	Namespaces, ExcludeNamespaces   []string // patterns, in which * matches any text
	Subjects, ExcludeSubjects       []Subject
	Permissions, ExcludePermissions []Permission
}

// DependsOnUser reports whether the match depends on the user of the request.
func (m *MatchResources) DependsOnUser() bool {
	return m != nil && len(m.Subjects)+len(m.ExcludeSubjects) > 0
}

// DependsOnPermissions reports whether the match depends on permissions of the user.
func (m *MatchResources) DependsOnPermissions() bool {
	return m != nil && len(m.Permissions)+len(m.ExcludePermissions) > 0
}

// A Subject is a user, a group or a ServiceAccount.
type Subject struct{ Kind, Namespace, Name string }

// The kinds of subjects.
const (
	UserSubject    = "User"
	GroupSubject   = "Group"
	AccountSubject = "ServiceAccount"
)

// Username returns the user name of a user or a ServiceAccount; empty for a group.
func (s Subject) Username() string {
	switch s.Kind {
	case UserSubject:
		return s.Name
	case AccountSubject:
		return serviceaccount.MakeUsername(s.Namespace, s.Name)
	}
	return ""
}

// String returns the subject in words.
func (s Subject) String() string {
	if s.Kind == AccountSubject {
		return s.Kind + " " + s.Namespace + "/" + s.Name
	}
	return s.Kind + " " + s.Name
}

// A Permission is a right of a user in terms of RBAC.
type Permission struct{ Verb, APIGroup, Resource, Namespace, Name string }

// String returns the permission in words.
func (p Permission) String() string {
	text := p.Verb + " " + p.Resource
	if p.APIGroup != "" {
		text += "." + p.APIGroup
	}
	if p.Name != "" {
		text += " " + p.Name
	}
	if p.Namespace != "" {
		text += " in namespace " + p.Namespace
	}
	return text
}

// A MatchPolicy says whether a rule also matches equivalent resources.
type MatchPolicy = admissionv1.MatchPolicyType

// The match policies.
const (
	Exact      MatchPolicy = "Exact"
	Equivalent MatchPolicy = "Equivalent"
)

// A Rule is one resource rule with resource names.
type Rule struct {
	ResourceNames []string
	Operations    []string
	APIGroups     []string
	APIVersions   []string
	Resources     []string
	Scope         string // "*", "Cluster" or "Namespaced"

	// Kinds are kinds of objects, in the dialect only, with "*" for Resources; nil: all.
	Kinds []string
}
