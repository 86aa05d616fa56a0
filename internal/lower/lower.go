// Package lower turns policies and bindings of the dialect into those of admissionregistration.k8s.io/v1, where these
// can say the same.
package lower

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A Refusal says what of an object has no native form.
type Refusal struct {
	Field  string // the field path
	Reason string
}

// String returns the field and the reason.
func (r Refusal) String() string { return r.Field + ": " + r.Reason }

// ownFields are the members of a spec of the dialect that native policies do not have: what they ask for is refused, or
// what native policies do anyway.
var ownFields = []string{"order", "maxPasses", "typeChecking", "mutationValidationPolicy", "combine", "bindable",
	"singletonPolicy", "validationActions", "mutationActions"}

const native = "admissionregistration.k8s.io/v1"

// Policy returns the native policies that do what the policy of an object does: a mutating one, a validating one, or
// both, in this order. With refusals there are none.
func Policy(object map[string]any, p *policy.Policy, types *schema.Registry) ([]map[string]any, []Refusal) {
	if p.Kind != policy.Admission {
		return []map[string]any{policy.Native(object)}, nil
	}
	spec, _ := object["spec"].(map[string]any)
	spec = maps.Clone(spec)
	refusals := append(noNative(p), matchOfPolicy(spec, p, types)...)
	var all []map[string]any
	if p.Mutates() {
		of := without(spec, append([]string{"validations", "auditAnnotations"}, ownFields...)...)
		of["mutations"] = dropMembers(of["mutations"], "name", "reinvocationPolicy", "validation")
		if p.Validates() {
			constraints, matches := withoutDelete(of["matchConstraints"])
			if !matches {
				refusals = append(refusals, Refusal{"spec.matchConstraints.resourceRules",
					"nothing is mutated on DELETE, and a MutatingAdmissionPolicy needs another operation"})
			}
			of["matchConstraints"] = constraints
		}
		all = append(all, withSpec(object, string(policy.Mutating), of))
	}
	if p.Validates() {
		of := without(spec, append([]string{"mutations", "reinvocationPolicy"}, ownFields...)...)
		if list, ok := of["validations"]; ok {
			of["validations"] = dropMembers(list, "name", "maxEnforcement", "failurePolicy")
		}
		all = append(all, withSpec(object, string(policy.Validating), of))
	}
	if p.Singleton != nil {
		made, refused := bindingOf(map[string]any{"validationActions": spec["validationActions"]}, p.Singleton, p.Ref(),
			func(policy.Ref) *policy.Policy { return p })
		for _, m := range made {
			all = append(all, withSpec(object, m.kind.Binding(), m.spec))
		}
		refusals = append(refusals, refused...)
	}
	if len(refusals) > 0 {
		return nil, refusals
	}
	return all, nil
}

// noNative lists the fields that no released kind has.
func noNative(p *policy.Policy) (all []Refusal) {
	at := "spec."
	refuse := func(used bool, field, reason string) {
		if used {
			all = append(all, Refusal{at + field, reason})
		}
	}
	refuse(len(p.After)+len(p.Before) > 0, "order", "kube-apiserver runs mutating policies in an order of its own")
	refuse(p.DefaultParams != nil, "defaultParams", "kube-apiserver has params that are stored, and no others")
	refuse(p.Passes() != policy.DefaultPasses, "maxPasses", "kube-apiserver runs mutations twice at most")
	refuse(p.ChecksMutations(), "mutationValidationPolicy",
		"kube-apiserver looks at no mutation again once it is made; it stays with celgate serve")
	refuse(p.Combine == policy.CombineAny, "combine", "kube-apiserver asks that all bindings are satisfied")
	for i, x := range p.Validations {
		at = fmt.Sprintf("spec.validations[%d].", i)
		refuse(!x.Scope.IsZero(), "scope", "kube-apiserver has no scopes")
		refuse(x.Reason == metav1.StatusReasonUnauthorized, "reason", "kube-apiserver does not let policies say Unauthorized")
		refuse(x.Code != 0, "code", "kube-apiserver has the code of the reason")
		refuse(x.Guard, "guard", "kube-apiserver evaluates all validations")
		refuse(x.Level != 0, "level", "kube-apiserver has no levels")
		refuse(x.MaxEnforcement != "" && x.MaxEnforcement != policy.Deny, "maxEnforcement",
			"kube-apiserver does with all validations of a policy what the binding says")
		refuse(x.FailurePolicy != "" && x.FailurePolicy != p.FailurePolicy, "failurePolicy",
			"kube-apiserver has one for all validations of a policy")
	}
	for i, m := range p.Mutations {
		at = fmt.Sprintf("spec.mutations[%d].", i)
		refuse(m.PatchType == policy.JSONMergePatch, "patchType", "kube-apiserver has no JSON merge patches")
		refuse(!m.Scope.IsZero(), "scope", "kube-apiserver has no scopes")
		refuse(m.ForEach != (policy.NamedExpr{}), "forEach", "kube-apiserver makes a mutation once")
		refuse(!m.Condition.IsZero(), "condition", "kube-apiserver has match conditions only, which see no variables and "+
			"are for all mutations of a policy")
		const text = "kube-apiserver says of a mutation only what its error is"
		refuse(m.Message != "", "message", text)
		refuse(!m.MessageExpr.IsZero(), "messageExpression", text)
		refuse(m.Reason != "", "reason", "kube-apiserver has one reason for errors of mutations")
		refuse(m.Reinvocation != "" && m.Reinvocation != p.Reinvocation, "reinvocationPolicy",
			"kube-apiserver has one for all mutations of a policy")
	}
	return all
}

// dropMembers leaves out what rules or mutations of a native policy need no form of: names, and what they say as their
// policy does.
func dropMembers(items any, names ...string) any {
	list, _ := items.([]any)
	out := slices.Clone(list)
	for i, item := range out {
		if members, ok := item.(map[string]any); ok {
			out[i] = without(members, names...)
		}
	}
	return out
}

// Binding returns the native bindings that do what the binding of an object does, one for each phase of the policy that
// it binds, of each if it binds several: see [BindingName]. Named finds a policy; nil if it is not known. With refusals
// there are none.
func Binding(object map[string]any, b *policy.Binding, named func(policy.Ref) *policy.Policy,
	types *schema.Registry) ([]map[string]any, []Refusal) {
	if b.Kind != policy.Admission {
		return []map[string]any{policy.Native(object)}, nil
	}
	var all []map[string]any
	spec, _ := object["spec"].(map[string]any)
	spec = maps.Clone(spec)
	refusals := matchOfBinding(spec, b, types)
	if b.Visibility != (policy.Visibility{}) {
		refusals = append(refusals, Refusal{"spec.visibility", "kube-apiserver tells the client what every violation is, and " +
			"of what is audited nothing"})
	}
	if r := b.ParamRef; r != nil && r.NotFoundAction == policy.NotFoundDefault {
		refusals = append(refusals, Refusal{"spec.paramRef.parameterNotFoundAction",
			"kube-apiserver has Allow and Deny, and no params that are not stored"})
	}
	for i, ref := range b.PolicyRefs() {
		field, name := b.PolicyPath(i).String(), nativeName(b)
		if len(b.Policies) > 0 {
			name = BindingName(b, ref)
		}
		if len(name) > maxName {
			refusals = append(refusals, Refusal{field, fmt.Sprintf("the name %s of its native binding would be too long", name)})
			continue
		}
		made, refused := bindingOf(spec, b, ref, named)
		for _, m := range made {
			all = append(all, withSpec(rename(object, name), m.kind.Binding(), m.spec))
		}
		for _, r := range refused {
			if r.Field = cmp.Or(r.Field, field); !slices.Contains(refusals, r) {
				refusals = append(refusals, r)
			}
		}
	}
	if len(refusals) > 0 {
		return nil, refusals
	}
	return all, nil
}

// maxName is the longest name of an object.
const maxName = 253

// BindingName is the name of the native binding of one of several policies of a binding.
func BindingName(b *policy.Binding, of policy.Ref) string { return nativeName(b) + "-" + of.Name }

// nativeName is the name of the native form of a binding: NAMESPACE.NAME of one of a namespace. No namespace has a dot
// in its name.
func nativeName(b *policy.Binding) string { return strings.Replace(b.Name, "/", ".", 1) }

// a made binding is for policies of one kind.
type made struct {
	kind policy.Kind
	spec map[string]any
}

// bindingOf returns the bindings of one policy. A refusal without a field is about the policy.
func bindingOf(spec map[string]any, b *policy.Binding, ref policy.Ref, named func(policy.Ref) *policy.Policy) ([]made,
	[]Refusal) {
	p := named(ref)
	if p == nil {
		return nil, []Refusal{{"", fmt.Sprintf(
			"the %s is not among the given files, and what it does decides what its binding becomes", ref)}}
	}
	if b.Enforcement != nil {
		return nil, []Refusal{{"spec.enforcement", "kube-apiserver does with all validations and errors what validationActions say"}}
	}
	spec = without(spec, "policies", "enforcement")
	spec["policyName"] = ref.Name
	var all []made
	if p.Mutates() {
		if b.DryRun() || len(b.MutationActions) > 1 {
			return nil, []Refusal{{"spec.mutationActions", "kube-apiserver only applies mutations"}}
		}
		of := without(spec, "validationActions", "mutationActions")
		if p.ParamKind == nil && len(b.Policies) > 0 {
			of = without(of, "paramRef")
		}
		resources, matches := withoutDelete(of["matchResources"])
		if resources != nil {
			of["matchResources"] = resources
		}
		if matches {
			all = append(all, made{policy.Mutating, of})
		}
	}
	if p.Validates() {
		of := without(spec, "mutationActions")
		if p.ParamKind == nil && len(b.Policies) > 0 {
			of = without(of, "paramRef")
		}
		if of["validationActions"] == nil {
			of["validationActions"] = []any{string(policy.Deny)}
		}
		all = append(all, made{policy.Validating, of})
	}
	return all, nil
}

// rename returns an object with another name.
func rename(object map[string]any, name string) map[string]any {
	if tree.Object(object).Name() == name && tree.Object(object).Namespace() == "" {
		return object
	}
	metadata := tree.Object(object).Metadata().Without("namespace")
	metadata["name"] = name
	return tree.Object(object).WithMetadata(metadata)
}

// withSpec returns an object as one of a native kind with another spec.
func withSpec(object map[string]any, kind string, spec map[string]any) map[string]any {
	out := without(object, "status")
	out["apiVersion"], out["kind"], out["spec"] = native, kind, spec
	return out
}

func without(members map[string]any, names ...string) map[string]any {
	out := maps.Clone(members)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

// withoutDelete takes DELETE from the resource rules of match resources, and rules for nothing else. Matches says
// whether rules are left, if there were any.
func withoutDelete(resources any) (out any, matches bool) {
	members, _ := resources.(map[string]any)
	rules, _ := members["resourceRules"].([]any)
	var left []any
	for _, item := range rules {
		rule, _ := item.(map[string]any)
		operations, _ := rule["operations"].([]any)
		if !slices.Contains(operations, any("DELETE")) {
			left = append(left, item)
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(operations), func(op any) bool { return op == "DELETE" })
		if len(kept) > 0 {
			rule = maps.Clone(rule)
			rule["operations"] = kept
			left = append(left, rule)
		}
	}
	if tree.Equal(rules, left) || len(rules) == 0 {
		return resources, true
	}
	members = maps.Clone(members)
	members["resourceRules"] = left
	return members, len(left) > 0
}
