package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/policy"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var interplay = []*Analyzer{
	{
		Code: "CG401", Name: "same-field-written", Severity: Warning,
		Title: "two policies write the same field",
		Text: `The API server runs mutating policies in random order. If two of them write different values to one
field, the last one wins, and which one that is may change with every restart. It is a note if match conditions or
selectors may keep the policies apart.`,
		run: sameField,
	},
	{
		Code: "CG402", Name: "order-dependent", Severity: Warning,
		Title: "a mutating policy reads a field that another one writes",
		Text: `The API server runs mutating policies in random order, so the policy may read the field before or after
the other one writes it. It is a note with reinvocationPolicy IfNeeded: the policy runs again after others changed the
object, but never if a match condition was false the first time.`,
		run: orderDependent,
	},
	{
		Code: "CG403", Name: "not-idempotent", Severity: Warning,
		Title: "a second run of the mutation changes the object again",
		Text: `With reinvocationPolicy IfNeeded the API server may run the policy twice. If an expression appends an
item to a list without testing whether the list already contains it, the item is added twice; a value that is computed
from the field itself is computed twice. With Never the same happens when the object is updated, if the policy matches
UPDATE.`,
		Before: "reinvocationPolicy: IfNeeded\n…\nexpression: \"[JSONPatch{op: 'add', path: '/spec/tolerations/-', value: {'key': 'a'}}]\"",
		After:  "expression: >-\n  object.spec.tolerations.exists(t, t.key == 'a') ? []\n  : [JSONPatch{op: 'add', path: '/spec/tolerations/-', value: {'key': 'a'}}]",
		run:    findNotIdempotent,
	},
	{
		Code: "CG404", Name: "order-changes-result", Severity: Warning,
		Title: "the result of two mutating policies depends on their order",
		Text: `The API server runs mutating policies in random order, which may change with every restart. celgate runs
both policies in both orders, with their second passes, on objects that it generates from the schema of the matched
kinds and the fields that the policies read and write. The example is an object for which the results differ. CG401
and CG402 name the field.`,
		run: orderMatters,
	},
	{
		Code: "CG405", Name: "two-versions", Severity: Warning,
		Title: "two mutating policies see different versions of a custom resource",
		Text: `With matchPolicy Equivalent a policy sees the object in the version that its rule names. The API server
converts the original object separately for each version, and keeps only the copy that was changed last: the changes
of the other policies are lost.`,
		Before: "resourceRules:   # of one policy; the rule of another one has apiVersions: [v1]\n- {apiGroups: [example.com], apiVersions: [v2], operations: [CREATE], resources: [widgets]}",
		After:  "resourceRules:   # of both\n- {apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]}",
		run:    twoVersions,
	},
	{
		Code: "CG406", Name: "no-order", Severity: Warning,
		Title: "mutating policies of the dialect do not have a valid order",
		Text: `Of the mutating policies of the dialect, a policy that writes a field runs before the policies that read
the field. If some policies all read what another one of them writes, there is no such order: they run in the order of
their names, unless the spec.order of one of them decides. A spec.order that contradicts another one, or names a
policy that is not a mutating policy in force, is an error and has no effect. celgate check --order shows the whole
order with its reasons.`,
		Before: "spec:\n  order: {after: [lables.example.com]}",
		After:  "spec:\n  order: {after: [labels.example.com]}",
		run:    findUnordered,
	},
}

// findUnordered finds policies of the dialect that do not have an order.
func findUnordered(p *pass) {
	if !slices.ContainsFunc(p.facts, func(f *facts) bool { return f.Kind == policy.Admission && f.Mutates() }) {
		return
	}
	engine, err := celgate.New(p.Set, celgate.Options{KubeVersion: p.KubeVersion, Types: p.Types})
	if err != nil {
		return // the set is invalid, which other checks report
	}
	problems, err := engine.OrderProblems()
	p.err = cmp.Or(p.err, err)
	var names []string
	for _, f := range p.facts {
		if f.Mutates() {
			names = append(names, f.Name)
		}
	}
	for _, found := range problems {
		d := Diagnostic{Ref: found.Ref, Field: found.Field, Position: found.Position, Message: found.Message,
			Suggestion: "set spec.order of one of them"}
		if found.IsError {
			d.Severity, d.Suggestion = Error, ""
			if near := spell.Nearest(found.Value, names, max(2, len(found.Value)/4)); found.Reason == "UnknownPolicy" && near != "" {
				d.Suggestion = "did you mean " + near + "?"
			}
		}
		p.report(d)
	}
}

// A written is one write of a mutation.
type written struct {
	f *facts
	e *expression
	effects.Write
}

// writes returns all writes of the mutations of a policy, without the keys of items.
func (f *facts) writes() []written {
	var all []written
	for e := range f.parsedExpressions() {
		switch e.Use {
		case policy.UseApplyConfiguration:
			for _, w := range effects.AppliedLeaves(e.ast.Expr()) {
				if parent, last, _ := w.Path.Parent(); strings.HasSuffix(parent.Steps,
					"[name="+fmt.Sprint(constant(w.Value))+"]") && last == "name" {
					continue
				}
				all = append(all, written{f, e, w})
			}
		case policy.UseJSONPatch:
			for _, w := range effects.PatchOperations(e.ast.Expr()) {
				if w.Op != "test" && w.Path.Steps != "" {
					all = append(all, written{f, e, w})
				}
			}
		}
	}
	return all
}

// meets reports whether both policies may match one request.
func (f *facts) meets(other *facts) bool {
	if f.Kind != other.Kind || len(f.bindings) == 0 || len(other.bindings) == 0 {
		return false
	}
	ops, others := f.operations(), other.operations()
	both := false
	for op := range ops {
		both = both || others[op]
	}
	return both && slices.ContainsFunc(f.targets, func(t target) bool {
		return slices.ContainsFunc(other.targets, func(o target) bool { return o.kind == t.kind })
	})
}

// isSelective reports whether a policy matches only some of the objects of its kinds.
func (f *facts) isSelective() bool {
	if len(f.MatchConditions) > 0 {
		return true
	}
	some := func(m *policy.MatchResources) bool {
		if m == nil {
			return false
		}
		for _, s := range []*metav1.LabelSelector{m.NamespaceSelector, m.ObjectSelector} {
			if s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
				return true
			}
		}
		return len(m.ResourceRules) > 0 && m != f.MatchConstraints
	}
	return some(f.MatchConstraints) ||
		!slices.ContainsFunc(f.bindings, func(b *policy.Binding) bool { return !some(b.MatchResources) })
}

func sameField(p *pass) {
	for i, f := range p.facts {
		if !f.Mutates() {
			continue
		}
		for _, other := range p.facts[:i] {
			if !f.meets(other) {
				continue
			}
			proved := p.disorder(other, f) != nil
			seen := map[effects.Path]bool{}
			for _, w := range f.writes() {
				for _, o := range other.writes() {
					if seen[w.Path] || w.Path != o.Path || !w.Exact || !o.Exact ||
						slices.Contains(w.Path.Split(), effects.Item) || sameValue(w.Value, o.Value) {
						continue
					}
					seen[w.Path] = true
					d := f.diagnosticAt(w.e, w.ID)
					d.Message = fmt.Sprintf("%s also writes %s: the server's random order decides which value remains",
						other.Name, w.Path)
					if f.Kind == policy.Admission {
						d.Message = fmt.Sprintf("%s also writes %s: the policy that runs later decides", other.Name, w.Path)
					}
					d.Suggestion = "write the field in one policy, or separate the policies by match conditions"
					if f.isSelective() || other.isSelective() || proved {
						d.Severity = Note
					}
					p.report(d)
				}
			}
		}
	}
}

// sameValue reports whether both expressions are the same constant.
func sameValue(a, b ast.Expr) bool {
	x, y := constant(a), constant(b)
	return x != nil && x == y
}

func orderDependent(p *pass) {
	for _, f := range p.facts {
		if !f.Mutates() {
			continue
		}
		for _, other := range p.facts {
			if f == other || !f.meets(other) || f.Kind == policy.Admission {
				continue
			}
			reported := map[effects.Path]bool{}
			proved := p.disorder(other, f) != nil
			for e := range f.parsedExpressions() {
				for _, r := range e.reads.List {
					if r.Path.Root != "object" ||
						slices.ContainsFunc(e.reads.List,
							func(o effects.Read) bool { return o.Path != r.Path && r.Path.Contains(o.Path) }) {
						continue
					}
					for _, w := range other.writes() {
						if !w.Path.Generalize().Contains(r.Path) || reported[r.Path] {
							continue
						}
						reported[r.Path] = true
						d := f.diagnosticAt(e, r.ID)
						d.Message = fmt.Sprintf("%s writes %s, before or after this policy reads it", other.Name, r.Path)
						d.Suggestion = "read and write the field in one policy"
						if f.Reinvocation == policy.IfNeeded || f.isSelective() || other.isSelective() || proved {
							d.Severity = Note
						}
						p.report(d)
					}
				}
			}
		}
	}
}

func findNotIdempotent(p *pass) {
	for _, f := range p.facts {
		if !f.Mutates() || f.Reinvocation != policy.IfNeeded && !f.operations()["UPDATE"] {
			continue // it runs once in the life of an object
		}
		found := p.try(f).twice
		for _, w := range f.writes() {
			switch {
			case w.Append && w.Op == "add":
				list, _, _ := w.Path.Parent()
				if f.looksAt(w.e, list) || appendsToSet(w.e)[w.ID] || f.undoes(w.e) && found == nil {
					continue
				}
				d := f.diagnosticAt(w.e, w.ID)
				d.Message = fmt.Sprintf("a second run appends to %s again",
					strings.TrimPrefix(list.String(), "object."))
				d.Suggestion = "test first whether the item is already present"
				found.show(&d, w.e)
				p.report(d)
			case w.Value != nil && computes(w.e, w.Value, w.Path.Generalize()):
				d := f.diagnosticAt(w.e, w.ID)
				d.Message = fmt.Sprintf("%s is computed from itself: a second run changes it again",
					strings.TrimPrefix(w.Path.String(), "object."))
				d.Suggestion = "test in a match condition whether the change is already made"
				if len(f.MatchConditions) > 0 {
					d.Severity = Note
				}
				found.show(&d, w.e)
				p.report(d)
			}
		}
		if found == nil || found.shown {
			continue
		}
		for e := range f.parsedExpressions() {
			if e.Field == found.mutation.Expr.Field {
				d := diagnosticIn(f.Policy, e.Expr, 0, len(e.Src))
				d.Message, d.Suggestion = "a second run changes the object again",
					"test first, in the expression or in a match condition, whether the change is already made"
				found.show(&d, e)
				p.report(d)
			}
		}
	}
}

// appendsToSet returns the appends of a JSON patch to a list that the same patch has set before: a second run produces
// the same list.
func appendsToSet(e *expression) map[int64]bool {
	found := map[int64]bool{}
	var follow func(x ast.Expr, set []effects.Path) []effects.Path
	follow = func(x ast.Expr, set []effects.Path) []effects.Path {
		switch x.Kind() {
		case ast.ListKind:
			for _, item := range x.AsList().Elements() {
				set = follow(item, set)
			}
			return set
		case ast.CallKind:
			switch c := x.AsCall(); c.FunctionName() {
			case operators.Add:
				return follow(c.Args()[1], follow(c.Args()[0], set))
			case operators.Conditional:
				follow(c.Args()[1], slices.Clone(set))
				follow(c.Args()[2], slices.Clone(set))
				return set
			}
		}
		for _, w := range effects.PatchOperations(x) {
			list, _, _ := w.Path.Parent()
			switch {
			case w.Append && slices.Contains(set, list):
				found[w.ID] = true
			case w.Exact && !w.Append && (w.Op == "add" || w.Op == "replace") && x.Kind() == ast.StructKind:
				set = append(set, w.Path)
			}
		}
		return set
	}
	follow(e.ast.Expr(), nil)
	return found
}

// undoes reports whether e, a variable that it uses or a match condition reads a field that the policy writes: after
// the mutation, its condition may be false.
func (f *facts) undoes(e *expression) bool {
	var paths []effects.Path
	for _, w := range f.writes() {
		paths = append(paths, w.Path.Generalize())
	}
	looks := func(e *expression) bool {
		return slices.ContainsFunc(e.reads.List, func(r effects.Read) bool {
			at := r.Path.Generalize()
			return at.Root == "object" && at.Steps != "" && slices.ContainsFunc(paths, func(p effects.Path) bool {
				return p.Contains(at) || at.Contains(p) && (r.Test || r.Safe)
			})
		})
	}
	if looks(e) || slices.ContainsFunc(e.before, looks) {
		return true
	}
	for c := range f.parsedExpressions() {
		if c.Use == policy.UseMatchCondition && looks(c) {
			return true
		}
	}
	return false
}

// show adds the example to the first diagnostic about its mutation.
func (u *unstable) show(d *Diagnostic, e *expression) {
	if u != nil && !u.shown && u.mutation.Expr.Field == e.Field {
		u.shown = true
		d.Example, d.Severity = u.example, Warning
	}
}

// mostPairs bounds the number of pairs of policies that are run in both orders.
const mostPairs = 200

// disorder returns an object for which the result of two policies depends on their order; nil if none was found. a
// comes before b.
func (p *pass) disorder(a, b *facts) []string {
	if a.Kind == policy.Admission {
		return nil // the server does not sort these
	}
	if a.Name > b.Name {
		a, b = b, a
	}
	pair := [2]*facts{a, b}
	example, known := p.disorders[pair]
	if !known {
		if len(p.disorders) < mostPairs && (a.touches(b) || b.touches(a)) {
			example = p.tryBothOrders(a, b)
		}
		p.disorders[pair] = example
	}
	return example
}

// touches reports whether f may read or write a field that other writes.
func (f *facts) touches(other *facts) bool {
	for _, w := range other.writes() {
		if !w.Exact {
			return true
		}
		path := w.Path.Generalize()
		for _, o := range f.writes() {
			if q := o.Path.Generalize(); !o.Exact || q.Contains(path) || path.Contains(q) {
				return true
			}
		}
		for e := range f.parsedExpressions() {
			if slices.ContainsFunc(e.reads.List, func(r effects.Read) bool {
				return r.Path.Root == "object" && r.Path.Steps != "" &&
					(path.Contains(r.Path) || r.Path.Contains(path) && !r.Test)
			}) {
				return true
			}
		}
	}
	return false
}

func orderMatters(p *pass) {
	for i, f := range p.facts {
		if !f.Mutates() {
			continue
		}
		for _, other := range p.facts[:i] {
			if !other.Mutates() || !f.meets(other) || f.Kind == policy.Admission {
				continue
			}
			example := p.disorder(other, f)
			if example == nil {
				continue
			}
			j := slices.IndexFunc(f.exprs, func(e *expression) bool {
				return e.Use.Mutates()
			})
			d := diagnosticIn(f.Policy, f.exprs[j].Expr, 0, len(f.exprs[j].Src))
			d.Message = fmt.Sprintf("the result depends on whether %s or %s runs first, which is random",
				other.Name, f.Name)
			d.Suggestion = "merge the policies, or avoid reading fields that the other policy writes"
			d.Example = example
			p.report(d)
		}
	}
}

// twoVersions finds policies that change a custom resource through different versions of it.
func twoVersions(p *pass) {
	for i, f := range p.facts {
		for _, other := range p.facts[:i] {
			if !f.Mutates() || !other.Mutates() || len(f.bindings) == 0 ||
				len(other.bindings) == 0 {
				continue
			}
			for _, t := range f.targets {
				j := slices.IndexFunc(other.targets, func(o target) bool {
					return t.custom && o.resource.GroupResource() == t.resource.GroupResource() &&
						o.resource.Version != t.resource.Version
				})
				if j < 0 || slices.ContainsFunc(other.targets, func(o target) bool { return o.kind == t.kind }) {
					continue
				}
				p.reportField(f.Policy, "spec.matchConstraints.resourceRules", "name the same versions in both policies",
					"%s sees %s as %s and this policy as %s: the server keeps only one of two changed copies",
					other.Name, t.resource.Resource, other.targets[j].resource.Version, t.resource.Version)
				break
			}
		}
	}
}

// looksAt reports whether e, a variable that it uses or a match condition reads below path: it may test for the item.
func (f *facts) looksAt(e *expression, path effects.Path) bool {
	below := func(e *expression) bool {
		return slices.ContainsFunc(e.reads.List,
			func(r effects.Read) bool { return path.Contains(r.Path) && (r.Path != path || !r.Test) })
	}
	if below(e) || slices.ContainsFunc(e.before, below) {
		return true
	}
	for c := range f.parsedExpressions() {
		if c.Use == policy.UseMatchCondition && below(c) {
			return true
		}
	}
	return false
}

// computes reports whether a value is a sum, difference, product or quotient of the field at path.
func computes(e *expression, value ast.Expr, path effects.Path) bool {
	if value.Kind() != ast.CallKind {
		return false
	}
	c := value.AsCall()
	switch c.FunctionName() {
	case operators.Add, operators.Subtract, operators.Multiply, operators.Divide:
	default:
		return false
	}
	return slices.ContainsFunc(c.Args(), func(a ast.Expr) bool {
		return slices.Contains(e.reads.Paths[a.ID()], path) || computes(e, a, path)
	})
}
