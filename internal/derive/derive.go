// Package derive makes a ValidatingAdmissionPolicy that asserts what the mutations of a MutatingAdmissionPolicy set:
// whoever undoes one of them, or gets past them, is denied.
//
// What a mutation sets can be asserted if it does not depend on what the mutation writes: when the validation runs,
// that has another value. The rest is refused with a reason.
package derive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// A Result is a policy that asserts what another one sets.
type Result struct {
	Policy  map[string]any // nil if nothing can be derived
	Refused []Refusal      // what is not asserted
	Notes   []Refusal      // what is asserted of some objects only
}

// A Refusal says why something is not asserted, or not of all objects.
type Refusal struct {
	policy.Expr
	Message string
}

// Options say how a policy is derived.
type Options struct {
	Types []*shape.Type // of the kinds that the policy matches, as far as they are known

	// Unconditional leaves match conditions out that read what the mutations write. They are false for objects that
	// have another value, which are denied without them.
	Unconditional bool
}

// Validation derives from p, which was read from object.
func Validation(set *celenv.Set, p *policy.Policy, object map[string]any, opts Options) (*Result, error) {
	d := &deriver{policy: p, opts: opts, result: &Result{}, variables: map[string]effects.Result{},
		reads: map[string][]effects.Path{}}
	if err := d.parse(set); err != nil {
		return nil, err
	}
	for i := range d.mutations {
		d.mutation(&d.mutations[i])
	}
	d.overwritten()
	spec, _ := object["spec"].(map[string]any)
	made := map[string]any{}
	for _, field := range []string{"failurePolicy", "paramKind", "matchConstraints"} {
		if v, ok := spec[field]; ok {
			made[field] = v
		}
	}
	if conditions := d.conditions(spec); len(conditions) > 0 {
		made["matchConditions"] = conditions
	}
	made["variables"], _ = spec["variables"].([]any)
	made["validations"] = d.validations()
	derived := map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": string(policy.Validating),
		"metadata": map[string]any{"name": p.Name}, "spec": made,
	}
	if err := d.dropCompiled(set, derived); err != nil {
		return nil, err
	}
	made["validations"] = d.validations()
	d.usedVariables(made)
	if len(d.assertions) > 0 {
		d.result.Policy = derived
	}
	return d.result, nil
}

// Binding makes of a binding of the mutating policy, as it is written, one of the derived policy.
func Binding(object map[string]any, actions []string) map[string]any {
	metadata := tree.Object(object).Metadata()
	from, _ := object["spec"].(map[string]any)
	does := make([]any, len(actions))
	for i, a := range actions {
		does[i] = a
	}
	spec := map[string]any{"validationActions": does}
	for _, field := range []string{"policyName", "paramRef", "matchResources"} {
		if v, ok := from[field]; ok {
			spec[field] = v
		}
	}
	return map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": policy.Validating.Binding(),
		"metadata": map[string]any{"name": metadata["name"]}, "spec": spec,
	}
}

// A deriver is one derivation.
type deriver struct {
	policy     *policy.Policy
	opts       Options
	result     *Result
	mutations  []mutation
	matching   []part
	variables  map[string]effects.Result
	reads      map[string][]effects.Path // of variables, with those that they use
	writes     []effects.Path
	assertions []assertion
	added      []assertion // the lists to which mutations add items
}

// A part is an expression with its syntax tree.
type part struct {
	policy.Part
	tree  *ast.AST
	types *ast.AST // nil: not known
	reads *effects.Reads
}

type mutation struct{ part }

// An assertion is a validation of what one mutation sets.
type assertion struct {
	policy.Expr        // of the mutation
	index       int    // of the mutation
	text        string // of the validation
	paths       []effects.Path
	all         []effects.Path // lists of which it is about all items
}

// parse reads the expressions of the policy.
func (d *deriver) parse(set *celenv.Set) error {
	scope := set.Scope(celenv.Run, false)
	defer scope.Close()
	own := d.policy.Kind == policy.Admission
	env, err := scope.Env(celenv.Declared{Params: true, Authorizer: true, Patch: true, Dialect: own, Extended: own,
		Objects: own})
	if err != nil {
		return err
	}
	if env, err = env.Extend(cel.EnableMacroCallTracking()); err != nil {
		return err
	}
	for x := range d.policy.Expressions() {
		parsed, issues := celenv.ParseOwn(env, celenv.Declared{}, x.Expr)
		if len(issues.Errors()) > 0 {
			d.refuse(x.Expr, "it does not parse")
			continue
		}
		p := part{Part: x, tree: parsed.NativeRep()}
		p.reads = effects.ReadsOf(p.tree.Expr(), d.variables)
		if checked, _ := celenv.Check(env, parsed); checked != nil {
			p.types = checked.NativeRep()
		}
		switch {
		case x.Use == policy.UseVariable:
			d.variables[x.Name] = p.reads.Result(p.tree.Expr())
			d.reads[x.Name] = d.readsOf(p.reads, p.tree.Expr())
		case x.Use == policy.UseMatchCondition:
			d.matching = append(d.matching, p)
		case x.Use.Mutates() && x.Locals != "":
			d.refuse(x.Expr, "the result of a mutation with a scope cannot be derived")
		case x.Use.Mutates():
			d.mutations = append(d.mutations, mutation{p})
		}
	}
	for _, m := range d.mutations {
		writes := effects.AppliedLeaves(m.tree.Expr())
		if m.Use == policy.UseJSONPatch {
			writes = effects.PatchOperations(m.tree.Expr())
		}
		for _, w := range writes {
			if !m.copies(w) {
				d.writes = append(d.writes, w.Path.Generalize())
			}
		}
	}
	return nil
}

// copies reports a write of what is there already, such as the name of an item.
func (m *mutation) copies(w effects.Write) bool {
	return w.Value != nil && m.copiesField(w.Value, w.Path)
}

// copiesField reports an expression that selects the field at a path, or an empty list where there is none.
func (p *part) copiesField(e ast.Expr, path effects.Path) bool {
	if e.Kind() == ast.CallKind {
		switch c := e.AsCall(); effects.Function(c) {
		case operators.Index, operators.OptIndex, operators.OptSelect:
		case "orValue":
			if !c.IsMemberFunction() || len(c.Args()) != 1 || !isEmptyLiteral(c.Args()[0]) {
				return false
			}
		default:
			return false
		}
	} else if e.Kind() != ast.SelectKind && e.Kind() != ast.IdentKind {
		return false
	}
	return slices.ContainsFunc(p.reads.Paths[e.ID()],
		func(read effects.Path) bool { return read.Generalize() == path.Generalize() })
}

// readsOf returns the fields that a part of an expression reads, with those of the variables that it uses. What is
// selected only to select from it is none of them, nor is a list of whose items something is read.
func (d *deriver) readsOf(r *effects.Reads, e ast.Expr) []effects.Path {
	within, passed := map[int64]bool{}, map[int64]bool{}
	var all []effects.Path
	var ranges []ast.Expr
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		within[e.ID()] = true
		switch e.Kind() {
		case ast.SelectKind:
			operand := e.AsSelect().Operand()
			passed[operand.ID()] = true
			if operand.Kind() == ast.IdentKind && operand.AsIdent() == celenv.VariablesName {
				all = append(all, d.reads[e.AsSelect().FieldName()]...)
			}
		case ast.CallKind:
			switch c := e.AsCall(); effects.Function(c) {
			case operators.Index, operators.OptIndex, operators.OptSelect:
				passed[c.Args()[0].ID()] = true
			}
		case ast.ComprehensionKind:
			ranges = append(ranges, e.AsComprehension().IterRange())
		}
	}))
	for _, of := range ranges {
		for _, p := range r.Paths[of.ID()] {
			if slices.ContainsFunc(r.List,
				func(x effects.Read) bool { return within[x.ID] && x.Path != p && p.Contains(x.Path) }) {
				ast.PreOrderVisit(of, ast.NewExprVisitor(func(e ast.Expr) {
					if slices.Contains(r.Paths[e.ID()], p) {
						passed[e.ID()] = true
					}
				}))
			}
		}
	}
	for _, read := range r.List {
		if within[read.ID] && !passed[read.ID] {
			all = append(all, read.Path.Generalize())
		}
	}
	return all
}

// changedRead returns a field that some paths read and that has another value when the validation runs, and says who
// changes it.
func (d *deriver) changedRead(reads []effects.Path) (effects.Path, string) {
	for _, r := range reads {
		if r.Root != "object" || r.Steps == "" {
			continue
		}
		for _, w := range d.writes {
			if w.Contains(r) || r.Contains(w) {
				return r, "which the mutation writes"
			}
		}
		steps := r.Split()
		switch {
		case steps[0] == "status", steps[0] == "metadata" && len(steps) > 1 && !slices.Contains(
			[]string{"name", "namespace", "labels", "annotations", "ownerReferences", "finalizers"}, steps[1]):
			return r, "which the API server sets after mutations"
		}
	}
	return effects.Path{}, ""
}

// unsteadyReason explains why an expression has another value when the validation runs; empty: it has the same.
func (d *deriver) unsteadyReason(m *part, e ast.Expr) string {
	if path, who := d.changedRead(d.readsOf(m.reads, e)); who != "" {
		return "it is computed from " + path.String() + ", " + who
	}
	return ""
}

func (d *deriver) refuse(x policy.Expr, format string, args ...any) {
	r := Refusal{x, fmt.Sprintf(format, args...)}
	if !slices.ContainsFunc(d.result.Refused,
		func(o Refusal) bool { return o.Field == r.Field && o.Message == r.Message }) {
		d.result.Refused = append(d.result.Refused, r)
	}
}

// overwritten takes assertions out about what a later mutation writes again, and about all items of a list that has new
// ones.
func (d *deriver) overwritten() {
	d.assertions = slices.DeleteFunc(d.assertions, func(a assertion) bool {
		for _, list := range a.all {
			if slices.ContainsFunc(d.added,
				func(x assertion) bool { return x.index >= a.index && x.paths[0] == list }) {
				d.refuse(a.Expr, "%s[] cannot be derived: items are added to the list", writePath(list))
				return true
			}
		}
		for _, m := range d.mutations {
			if m.Index <= a.index {
				continue
			}
			writes := effects.AppliedLeaves(m.tree.Expr())
			if m.Use == policy.UseJSONPatch {
				writes = effects.PatchOperations(m.tree.Expr())
			}
			for _, w := range writes {
				if w.Op == "apply" && m.copies(w) {
					continue
				}
				for _, p := range a.paths {
					again := w.Path.Contains(p) || w.Path == p // at or above what is asserted
					if w.Op == "apply" && p.Contains(w.Path) && p != w.Path {
						again = false // a merge below it adds to it
					}
					if again && !strings.HasSuffix(p.Steps, effects.Item) {
						d.refuse(a.Expr, "%s cannot be derived: mutations[%d] writes it again", writePath(p), m.Index)
						return true
					}
				}
			}
		}
		return false
	})
}

// writePath writes a path of the object without its root.
func writePath(p effects.Path) string {
	return strings.TrimPrefix(effects.Path{Steps: p.Steps}.String(), ".")
}

// conditions are the match conditions that are kept.
func (d *deriver) conditions(spec map[string]any) []any {
	all, _ := spec["matchConditions"].([]any)
	var kept []any
	for i, c := range all {
		j := slices.IndexFunc(d.matching, func(m part) bool { return m.Index == i })
		if j < 0 {
			continue
		}
		m := d.matching[j]
		path, who := d.changedRead(d.readsOf(m.reads, m.tree.Expr()))
		switch {
		case who == "":
		case d.opts.Unconditional:
			d.result.Notes = append(d.result.Notes, Refusal{m.Expr, fmt.Sprintf(
				"match condition %s is left out: it reads %s, %s", m.Name, path, who)})
			continue
		default:
			d.result.Notes = append(d.result.Notes, Refusal{m.Expr, fmt.Sprintf("match condition %s reads %s, %s: "+
				"the validation does not cover objects for which it is false afterwards", m.Name, path, who)})
		}
		kept = append(kept, c)
	}
	return kept
}

func (d *deriver) validations() []any {
	var all []any
	for _, a := range d.assertions {
		names := make([]string, 0, len(a.paths))
		for _, p := range a.paths {
			if name := writePath(p); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		const most = 3
		if len(names) > most {
			names = append(names[:most], "…")
		}
		all = append(all, map[string]any{"expression": singleQuote(a.text), "message": fmt.Sprintf(
			"%s: not as policy %s sets it", strings.Join(names, ", "), d.policy.Name)})
	}
	return all
}

// singleQuote writes the strings of an expression with quotes that YAML does not need to escape.
func singleQuote(text string) string {
	if strings.ContainsAny(text, `\'`) {
		return text
	}
	return strings.ReplaceAll(text, `"`, `'`)
}

// dropCompiled takes out what a validating policy cannot say.
func (d *deriver) dropCompiled(set *celenv.Set, derived map[string]any) error {
	if len(d.assertions) == 0 {
		return nil
	}
	p, _, err := policy.FromObject(derived, nil)
	if err != nil {
		return err
	}
	prog, err := compile.Policy(set, p)
	if err != nil {
		return err
	}
	i := -1
	d.assertions = slices.DeleteFunc(d.assertions, func(a assertion) bool {
		i++
		err := prog.Validations[i].Err
		if err != nil {
			text, _, _ := strings.Cut(err.Error(), "\n")
			d.refuse(a.Expr, "%s cannot be derived, because a validation cannot express it: %s", writePath(a.paths[0]), text)
		}
		return err != nil
	})
	return nil
}

// usedVariables leaves variables out that nothing uses.
func (d *deriver) usedVariables(spec map[string]any) {
	all, _ := spec["variables"].([]any)
	used := ""
	for _, a := range d.assertions {
		used += a.text + "\n"
	}
	var kept []any
	for i := len(all) - 1; i >= 0; i-- {
		v, _ := all[i].(map[string]any)
		if name, _ := v["name"].(string); strings.Contains(used, celenv.VariablesName+"."+name) {
			text, _ := v["expression"].(string)
			used += text + "\n"
			kept = append(kept, v)
		}
	}
	slices.Reverse(kept)
	if spec["variables"] = kept; len(kept) == 0 {
		delete(spec, "variables")
	}
}
