package policy

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	dialect "github.com/celgate/celgate/policy/internal/v1alpha1"
)

// An Enforcement says how a binding enforces single validations of its policy. It makes what the actions of the binding
// do weaker, never stronger.
type Enforcement struct {
	Level       int                 // validations of a higher level are left out; 0: none are
	OnError     []Action            // of errors, and of a param that is missing; nil: what the binding does without it
	Validations map[string][]Action // of validations, by their names

	emptyLevel bool // the level was written, as 0, which only the write-time rules tell from none
}

// How many bindings of a policy a request has to satisfy.
const (
	CombineAll = "All"
	CombineAny = "Any"
)

// maxLevel is the highest level of a validation.
const maxLevel = 9

// ActionsOn returns what the binding does where x fails, without what x does not allow.
func (b *Binding) ActionsOn(x *Validation) []Action {
	actions := b.Actions
	if b.Enforcement != nil && x.Name != "" {
		if named, ok := b.Enforcement.Validations[x.Name]; ok {
			actions = named
		}
	}
	return capActions(actions, x.MaxEnforcement)
}

// ActionsOnError returns what the binding does where x cannot be evaluated and that counts as a failure; x is nil for
// an error that is about all validations.
func (b *Binding) ActionsOnError(x *Validation) []Action {
	if x == nil {
		x = &Validation{}
	}
	if actions := b.errorActions(); actions != nil {
		return capActions(actions, x.MaxEnforcement)
	}
	return b.ActionsOn(x)
}

// ActionsOnMisconfiguration returns what the binding does where nothing can be evaluated, as without a param: it
// denies, whatever its actions are, unless it says otherwise for errors.
func (b *Binding) ActionsOnMisconfiguration() []Action {
	if actions := b.errorActions(); actions != nil {
		return actions
	}
	return []Action{Deny}
}

// errorActions is what the binding says of errors; nil if it says nothing, or there is none.
func (b *Binding) errorActions() []Action {
	if b == nil || b.Enforcement == nil {
		return nil
	}
	return b.Enforcement.OnError
}

// Reaches reports whether the binding enforces x, by its level.
func (b *Binding) Reaches(x *Validation) bool {
	return b.Enforcement == nil || b.Enforcement.Level == 0 || x.Level <= b.Enforcement.Level
}

// FailurePolicyOf returns what an error of x means; of one that is about all validations if x is nil.
func (p *Policy) FailurePolicyOf(x *Validation) FailurePolicy {
	if x != nil && x.FailurePolicy != "" {
		return x.FailurePolicy
	}
	return p.FailurePolicy
}

// reasonsOf returns the reasons that validations of a kind may have. API servers know Unauthorized, too, and refuse it.
func reasonsOf(kind Kind) []metav1.StatusReason {
	if kind == Admission {
		return append([]metav1.StatusReason{metav1.StatusReasonUnauthorized}, reasons...)
	}
	return reasons
}

// strength is the order of actions.
var strength = map[Action]int{Audit: 1, Warn: 2, Deny: 3}

// capActions returns actions with most in place of those that are stronger; most may be empty.
func capActions(all []Action, most Action) []Action {
	if most == "" || !slices.ContainsFunc(all, func(a Action) bool { return strength[a] > strength[most] }) {
		return all
	}
	var weaker []Action
	for _, a := range all {
		if strength[a] > strength[most] {
			a = most
		}
		if !slices.Contains(weaker, a) {
			weaker = append(weaker, a)
		}
	}
	return weaker
}

// strongest returns the strongest of actions; "" for none.
func strongest(all []Action) Action {
	return slices.MaxFunc(append([]Action{""}, all...), func(a, b Action) int { return strength[a] - strength[b] })
}

// Turns returns the validations in the order in which they are evaluated, by their indexes: guards first.
func (p *Policy) Turns() []int {
	turns := make([]int, 0, len(p.Validations))
	for _, guards := range []bool{true, false} {
		for i := range p.Validations {
			if p.Validations[i].Guard == guards {
				turns = append(turns, i)
			}
		}
	}
	return turns
}

func enforcement(in *dialect.Enforcement) *Enforcement {
	if in == nil {
		return nil
	}
	out := &Enforcement{OnError: in.OnError, Validations: in.Validations}
	if in.Level != nil {
		out.Level, out.emptyLevel = int(*in.Level), *in.Level == 0
	}
	return out
}

// setDialect sets what only validations of the dialect have.
func (x *Validation) setDialect(in *dialect.Validation) {
	x.Name, x.Guard = in.Name, in.Guard
	x.MaxEnforcement, x.FailurePolicy = in.MaxEnforcement, in.FailurePolicy
	if in.Code != nil {
		x.Code, x.emptyCode = *in.Code, *in.Code == 0
	}
	if in.Level != nil {
		x.Level, x.emptyLevel = int(*in.Level), *in.Level == 0
	}
}

// ownValidations checks what only the validations of the dialect have.
func (v *validator) ownValidations(p *Policy, spec *field.Path) {
	path := spec.Child("validations")
	names := map[string]bool{}
	for i := range p.Validations {
		x, at := &p.Validations[i], path.Index(i)
		v.ownName(x.Name, names, at.Child("name"))
		if x.MaxEnforcement != "" {
			oneOf(v, at.Child("maxEnforcement"), x.MaxEnforcement, actions)
		}
		if x.FailurePolicy != "" {
			oneOf(v, at.Child("failurePolicy"), x.FailurePolicy, failurePolicies)
		}
		if x.Level != 0 || x.emptyLevel {
			v.level(x.Level, at.Child("level"))
		}
		if x.Code != 0 || x.emptyCode {
			v.code(x, at.Child("code"))
		}
	}
	if p.Combine != "" {
		oneOf(v, spec.Child("combine"), p.Combine, []string{CombineAll, CombineAny})
		if len(p.Validations) == 0 {
			v.add(field.Forbidden(spec.Child("combine"), "the policy has no validations"))
		}
	}
}

// ownName checks the name of a validation or mutation, which none of those before has. It may be empty.
func (v *validator) ownName(name string, before map[string]bool, path *field.Path) {
	if name == "" {
		return
	}
	v.texts(path, name, validation.IsDNS1123Label(name))
	if before[name] {
		v.add(field.Duplicate(path, name))
	}
	before[name] = true
}

func (v *validator) level(level int, path *field.Path) {
	if level < 1 || level > maxLevel {
		v.add(field.Invalid(path, level, fmt.Sprintf("must be between 1 and %d", maxLevel)))
	}
}

// codes are those that say the same as a reason, which clients may go by.
var codes = map[metav1.StatusReason]int32{
	metav1.StatusReasonUnauthorized:          http.StatusUnauthorized,
	metav1.StatusReasonForbidden:             http.StatusForbidden,
	metav1.StatusReasonRequestEntityTooLarge: http.StatusRequestEntityTooLarge,
}

// CodeOf returns the HTTP status of a denial for a reason, as the API server has it.
func CodeOf(reason metav1.StatusReason) int32 {
	if code, ok := codes[reason]; ok {
		return code
	}
	return http.StatusUnprocessableEntity
}

// code checks the code of a denial.
func (v *validator) code(x *Validation, path *field.Path) {
	if x.Code < http.StatusBadRequest || x.Code >= http.StatusInternalServerError {
		v.add(field.Invalid(path, x.Code, "must be between 400 and 499"))
		return
	}
	for _, reason := range slices.Sorted(maps.Keys(codes)) {
		if code := codes[reason]; (x.Code == code) != (x.Reason == reason) {
			v.add(field.Invalid(path, x.Code, fmt.Sprintf("reason %s means %d, and no other reason does", reason, code)))
			return
		}
	}
}

// enforcement checks how a binding enforces single validations.
func (v *validator) enforcement(b *Binding, path *field.Path) {
	e := b.Enforcement
	if e == nil {
		return
	}
	if e.Level != 0 || e.emptyLevel {
		v.level(e.Level, path.Child("level"))
	}
	weaker := func(list []Action, at *field.Path) {
		v.actions(list, at)
		if len(list) == 0 {
			v.add(field.Required(at, ""))
		}
		if a, most := strongest(list), strongest(b.Actions); strength[a] > strength[most] {
			v.add(field.Invalid(at, list, fmt.Sprintf("%s is stronger than validationActions, which are %s at most", a, most)))
		}
	}
	if e.OnError != nil {
		weaker(e.OnError, path.Child("onError"))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Validations)) {
		weaker(e.Validations[name], path.Child("validations").Key(name))
	}
}

// CheckNames returns what is wrong with the names of validations in the enforcement of a binding, given the policies
// that are known; nothing while one that it names is not among them.
func (b *Binding) CheckNames(known map[Ref]*Policy) (errs field.ErrorList) {
	if b.Enforcement == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(b.Enforcement.Validations)) {
		all, found := true, false
		for _, ref := range b.PolicyRefs() {
			p := known[ref]
			all = all && p != nil
			found = found || p != nil &&
				slices.ContainsFunc(p.Validations, func(x Validation) bool { return x.Name == name })
		}
		if all && !found {
			errs = append(errs, field.NotFound(field.NewPath("spec", "enforcement", "validations").Key(name), name))
		}
	}
	return errs
}
