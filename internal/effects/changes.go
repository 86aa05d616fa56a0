package effects

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/tree"
)

// A Touch is a possible change of a mutation: the value at a path, and which items or keys the lists and maps above it
// have.
type Touch struct {
	Path  Path
	Grows []Path
}

// Touches are all possible changes of a mutation. Unknown means that the text does not determine them.
type Touches struct {
	List    []Touch
	Unknown bool
}

// A Form determines how the result of a mutation is applied.
type Form int

// The forms.
const (
	Apply      Form = iota // merged by the rules of the schema
	Patch                  // operations of a JSON patch
	MergePatch             // RFC 7386: lists are replaced
)

// Variables are the variables that an expression may use.
type Variables struct {
	Trees   map[string]ast.Expr
	Results map[string]Result
}

// TouchesOf returns the possible changes of a mutation with the expression e in an object at base.
func TouchesOf(e ast.Expr, form Form, base Path, v Variables) Touches {
	t := toucher{form: form, base: base, variables: v}
	t.result(e, 0)
	return t.found
}

// toucher follows the possible results of the expression of a mutation.
type toucher struct {
	form      Form
	base      Path
	variables Variables
	found     Touches
}

// maxVariables is the maximum depth of variables that use variables.
const maxVariables = 16

func (t *toucher) result(e ast.Expr, depth int) {
	switch e.Kind() {
	case ast.StructKind:
		t.structure(e)
		return
	case ast.MapKind:
		if t.form == MergePatch {
			t.value(e, t.base, nil)
			return
		}
	case ast.LiteralKind:
		if v := e.AsLiteral(); v == types.NullValue || v == types.True || v == types.False {
			return
		}
	case ast.ListKind:
		if t.form == Patch {
			for _, item := range e.AsList().Elements() {
				t.result(item, depth)
			}
			return
		}
	case ast.SelectKind:
		operand := e.AsSelect().Operand()
		if operand.Kind() == ast.IdentKind && operand.AsIdent() == "variables" && depth < maxVariables {
			if tree := t.variables.Trees[e.AsSelect().FieldName()]; tree != nil {
				t.result(tree, depth+1)
				return
			}
		}
	case ast.CallKind:
		if t.call(e.AsCall(), depth) {
			return
		}
	case ast.ComprehensionKind:
		if c := e.AsComprehension(); t.form == Patch && c.AccuInit().Kind() == ast.ListKind {
			if item := addedItem(unconditionalStep(c.LoopStep())); item != nil && keptItem(c) == nil {
				t.result(item, depth)
				return
			}
		}
	}
	t.found.Unknown = true
}

func (t *toucher) structure(e ast.Expr) {
	if t.form != Patch {
		t.value(e, t.base, nil)
		return
	}
	writes := PatchOperations(e)
	if len(writes) != 1 || e.AsStruct().TypeName() != "JSONPatch" {
		t.found.Unknown = true
		return
	}
	w := writes[0]
	if w.Op == "test" {
		return
	}
	if w.Path.Steps == "" {
		t.found.Unknown = true
		return
	}
	touch := Touch{Path: rebase(w.Path, t.base)}
	if parent, _, ok := touch.Path.Parent(); ok {
		touch.Grows = []Path{parent}
	}
	t.found.List = append(t.found.List, touch)
	if w.Op == "move" {
		t.found.Unknown = true // from contains the removed value
	}
}

// unconditionalStep returns the value that a loop adds if its condition is true.
func unconditionalStep(step ast.Expr) ast.Expr {
	if step.Kind() == ast.CallKind && step.AsCall().FunctionName() == operators.Conditional {
		return step.AsCall().Args()[1]
	}
	return step
}

// call follows a call that returns one of its arguments; false for other calls.
func (t *toucher) call(c ast.CallExpr, depth int) bool {
	args := c.Args()
	switch name := c.FunctionName(); {
	case name == operators.Conditional && len(args) == 3:
		t.result(args[1], depth)
		t.result(args[2], depth)
		return true
	case name == operators.Add && len(args) == 2 && t.form == Patch:
		t.result(args[0], depth)
		t.result(args[1], depth)
		return true
	case (name == "dyn" || Function(c) == "optional.of") && len(args) == 1:
		t.result(args[0], depth)
		return true
	case Function(c) == "objects.unset", Function(c) == "objects.replace":
		if parent, _, ok := t.base.Parent(); ok { // of a scope, the value itself
			t.found.List = append(t.found.List, Touch{t.base, []Path{parent}})
			return true
		}
	case Function(c) == "optional.none", isCall(c, "mutations", "skip"), isCall(c, "mutations", "deny"):
		return true
	case name == "flatten" && t.form == Patch && c.IsMemberFunction():
		t.result(c.Target(), depth) // a list of lists
		return true
	}
	return false
}

func isCall(c ast.CallExpr, namespace, name string) bool {
	if c.FunctionName() == namespace+"."+name {
		return true
	}
	return c.IsMemberFunction() && c.FunctionName() == name && c.Target().Kind() == ast.IdentKind &&
		c.Target().AsIdent() == namespace
}

func rebase(p, base Path) Path {
	for _, s := range p.Split() {
		base = base.Step(s)
	}
	return base
}

// value follows a value that is merged at a path. Grows are the lists and maps above it that may get an item with it.
func (t *toucher) value(e ast.Expr, at Path, grows []Path) {
	switch e.Kind() {
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			member := f.AsStructField()
			t.member(member.Value(), at.Step(member.Name()), grows)
		}
		if len(e.AsStruct().Fields()) == 0 {
			t.leaf(at, grows)
		}
		return
	case ast.MapKind:
		inner := append(slices.Clone(grows), at)
		for _, entry := range e.AsMap().Entries() {
			step := Item
			if key, ok := literal(entry.AsMapEntry().Key()).(string); ok {
				step = key
			}
			t.member(entry.AsMapEntry().Value(), at.Step(step), inner)
		}
		if len(e.AsMap().Entries()) == 0 {
			t.leaf(at, grows)
		}
		return
	}
	t.leaf(at, grows)
}

func (t *toucher) leaf(at Path, grows []Path) {
	if at != t.base {
		t.found.List = append(t.found.List, Touch{at, grows})
	}
}

// member follows the value of a member, which may be a list.
func (t *toucher) member(e ast.Expr, at Path, grows []Path) {
	switch e.Kind() {
	case ast.StructKind, ast.MapKind:
		t.value(e, at, grows)
		return
	case ast.ListKind:
		if t.form == Apply && isKeyed(e) {
			for _, item := range e.AsList().Elements() {
				t.value(item, at.Step(itemStep(item)), append(slices.Clone(grows), at))
			}
			return
		}
	case ast.CallKind:
		c := e.AsCall()
		switch args := c.Args(); {
		case c.FunctionName() == operators.Conditional && len(args) == 3:
			t.member(args[1], at, grows)
			t.member(args[2], at, grows)
			return
		case c.FunctionName() == operators.Add && len(args) == 2 && t.form == Apply:
			t.summand(args[0], at, grows)
			t.summand(args[1], at, grows)
			return
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		item := addedItem(unconditionalStep(c.LoopStep()))
		if t.form == Apply && item != nil && item.Kind() == ast.StructKind {
			if !t.keepsKeys(c, item, at) {
				grows = append(slices.Clone(grows), at)
			}
			t.value(item, at.Step(Item), grows)
			return
		}
	}
	t.leaf(at, grows)
}

// summand follows one side of a sum of lists. The items of the list itself do not change.
func (t *toucher) summand(e ast.Expr, at Path, grows []Path) {
	if slices.Contains(t.fields(e), at) {
		return
	}
	t.member(e, at, grows)
}

// isKeyed reports a list of structs, which is merged by keys.
func isKeyed(list ast.Expr) bool {
	items := list.AsList().Elements()
	return len(items) > 0 && !slices.ContainsFunc(items, func(e ast.Expr) bool { return e.Kind() != ast.StructKind })
}

// keepsKeys reports a loop over the items of the list at a path that preserves the name of each item: it does not add
// items.
func (t *toucher) keepsKeys(c ast.ComprehensionExpr, item ast.Expr, at Path) bool {
	if !slices.Contains(t.fields(c.IterRange()), at) {
		return false
	}
	variables := []string{c.IterVar()}
	if c.HasIterVar2() {
		variables[0] = c.IterVar2()
	}
	for _, f := range item.AsStruct().Fields() {
		v := f.AsStructField().Value()
		if v.Kind() == ast.SelectKind && v.AsSelect().FieldName() == f.AsStructField().Name() &&
			v.AsSelect().Operand().Kind() == ast.IdentKind &&
			slices.Contains(variables, v.AsSelect().Operand().AsIdent()) {
			return true
		}
	}
	return false
}

// fields returns the fields that an expression may refer to.
func (t *toucher) fields(e ast.Expr) []Path {
	return ReadsOf(e, t.variables.Results).Paths[e.ID()]
}

// Meets reports whether the touch may change the demanded field.
func (t Touch) Meets(d Demand) bool {
	if t.Path.Root != d.Path.Root {
		return false
	}
	written, read := t.Path.Split(), d.Path.Split()
	if d.Of != Items {
		return overlap(written, read)
	}
	if len(written) <= len(read) && overlap(written, read) {
		return true
	}
	return slices.ContainsFunc(t.Grows, func(p Path) bool {
		steps := p.Split()
		return len(steps) == len(read) && overlap(steps, read)
	})
}

// overlap reports whether one of two paths leads to the other, as far as both are known.
func overlap(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && a[i] != Item && b[i] != Item {
			return false
		}
	}
	return true
}

// Differs reports whether the demanded field differs between two objects, which are the root of the path.
func (d Demand) Differs(before, after any) bool { return differs(before, after, d.Path.Split(), d.Of) }

func differs(before, after any, steps []string, of Extent) bool {
	if len(steps) == 0 {
		switch of {
		case Presence:
			return (before == nil) != (after == nil)
		case Items:
			return !sameItems(before, after)
		}
		return !tree.Equal(before, after)
	}
	step, rest := steps[0], steps[1:]
	switch {
	case step == Item:
		return changedItems(before, after, rest, of)
	case strings.HasPrefix(step, "[name="):
		name := strings.TrimSuffix(strings.TrimPrefix(step, "[name="), "]")
		return differs(namedItem(before, name), namedItem(after, name), rest, of)
	}
	return differs(member(before, step), member(after, step), rest, of)
}

func changedItems(before, after any, rest []string, of Extent) bool {
	if !sameItems(before, after) {
		return true
	}
	switch before := before.(type) {
	case []any:
		for i, item := range before {
			if differs(item, after.([]any)[i], rest, of) {
				return true
			}
		}
	case map[string]any:
		for key, value := range before {
			if differs(value, after.(map[string]any)[key], rest, of) {
				return true
			}
		}
	default:
		return !tree.Equal(before, after)
	}
	return false
}

// sameItems reports lists of equal length whose items have the same names in the same order, and maps with the same
// keys.
func sameItems(before, after any) bool {
	switch before := before.(type) {
	case []any:
		now, _ := after.([]any)
		if len(before) != len(now) {
			return false
		}
		for i, item := range before {
			_, structure := item.(map[string]any)
			if structure && !tree.Equal(member(item, "name"), member(now[i], "name")) || !structure && !tree.Equal(item, now[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		now, _ := after.(map[string]any)
		if len(before) != len(now) {
			return false
		}
		for key := range before {
			if _, ok := now[key]; !ok {
				return false
			}
		}
		return true
	}
	return tree.Equal(before, after)
}

func member(v any, name string) any {
	members, _ := v.(map[string]any)
	return members[name]
}

func namedItem(v any, name string) any {
	list, _ := v.([]any)
	for _, item := range list {
		if member(item, "name") == any(name) {
			return item
		}
	}
	return nil
}
