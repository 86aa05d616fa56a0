// Package typed checks the expressions of a policy against the types of the kinds that it matches: an Object.spec{…}
// literal has the members of spec, and their values have the types of these members.
package typed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	celtypes "github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/policy"
)

// A Checker remembers types. It is for one goroutine.
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

// A Finding holds the mistakes in one expression.
type Finding struct {
	policy.Part
	Problems []Problem
	Issues   []*cel.Error // of the fields that the expression reads, but not those that exist without types
	Tree     *cel.Ast     // the parsed expression; nil if it does not parse
	Nowhere  string       // of a scope: the reason why it does not have values
	// Dynamic is set if the expression writes a value of unknown type.
	Dynamic bool
}

// Kind finds the mistakes in the variables and mutations of a policy for objects of one type and params of another,
// which may be nil. It leaves out expressions that do not parse.
func (c *Checker) Kind(p *policy.Policy, object, params *shape.Type) ([]Finding, error) {
	u := &unit{Checker: c, policy: p, object: object, params: params, variables: map[string]*cel.Type{}}
	everywhere, err := u.sightAt("", each{}, nil)
	if err != nil {
		return nil, err
	}
	var all []Finding
	of := mutated{index: -1}
	for in := range p.Expressions() {
		switch {
		case in.Use == policy.UseVariable:
			found, output := everywhere.expression(in)
			u.variables[in.Name] = output
			all = append(all, found...)
			continue
		case !isOfMutation(in):
			continue
		case in.Index != of.index:
			of = mutated{index: in.Index}
			of.types, of.leads = u.scopedTypes(in.Index)
		}
		switch {
		case !of.leads: // to the possible values
		case in.Locals == "":
			found, output := everywhere.expression(in)
			all = append(all, found...)
			if in.Use == policy.UseForEach {
				of.item = each{p.Mutations[of.index].ForEach.Name, itemOf(output)}
			}
		default:
			if of.seen == nil {
				if of.seen, err = u.sights(&of); err != nil {
					return nil, err
				}
			}
			found, _ := of.seen[0].expression(in)
			for _, s := range of.seen[1:] {
				others, _ := s.expression(in)
				found = intersect(found, others)
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// A mutated is the mutation of the expressions under check.
type mutated struct {
	index int
	types []*shape.Type // of the values in its scope, none unless all are known
	leads bool          // the scope has values
	item  each
	seen  []*sight // the names in its expressions, for each type; nil until the first use
}

// sights returns the names visible to the expressions of a mutation that use its locals, for each type of the values in
// its scope.
func (u *unit) sights(of *mutated) ([]*sight, error) {
	types := of.types
	if len(types) == 0 {
		types = []*shape.Type{nil}
	}
	var all []*sight
	for _, t := range types {
		s, err := u.sightAt(u.policy.Mutations[of.index].Locals(), of.item, t)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// intersect returns the mistakes that an expression has for both of two types of values.
func intersect(these, those []Finding) []Finding {
	if len(these) == 0 || len(those) == 0 {
		return nil
	}
	a, b := these[0], those[0]
	a.Dynamic = a.Dynamic || b.Dynamic
	a.Problems = slices.DeleteFunc(slices.Clone(a.Problems),
		func(p Problem) bool { return !slices.Contains(b.Problems, p) })
	a.Issues = slices.DeleteFunc(slices.Clone(a.Issues), func(e *cel.Error) bool {
		return !slices.ContainsFunc(b.Issues, func(o *cel.Error) bool { return o.ExprID == e.ExprID })
	})
	return []Finding{a}
}

// isOfMutation reports an expression of a mutation.
func isOfMutation(in policy.Part) bool {
	switch in.Use {
	case policy.UseForEach, policy.UseCondition, policy.UseMutationCheck:
		return true
	case policy.UseMessageExpression:
		return strings.HasPrefix(in.Field, "spec.mutations[")
	}
	return in.Use.Mutates()
}

// A unit is a policy under check for one kind.
type unit struct {
	*Checker
	policy         *policy.Policy
	object, params *shape.Type
	variables      map[string]*cel.Type
}

// An each is the item of a mutation with forEach; the zero value means none.
type each struct {
	name string
	typ  *cel.Type
}

// itemOf returns the type of the items of a list, or of a list in an optional.
func itemOf(list *cel.Type) *cel.Type {
	list = contentOf(list)
	if of := list.Parameters(); list.Kind() == celtypes.ListKind && len(of) == 1 {
		return of[0]
	}
	return cel.DynType
}

// contentOf returns the type of the value in an optional, and any other type itself.
func contentOf(t *cel.Type) *cel.Type {
	if of := t.Parameters(); len(of) == 1 && t.IsExactType(cel.OptionalType(of[0])) {
		return of[0]
	}
	return t
}

// scopedTypes returns the types of the values in the scope of a mutation. Leads is false if the scope does not have
// values; there are no types unless all of them are known.
func (u *unit) scopedTypes(mutation int) (of []*shape.Type, leads bool) {
	m := &u.policy.Mutations[mutation]
	if m.Scope.IsZero() {
		return nil, true
	}
	known := true
	for _, steps := range m.ParsedScope().Paths {
		at, n := Follow(u.object, steps)
		if n < len(steps) {
			continue
		}
		leads, known = true, known && at != nil
		if !slices.Contains(of, at) {
			of = append(of, at)
		}
	}
	if !known {
		return nil, true
	}
	return of, leads
}

// A sight is the set of names that the expressions at one position of a policy see.
type sight struct {
	*unit
	item           *shape.Type // at the path of a scope
	untyped, typed *cel.Env
}

// sightAt returns the names visible to expressions that use some locals and an item of forEach, for values of a type in
// a scope.
func (u *unit) sightAt(names string, item each, of *shape.Type) (*sight, error) {
	untyped, err := u.env(names, each{}, nil, nil)
	if err != nil {
		return nil, err
	}
	typed, err := u.env(names, item, u.object, of)
	return &sight{u, of, untyped, typed}, err
}

// env returns an environment with types; without types if the object type is not known.
func (u *unit) env(names string, item each, object, of *shape.Type) (*cel.Env, error) {
	p := u.policy
	vars := map[string]*cel.Type{"object": cel.DynType, "oldObject": cel.DynType}
	variables := u.variables
	if object == nil {
		variables = map[string]*cel.Type{}
		for _, v := range p.Variables {
			variables[v.Name] = cel.DynType
		}
	} else {
		vars["object"], vars["oldObject"] = celType(object, objectName), celType(object, objectName)
	}
	if p.ParamKind != nil {
		vars["params"] = cel.DynType
		if object != nil && u.params != nil {
			vars["params"] = celType(u.params, paramsName)
		}
	}
	left := locals.Names(names)
	known := func(name string, t *cel.Type) {
		vars[name] = t
		left = slices.DeleteFunc(left, func(n string) bool { return n == name })
	}
	if item.name != "" {
		known(item.name, item.typ)
	}
	own := p.Kind == policy.Admission
	declared := celenv.Declared{Params: p.ParamKind != nil, Authorizer: true, Patch: true, Dialect: own, Extended: own,
		Objects: own, Locals: locals.Join(left...)}
	if of != nil {
		known(locals.Item, celType(of, locals.ItemType))
		declared.Locals = locals.Join(left...)
	}
	vars[celenv.VariablesName] = cel.ObjectType(celenv.VariablesType)
	return u.set.EnvWith(declared, func(others celtypes.Provider) celtypes.Provider {
		all := &provider{Provider: others, variables: variables}
		if object != nil {
			all.object, all.params, all.items = u.namesOf(object), u.namesOf(u.params), u.namesOf(of)
		}
		return all
	}, vars)
}

// expression checks one expression and also returns its type.
func (s *sight) expression(in policy.Part) ([]Finding, *cel.Type) {
	p := s.policy
	parsed, issues := celenv.ParseOwn(s.untyped, compile.Declare(p, in.Use, in.Locals), in.Expr)
	if len(issues.Errors()) > 0 {
		return nil, cel.DynType
	}
	tree := parsed.NativeRep().Expr()
	found := Finding{Part: in, Tree: parsed}
	w := &walk{own: p.Kind == policy.Admission, names: s.namesOf(s.object), itemNames: s.namesOf(s.item),
		found: map[Problem]bool{}, seen: map[int64]bool{}}
	output := cel.DynType
	if plainly, _ := celenv.Check(s.untyped, parsed); plainly != nil {
		checked, issues := celenv.Check(s.typed, parsed)
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
	s.judge(w, in, tree, output)
	for p := range w.found {
		found.Problems = append(found.Problems, p)
	}
	found.Dynamic = w.dynamic
	return []Finding{found}, output
}

// judge judges the result of an expression: for a mutation with a scope, the value in the scope.
func (s *sight) judge(w *walk, in policy.Part, tree ast.Expr, output *cel.Type) {
	at := spot{typ: s.object, name: objectName, strict: true, root: true}
	if in.Use.Mutates() && !s.policy.Mutations[in.Index].Scope.IsZero() {
		at = spot{typ: s.item, name: locals.ItemType, strict: true, granular: true}
	}
	switch in.Use {
	case policy.UseApplyConfiguration:
		w.value(tree, at)
	case policy.UseJSONMergePatch:
		w.patch, w.isMergePatch, at.loose, at.named = true, true, true, true
		w.value(tree, at)
	case policy.UseJSONPatch:
		w.patch = true
		for _, write := range effects.PatchOperations(tree) {
			if at.typ != nil {
				w.operation(at.typ, write)
			}
		}
	case policy.UseForEach:
		if list := contentOf(output); list.Kind() != celtypes.ListKind && list.Kind() != celtypes.DynKind {
			w.add(Problem{Class: WrongType, ID: tree.ID(), Message: fmt.Sprintf(
				"expected a list but provided type is '%s'", typeText(list))}, spot{})
		}
	}
	w.judgeOthers(tree)
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
