package policy

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateStatic returns what the server finds wrong with p in a file of static policies: what it finds wrong with
// every policy, then what only files may not have
// (pkg/admission/plugin/policy/manifest/loader/{validating,mutating}_loader.go v1.37.2 and
// apiserver pkg/admission/plugin/policy/manifest/loader/loader.go v0.37.2).
func ValidateStatic(p *Policy, compile func(Part) *field.Error) field.ErrorList {
	v := validator{compile: compile, static: true}
	v.policy(p, nil)
	errs := append(v.distinct(), validateStaticName(p.Name)...)
	if p.Kind == Admission {
		errs = append(errs, notStatic)
	}
	if p.ParamKind != nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "paramKind"), "is not supported for static manifests"))
	}
	return errs
}

// ValidateStaticBinding returns what the server finds wrong with b in a file of static policies; see [ValidateStatic].
// That its policy is in the files too is a rule about all of them.
func ValidateStaticBinding(b *Binding) field.ErrorList {
	v := &validator{static: true}
	v.binding(b)
	errs := append(v.distinct(), validateStaticName(b.Name)...)
	policyName := field.NewPath("spec", "policyName")
	switch {
	case b.Kind == Admission:
		errs = append(errs, notStatic)
	case b.PolicyName == "":
		errs = append(errs, field.Required(policyName, "must reference a policy"))
	case !strings.HasSuffix(b.PolicyName, reservedSuffix):
		errs = append(errs, field.Invalid(policyName, b.PolicyName, `must end with "`+reservedSuffix+`"`))
	}
	if b.Kind == Validating && len(b.Actions) == 0 {
		errs = append(errs, field.Required(field.NewPath("spec", "validationActions"),
			"at least one validation action is required"))
	}
	if b.ParamRef != nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "paramRef"), "is not supported for static manifests"))
	}
	return errs
}

var notStatic = field.Forbidden(field.NewPath("kind"), "API servers read only ValidatingAdmissionPolicies, "+
	"MutatingAdmissionPolicies and their bindings from files")

func validateStaticName(name string) field.ErrorList {
	if name == "" || strings.HasSuffix(name, reservedSuffix) { // a missing name is said by the rules for metadata
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, `must end with "`+reservedSuffix+`"`)}
}
