// Package sequence finds the order in which mutating policies of the dialect run: a policy that writes a field comes
// before the policies that read it.
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

// Effects are the fields that the mutations of a policy read and write, according to its text.
type Effects struct {
	Demands []effects.Demand // of match conditions, selectors and mutations, including the variables that they use
	Touches effects.Touches
	Blind   bool // an expression cannot be parsed: it may read everything
}

// reader reads the effects of one policy.
type reader struct {
	env       *cel.Env
	variables effects.Variables
	demands   map[string][]effects.Demand // of variables, including the variables that they use
	out       *Effects
}

// EffectsOf computes the effects of the mutations of a policy; bindings are its bindings. An error is a defect of this
// program.
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

// newReader returns a reader that has analysed the variables of a policy.
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

// Vacuous refuses a final check by repetition for mutations that would not be repeated: their own writes make a
// condition false.
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
			fmt.Sprintf("Exact does not apply: %s reads %s, which the mutation writes; write the condition as {expression: …}",
				g.by, g.field)))
	}
	return errs
}

// A guard is a condition of a mutation that reads a field which the mutation writes: it may be false after the
// mutation.
type guard struct {
	mutation int    // its index
	by       string // the field of the policy with the condition
	field    string // of the object
}

// guardsOf returns the first such condition of each mutation, according to the text. An error is a defect of this
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

// reads analyses an expression; for a scope, items are the paths of its values.
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

// addSelected adds the labels that a selector reads.
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

// listAbove returns the demand that determines the values of a scope: the items of the first list or map on the path.
func listAbove(p effects.Path) effects.Demand {
	steps := p.Split()
	for i, step := range steps {
		if strings.HasPrefix(step, "[") {
			return effects.Demand{Path: effects.NewPath("object", steps[:i]...), Of: effects.Items}
		}
	}
	return effects.Demand{Path: p, Of: effects.Presence}
}

// withoutGuards drops tests for the existence of fields below which other demands exist.
func withoutGuards(all []effects.Demand) []effects.Demand {
	return slices.DeleteFunc(slices.Clone(all), func(d effects.Demand) bool {
		return d.Of == effects.Presence && slices.ContainsFunc(all, func(o effects.Demand) bool {
			return o.Path != d.Path && d.Path.Contains(o.Path)
		})
	})
}

// everything stands for an unknown field.
const everything = "*"

// Reads returns the fields read, such as metadata.labels.team, sorted; "*" is every field.
func (e *Effects) Reads() []string {
	var all []effects.Path
	for _, d := range e.Demands {
		all = append(all, d.Path)
	}
	return texts(all, e.Blind)
}

// Writes returns the fields written, sorted; "*" is every field.
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

// Field returns a path below the object in the form of messages.
func Field(p effects.Path) string {
	text := strings.TrimPrefix(strings.TrimPrefix(p.String(), "object"), ".")
	if text == "" {
		return everything
	}
	return text
}

// Meet returns the first field that w changes, or may change, and r reads; false if there is none.
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
				if d.Of == effects.Items { // the written field is more specific than the set of items
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

// HaveChanged reports whether a change of the object may affect the result of the mutations, or has undone their
// writes.
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
