// Package derive makes a ValidatingAdmissionPolicy that asserts the fields that the mutations of a
// MutatingAdmissionPolicy set: a request that undoes or bypasses a mutation is denied.
//
// A field can be asserted if its value does not depend on fields that the mutation writes, because those have other
// values when the validation runs. Other fields are refused with a reason.
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

// A Result is a policy that asserts the fields that another policy sets.
type Result struct {
	Policy  map[string]any // nil if nothing can be derived
	Refused []Refusal      // fields that are not asserted
	Notes   []Refusal      // fields that are asserted only for some objects
}

// A Refusal is the reason why a field is not asserted, or not for all objects.
type Refusal struct {
	policy.Expr
	Message string
}

// Options determine how a policy is derived.
type Options struct {
	Types []*shape.Type // of the known kinds that the policy matches

	// Unconditional leaves out match conditions that read fields that the mutations write. Such conditions are false
	// for objects with another value, so without them these objects are denied.
	Unconditional bool
}

// Validation derives a policy from p, which was read from object.
func Validation(set *celenv.Set, p *policy.Policy, object map[string]any, opts Options) (*Result, error) {
	d := &deriver{policy: p, opts: opts, result: &Result{}, variables: map[string]effects.Result{},
		reads: map[string][]effects.Path{}}
	if err := d.parse(set); err != nil {
		return nil, err
	}
	for i := range d.mutations {
		d.mutation(&d.mutations[i])
	}
	d.dropOverwritten()
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
	d.dropUnusedVariables(made)
	if len(d.assertions) > 0 {
		d.result.Policy = derived
	}
	return d.result, nil
}

// Binding converts the manifest of a binding of the mutating policy to one of the derived policy.
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
	reads      map[string][]effects.Path // of variables, including variables that they use
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

// An assertion is a validation of the fields that one mutation sets.
type assertion struct {
	policy.Expr        // of the mutation
	index       int    // of the mutation
	text        string // of the validation
	paths       []effects.Path
	all         []effects.Path // the lists whose items all satisfy it
}

// parse parses the expressions of the policy.
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

// copies reports a write of the existing value, such as the name of an item.
func (m *mutation) copies(w effects.Write) bool {
	return w.Value != nil && m.copiesField(w.Value, w.Path)
}

// copiesField reports an expression that selects the field at a path, or an empty list if the field is absent.
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

// readsOf returns the fields that a part of an expression reads, including those of the variables that it uses. It
// leaves out fields from which only members are selected, and lists of which only items are read.
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

// changedRead returns a field that one of the paths reads and whose value differs when the validation runs, and the
// cause of the change.
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

// unsteadyReason explains why the value of an expression differs when the validation runs; empty if it does not.
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

// dropOverwritten removes assertions about fields that a later mutation writes again, and about all items of a list to
// which a later mutation adds items.
func (d *deriver) dropOverwritten() {
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
					again := w.Path.Contains(p) || w.Path == p // at or above the asserted field
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

// writePath formats a path of the object without its root.
func writePath(p effects.Path) string {
	return strings.TrimPrefix(effects.Path{Steps: p.Steps}.String(), ".")
}

// conditions returns the match conditions of the derived policy.
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

// singleQuote replaces the quotes of strings in an expression by quotes that YAML does not escape.
func singleQuote(text string) string {
	if strings.ContainsAny(text, `\'`) {
		return text
	}
	return strings.ReplaceAll(text, `"`, `'`)
}

// dropCompiled removes assertions that do not compile in a validating policy.
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

// dropUnusedVariables removes unused variables.
func (d *deriver) dropUnusedVariables(spec map[string]any) {
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
