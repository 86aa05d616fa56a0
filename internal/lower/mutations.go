package lower

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"

	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// ownMembers are the members of a mutation that native ones do not have: their values are refused, are what native
// mutations do anyway, or become part of the expression.
var ownMembers = []string{"name", "reinvocationPolicy", "validation", "scope", "forEach", "condition"}

// nativeMutations returns native mutations that are equivalent to those of a policy; one with forEach becomes one for
// each item.
func nativeMutations(list any, p *policy.Policy, types *schema.Registry) (all []any, refusals []Refusal) {
	items, _ := list.([]any)
	for i := range p.Mutations {
		if i >= len(items) {
			break
		}
		members, _ := items[i].(map[string]any)
		m := &mutation{Mutation: &p.Mutations[i], policy: p, types: types, path: fmt.Sprintf("spec.mutations[%d].", i)}
		for _, of := range m.natives() {
			native := without(members, append([]string{"applyConfiguration", "jsonPatch"}, ownMembers...)...)
			native["patchType"] = string(of.as)
			switch of.as {
			case policy.JSONPatch:
				native["jsonPatch"] = map[string]any{"expression": of.src}
			default:
				native["applyConfiguration"] = map[string]any{"expression": of.src}
			}
			all = append(all, native)
		}
		refusals = append(refusals, m.refusals...)
	}
	return all, refusals
}

// A mutation is a mutation of the dialect that is being lowered.
type mutation struct {
	*policy.Mutation
	policy   *policy.Policy
	types    *schema.Registry
	path     string   // of its members
	item     ast.Expr // of forEach; nil without it
	refusals []Refusal
}

// A patch is the expression of a native mutation.
type patch struct {
	as  policy.PatchType
	src string
}

func (m *mutation) refuse(field, format string, args ...any) {
	m.refusals = append(m.refusals, Refusal{m.path + field, fmt.Sprintf(format, args...)})
}

// expressionField returns the field of the expression.
func (m *mutation) expressionField() string {
	if m.PatchType == policy.JSONPatch {
		return "jsonPatch.expression"
	}
	return "applyConfiguration.expression"
}

// natives returns the native forms of the mutation; none if it was refused.
func (m *mutation) natives() []patch {
	if m.PatchType == policy.JSONMergePatch {
		return nil // already refused
	}
	if m.PatchType == policy.ApplyConfiguration && m.Scope.IsZero() {
		if m.appliesNatively(); len(m.refusals) > 0 {
			return nil
		}
	}
	if m.RunsOnce() && m.Condition.IsZero() {
		if src, changed := m.withoutVerdicts(); changed {
			return []patch{{m.PatchType, src}}
		}
		return []patch{{m.PatchType, m.Expr.Code()}}
	}
	each := []ast.Expr{nil}
	if m.ForEach != (policy.NamedExpr{}) {
		each = m.items()
	}
	var all []patch
	for _, item := range each {
		made := m.native(item)
		if made == nil {
			return nil
		}
		all = append(all, made...)
	}
	return all
}

// items returns the items of the list of forEach, which must be a literal.
func (m *mutation) items() []ast.Expr {
	const field = "forEach"
	list, err := parse(m.ForEach.Expr.Code())
	switch {
	case err != nil:
		m.refuse(field, "%v", err)
		return nil
	case list.Kind() != ast.ListKind || len(list.AsList().OptionalIndices()) > 0:
		m.refuse(field, "kube-apiserver makes a mutation once, but the items are known only at each request")
		return nil
	case m.policy.FailurePolicy == policy.Ignore && list.AsList().Size() > 1:
		m.refuse(field, "with failurePolicy Ignore kube-apiserver keeps the changes of the items before the one that fails")
		return nil
	}
	for name := range identifiers(list) {
		if name == "object" || name == "variables" {
			m.refuse(field, "its items read %s, which would have the changes of the items before", name)
			return nil
		}
	}
	return list.AsList().Elements()
}

// native returns the native forms for one item of forEach, or nil without forEach; none if it was refused.
func (m *mutation) native(item ast.Expr) []patch {
	m.item = item
	e, condition := m.read(m.Expr), m.read(m.Condition)
	if e == nil || condition == nil && !m.Condition.IsZero() {
		return nil
	}
	if !m.Scope.IsZero() {
		return m.lowerScope()
	}
	src, err := branches(e, m.emptyPatch(), func(e ast.Expr) (string, error) { return text(e), nil })
	if err != nil {
		m.refuse(m.expressionField(), "%v", err)
		return nil
	}
	if condition != nil {
		src = operand(condition) + " ? " + group(src) + " : " + m.emptyPatch()
	}
	return []patch{{m.PatchType, src}}
}

// read returns the syntax tree of an expression for the item of forEach; nil after a refusal.
func (m *mutation) read(x policy.Expr) ast.Expr {
	if x.IsZero() {
		return nil
	}
	e, err := parse(x.Code())
	if err != nil {
		m.refuse(strings.TrimPrefix(x.Field, m.path), "%v", err)
		return nil
	}
	if m.item != nil {
		substitute(e, m.ForEach.Name, m.item)
	}
	return e
}

// emptyPatch returns a patch without effect.
func (m *mutation) emptyPatch() string {
	if m.PatchType == policy.JSONPatch {
		return "[]"
	}
	return "Object{}"
}

// withoutVerdicts returns the expression with patches without effect in place of null and true.
func (m *mutation) withoutVerdicts() (src string, changed bool) {
	e, err := parse(m.Expr.Code())
	if err != nil || !accepts(e) || e.Kind() != ast.CallKind || isSkip(e) {
		return "", false // its error is reported elsewhere
	}
	src, err = branches(e, m.emptyPatch(), func(e ast.Expr) (string, error) { return text(e), nil })
	return src, err == nil
}

// lowerScope returns the native form of a mutation with a scope: a JSON patch whose paths begin with those of the
// values, or an ApplyConfiguration if the values are items with keys.
func (m *mutation) lowerScope() []patch {
	kinds := typed.KindsOf(m.types, m.policy.MatchConstraints)
	if m.matchesUnknown() || slices.ContainsFunc(kinds, func(k typed.Kind) bool { return k.Type == nil }) {
		m.refuse("scope", "a native policy needs the schemas of all matched kinds, and not all are known")
		return nil
	}
	src, err := m.operationsOfAll(kinds)
	if err == nil {
		return []patch{{policy.JSONPatch, src}}
	}
	if m.PatchType == policy.ApplyConfiguration {
		if all, otherwise := m.configurations(kinds); otherwise == nil && len(all) > 0 {
			return all
		}
	}
	why := &unsayable{m.expressionField(), err.Error()}
	errors.As(err, &why)
	m.refuse(why.field, "%s", why.reason)
	return nil
}

// matchesUnknown reports whether the policy may match kinds whose schemas are not known.
func (m *mutation) matchesUnknown() bool {
	known := func(rule policy.Rule, group, resource string) bool {
		name, sub, _ := strings.Cut(resource, "/")
		return slices.ContainsFunc(m.types.Resources(), func(r *schema.Resource) bool {
			rule.APIGroups, rule.Resources = []string{group}, []string{resource}
			return (name == "*" || name == r.Resource) && typed.Covers(rule, r, strings.ReplaceAll(sub, "*", ""))
		})
	}
	for _, rule := range m.policy.MatchConstraints.ResourceRules {
		if slices.Contains(rule.APIGroups, "*") {
			return true
		}
		for _, group := range rule.APIGroups {
			if len(rule.Kinds) > 0 {
				continue // known, or refused
			}
			unknown := func(resource string) bool { return !known(rule, group, resource) }
			if slices.ContainsFunc(rule.Resources, unknown) {
				return true
			}
		}
	}
	return false
}
