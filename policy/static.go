package policy

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateStatic returns the server's errors about p in a file of static policies: those about any policy, then those
// about static ones (pkg/admission/plugin/policy/manifest/loader/{validating,mutating}_loader.go v1.37.2 and apiserver
// pkg/admission/plugin/policy/manifest/loader/loader.go v0.37.2).
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

// ValidateStaticBinding returns the server's errors about b in a file of static policies; see [ValidateStatic]. It does
// not check that the files contain the policy, which is a rule about all files.
func ValidateStaticBinding(b *Binding) field.ErrorList {
	v := &validator{static: true}
	v.checkBinding(b)
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
	if name == "" || strings.HasSuffix(name, reservedSuffix) { // the rules for metadata report a missing name
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, `must end with "`+reservedSuffix+`"`)}
}
