package delta

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Made tells whether a policy or binding was added, removed or changed.
type Made string

// The kinds of changes to policies and bindings.
const (
	Added   Made = "added"
	Removed Made = "removed"
	Changed Made = "changed"
)

// An Object is a policy or binding that differs between two sets.
type Object struct {
	Made Made
	policy.Ref
	Position policy.Position // in the new set, or its former position
	Parts    []Part          // of a changed object, or all parts of an added or removed one
}

// A Part is a changed part of a policy or binding.
type Part struct {
	Name     string   // such as "matched", "validations" or "failurePolicy"
	Old, New []string // the lines in the old set only, and those in the new set only, in order
}

// A Source is a set with the kinds of the cluster in which it is in force.
type Source struct {
	Set   *policy.Set
	Types *schema.Registry
	Facts map[policy.Ref][]Fact // of a policy: facts that its text does not contain
}

// A Fact is a fact about a policy, such as the cost of its budgets.
type Fact struct{ Part, Says string }

// Sets compares two sets: it returns the policies and bindings that differ, and their differences.
func Sets(old, now Source) []Object {
	was, is := old.objects(), now.objects()
	find := func(all []described, d described) *described {
		i := slices.IndexFunc(all, func(x described) bool { return x.ref == d.ref })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	var out []Object
	for _, d := range is {
		before := find(was, d)
		o := Object{Made: Changed, Ref: d.ref, Position: d.place}
		if before == nil {
			o.Made, before = Added, &described{}
		}
		if o.Parts = partsOf(before.parts, d.parts); len(o.Parts) > 0 {
			out = append(out, o)
		}
	}
	for _, d := range was {
		if find(is, d) == nil {
			out = append(out, Object{Made: Removed, Ref: d.ref, Position: d.place,
				Parts: partsOf(d.parts, nil)})
		}
	}
	slices.SortStableFunc(out, func(a, b Object) int {
		of, _ := policy.KindOf(a.Kind)
		other, _ := policy.KindOf(b.Kind)
		return cmp.Or(cmp.Compare(of, other), strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	return out
}

// described is the text of a policy or binding in a comparable form.
type described struct {
	ref   policy.Ref
	place policy.Position
	parts []said
}

// said is the text of a part, item by item.
type said struct {
	part  string
	items []string
}

func partsOf(old, now []said) []Part {
	items := func(all []said, part string) []string {
		i := slices.IndexFunc(all, func(s said) bool { return s.part == part })
		if i < 0 {
			return nil
		}
		return all[i].items
	}
	without := func(all, others []string) []string {
		others = slices.Clone(others)
		var left []string
		for _, s := range all {
			if i := slices.Index(others, s); i >= 0 {
				others = slices.Delete(others, i, i+1)
			} else {
				left = append(left, s)
			}
		}
		return left
	}
	var parts []Part
	for _, s := range slices.Concat(now, old) {
		a, b := items(old, s.part), items(now, s.part)
		if slices.ContainsFunc(parts, func(p Part) bool { return p.Name == s.part }) || slices.Equal(a, b) {
			continue
		}
		p := Part{s.part, without(a, b), without(b, a)}
		if len(p.Old)+len(p.New) == 0 { // the order differs
			p.Old, p.New = a, b
		}
		parts = append(parts, p)
	}
	return parts
}

func (s Source) objects() []described {
	var all []described
	for _, p := range s.Set.Policies {
		all = append(all, s.describePolicy(p))
	}
	for _, b := range s.Set.Bindings {
		all = append(all, s.describeBinding(b))
	}
	for _, l := range s.Set.Libraries {
		all = append(all, describeLibrary(l))
	}
	return all
}

func describeLibrary(l *policy.Library) described {
	d := described{l.Ref(), l.Position, nil}
	for _, name := range l.Imports {
		d.say("imports", name)
	}
	for _, v := range l.Variables {
		d.say("variables", v.Name+": "+foldLines(v.Expr.Src))
	}
	for _, f := range l.Functions {
		var params []string
		for _, p := range f.Params {
			params = append(params, strings.TrimSpace(p.Name+" "+p.Type))
		}
		d.say("functions", strings.TrimSpace(f.Name+"("+strings.Join(params, ", ")+") "+f.Type)+": "+foldLines(f.Expr.Src))
	}
	for _, s := range l.Scopes {
		for _, path := range s.Paths {
			d.say("scopes", s.Name+": "+path.Src)
		}
	}
	return d
}

func (s Source) describePolicy(p *policy.Policy) described {
	p = p.Source() // fields of libraries and bindings are described there
	d := described{p.Ref(), p.Position, nil}
	d.matches(p.MatchConstraints, s.Types)
	d.say("failurePolicy", string(p.FailurePolicy))
	if p.ParamKind != nil {
		d.say("paramKind", p.ParamKind.APIVersion+" "+p.ParamKind.Kind)
	}
	if p.DefaultParams != nil {
		d.say("paramMerge", cmp.Or(p.ParamMerge, policy.ReplaceParams))
	}
	named := func(part string, all []policy.NamedExpr) {
		for _, x := range all {
			d.say(part, x.Name+": "+foldLines(x.Expr.Src))
		}
	}
	named("matchConditions", p.MatchConditions)
	named("variables", p.Variables)
	for _, v := range p.Validations {
		if v.Reason == metav1.StatusReasonInvalid {
			v.Reason = ""
		}
		d.say("validations", foldLines(v.Expr.Src)+members(v, "Expr"))
	}
	for _, a := range p.AuditAnnotations {
		d.say("auditAnnotations", a.Name+": "+foldLines(a.Expr.Src))
	}
	for _, m := range p.Mutations {
		d.say("mutations", string(m.PatchType)+": "+foldLines(m.Expr.Src)+members(m, "Expr", "PatchType"))
	}
	if b := p.Singleton; b != nil {
		d.say("singletonPolicy", "true")
		d.actions(b)
	}
	d.addOwn(*p, "Singleton", "FailurePolicy", "ParamKind", "MatchConstraints", "MatchConditions", "Variables", "Validations",
		"AuditAnnotations", "Mutations", "Reinvocation", "ParamMerge")
	if p.Mutates() {
		d.say("reinvocationPolicy", string(p.Reinvocation))
	}
	for _, f := range s.Facts[p.Ref()] {
		d.say(f.Part, f.Says)
	}
	return d
}

func (s Source) describeBinding(b *policy.Binding) described {
	d := described{b.Ref(), b.Position, nil}
	d.say("policyName", b.PolicyName)
	for _, ref := range b.Policies {
		d.say("policies", ref.String())
	}
	d.actions(b)
	if r := b.ParamRef; r != nil {
		text := r.Name
		if r.Namespace != "" {
			text = r.Namespace + "/" + text
		}
		if r.Selector != nil {
			text = strings.TrimSpace(r.Namespace + " " + selector(r.Selector))
		}
		d.say("paramRef", text)
		d.say("parameterNotFoundAction", string(r.NotFoundAction))
	}
	d.matches(b.MatchResources, s.Types)
	d.addOwn(*b, "PolicyName", "Policies", "Actions", "MutationActions", "ParamRef", "MatchResources", "Namespace")
	return d
}

func (d *described) actions(b *policy.Binding) {
	for _, a := range b.Actions {
		d.say("validationActions", string(a))
	}
	for _, a := range b.MutationActions {
		d.say("mutationActions", string(a))
	}
}

// addOwn adds the remaining fields of a policy or a binding, by the names of its members.
func (d *described) addOwn(of any, but ...string) {
	but = append(but, "Kind", "APIVersion", "Name", "Metadata", "Position", "Stored", "Static")
	for name, value := range membersOf(of, but) {
		d.say(name, value)
	}
}

// members describes the members of a rule or a mutation, except for some.
func members(of any, but ...string) string {
	var text strings.Builder
	for name, value := range membersOf(of, but) {
		text.WriteString("; " + name + ": " + foldLines(value))
	}
	return text.String()
}

// membersOf yields the non-zero members of a struct, except for some, in their YAML form, and those of nested structs
// as outer.inner.
func membersOf(of any, but []string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		v := reflect.Indirect(reflect.ValueOf(of))
		for i := range v.NumField() {
			f, member := v.Type().Field(i), v.Field(i)
			if !f.IsExported() || member.IsZero() || slices.Contains(but, f.Name) {
				continue
			}
			name, value := memberName(f.Name), member.Interface()
			if x, ok := value.(policy.Expr); ok {
				value = x.Src
			} else if reflect.Indirect(member).Kind() == reflect.Struct {
				for inner, text := range membersOf(value, nil) {
					if !yield(name+"."+inner, text) {
						return
					}
				}
				continue
			}
			if !yield(name, textOf(value)) {
				return
			}
		}
	}
}

// textOf returns a list or a map as JSON, and other values as text.
func textOf(value any) string {
	switch reflect.ValueOf(value).Kind() {
	case reflect.Slice, reflect.Map:
		if text, err := json.Marshal(value); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(value)
}

// memberName returns the name of a member in YAML.
func memberName(name string) string {
	if own, ok := memberNames[name]; ok {
		return own
	}
	return strings.ToLower(name[:1]) + name[1:]
}

var memberNames = map[string]string{"Expr": "expression", "MessageExpr": "messageExpression", "Reinvocation": "reinvocationPolicy",
	"After": "order.after", "Before": "order.before"}

func (d *described) say(part, item string) {
	if i := slices.IndexFunc(d.parts, func(s said) bool { return s.part == part }); i >= 0 {
		d.parts[i].items = append(d.parts[i].items, item)
	} else if item != "" {
		d.parts = append(d.parts, said{part, []string{item}})
	}
}

// matches describes the requests that a policy or binding matches: each resource with its operations, independent of
// the order and grouping of rules.
func (d *described) matches(m *policy.MatchResources, types *schema.Registry) {
	if m == nil {
		return
	}
	for part, rules := range rulesByPart(m) {
		for _, item := range ruleTexts(rules, types) {
			d.say(part, item)
		}
	}
	if s := selector(m.NamespaceSelector); s != "" {
		d.say("namespaceSelector", s)
	}
	if s := selector(m.ObjectSelector); s != "" {
		d.say("objectSelector", s)
	}
	d.say("matchPolicy", string(m.MatchPolicy))
	for _, x := range []struct {
		part  string
		items []string
	}{
		{"namespaces", m.Namespaces}, {"excludeNamespaces", m.ExcludeNamespaces},
		{"subjects", texts(m.Subjects)}, {"excludeSubjects", texts(m.ExcludeSubjects)},
		{"permissions", texts(m.Permissions)}, {"excludePermissions", texts(m.ExcludePermissions)},
	} {
		for _, item := range x.items {
			d.say(x.part, item)
		}
	}
}

func texts[T fmt.Stringer](list []T) (all []string) {
	for _, item := range list {
		all = append(all, item.String())
	}
	return all
}

func rulesByPart(m *policy.MatchResources) iter.Seq2[string, []policy.Rule] {
	return func(yield func(string, []policy.Rule) bool) {
		_ = yield("matched", m.ResourceRules) && yield("excluded", m.ExcludeRules)
	}
}

// ruleTexts describes rules by resource, as "deployments.v1.apps: CREATE, UPDATE". Wildcards remain; their expansion
// depends on the cluster.
func ruleTexts(rules []policy.Rule, types *schema.Registry) []string {
	operations := map[string]map[string]bool{}
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, version := range r.APIVersions {
				resources := r.Resources
				if len(r.Kinds) > 0 {
					resources = r.Kinds
				}
				for _, resource := range resources {
					name := resource + "." + version
					if group != "" {
						name += "." + group
					}
					if served := kindOf(types, group, version, resource); served != "" {
						name += " (" + served + ")"
					}
					if r.Scope != "" && r.Scope != "*" {
						name += " of scope " + r.Scope
					}
					if len(r.ResourceNames) > 0 {
						name += " called " + strings.Join(r.ResourceNames, ", ")
					}
					if operations[name] == nil {
						operations[name] = map[string]bool{}
					}
					for _, op := range r.Operations {
						operations[name][op] = true
					}
				}
			}
		}
	}
	var all []string
	for name, ops := range operations {
		var in []string
		for _, op := range []string{"CREATE", "UPDATE", "DELETE", "CONNECT"} {
			if ops[op] || ops["*"] {
				in = append(in, op)
			}
		}
		all = append(all, name+": "+strings.Join(in, ", "))
	}
	slices.Sort(all)
	return all
}

// kindOf returns the kind of a resource; empty if it is unknown or a wildcard.
func kindOf(types *schema.Registry, group, version, resource string) string {
	if types == nil {
		return ""
	}
	name, sub, _ := strings.Cut(resource, "/")
	r := types.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: name})
	switch {
	case r == nil:
		return ""
	case sub == "":
		return r.Kind
	}
	if s := r.Subresource(sub); s != nil {
		return s.Kind.Kind
	}
	return ""
}

// selector formats a selector as kubectl accepts it.
func selector(s *metav1.LabelSelector) string {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return ""
	}
	return metav1.FormatLabelSelector(s)
}

func foldLines(s string) string { return strings.Join(strings.Fields(s), " ") }
