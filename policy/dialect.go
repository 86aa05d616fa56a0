package policy

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	dialect "github.com/celgate/celgate/policy/v1alpha1"
)

func (c converter) admission(in *dialect.AdmissionPolicy) *Policy {
	p := &Policy{
		Kind:             Admission,
		APIVersion:       c.apiVersion,
		Name:             in.Name,
		Metadata:         in.ObjectMeta,
		Position:         c.position(),
		FailurePolicy:    failurePolicy(in.Spec.FailurePolicy),
		ParamKind:        (*ParamKind)(in.Spec.ParamKind),
		MatchConstraints: matchResources(in.Spec.MatchConstraints),
		MatchConditions:  c.matchConditions(in.Spec.MatchConditions),
		Variables:        c.variables(in.Spec.Variables),
		Reinvocation:     ReinvocationPolicy(in.Spec.ReinvocationPolicy),
		places:           c.places,
	}
	for i, m := range in.Spec.Mutations {
		p.Mutations = append(p.Mutations, c.mutation("spec.mutations"+index(i), PatchType(m.PatchType),
			m.ApplyConfiguration, m.JSONPatch))
	}
	c.validations(p, in.Spec.Validations)
	c.auditAnnotations(p, in.Spec.AuditAnnotations)
	return p
}

func (c converter) admissionBinding(in *dialect.AdmissionPolicyBinding) *Binding {
	b := &Binding{
		Kind:           Admission,
		APIVersion:     c.apiVersion,
		Name:           in.Name,
		Metadata:       in.ObjectMeta,
		Position:       c.position(),
		PolicyName:     in.Spec.PolicyName,
		ParamRef:       c.paramRef(in.Spec.ParamRef),
		MatchResources: matchResources(in.Spec.MatchResources),
		places:         c.places,
	}
	if in.Spec.ValidationActions == nil {
		b.Actions = []Action{Deny}
	}
	for _, a := range in.Spec.ValidationActions {
		b.Actions = append(b.Actions, Action(a))
	}
	return b
}

// admission checks what a policy of the dialect has beside what all have.
func (v *validator) admission(p *Policy, spec *field.Path) {
	if !p.Mutates() && !p.Validates() {
		const detail = "mutations, validations or auditAnnotations must contain at least one item"
		v.add(field.Required(spec, detail))
		return
	}
	switch {
	case p.Mutates():
		v.mutating(p, spec)
	case p.Reinvocation != "":
		v.add(field.Forbidden(spec.Child("reinvocationPolicy"), "the policy has no mutations that could run again"))
	}
	if p.Validates() {
		v.validating(p, spec)
	}
}
