// Package lower turns policies and bindings of the dialect into equivalent ones of admissionregistration.k8s.io/v1, if
// there are any.
package lower

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/total"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A Refusal is a part of an object that does not have a native form.
type Refusal struct {
	Field  string // the field path
	Reason string
}

// String returns the field and the reason.
func (r Refusal) String() string { return r.Field + ": " + r.Reason }

// ownFields are the members of a spec of the dialect that native policies do not have: their values are refused, or are
// what native policies do anyway.
var ownFields = []string{"order", "maxPasses", "typeChecking", "mutationValidationPolicy", "combine", "bindable",
	"singletonPolicy", "validationActions", "mutationActions", "templates", "templateEnforcement", "imports", "abstract"}

const native = "admissionregistration.k8s.io/v1"

// A Lowering makes the policies and bindings of a set native. The native form of a policy depends on its bindings, and
// the other way round. It is not safe for concurrent use.
type Lowering struct {
	set    *policy.Set
	types  *schema.Registry
	own    *celenv.Set
	splits map[splitKey]*split
	judges map[splitKey]*total.Judge
}

// New returns a lowering of a set for a server with some kinds and environments of expressions.
func New(set *policy.Set, types *schema.Registry, own *celenv.Set) *Lowering {
	return &Lowering{set, types, own, map[splitKey]*split{}, map[splitKey]*total.Judge{}}
}

// judge returns a judge of the expressions of a policy at a place; nil if there is no environment for them.
func (l *Lowering) judge(p *policy.Policy, at place) *total.Judge {
	key := splitKey{p, at}
	j, known := l.judges[key]
	if !known {
		of := *p
		if at.path != "" { // the type of an object with a template is not known
			of.MatchConstraints = nil
		}
		j, _ = total.New(l.own, &of)
		l.judges[key] = j
	}
	return j
}

// binds reports whether a binding of the set names a policy.
func (l *Lowering) binds(p *policy.Policy) bool { return l.set.Binds(p.Ref()) }

// isSure reports whether an expression of a policy evaluates to true or false for every request.
func (l *Lowering) isSure(p *policy.Policy, at place, x policy.Expr) bool {
	j := l.judge(p, at)
	return j != nil && j.Bool(x)
}

// mentions reports whether an expression of a policy may use one of the given names.
func (l *Lowering) mentions(p *policy.Policy, x policy.Expr, names ...string) bool {
	j := l.judge(p, place{})
	return j == nil || j.Mentions(x, names...)
}

// serves reports whether every server has a kind.
func (l *Lowering) serves(kind *policy.ParamKind) bool {
	version, err := apischema.ParseGroupVersion(kind.APIVersion)
	return err == nil && l.types.Type(version.WithKind(kind.Kind)) != nil
}

// Policy returns the native policies that are equivalent to a policy of the set, whose manifest is object: a mutating
// one if it has mutations, and then one or more validating ones, the first with its name and the others with names that
// end in -2, -3 and so on. A singleton policy comes with its bindings. With refusals there are none.
func (l *Lowering) Policy(object map[string]any, p *policy.Policy) ([]map[string]any, []Refusal) {
	if p.Kind != policy.Admission {
		return []map[string]any{policy.Native(object)}, nil
	}
	object = withBindingRules(object, p)
	spec, _ := object["spec"].(map[string]any)
	spec = maps.Clone(spec)
	inlineLibraries(spec, p)
	refusals := slices.Concat(nonNativeFields(p), l.checkAbstract(p), matchOfPolicy(spec, p, l.types))
	var all []map[string]any
	if p.Mutates() {
		of := without(spec, append([]string{"validations", "auditAnnotations"}, ownFields...)...)
		var refused []Refusal
		of["mutations"], refused = nativeMutations(of["mutations"], p, l.types)
		refusals = append(refusals, refused...)
		if p.Validates() {
			constraints, matches := withoutDelete(of["matchConstraints"])
			if !matches {
				refusals = append(refusals, Refusal{"spec.matchConstraints.resourceRules",
					"a MutatingAdmissionPolicy does not match DELETE and needs another operation"})
			}
			of["matchConstraints"] = constraints
		}
		all = append(all, withSpec(object, string(policy.Mutating), of))
	}
	if p.Validates() {
		made, refused := l.lowerValidations(object, p, spec)
		all, refusals = append(all, made...), append(refusals, refused...)
	}
	if p.Singleton != nil {
		acts := map[string]any{"validationActions": spec["validationActions"]}
		made, refused := l.bindingOf(acts, nil, p.Singleton, p.Ref())
		for _, m := range made {
			all = append(all, withSpec(rename(object, p.Name+m.ending), m.kind.Binding(), m.spec))
		}
		for _, r := range refused {
			if r.Field == "spec."+policyField {
				r.Field = "spec.singletonPolicy"
			}
			refusals = append(refusals, r)
		}
	}
	if len(refusals) > 0 {
		return nil, refusals
	}
	return all, nil
}

// lowerValidations returns the native policies for the validations of a policy, given its spec with native match
// constraints.
func (l *Lowering) lowerValidations(object map[string]any, p *policy.Policy, spec map[string]any) (all []map[string]any,
	refusals []Refusal) {
	refusals = checkTemplates(p, p.MatchConstraints, "spec.matchConstraints")
	for _, at := range places(p) {
		if at.path != "" {
			written, _ := object["spec"].(map[string]any)
			spec = maps.Clone(written)
			of := *p
			of.MatchConstraints, _ = at.matchOf(spec, "matchConstraints", p.MatchConstraints)
			for _, r := range matchOfPolicy(spec, &of, l.types) {
				if !slices.Contains(refusals, r) {
					refusals = append(refusals, r)
				}
			}
		}
		s := l.split(p, at)
		refusals = append(refusals, s.refusals...)
		for _, part := range s.parts {
			of, refused := s.spec(part, spec)
			refusals = append(refusals, refused...)
			named := l.rename(object, p.Name+s.ending(part), &refusals)
			all = append(all, withSpec(named, string(policy.Validating), of))
		}
	}
	return all, refusals
}

// rename returns an object with another name, unless that is too long.
func (l *Lowering) rename(object map[string]any, name string, refusals *[]Refusal) map[string]any {
	if len(name) > maxName {
		*refusals = append(*refusals, Refusal{"metadata.name", fmt.Sprintf("the name %s of a part would be too long", name)})
	}
	return rename(object, name)
}

// nonNativeFields refuses the fields that native kinds do not have.
func nonNativeFields(p *policy.Policy) (all []Refusal) {
	at := "spec."
	refuse := func(used bool, field, reason string) {
		if used {
			all = append(all, Refusal{at + field, reason})
		}
	}
	refuse(len(p.After)+len(p.Before) > 0, "order", "kube-apiserver runs mutating policies in an order of its own")
	refuse(p.DefaultParams != nil, "defaultParams", "kube-apiserver supports only params that are stored objects")
	refuse(p.Passes() != policy.DefaultPasses, "maxPasses", "kube-apiserver runs mutations twice at most")
	refuse(p.ChecksMutations(), "mutationValidationPolicy",
		"kube-apiserver does not check a mutation again after it is made; it stays with celgate serve")
	for i, x := range p.Validations {
		at = fmt.Sprintf("spec.validations[%d].", i)
		refuse(!x.Scope.IsZero(), "scope", "kube-apiserver does not support scopes")
		refuse(x.Reason == metav1.StatusReasonUnauthorized, "reason", "kube-apiserver does not support the reason Unauthorized")
		refuse(x.Code != 0, "code", "kube-apiserver has the code of the reason")
	}
	for i, m := range p.Mutations {
		at = fmt.Sprintf("spec.mutations[%d].", i)
		refuse(m.PatchType == policy.JSONMergePatch, "patchType", "kube-apiserver does not support JSON merge patches")
		const text = "kube-apiserver reports only the errors of a mutation"
		refuse(m.Message != "", "message", text)
		refuse(!m.MessageExpr.IsZero(), "messageExpression", text)
		refuse(m.Reason != "", "reason", "kube-apiserver has one reason for errors of mutations")
		refuse(m.Reinvocation != "" && m.Reinvocation != p.Reinvocation, "reinvocationPolicy",
			"kube-apiserver has one for all mutations of a policy")
	}
	return all
}

// Binding returns the native bindings that are equivalent to a binding of the set, whose manifest is object: one for
// each native policy of the policies that it binds. Their names are that of the binding, see [BindingName], with the
// ending of the policy's. With refusals there are none.
func (l *Lowering) Binding(object map[string]any, b *policy.Binding) ([]map[string]any, []Refusal) {
	if b.Kind != policy.Admission {
		return []map[string]any{policy.Native(object)}, nil
	}
	var all []map[string]any
	spec, _ := object["spec"].(map[string]any)
	written := spec
	spec = maps.Clone(spec)
	refusals := matchOfBinding(spec, b, l.types)
	if b.Visibility != (policy.Visibility{}) {
		refusals = append(refusals, Refusal{"spec.visibility", "kube-apiserver reports every violation to the client, " +
			"and audited violations never"})
	}
	if r := b.ParamRef; r != nil && r.NotFoundAction == policy.NotFoundDefault {
		refusals = append(refusals, Refusal{"spec.paramRef.parameterNotFoundAction",
			"kube-apiserver supports only Allow and Deny, and only params that are stored objects"})
	}
	for i, ref := range b.PolicyRefs() {
		field, name := b.PolicyPath(i).String(), nativeName(b)
		if len(b.Policies) > 0 {
			name = BindingName(b, ref)
		}
		made, refused := l.bindingOf(spec, written, b, ref)
		for _, m := range made {
			named := name + m.ending
			if len(named) > maxName {
				refused = append(refused, Refusal{"", fmt.Sprintf("the name %s of its native binding would be too long", named)})
			}
			all = append(all, withSpec(rename(object, named), m.kind.Binding(), m.spec))
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

// BindingName returns the name of the native binding for one of several policies of a binding.
func BindingName(b *policy.Binding, of policy.Ref) string { return nativeName(b) + "-" + of.Name }

// nativeName returns the name of the native form of a binding: NAMESPACE.NAME for a namespaced one. The name of a
// namespace does not contain a dot.
func nativeName(b *policy.Binding) string { return strings.Replace(b.Name, "/", ".", 1) }

// A made is a native binding of one native policy.
type made struct {
	kind   policy.Kind
	ending string // of the names of binding and policy
	spec   map[string]any
}

// bindingOf returns the bindings of one policy. spec has native match resources, and written is the spec as written. A
// refusal without a field concerns the policy.
func (l *Lowering) bindingOf(spec, written map[string]any, b *policy.Binding, ref policy.Ref) ([]made, []Refusal) {
	p := l.set.Policy(ref)
	if p == nil {
		return nil, []Refusal{{"", fmt.Sprintf(
			"the %s is not among the files, but its binding cannot be lowered without it", ref)}}
	}
	spec = without(spec, "policies", "enforcement")
	if p.ParamKind == nil && len(b.Policies) > 0 {
		spec = without(spec, "paramRef")
	}
	spec["policyName"] = ref.Name
	var all []made
	if p.Mutates() {
		if b.DryRun() || len(b.MutationActions) > 1 {
			return nil, []Refusal{{"spec.mutationActions", "kube-apiserver only applies mutations"}}
		}
		of := without(spec, "validationActions", "mutationActions")
		resources, matches := withoutDelete(of["matchResources"])
		if resources != nil {
			of["matchResources"] = resources
		}
		if matches {
			all = append(all, made{policy.Mutating, "", of})
		}
	}
	if !p.Validates() {
		return all, nil
	}
	spec = without(spec, "mutationActions")
	if spec["validationActions"] == nil {
		spec["validationActions"] = []any{string(policy.Deny)}
	}
	if p.Kind != policy.Admission {
		if b.Enforcement != nil {
			return nil, []Refusal{{"spec.enforcement",
				"kube-apiserver applies validationActions to all validations and errors of the " + ref.String()}}
		}
		return append(all, made{policy.Validating, "", spec}), nil
	}
	refusals := checkTemplates(p, b.MatchResources, "spec.matchResources")
	for _, at := range places(p) {
		s := l.split(p, at)
		of := spec
		if at.path != "" {
			of = l.templateSpec(spec, written, b, at)
		}
		for _, u := range s.uses[b] {
			all = append(all, made{policy.Validating, u.ending, u.spec(of, b)})
		}
		refusals = append(refusals, s.refused[b]...)
	}
	return all, refusals
}

// templateSpec returns the spec of a binding with the match resources of the workloads of a place.
func (l *Lowering) templateSpec(spec, written map[string]any, b *policy.Binding, at place) map[string]any {
	about := *b
	given := maps.Clone(written)
	if given == nil {
		given = map[string]any{}
	}
	about.MatchResources, _ = at.matchOf(given, "matchResources", b.MatchResources)
	matchOfBinding(given, &about, l.types) // refusals here equal those of the binding without templates
	if given["matchResources"] == nil {
		return without(spec, "matchResources")
	}
	return setMember(spec, "matchResources", given["matchResources"])
}

// spec returns the native spec of a use, from that of the binding with all of its actions.
func (u use) spec(of map[string]any, b *policy.Binding) map[string]any {
	of = without(of)
	if name, _ := of["policyName"].(string); u.ending != "" {
		of["policyName"] = name + u.ending
	}
	if !slices.Equal(u.actions, b.Actions) {
		actions := make([]any, len(u.actions))
		for i, a := range u.actions {
			actions[i] = string(a)
		}
		of["validationActions"] = actions
	}
	if ref, ok := of["paramRef"].(map[string]any); ok && u.allow {
		of["paramRef"] = setMember(ref, "parameterNotFoundAction", string(policy.NotFoundAllow))
	}
	return of
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

// withSpec returns an object of a native kind with another spec.
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

// withoutDelete removes DELETE from the resource rules of match resources, and rules for DELETE only. matches is false
// if no rules are left.
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
