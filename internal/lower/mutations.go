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

// ownMembers are the members of a mutation that native ones do not have: what they ask for is refused, is what native
// ones do anyway, or is part of the expression.
var ownMembers = []string{"name", "reinvocationPolicy", "validation", "scope", "forEach", "condition"}

// nativeMutations returns the mutations of a native policy that do what those of a policy do: of one with forEach one
// for each item.
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

// A mutation is one of the dialect that is made native.
type mutation struct {
	*policy.Mutation
	policy   *policy.Policy
	types    *schema.Registry
	path     string   // of its members
	item     ast.Expr // of forEach; nil: the mutation has none
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

// expressionField is the field of the expression.
func (m *mutation) expressionField() string {
	if m.PatchType == policy.JSONPatch {
		return "jsonPatch.expression"
	}
	return "applyConfiguration.expression"
}

// natives are the native forms of the mutation. Without some there is a refusal.
func (m *mutation) natives() []patch {
	if m.PatchType == policy.JSONMergePatch {
		return nil // refused already
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

// items are the items of the list of forEach, if it is written as a list.
func (m *mutation) items() []ast.Expr {
	const field = "forEach"
	list, err := parse(m.ForEach.Expr.Code())
	switch {
	case err != nil:
		m.refuse(field, "%v", err)
		return nil
	case list.Kind() != ast.ListKind || len(list.AsList().OptionalIndices()) > 0:
		m.refuse(field, "kube-apiserver makes a mutation once, and which items there are is known with each request only")
		return nil
	case m.policy.FailurePolicy == policy.Ignore && list.AsList().Size() > 1:
		m.refuse(field, "with failurePolicy Ignore kube-apiserver keeps what the items before one that fails have changed")
		return nil
	}
	for name := range identifiers(list) {
		if name == "object" || name == "variables" {
			m.refuse(field, "its items name %s, which each of them would see as the one before left it", name)
			return nil
		}
	}
	return list.AsList().Elements()
}

// native is the native form for one item of forEach, which is nil without that; nil if there is none.
func (m *mutation) native(item ast.Expr) []patch {
	m.item = item
	e, condition := m.read(m.Expr), m.read(m.Condition)
	if e == nil || condition == nil && !m.Condition.IsZero() {
		return nil
	}
	if !m.Scope.IsZero() {
		return m.lowerScope()
	}
	src, err := branches(e, m.nothing(), func(e ast.Expr) (string, error) { return text(e), nil })
	if err != nil {
		m.refuse(m.expressionField(), "%v", err)
		return nil
	}
	if condition != nil {
		src = operand(condition) + " ? " + group(src) + " : " + m.nothing()
	}
	return []patch{{m.PatchType, src}}
}

// read is the syntax tree of an expression for the item of forEach; nil, with a refusal, for none.
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

// nothing is the patch that changes nothing.
func (m *mutation) nothing() string {
	if m.PatchType == policy.JSONPatch {
		return "[]"
	}
	return "Object{}"
}

// withoutVerdicts is the expression with patches that change nothing in place of null and true.
func (m *mutation) withoutVerdicts() (src string, changed bool) {
	e, err := parse(m.Expr.Code())
	if err != nil || !accepts(e) || e.Kind() != ast.CallKind || isSkip(e) {
		return "", false // what is wrong with it is said elsewhere
	}
	src, err = branches(e, m.nothing(), func(e ast.Expr) (string, error) { return text(e), nil })
	return src, err == nil
}

// lowerScope is the native form of a mutation with a scope: a JSON patch whose paths begin with those of the values, or
// where these are items with keys an ApplyConfiguration.
func (m *mutation) lowerScope() []patch {
	kinds := typed.KindsOf(m.types, m.policy.MatchConstraints)
	if m.matchesUnknown() || slices.ContainsFunc(kinds, func(k typed.Kind) bool { return k.Type == nil }) {
		m.refuse("scope", "a native policy goes by lists, maps and members, and those of the matched kinds are not all known")
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

// matchesUnknown reports that the policy may match kinds of which nothing is known.
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
				continue // which are known, or refused
			}
			unknown := func(resource string) bool { return !known(rule, group, resource) }
			if slices.ContainsFunc(rule.Resources, unknown) {
				return true
			}
		}
	}
	return false
}
