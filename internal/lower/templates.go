package lower

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/policy"
)

// A place is the position of Pod templates in workloads, for which a policy about templates has native policies of its
// own.
type place struct {
	path   string // such as spec.template; empty: the matched objects themselves
	ending string // of the names of its policies and bindings
}

// endings are the endings of names, by path.
var endings = map[string]string{"spec.template": "-template", "spec.jobTemplate.spec.template": "-jobtemplate",
	"template": "-podtemplate"}

// places returns the places of a policy.
func places(p *policy.Policy) []place {
	all := []place{{}}
	if !p.JudgesTemplates() {
		return all
	}
	for _, t := range scope.Templates {
		named := place{t.Path, endings[t.Path]}
		if !slices.Contains(all, named) {
			all = append(all, named)
		}
	}
	return all
}

// matchOf replaces match resources for Pods by those for the workloads of a place. It returns false if there are none.
func (at place) matchOf(spec map[string]any, member string, m *policy.MatchResources) (*policy.MatchResources, bool) {
	if at.path == "" {
		return m, true
	}
	of, ok := m.TemplatesAt(at.path)
	given, written := spec[member].(map[string]any)
	if !ok || of == nil || !written {
		return of, ok
	}
	given = maps.Clone(given)
	for name, rules := range map[string][]policy.Rule{"resourceRules": of.ResourceRules,
		"excludeResourceRules": of.ExcludeRules} {
		if delete(given, name); len(rules) > 0 {
			given[name] = rulesTree(rules)
		}
	}
	spec[member] = given
	return of, true
}

func rulesTree(rules []policy.Rule) (all []any) {
	list := func(texts []string) (out []any) {
		for _, text := range texts {
			out = append(out, text)
		}
		return out
	}
	for _, r := range rules {
		rule := map[string]any{"apiGroups": list(r.APIGroups), "apiVersions": list(r.APIVersions),
			"operations": list(r.Operations), "resources": list(r.Resources)}
		if r.Scope != "" && r.Scope != "*" {
			rule["scope"] = r.Scope
		}
		if len(r.ResourceNames) > 0 {
			rule["resourceNames"] = list(r.ResourceNames)
		}
		if len(r.Kinds) > 0 {
			delete(rule, "resources")
			rule["kinds"] = list(r.Kinds)
		}
		all = append(all, rule)
	}
	return all
}

// checkTemplates refuses the parts of a policy about templates that do not have a native form.
func checkTemplates(p *policy.Policy, m *policy.MatchResources, field string) []Refusal {
	if s := m; p.JudgesTemplates() && s != nil && s.ObjectSelector != nil &&
		len(s.ObjectSelector.MatchLabels)+len(s.ObjectSelector.MatchExpressions) > 0 {
		return []Refusal{{field + ".objectSelector", "the policy judges templates by their labels, and kube-apiserver selects " +
			"by those of the workload"}}
	}
	return nil
}

// A mover rewrites an expression about a Pod for the template at a place of a workload.
type mover struct {
	l       *Lowering
	at      place
	deletes bool // object may be null
}

// deletes reports whether a policy matches DELETE.
func deletes(p *policy.Policy) bool {
	return p.MatchConstraints != nil && slices.ContainsFunc(p.MatchConstraints.ResourceRules, func(r policy.Rule) bool {
		return slices.Contains(r.Operations, "DELETE") || slices.Contains(r.Operations, "*")
	})
}

// names returns the replacements of object and oldObject.
func (m mover) names() map[string]string {
	object := "object." + m.at.path
	if m.deletes {
		object = "(object == null ? null : " + object + ")"
	}
	return map[string]string{"object": object,
		"oldObject": "(oldObject == null ? null : " + m.optionalRoot("oldObject") + ".orValue(null))"}
}

// optionalRoot returns the template in a root as an optional value.
func (m mover) optionalRoot(root string) string {
	return root + ".?" + strings.Join(strings.Split(m.at.path, "."), ".?")
}

// condition returns the match condition that the template exists.
func (m mover) condition() map[string]any {
	root := "object"
	if m.deletes {
		root = "(object == null ? oldObject : object)"
	}
	return map[string]any{"name": conditionPrefix + "template", "expression": m.optionalRoot(root) + ".hasValue()"}
}

// move rewrites an expression about a Pod for the template.
func (m mover) move(src string) (string, error) {
	if m.at.path == "" {
		return src, nil
	}
	names := m.l.own.Scope(celenv.Run, false)
	defer names.Close()
	env, err := names.Env(celenv.Declared{Params: true, Authorizer: true})
	if err != nil {
		return "", err
	}
	parsed, issues := celenv.Parse(env, src)
	if err := issues.Err(); err != nil {
		return "", err
	}
	texts, runes := m.names(), []rune(src)
	found := map[int]string{}
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			for _, name := range []string{e.AsComprehension().IterVar(), e.AsComprehension().IterVar2()} {
				if texts[name] != "" {
					err = fmt.Errorf("%s is the name of an item in it", name)
				}
			}
		case ast.IdentKind:
			name := e.AsIdent()
			if texts[name] == "" {
				return
			}
			at, ok := parsed.NativeRep().SourceInfo().GetOffsetRange(e.ID())
			if !ok || int(at.Start)+len(name) > len(runes) || string(runes[at.Start:int(at.Start)+len(name)]) != name {
				err = fmt.Errorf("the place of %s in it is not known", name)
				return
			}
			found[int(at.Start)] = name
		}
	}))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	done := 0
	for _, start := range slices.Sorted(maps.Keys(found)) {
		b.WriteString(string(runes[done:start]) + texts[found[start]])
		done = start + len(found[start])
	}
	b.WriteString(string(runes[done:]))
	return b.String(), nil
}

// moveAll rewrites the expressions of one list of a spec.
func (m mover) moveAll(spec map[string]any, list, member string) (refusals []Refusal) {
	items, _ := spec[list].([]any)
	if m.at.path == "" || len(items) == 0 {
		return nil
	}
	out := slices.Clone(items)
	for i, item := range items {
		members, _ := item.(map[string]any)
		src, ok := members[member].(string)
		if !ok {
			continue
		}
		moved, err := m.move(src)
		if err != nil {
			refusals = append(refusals, Refusal{fmt.Sprintf("spec.%s[%d].%s", list, i, member),
				"it cannot be rewritten for the templates of workloads: " + err.Error()})
		}
		out[i] = setMember(members, member, moved)
	}
	spec[list] = out
	return refusals
}

// messageOf returns the message of a rule about a template, which begins with the place.
func (m mover) messageOf(x *policy.Validation) string {
	return m.at.path + ": " + cmp.Or(strings.TrimSpace(x.Message), "failed expression: "+strings.TrimSpace(x.Expr.Src))
}
