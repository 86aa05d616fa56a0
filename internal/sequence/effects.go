// Package sequence finds the order in which mutating policies of the dialect run: who writes a field comes before who
// reads it.
package sequence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/policy"
)

// Effects are what the mutations of a policy read and write of the object, as far as the text of the policy tells.
type Effects struct {
	Demands []effects.Demand // of match conditions, selectors and mutations, with the variables that they use
	Touches effects.Touches
	Blind   bool // an expression has no syntax tree: it may read everything
}

// reader reads the effects of one policy.
type reader struct {
	env       *cel.Env
	variables effects.Variables
	demands   map[string][]effects.Demand // of variables, with those that they use
	out       *Effects
}

// EffectsOf reads the effects of the mutations of a policy. Bindings are those that put it in force. The error is a
// defect of this program.
func EffectsOf(set *celenv.Set, p *policy.Policy, bindings []*policy.Binding) (*Effects, error) {
	r, err := newReader(set, p)
	if err != nil {
		return nil, err
	}
	for _, c := range p.MatchConditions {
		r.reads(c.Expr)
	}
	r.addSelected(p.MatchConstraints)
	for _, b := range bindings {
		r.addSelected(b.MatchResources)
	}
	for _, m := range p.Mutations {
		r.mutation(m)
	}
	r.out.Demands = withoutGuards(r.out.Demands)
	return r.out, nil
}

// newReader returns a reader that has read the variables of a policy.
func newReader(set *celenv.Set, p *policy.Policy) (*reader, error) {
	scope := set.Scope(celenv.Run, false)
	defer scope.Close()
	env, err := scope.Env(celenv.Declared{Params: true, Authorizer: true, Patch: true,
		Dialect: p.Kind == policy.Admission, Extended: p.Kind == policy.Admission,
		Objects: p.Kind == policy.Admission})
	if err != nil {
		return nil, err
	}
	r := &reader{env: env, out: &Effects{}, demands: map[string][]effects.Demand{},
		variables: effects.Variables{Trees: map[string]ast.Expr{}, Results: map[string]effects.Result{}}}
	for _, v := range p.Variables {
		r.variable(v)
	}
	return r, nil
}

// Vacuous refuses to have mutations made once more at the end that are not made then: because of what they write their
// conditions are false.
func Vacuous(set *celenv.Set, p *policy.Policy) (errs field.ErrorList) {
	if !p.ChecksMutations() {
		return nil
	}
	guards, err := guardsOf(set, p)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	for _, g := range guards {
		if !p.Mutations[g.mutation].IsExact() {
			continue
		}
		errs = append(errs, field.Invalid(field.NewPath("spec", "mutations").Index(g.mutation).Child("validation"), "Exact",
			fmt.Sprintf("Exact says nothing here: %s reads %s, which the mutation writes; give an {expression: …} of what must hold",
				g.by, g.field)))
	}
	return errs
}

// A guard is a condition of a mutation that reads a field which the mutation writes: it may not hold once the mutation
// is made.
type guard struct {
	mutation int    // its index
	by       string // the field of the policy that has the condition
	field    string // of the object
}

// guardsOf returns the first such condition of each mutation, as far as the text tells. The error is a defect of this
// program.
func guardsOf(set *celenv.Set, p *policy.Policy) (all []guard, err error) {
	r, err := newReader(set, p)
	if err != nil {
		return nil, err
	}
	for i, m := range p.Mutations {
		r.out = &Effects{}
		r.mutation(m)
		if r.out.Touches.Unknown {
			continue
		}
		writes := r.out
		meets := func(by string, read func()) bool {
			r.out = &Effects{}
			read()
			r.out.Demands = withoutGuards(r.out.Demands)
			what, meets := meetingField(&Effects{Touches: writes.Touches}, r.out)
			if meets = meets && !r.out.Blind; meets {
				all = append(all, guard{i, by, what})
			}
			return meets
		}
		if slices.ContainsFunc(p.MatchConditions, func(c policy.NamedExpr) bool {
			return meets(c.Expr.Field, func() { r.reads(c.Expr) })
		}) || meets("spec.matchConstraints.objectSelector", func() { r.addSelected(p.MatchConstraints) }) {
			continue
		}
		if !m.Condition.IsZero() {
			meets(m.Condition.Field, func() { r.reads(m.Condition, scopeOf(m.ParsedScope())...) })
		}
	}
	return all, nil
}

func (r *reader) parse(x policy.Expr) ast.Expr {
	parsed, issues := celenv.ParseOwn(r.env, celenv.Declared{}, x)
	if issues.Err() != nil {
		return nil
	}
	return parsed.NativeRep().Expr()
}

func (r *reader) variable(v policy.NamedExpr) {
	tree := r.parse(v.Expr)
	if tree == nil {
		r.out.Blind = true
		return
	}
	reads := effects.ReadsOf(tree, r.variables.Results)
	r.variables.Trees[v.Name], r.variables.Results[v.Name] = tree, reads.Result(tree)
	r.demands[v.Name] = r.addUsed(reads, reads.Demands)
}

// addUsed returns demands with those of the variables that an expression uses.
func (r *reader) addUsed(reads *effects.Reads, own []effects.Demand) []effects.Demand {
	all := slices.Clone(own)
	for _, name := range reads.Variables {
		all = append(all, r.demands[name]...)
	}
	return all
}

// reads reads an expression, for the values at some paths if it is one of a scope.
func (r *reader) reads(x policy.Expr, items ...effects.Path) ast.Expr {
	tree := r.parse(x)
	if tree == nil {
		r.out.Blind = true
		return nil
	}
	reads := effects.ReadsOf(tree, r.variables.Results)
	for _, d := range r.addUsed(reads, reads.All(tree)) {
		switch d.Path.Root {
		case "object":
			r.demand(d)
		case locals.Item:
			for _, base := range items {
				for _, step := range d.Path.Split() {
					base = base.Step(step)
				}
				r.demand(effects.Demand{Path: base, Of: d.Of})
			}
		}
	}
	return tree
}

func (r *reader) demand(d effects.Demand) {
	if !slices.Contains(r.out.Demands, d) {
		r.out.Demands = append(r.out.Demands, d)
	}
}

// addSelected adds the labels that a selector asks for.
func (r *reader) addSelected(m *policy.MatchResources) {
	if m == nil || m.ObjectSelector == nil {
		return
	}
	keys := slices.Collect(maps.Keys(m.ObjectSelector.MatchLabels))
	for _, e := range m.ObjectSelector.MatchExpressions {
		keys = append(keys, e.Key)
	}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		d := effects.Demand{Path: effects.NewPath("object", "metadata", "labels", key)}
		if !slices.Contains(r.out.Demands, d) {
			r.out.Demands = append(r.out.Demands, d)
		}
	}
}

var forms = map[policy.PatchType]effects.Form{
	policy.ApplyConfiguration: effects.Apply, policy.JSONPatch: effects.Patch,
	policy.JSONMergePatch: effects.MergePatch,
}

func (r *reader) mutation(m policy.Mutation) {
	items := scopeOf(m.ParsedScope())
	if !m.ForEach.Expr.IsZero() {
		r.reads(m.ForEach.Expr)
	}
	if !m.Scope.IsZero() {
		for _, base := range items {
			r.demand(listAbove(base))
		}
	}
	if !m.Condition.IsZero() {
		r.reads(m.Condition, items...)
	}
	tree := r.reads(m.Expr, items...)
	if tree == nil {
		r.out.Touches.Unknown = true
		return
	}
	if m.Scope.IsZero() {
		items = []effects.Path{effects.NewPath("object")}
	}
	for _, base := range items {
		found := effects.TouchesOf(tree, forms[m.PatchType], base, r.variables)
		r.out.Touches.List = append(r.out.Touches.List, found.List...)
		r.out.Touches.Unknown = r.out.Touches.Unknown || found.Unknown
	}
}

// scopeOf returns the paths of the values of a scope.
func scopeOf(s *scope.Scope) (all []effects.Path) {
	for _, steps := range s.Paths {
		at := effects.NewPath("object")
		for _, step := range steps {
			switch {
			case step.Member != "":
				at = at.Step(step.Member)
			case step.Key == "name":
				at = at.Step("[name=" + step.Value + "]")
			default:
				at = at.Step(effects.Item)
			}
		}
		all = append(all, at)
	}
	return all
}

// listAbove is what decides which values a scope has: the items of the first list or map on the way to them.
func listAbove(p effects.Path) effects.Demand {
	steps := p.Split()
	for i, step := range steps {
		if strings.HasPrefix(step, "[") {
			return effects.Demand{Path: effects.NewPath("object", steps[:i]...), Of: effects.Items}
		}
	}
	return effects.Demand{Path: p, Of: effects.Presence}
}

// withoutGuards leaves out the questions whether a field exists below which something else is looked at.
func withoutGuards(all []effects.Demand) []effects.Demand {
	return slices.DeleteFunc(slices.Clone(all), func(d effects.Demand) bool {
		return d.Of == effects.Presence && slices.ContainsFunc(all, func(o effects.Demand) bool {
			return o.Path != d.Path && d.Path.Contains(o.Path)
		})
	})
}

// everything is the word for a field that is not known.
const everything = "*"

// Reads returns the fields that are read, such as metadata.labels.team, sorted; "*" is every field.
func (e *Effects) Reads() []string {
	var all []effects.Path
	for _, d := range e.Demands {
		all = append(all, d.Path)
	}
	return texts(all, e.Blind)
}

// Writes returns the fields that are written, sorted; "*" is every field.
func (e *Effects) Writes() []string {
	var all []effects.Path
	for _, t := range e.Touches.List {
		all = append(all, t.Path)
	}
	return texts(all, e.Touches.Unknown)
}

func texts(paths []effects.Path, unknown bool) []string {
	if unknown {
		return []string{everything}
	}
	all := []string{}
	for _, p := range paths {
		all = append(all, Field(p))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Field returns a path below the object as messages have it.
func Field(p effects.Path) string {
	text := strings.TrimPrefix(strings.TrimPrefix(p.String(), "object"), ".")
	if text == "" {
		return everything
	}
	return text
}

// Meet returns the first field that w changes, or may change, and r looks at; false if there is none.
func Meet(w, r *Effects) (what string, meets bool) {
	field, meets := meetingField(w, r)
	if w.Touches.Unknown {
		return "may write " + field, meets
	}
	return "writes " + field, meets
}

func meetingField(w, r *Effects) (field string, meets bool) {
	switch {
	case w.Touches.Unknown && (r.Blind || len(r.Demands) > 0):
		if len(r.Demands) > 0 {
			return Field(r.Demands[0].Path), true
		}
		return everything, true
	case r.Blind && len(w.Touches.List) > 0:
		return Field(w.Touches.List[0].Path), true
	}
	for _, d := range r.Demands {
		for _, t := range w.Touches.List {
			if t.Meets(d) {
				if d.Of == effects.Items { // what is written says more than that some item is
					return Field(d.Path), true
				}
				return Field(longer(d.Path, t.Path)), true
			}
		}
	}
	return "", false
}

func longer(a, b effects.Path) effects.Path {
	if len(b.Split()) > len(a.Split()) {
		return b
	}
	return a
}

// HaveChanged reports that something between two states of the object may make the mutations come to something else, or
// has taken away what they wrote.
func (e *Effects) HaveChanged(before, after map[string]any) bool {
	if e.Blind || e.Touches.Unknown {
		return true
	}
	for _, d := range e.Demands {
		if d.Differs(before, after) {
			return true
		}
	}
	for _, t := range e.Touches.List {
		if (effects.Demand{Path: t.Path}).Differs(before, after) {
			return true
		}
	}
	return false
}
