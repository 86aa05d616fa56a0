// Package policy is the one representation of admission policies and bindings.
//
// ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings, in every API version, become
// [Policy] and [Binding] at the edge (convert.go); the rules that the API server applies when such an object
// is written are in validate.go. Nothing behind this package knows an API version. The package knows no CEL
// and no client.
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

// The kinds of policy: the two of admissionregistration.k8s.io, and the one of the dialect, which mutates, validates or
// does both.
const (
	Validating Kind = "ValidatingAdmissionPolicy"
	Mutating   Kind = "MutatingAdmissionPolicy"
	Admission  Kind = "AdmissionPolicy"
)

// A Phase is one of the two parts of admission.
type Phase string

// The phases, in their order.
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

// A Set holds the policies and bindings that are in force together. The order carries no meaning: the engine
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

// Error says where the two are, as far as that is known.
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

// MarkStored says of new policies and bindings that a cluster holds them: see [Policy.Stored].
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

// MarkStatic says of new policies and bindings that they are in files that the API server reads: see [Policy.Static].
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

// A Policy is a policy of one of the kinds after the server's defaults. It is not changed after it was made.
type Policy struct {
	Kind       Kind
	APIVersion string // as written, such as "admissionregistration.k8s.io/v1"
	Name       string
	Metadata   metav1.ObjectMeta // as written
	Position   Position

	// Stored says that a cluster holds the policy: it is not judged as one that is about to be written.
	Stored bool

	// Static says that the policy is in a file that the API server reads, and not in the cluster: see [ValidateStatic].
	// Static policies are asked before all others, about writes of policies and bindings too, and only static bindings
	// put them in force.
	Static bool

	FailurePolicy    FailurePolicy
	ParamKind        *ParamKind // nil: the policy takes no params
	MatchConstraints *MatchResources
	MatchConditions  []NamedExpr
	Variables        []NamedExpr

	Validations      []Validation      // not Mutating
	AuditAnnotations []AuditAnnotation // not Mutating

	Mutations    []Mutation         // not Validating
	Reinvocation ReinvocationPolicy // not Validating

	// Admission only.
	After  []string // the mutating policies that it runs after
	Before []string // those that it runs before
	// TypeChecking says what becomes of mutations that are wrong by the types of the matched kinds when the policy is
	// written; empty: Enforce, in the dialect.
	TypeChecking string

	// Lost says what becomes of a request in which a mutation no longer holds at the end; empty: as IgnoreLost.
	Lost string

	// Bindable says what may bind the policy: BindableCluster, BindableNamespaces; nil: BindableCluster.
	Bindable []string

	// DefaultParams are the params where there is no other, with ParamMerge [MergeParams] also what params are merged
	// into; nil: none.
	DefaultParams map[string]any
	ParamMerge    string

	Singleton *Binding // that the policy stands for, of its own name: it is in force without any other; nil: it is not

	Combine string // how many bindings a request has to satisfy; empty: All

	Templates           []string // what rules are also for: TemplatesOfPods
	TemplateEnforcement Action   // the strongest action about a template; without Templates empty

	MaxPasses int // how often mutations may run in one request; 0: twice, as all others

	Imports []string // libraries, by their names
	linked  *linked  // with them; nil: [Linker] has not seen the policy

	templated   bool // TemplateEnforcement was written
	acts        bool // actions were written, which only singleton policies have
	emptyPasses bool // MaxPasses was written, as 0, which only the write-time rules tell from none

	places Places
}

// DefaultPasses is how often mutations run in one request at most, if the policy does not say otherwise.
const DefaultPasses = 2

// Passes returns how often the mutations of p may run in one request.
func (p *Policy) Passes() int { return cmp.Or(p.MaxPasses, DefaultPasses) }

// ActsIn reports whether the policy has a say in a phase.
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

// ChecksMutations reports that, once all mutations are made, the policy looks at whether its own still hold.
func (p *Policy) ChecksMutations() bool {
	return (p.Lost == DenyLost || p.Lost == WarnOfLost) &&
		slices.ContainsFunc(p.Mutations, func(m Mutation) bool { return !m.Overwritable })
}

// Mutates reports whether the policy changes objects.
func (p *Policy) Mutates() bool { return p.ActsIn(PhaseMutation) }

// Validates reports whether the policy judges objects, by more than whether its mutations hold.
func (p *Policy) Validates() bool {
	return p.Kind == Validating || p.Kind == Admission && (len(p.Validations) > 0 || len(p.AuditAnnotations) > 0)
}

// WithoutMutations returns the policy without its mutations: itself if it has none, and nil if it has nothing else.
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

// Reinvokes reports whether mutation i may be made a second time.
func (p *Policy) Reinvokes(i int) bool {
	return cmp.Or(p.Mutations[i].Reinvocation, p.Reinvocation) == IfNeeded
}

// MayReinvoke reports whether any mutation may be made a second time.
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
	Kind       Kind   // of the policies that policyName may name
	Namespace  string // of a NamespacedBinding, whose Name begins with it; empty: of the cluster
	APIVersion string
	Name       string
	Metadata   metav1.ObjectMeta // as written
	Position   Position

	Stored bool // as [Policy.Stored]
	Static bool // as [Policy.Static]

	PolicyName     string
	ParamRef       *ParamRef       // nil: none
	MatchResources *MatchResources // nil: matches everything that the policy matches
	Actions        []Action        // of failed validations; not Mutating

	MutationActions []Action     // Admission only; nil: Apply
	Policies        []Ref        // Admission only, in place of PolicyName: all of them or none
	Visibility      Visibility   // Admission only
	Enforcement     *Enforcement // Admission only; nil: Actions are for everything

	places Places
}

// DryRun reports that what mutations make of an object is told and not kept.
func (b *Binding) DryRun() bool {
	return len(b.MutationActions) > 0 && !slices.Contains(b.MutationActions, Apply)
}

// Names reports whether the binding puts a policy in force.
func (b *Binding) Names(ref Ref) bool { return slices.Contains(b.PolicyRefs(), ref) }

// Binds reports whether the binding puts p in force.
func (b *Binding) Binds(p *Policy) bool { return b.Names(p.Ref()) }

// An Expr is one CEL expression with the place that it was read from.
type Expr struct {
	Src   string // as written, not trimmed
	Field string // the server's field path, such as "spec.validations[0].expression"
	Place Locator

	inlined    *inline.Text  // what stands for Src with the libraries that it names put in; nil: it names none
	unresolved *inline.Error // what of a library it names that is not there
}

// Code returns what is to be compiled: Src, or what stands for it with the libraries that it names put in.
func (e Expr) Code() string {
	if e.inlined != nil {
		return e.inlined.Code
	}
	return e.Src
}

// InlinedText says what of Src the bytes of Code are, or stand for; nil if Code is Src.
func (e Expr) InlinedText() *inline.Text { return e.inlined }

// IsZero reports that no expression was given.
func (e Expr) IsZero() bool { return e.Src == "" }

// A Locator finds places inside one scalar value of a source file.
type Locator interface {
	// Locate returns the place of the byte at offset of the decoded text.
	Locate(offset int) Position
}

// Locate returns the place of the byte at offset of e.Src; the zero Position if it is not known.
func (e Expr) Locate(offset int) Position {
	if e.Place == nil {
		return Position{}
	}
	return e.Place.Locate(offset)
}

// TrimValue removes from a message about e, as [field.Error.ErrorBody] makes it, that the value is invalid and the
// value.
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

// A NamedExpr is a match condition or a variable.
type NamedExpr struct {
	Name    string
	Expr    Expr
	Library string // that has the variable, which Name says, too; empty: the policy itself
}

// A Validation is one rule of a policy.
type Validation struct {
	Expr        Expr
	Message     string
	MessageExpr Expr // zero: none
	Reason      metav1.StatusReason

	// What only the dialect has.
	Name           string        // in violations and metrics; empty: none
	Scope          Expr          // the path of the values that the rule is for; zero: the object
	Code           int32         // of a denial; 0: that of the reason
	Guard          bool          // it is evaluated before others, which are left out if it fails
	Level          int           // bindings of a lower level leave it out; 0: none does
	MaxEnforcement Action        // the strongest action of bindings; empty: Deny
	FailurePolicy  FailurePolicy // empty: that of the policy

	within *scope.Scope

	emptyCode, emptyLevel bool // as emptyReason
	emptyReason           bool // the reason was written, as "", which only the write-time rules tell from none
}

// An AuditAnnotation is one annotation of a policy.
type AuditAnnotation struct {
	Key       string
	ValueExpr Expr
}

// A Mutation is one change that a policy makes.
type Mutation struct {
	PatchType PatchType
	Expr      Expr // of the member that PatchType names

	// What only the dialect has.
	Name         string // in messages; empty: none
	Scope        Expr   // the path of the values that it changes; zero: the object
	within       *scope.Scope
	ForEach      NamedExpr           // a list, and what its items are called; zero: the mutation is made once
	Condition    Expr                // zero: the mutation is always made
	Message      string              // in place of the text of an error, and of a denial
	MessageExpr  Expr                // as Message, which is for its errors; zero: none
	Reason       metav1.StatusReason // of errors and denials; empty: Invalid
	Reinvocation ReinvocationPolicy  // empty: that of the policy
	Overwritable bool                // nothing needs to hold of it once all mutations of a request are made
	AtEnd        Expr                // what must be true of the object then; zero: see Exact

	// What only the write-time rules need to know of the two members.
	absent      bool   // the member that PatchType names was not written
	emptyReason bool   // as of a Validation
	check       any    // what stands in the place of Overwritable and AtEnd
	extra       bool   // the other member was written
	other       string // which that is, if it is none of the released ones
}

// What becomes of mistakes in types.
const (
	EnforceTypes = "Enforce"
	WarnOfTypes  = "Warn"
	IgnoreTypes  = "Off"
)

// What becomes of a request in which a mutation no longer holds.
const (
	DenyLost   = "Fail"
	WarnOfLost = "Warn"
	IgnoreLost = "Skip"
)

// RunsOnce reports that the mutation is made once, and not for each of some values.
func (m *Mutation) RunsOnce() bool { return m.Scope.IsZero() && m.ForEach == (NamedExpr{}) }

// IsExact reports that the mutation, made once more when all mutations of a request are made, is to change nothing.
func (m *Mutation) IsExact() bool { return !m.Overwritable && m.AtEnd.IsZero() }

// What becomes of default params where there are others.
const (
	ReplaceParams = "Replace" // what an empty paramMerge means, too
	MergeParams   = "Merge"
)

// A PatchType says how a mutation's result is applied.
type PatchType = admissionv1.PatchType

// The patch types.
const (
	ApplyConfiguration PatchType = "ApplyConfiguration"
	JSONPatch          PatchType = "JSONPatch"
	JSONMergePatch     PatchType = "JSONMergePatch" // of the dialect alone
)

// A FailurePolicy says what an error in a policy means for the request.
type FailurePolicy = admissionv1.FailurePolicyType

// The failure policies.
const (
	Fail   FailurePolicy = "Fail"
	Ignore FailurePolicy = "Ignore"
)

// A ReinvocationPolicy says whether a mutating policy may run a second time.
type ReinvocationPolicy = admissionv1.ReinvocationPolicyType

// The reinvocation policies.
const (
	Never    ReinvocationPolicy = "Never"
	IfNeeded ReinvocationPolicy = "IfNeeded"
)

// An Action is what a binding does with a failed validation.
type Action = admissionv1.ValidationAction

// The validation actions.
const (
	Deny  Action = "Deny"
	Warn  Action = "Warn"
	Audit Action = "Audit"
	Apply Action = "Apply" // of mutations alone
)

// A ParamKind names the kind of a policy's params.
type ParamKind struct {
	APIVersion string
	Kind       string
}

// A ParamRef selects the params of a binding.
type ParamRef struct {
	Name           string
	Namespace      string
	Selector       *metav1.LabelSelector
	NotFoundAction NotFoundAction
}

// A NotFoundAction says what a binding does when its ParamRef selects nothing.
type NotFoundAction = admissionv1.ParameterNotFoundActionType

// The parameterNotFoundActions.
const (
	NotFoundAllow NotFoundAction = "Allow"
	NotFoundDeny  NotFoundAction = "Deny"

	NotFoundDefault NotFoundAction = "Default" // of the dialect alone: the default params of the policy
)

// MatchResources says which requests a policy or binding is for.
type MatchResources struct {
	NamespaceSelector *metav1.LabelSelector
	ObjectSelector    *metav1.LabelSelector
	ResourceRules     []Rule
	ExcludeRules      []Rule
	MatchPolicy       MatchPolicy

	// What only the dialect has.
	Namespaces, ExcludeNamespaces   []string // patterns, in which * stands for any text
	Subjects, ExcludeSubjects       []Subject
	Permissions, ExcludePermissions []Permission
}

// DependsOnUser reports that who makes a request decides whether it matches.
func (m *MatchResources) DependsOnUser() bool {
	return m != nil && len(m.Subjects)+len(m.ExcludeSubjects) > 0
}

// DependsOnPermissions reports that what a user may do decides whether a request matches.
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

// Username is the name by which a user or a ServiceAccount makes requests; empty for a group.
func (s Subject) Username() string {
	switch s.Kind {
	case UserSubject:
		return s.Name
	case AccountSubject:
		return serviceaccount.MakeUsername(s.Namespace, s.Name)
	}
	return ""
}

// String is the subject in words.
func (s Subject) String() string {
	if s.Kind == AccountSubject {
		return s.Kind + " " + s.Namespace + "/" + s.Name
	}
	return s.Kind + " " + s.Name
}

// A Permission is what a user may do.
type Permission struct{ Verb, APIGroup, Resource, Namespace, Name string }

// String is the permission in words.
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

	// Kinds are those of the objects, in the dialect alone, with "*" for Resources; nil: of any kind.
	Kinds []string
}
