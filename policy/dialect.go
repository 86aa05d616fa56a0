package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/tree"
	dialect "github.com/celgate/celgate/policy/internal/v1alpha1"
)

func (c converter) admission(in *dialect.AdmissionPolicy) *Policy {
	p := c.policy(Admission, in.ObjectMeta, in.Spec.FailurePolicy, in.Spec.ParamKind, nil,
		in.Spec.MatchConditions, in.Spec.Variables)
	p.MatchConstraints = c.ownMatch(in.Spec.MatchConstraints)
	if p.MatchConstraints != nil {
		defaultToPolicy(p.MatchConstraints.Permissions, in.Name)
		defaultToPolicy(p.MatchConstraints.ExcludePermissions, in.Name)
	}
	p.Bindable, p.Imports, p.Abstract = in.Spec.Bindable, in.Spec.Imports, in.Spec.Abstract
	p.Reinvocation = ReinvocationPolicy(in.Spec.ReinvocationPolicy)
	p.TypeChecking, p.Lost = in.Spec.TypeChecking, in.Spec.MutationValidationPolicy
	p.DefaultParams, p.ParamMerge, p.Combine = in.Spec.DefaultParams, in.Spec.ParamMerge, in.Spec.Combine
	if o := in.Spec.Order; o != nil {
		p.After, p.Before = o.After, o.Before
	}
	if in.Spec.MaxPasses != nil {
		p.MaxPasses, p.emptyPasses = int(*in.Spec.MaxPasses), *in.Spec.MaxPasses == 0
	}
	for i, m := range in.Spec.Mutations {
		p.Mutations = append(p.Mutations, c.ownMutation("spec.mutations"+index(i), m))
	}
	for i, x := range in.Spec.Validations {
		p.Validations = append(p.Validations, c.ownValidation("spec.validations"+index(i), x))
	}
	c.auditAnnotations(p, in.Spec.AuditAnnotations)
	if in.Spec.SingletonPolicy {
		p.Singleton = &Binding{Kind: Admission, APIVersion: p.APIVersion, Name: p.Name, Position: p.Position,
			PolicyName: p.Name, place: c.place}
		p.Singleton.act(in.Spec.MutationActions, in.Spec.ValidationActions)
	}
	p.Templates, p.TemplateEnforcement = in.Spec.Templates, in.Spec.TemplateEnforcement
	if p.templated = p.TemplateEnforcement != ""; len(p.Templates) > 0 && !p.templated {
		p.TemplateEnforcement = Warn
	}
	p.acts = in.Spec.MutationActions != nil || in.Spec.ValidationActions != nil
	if len(p.Imports) == 0 {
		p.link(nil)
	}
	return p
}

// act sets the actions of a binding.
func (b *Binding) act(mutations []string, validations []Action) {
	if mutations == nil {
		b.MutationActions = []Action{Apply}
	}
	for _, a := range mutations {
		b.MutationActions = append(b.MutationActions, Action(a))
	}
	if validations == nil {
		b.Actions = []Action{Deny}
	}
	b.Actions = append(b.Actions, validations...)
}

func (c converter) admissionBinding(in *dialect.AdmissionPolicyBinding) *Binding {
	b := c.convertBinding(Admission, in.ObjectMeta, in.Spec.PolicyName, (*admissionv1.ParamRef)(in.Spec.ParamRef), nil)
	b.MatchResources = c.ownMatch(in.Spec.MatchResources)
	for _, named := range in.Spec.Policies {
		b.Policies = append(b.Policies, Kind(cmp.Or(named.Kind, string(Admission))).Ref(named.Name))
	}
	b.act(in.Spec.MutationActions, in.Spec.ValidationActions)
	if v := in.Spec.Visibility; v != nil {
		b.Visibility = Visibility(*v)
	}
	b.Enforcement = enforcement(in.Spec.Enforcement)
	return b
}

func (c converter) namespacedBinding(in *dialect.NamespacedAdmissionPolicyBinding) *Binding {
	of := dialect.AdmissionPolicyBinding{ObjectMeta: in.ObjectMeta, Spec: in.Spec}
	b := c.admissionBinding(&of)
	b.Namespace = namespaceOf(in.Namespace)
	b.Name = b.Namespace + "/" + in.Name
	if b.ParamRef != nil && b.ParamRef.Namespace == "" {
		b.ParamRef.Namespace = b.Namespace
	}
	return b
}

func (c converter) ownValidation(path string, in dialect.Validation) Validation {
	x := c.validation(path, admissionv1.Validation{Expression: in.Expression, Message: in.Message, Reason: in.Reason,
		MessageExpression: in.MessageExpression})
	if in.Scope != "" {
		x.Scope = c.expr(path+".scope", in.Scope)
		x.within = x.ParsedScope()
	}
	x.setDialect(&in)
	return x
}

func (c converter) ownMutation(path string, in dialect.Mutation) Mutation {
	m := c.mutation(path, PatchType(in.PatchType), in.ApplyConfiguration, in.JSONPatch)
	switch merge := in.JSONMergePatch; {
	case m.PatchType == JSONMergePatch:
		m.absent, m.extra = merge == nil, in.ApplyConfiguration != nil || in.JSONPatch != nil
		if m.other = "applyConfiguration"; in.ApplyConfiguration == nil {
			m.other = "jsonPatch"
		}
		if merge != nil {
			m.Expr = c.expr(path+".jsonMergePatch.expression", merge.Expression)
		}
	case merge != nil:
		m.extra, m.other = true, "jsonMergePatch"
	}
	if in.Scope != "" {
		m.Scope = c.expr(path+".scope", in.Scope)
		m.within = m.ParsedScope()
	}
	m.check, m.Overwritable = in.Validation, in.Validation == overwritableCheck
	if members, ok := in.Validation.(map[string]any); ok {
		if src, ok := members["expression"].(string); ok {
			m.AtEnd = c.expr(path+".validation.expression", src)
		}
	}
	if each := in.ForEach; each != nil {
		m.ForEach = NamedExpr{Name: each.Name, Expr: c.expr(path+".forEach.expression", each.Expression)}
	}
	m.Name, m.Message, m.Reinvocation = in.Name, in.Message, ReinvocationPolicy(in.ReinvocationPolicy)
	if in.Condition != "" {
		m.Condition = c.expr(path+".condition", in.Condition)
	}
	if in.MessageExpression != "" {
		m.MessageExpr = c.expr(path+".messageExpression", in.MessageExpression)
	}
	if in.Reason != nil {
		m.Reason, m.emptyReason = *in.Reason, *in.Reason == ""
	}
	return m
}

// Strings allowed in place of an expression in the validation of a mutation.
const (
	exactCheck        = "Exact"
	overwritableCheck = "Overwritable"
)

// checks checks the validations of mutations.
func (v *validator) checks(p *Policy, spec *field.Path) {
	path := spec.Child("mutationValidationPolicy")
	if p.Lost != "" {
		oneOf(v, path, p.Lost, []string{DenyLost, IgnoreLost, WarnOfLost})
		if !p.Mutates() {
			v.add(field.Forbidden(path, "the policy has no mutations"))
		}
	}
	for i := range p.Mutations {
		m := &p.Mutations[i]
		if m.check == nil {
			continue
		}
		if p.Lost == "" {
			v.add(field.Required(path, "mutations["+strconv.Itoa(i)+
				"].validation has no effect without it"))
		}
		v.check(m, spec.Child("mutations").Index(i).Child("validation"))
	}
}

func (v *validator) check(m *Mutation, path *field.Path) {
	const forms = "must be Exact, Overwritable or {expression: …}"
	switch written := m.check.(type) {
	case string:
		if written != exactCheck && written != overwritableCheck {
			v.add(field.Invalid(path, written, forms))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(written)) {
			if name != "expression" {
				v.add(field.Forbidden(path.Child(name), "unknown field"))
			}
		}
		switch written["expression"].(type) {
		case string, nil:
			v.checkTrimmed(UseMutationCheck, "", m.AtEnd, path.Child("expression"))
		default:
			v.add(field.Invalid(path.Child("expression"), written["expression"], "must be a string"))
		}
	default:
		v.add(field.Invalid(path, written, forms))
	}
}

// mostPasses is the largest number of passes of mutations in one request.
const mostPasses = 5

// checkOrder checks the order and the number of passes of mutations.
func (v *validator) checkOrder(p *Policy, spec *field.Path) {
	path := spec.Child("order")
	if !p.Mutates() && len(p.After)+len(p.Before) > 0 {
		v.add(field.Forbidden(path, "the policy has no mutations"))
	}
	for _, list := range []struct {
		path  *field.Path
		names []string
		other []string
	}{{path.Child("after"), p.After, nil}, {path.Child("before"), p.Before, p.After}} {
		for i, name := range list.names {
			at := list.path.Index(i)
			switch {
			case name == p.Name:
				v.add(field.Invalid(at, name, "a policy cannot run before or after itself"))
			case slices.Contains(list.names[:i], name):
				v.add(field.Duplicate(at, name))
			case slices.Contains(list.other, name):
				v.add(field.Invalid(at, name, "must not also be in after"))
			default:
				v.texts(at, name, metavalidation.NameIsDNSSubdomain(name, false))
			}
		}
	}
	if n := p.MaxPasses; n != 0 || p.emptyPasses {
		switch at := spec.Child("maxPasses"); {
		case n < DefaultPasses || n > mostPasses:
			v.add(field.Invalid(at, n, fmt.Sprintf("must be between %d and %d", DefaultPasses, mostPasses)))
		case !p.MayReinvoke():
			v.add(field.Forbidden(at, "the policy has no mutations that could run again"))
		}
	}
}

// defaultParams checks the metadata of defaultParams; the engine checks the rest against the paramKind.
func (v *validator) defaultParams(p *Policy, spec *field.Path) {
	path, merge := spec.Child("defaultParams"), spec.Child("paramMerge")
	switch {
	case p.DefaultParams == nil && p.ParamMerge != "":
		v.add(field.Forbidden(merge, "the policy has no defaultParams"))
	case p.DefaultParams != nil && p.ParamKind == nil:
		v.add(field.Forbidden(path, "the policy has no paramKind"))
	case p.DefaultParams != nil:
		for _, of := range []struct{ name, want string }{{"apiVersion", p.ParamKind.APIVersion}, {"kind", p.ParamKind.Kind}} {
			if given, ok := p.DefaultParams[of.name]; ok && given != of.want {
				v.add(field.Invalid(path.Child(of.name), given, "must be that of paramKind: "+of.want))
			}
		}
		metadata := tree.Object(p.DefaultParams).Metadata()
		for _, name := range slices.Sorted(maps.Keys(metadata)) {
			if name != "labels" && name != "annotations" {
				v.add(field.Forbidden(path.Child("metadata", name), "default params are not stored in a cluster: only labels "+
					"and annotations are allowed"))
			}
		}
	}
	if p.ParamMerge != "" {
		oneOf(v, merge, p.ParamMerge, []string{MergeParams, ReplaceParams})
	}
}

// policies checks the names of the policies of a binding.
func (v *validator) policies(b *Binding, spec *field.Path) {
	path := spec.Child("policies")
	if len(b.Policies) > 0 && b.PolicyName != "" {
		v.add(field.Forbidden(path, "policyName and policies are mutually exclusive"))
	}
	for i, ref := range b.Policies {
		oneOf(v, path.Index(i).Child("kind"), Kind(ref.Kind), []Kind{Admission, Mutating, Validating})
		if name := path.Index(i).Child("name"); ref.Name == "" {
			v.add(field.Required(name, ""))
		} else {
			v.texts(name, ref.Name, metavalidation.NameIsDNSSubdomain(ref.Name, false))
		}
		if slices.Contains(b.Policies[:i], ref) {
			v.add(field.Duplicate(path.Index(i), ref.String()))
		}
	}
}

// CheckTogether returns the reasons for which the policies of b cannot be in force together, given the valid policies.
// For a single policy, it only checks whether b may bind it.
func (b *Binding) CheckTogether(valid map[Ref]*Policy) field.ErrorList {
	var errs field.ErrorList
	var first *Policy // with params
	for i, ref := range b.PolicyRefs() {
		p, at := valid[ref], b.PolicyPath(i)
		if p != nil {
			errs = append(errs, b.checkBindable(p, at)...)
		}
		switch {
		case len(b.Policies) == 0:
		case p == nil:
			errs = append(errs, field.Invalid(at, ref.String(),
				"it does not exist or is not valid, and the policies of a binding are in force together or not at all"))
		case p.ParamKind == nil:
		case first == nil:
			first = p
		case *p.ParamKind != *first.ParamKind:
			errs = append(errs, field.Invalid(at, ref.String(), fmt.Sprintf("its paramKind %s %s is not %s %s of %s",
				p.ParamKind.APIVersion, p.ParamKind.Kind, first.ParamKind.APIVersion, first.ParamKind.Kind,
				first.Ref())))
		}
	}
	return errs
}

// Restrict returns b with only the policies for which in returns true; nil if there are none.
func (b *Binding) Restrict(in func(Ref) bool) *Binding {
	refs := b.PolicyRefs()
	switch n := len(slices.DeleteFunc(slices.Clone(refs), func(r Ref) bool { return !in(r) })); {
	case n == len(refs) || len(b.Policies) == 0:
		return b
	case n == 0:
		return nil
	}
	some := *b
	some.Policies = slices.DeleteFunc(slices.Clone(refs), func(r Ref) bool { return !in(r) })
	return &some
}

// singleton checks a policy that is in force without a binding.
func (v *validator) singleton(p *Policy, spec *field.Path) {
	if p.Singleton == nil {
		if p.acts {
			v.add(field.Forbidden(spec.Child("validationActions"),
				"a policy has actions only with singletonPolicy: true; without it, its bindings have"))
		}
		return
	}
	if p.ParamKind != nil {
		v.add(field.Forbidden(spec.Child("paramKind"), "a singleton policy takes no params"))
	}
	if p.Combine != "" {
		v.add(field.Forbidden(spec.Child("combine"), "a singleton policy has no bindings"))
	}
	v.actions(p.Singleton.Actions, spec.Child("validationActions"))
	if len(p.Singleton.Actions) == 0 {
		v.add(field.Required(spec.Child("validationActions"), ""))
	}
	v.mutationActions(p.Singleton.MutationActions, spec.Child("mutationActions"))
}

// BindsSingletons returns errors for the singleton policies that b names, because they are in force without a binding.
// It checks the known policies only.
func (b *Binding) BindsSingletons(known map[Ref]*Policy) (errs field.ErrorList) {
	for i, ref := range b.PolicyRefs() {
		if p := known[ref]; p != nil && p.Singleton != nil {
			errs = append(errs, field.Invalid(b.PolicyPath(i), ref.Name, "is a singleton policy, which is in force without a binding"))
		}
	}
	return errs
}

// mutationActions checks the actions for mutations.
func (v *validator) mutationActions(list []Action, path *field.Path) {
	if len(list) == 0 {
		v.add(field.Required(path, ""))
	}
	for i, a := range list {
		oneOf(v, path.Index(i), a, mutationActions)
		if slices.Contains(list[:i], a) {
			v.add(field.Duplicate(path.Index(i), a))
		}
	}
}

var mutationActions = []Action{Apply, Audit, Warn}

// ownMutations checks the members that only mutations of the dialect have.
func (v *validator) ownMutations(mutations []Mutation, path *field.Path) {
	names := map[string]bool{}
	for i, m := range mutations {
		at := path.Index(i)
		v.ownName(m.Name, names, at.Child("name"))
		v.scope(m.ParsedScope(), at.Child("scope"))
		if !m.ForEach.Expr.IsZero() || m.ForEach.Name != "" || m.ForEach.Expr.Field != "" {
			v.forEach(m.ForEach, at.Child("forEach"))
		}
		if !m.Condition.IsZero() {
			v.checkTrimmed(UseCondition, m.Locals(), m.Condition, at.Child("condition"))
		}
		v.message(m.Message, m.MessageExpr, m.Locals(), at)
		if m.Reason != "" || m.emptyReason {
			oneOf(v, at.Child("reason"), m.Reason, reasons)
		}
		if m.Reinvocation != "" {
			oneOf(v, at.Child("reinvocationPolicy"), m.Reinvocation, reinvocationPolicies)
		}
	}
}

// takenNames are names with other meanings in expressions, which an item must not have.
var takenNames = []string{"object", "oldObject", "params", "request", "namespaceObject", "authorizer", "variables", "Object",
	"JSONPatch", "Item", locals.Item, locals.Key, locals.Scope, locals.OldScope, "scopePath", "objects", "mutations", "hash",
	"lists", "optional", "math", "strings", "sets", "base64", "cel", "google", "ip", "cidr", "format", "semver", "quantity",
	"selectors", "kubernetes", "jsonpatch", "net",
	"url", "type", "dyn", "int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "duration",
	"timestamp"}

// forEach checks the list of a mutation with forEach.
func (v *validator) forEach(each NamedExpr, path *field.Path) {
	switch name := path.Child("name"); {
	case each.Name == "":
		v.add(field.Required(name, ""))
	case !locals.IsIdentifier(each.Name):
		v.add(field.Invalid(name, each.Name, "must be a valid CEL identifier"))
	case slices.Contains(takenNames, each.Name):
		v.add(field.Invalid(name, each.Name, "has another meaning in expressions"))
	}
	v.checkTrimmed(UseForEach, "", each.Expr, path.Child("expression"))
}

// admission checks the members that only policies of the dialect have.
func (v *validator) admission(p *Policy, spec *field.Path) {
	if !p.Mutates() && !p.Validates() {
		const detail = "mutations, validations or auditAnnotations must contain at least one item"
		v.add(field.Required(spec, detail))
		return
	}
	switch {
	case p.Mutates():
		v.checkMutating(p, spec)
		v.ownMutations(p.Mutations, spec.Child("mutations"))
	case p.Reinvocation != "":
		v.add(field.Forbidden(spec.Child("reinvocationPolicy"), "the policy has no mutations that could run again"))
	}
	if p.TypeChecking != "" {
		oneOf(v, spec.Child("typeChecking"), p.TypeChecking, []string{EnforceTypes, IgnoreTypes, WarnOfTypes})
		if !p.Mutates() && !p.hasScopes() {
			v.add(field.Forbidden(spec.Child("typeChecking"), "the policy has neither mutations nor scopes"))
		}
	}
	v.checks(p, spec)
	v.checkOrder(p, spec)
	v.defaultParams(p, spec)
	v.checkBindable(p, spec.Child("bindable"))
	v.ownValidations(p, spec)
	v.templates(p, spec)
	v.abstract(p, spec)
	v.singleton(p, spec)
	if p.Validates() {
		v.checkValidating(p, spec)
	}
}
