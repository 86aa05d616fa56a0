// Package typed checks what the expressions of a policy make and read against the types of the kinds that it matches:
// an Object.spec{…} literal has the members of spec, and their values are of the types of these.
//
// kube-apiserver has no such check: it finds a mistake when the mutation runs. Types decide here about acceptance
// only. Expressions run as they would without, so that results cannot differ.
package typed

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celtypes "github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/policy"
)

// A Checker remembers the types that it met. It is for one goroutine.
type Checker struct {
	set   *celenv.Set
	types map[*shape.Type]*names
}

// NewChecker returns a checker for expressions of a minor.
func NewChecker(set *celenv.Set) *Checker {
	return &Checker{set: set, types: map[*shape.Type]*names{}}
}

func (c *Checker) namesOf(t *shape.Type) *names {
	if t == nil {
		return nil
	}
	n := c.types[t]
	if n == nil {
		n = &names{root: t}
		c.types[t] = n
	}
	return n
}

// A Finding is what is said about one expression.
type Finding struct {
	policy.Part
	Problems []Problem
	Issues   []*cel.Error // of what is read, by the types; those that exist without types are left out
	Tree     *cel.Ast     // as it was parsed; nil if it was not
	// Dynamic is set where a value is written about whose type nothing is known.
	Dynamic bool
}

// Kind finds the mistakes in the variables and mutations of a policy for objects of one type and params of another,
// which may be nil. An expression that does not parse is left out.
func (c *Checker) Kind(p *policy.Policy, object, params *shape.Type) ([]Finding, error) {
	variables := map[string]*cel.Type{}
	untyped, err := c.env(p, "", each{}, nil, nil, map[string]*cel.Type{})
	if err != nil {
		return nil, err
	}
	typed, err := c.env(p, "", each{}, object, params, variables)
	if err != nil {
		return nil, err
	}
	var all []Finding
	var item each // of the mutation that comes next
	for in := range p.Expressions() {
		if in.Use != policy.UseVariable && in.Use != policy.UseForEach && !in.Use.Mutates() {
			continue
		}
		if in.Use.Mutates() && in.Locals != "" {
			found, err := c.item(p, in, item, object, params, variables)
			if item = (each{}); err != nil {
				return nil, err
			}
			all = append(all, found...)
			continue
		}
		found, output := c.expression(p, in, object, untyped, typed)
		switch in.Use {
		case policy.UseVariable:
			variables[in.Name] = output
		case policy.UseForEach:
			item = each{p.Mutations[in.Index].ForEach.Name, itemOf(output)}
		}
		if found != nil {
			all = append(all, *found)
		}
	}
	return all, nil
}

// An each is the item that a mutation with forEach is made for; zero: there is none.
type each struct {
	name string
	typ  *cel.Type
}

// itemOf is the type of the items of a list, or of one that an optional holds.
func itemOf(list *cel.Type) *cel.Type {
	if of := list.Parameters(); len(of) == 1 && list.IsExactType(cel.OptionalType(of[0])) {
		list = of[0]
	}
	if of := list.Parameters(); list.Kind() == celtypes.ListKind && len(of) == 1 {
		return of[0]
	}
	return cel.DynType
}

// item checks the expression of a mutation with a scope, or with forEach, for objects of one type.
func (c *Checker) item(p *policy.Policy, in policy.Part, item each, object, params *shape.Type,
	variables map[string]*cel.Type) ([]Finding, error) {
	at := object
	if s := p.Mutations[in.Index].ParsedScope(); !s.IsZero() {
		at = scopedType(object, s)
	}
	if at == nil {
		return nil, nil // nothing is known of the values, or there are none
	}
	untyped, err := c.env(p, in.Locals, each{}, nil, nil, map[string]*cel.Type{})
	if err != nil {
		return nil, err
	}
	typed, err := c.env(p, in.Locals, item, object, params, variables)
	if err != nil {
		return nil, err
	}
	found, _ := c.expression(p, in, at, untyped, typed)
	if found == nil {
		return nil, nil
	}
	return []Finding{*found}, nil
}

// env returns an environment with types; without them if there is no object type.
func (c *Checker) env(p *policy.Policy, names string, item each, object, params *shape.Type,
	variables map[string]*cel.Type) (*cel.Env, error) {
	vars := map[string]*cel.Type{"object": cel.DynType, "oldObject": cel.DynType}
	if object != nil {
		vars["object"], vars["oldObject"] = celType(object, objectName), celType(object, objectName)
	}
	if p.ParamKind != nil {
		vars["params"] = cel.DynType
		if params != nil {
			vars["params"] = celType(params, paramsName)
		}
	}
	if item.name != "" {
		vars[item.name] = item.typ
		names = locals.Join(slices.DeleteFunc(locals.Names(names), func(n string) bool { return n == item.name })...)
	}
	own := p.Kind == policy.Admission
	declared := celenv.Declared{Params: p.ParamKind != nil, Authorizer: true, Patch: true, Dialect: own, Extended: own,
		Objects: own, Locals: names}
	if object == nil {
		for _, v := range p.Variables {
			variables[v.Name] = cel.DynType
		}
	}
	vars[celenv.VariablesName] = cel.ObjectType(celenv.VariablesType)
	return c.set.EnvWith(declared, func(others celtypes.Provider) celtypes.Provider {
		all := &provider{Provider: others, variables: variables}
		if object != nil {
			all.object, all.params = c.namesOf(object), c.namesOf(params)
		}
		return all
	}, vars)
}

// expression checks one expression. The second result is its type.
func (c *Checker) expression(p *policy.Policy, in policy.Part, object *shape.Type, untyped,
	typed *cel.Env) (*Finding, *cel.Type) {
	parsed, issues := celenv.ParseOwn(untyped, compile.Declare(p, in.Use, in.Locals), in.Expr)
	if len(issues.Errors()) > 0 {
		return nil, cel.DynType
	}
	tree := parsed.NativeRep().Expr()
	found := &Finding{Part: in, Tree: parsed}
	w := &walk{patch: in.Use == policy.UseJSONPatch, own: p.Kind == policy.Admission, names: c.namesOf(object),
		found: map[Problem]bool{},
		seen:  map[int64]bool{}}
	output := cel.DynType
	if plainly, _ := celenv.Check(untyped, parsed); plainly != nil {
		checked, issues := celenv.Check(typed, parsed)
		for _, e := range issues.Errors() {
			e.Message = stripNullMark(e.Message)
			found.Issues = append(found.Issues, e)
		}
		if checked != nil {
			output = checked.OutputType()
		} else {
			checked = plainly
		}
		w.checked = checked.NativeRep()
	}
	switch in.Use {
	case policy.UseApplyConfiguration:
		root := objectName
		if !p.Mutations[in.Index].Scope.IsZero() {
			root = locals.ItemType
		}
		w.value(tree, spot{typ: object, name: root, strict: true})
		w.others(tree)
	case policy.UseJSONPatch:
		for _, write := range effects.PatchOperations(tree) {
			w.operation(object, write)
		}
	default:
		w.others(tree)
	}
	for p := range w.found {
		found.Problems = append(found.Problems, p)
	}
	found.Dynamic = w.dynamic
	return found, output
}

// operation judges the path and the value of one operation of a JSON patch.
func (w *walk) operation(root *shape.Type, write effects.Write) {
	steps := write.Path.Split()
	at := Locate(root, steps)
	if at.Type == nil {
		if at.Open {
			return
		}
		suggestion := ""
		if at.Depth < len(steps) {
			suggestion = DidYouMean(steps[at.Depth], Fields(at.Owner))
		}
		name := strings.TrimPrefix(effects.Path{
			Steps: strings.Join(steps[:min(at.Depth+1, len(steps))], "\x00")}.String(), ".")
		w.add(Problem{Class: UnknownField, ID: write.ID, Message: name + " is not a field", Suggestion: suggestion},
			spot{})
		return
	}
	if write.Value == nil || !write.Exact || write.Op != "add" && write.Op != "replace" {
		return
	}
	name := objectName
	for _, step := range steps {
		if step != effects.Item {
			name += "." + step
		}
	}
	w.value(write.Value, spot{typ: at.Type, field: at.Field, name: name,
		path: strings.TrimPrefix(effects.Path{Steps: write.Path.Steps}.String(), "."), loose: true,
		named: true})
}
