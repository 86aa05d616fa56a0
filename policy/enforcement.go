package policy

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/spell"
	dialect "github.com/celgate/celgate/policy/internal/v1alpha1"
)

// An Enforcement defines how a binding enforces single validations of its policy. It can weaken the actions of the
// binding, but not strengthen them.
type Enforcement struct {
	Level       int                 // validations of a higher level are skipped; 0: none
	OnError     []Action            // for errors, and a missing param; nil: as without it
	Validations map[string][]Action // for validations, by name

	emptyLevel bool // the level was written as 0, which the write-time rules refuse
}

// The values of Policy.Combine: whether a request must satisfy all bindings of a policy or any of them.
const (
	CombineAll = "All"
	CombineAny = "Any"
)

// maxLevel is the highest level of a validation.
const maxLevel = 9

// ActionsOn returns the actions of the binding if x fails, without those that x does not allow.
func (b *Binding) ActionsOn(x *Validation) []Action {
	actions := b.Actions
	if b.Enforcement != nil && x.Name != "" {
		if named, ok := b.Enforcement.Validations[x.Name]; ok {
			actions = named
		}
	}
	return capActions(actions, x.MaxEnforcement)
}

// ActionsOnError returns the actions of the binding if x cannot be evaluated and the error counts as a failure. If x is
// nil, the error is about all validations.
func (b *Binding) ActionsOnError(x *Validation) []Action {
	if x == nil {
		x = &Validation{}
	}
	if actions := b.errorActions(); actions != nil {
		return capActions(actions, x.MaxEnforcement)
	}
	return b.ActionsOn(x)
}

// ActionsOnMisconfiguration returns the actions of the binding if nothing can be evaluated, for example without a
// param: Deny, whatever its other actions are, unless it sets actions for errors.
func (b *Binding) ActionsOnMisconfiguration() []Action {
	if actions := b.errorActions(); actions != nil {
		return actions
	}
	return []Action{Deny}
}

// errorActions returns the binding's actions for errors; nil if it does not define any.
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

// FailurePolicyOf returns the failure policy for an error of x; if x is nil, for an error about all validations.
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

// strength orders the actions.
var strength = map[Action]int{Audit: 1, Warn: 2, Deny: 3}

// capActions returns actions with stronger ones than most replaced by most; most may be empty.
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

// Turns returns the indices of the validations in the order of their evaluation: guards first.
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

// setDialect sets the members that only validations of the dialect have.
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

// ownValidations checks the members that only validations of the dialect have.
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

// ownName checks the name of a validation or mutation, which must be unique. It may be empty.
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

// codes are the codes that belong to a reason; clients may rely on either.
var codes = map[metav1.StatusReason]int32{
	metav1.StatusReasonUnauthorized:          http.StatusUnauthorized,
	metav1.StatusReasonForbidden:             http.StatusForbidden,
	metav1.StatusReasonRequestEntityTooLarge: http.StatusRequestEntityTooLarge,
}

// CodeOf returns the HTTP status that the API server uses for a denial with a reason.
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
			v.add(field.Invalid(path, x.Code, fmt.Sprintf("the reason %s belongs to %d, and only to that", reason, code)))
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
			v.add(field.Invalid(at, list, fmt.Sprintf("%s is stronger than the strongest of validationActions, %s", a, most)))
		}
	}
	if e.OnError != nil {
		weaker(e.OnError, path.Child("onError"))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Validations)) {
		weaker(e.Validations[name], path.Child("validations").Key(name))
	}
}

// CheckNames returns errors for names in the enforcement of b that are not validations of its policies. If one of its
// policies is not known, it returns nothing.
func (b *Binding) CheckNames(known map[Ref]*Policy) (errs field.ErrorList) {
	if b.Enforcement == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(b.Enforcement.Validations)) {
		all, found := true, false
		var names []string
		for _, ref := range b.PolicyRefs() {
			p := known[ref]
			all = all && p != nil
			for i := 0; p != nil && i < len(p.Validations); i++ {
				names = append(names, p.Validations[i].Name)
				found = found || p.Validations[i].Name == name
			}
		}
		if all && !found {
			err := field.NotFound(field.NewPath("spec", "enforcement", "validations").Key(name), name)
			if near := spell.Nearest(name, names, max(1, len(name)/3)); near != "" {
				err.Detail = "did you mean " + near + "?"
			}
			errs = append(errs, err)
		}
	}
	return errs
}
