package typed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	celtypes "github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/shape"
)

// mark judges objects.unset(), objects.remove(…) and objects.replace(…) at the position of a value: package merge
// refuses some of them for the type of the position, whatever the object contains.
func (w *walk) mark(c ast.CallExpr, e ast.Expr, at spot) {
	function := effects.Function(c)
	called := function + "(…)"
	if len(c.Args()) == 0 {
		called = function + "()"
	}
	problem := func(format string, args ...any) {
		w.add(Problem{Class: WrongType, ID: e.ID(), Message: called + fmt.Sprintf(format, args...)}, at)
	}
	if w.patch || !w.own || len(c.Args()) > 1 {
		return // reported elsewhere
	}
	switch {
	case at.whole:
		problem(" is not allowed in the argument of objects.replace or objects.remove")
	case at.list != nil && (at.list.Merge == shape.Atomic || function == "objects.unset"):
		problem(" is not allowed for the items of %s%s", at.path, alternative(at.list))
	case at.atomic:
		problem(": %s is part of a value that merges as one: write objects.replace(…) with the whole value", at.path)
	case at.list == nil && function == "objects.remove":
		problem(" is for items of lists: write objects.unset()")
	case !at.root || at.list != nil:
	case at.path == "":
		problem(" is for a part of an object, as in Object{spec: …}")
	case at.path == "apiVersion", at.path == "kind", at.path == "metadata" && function == "objects.unset":
		problem(": an object keeps its %s", at.path)
	}
	if len(c.Args()) == 0 {
		return
	}
	of := c.Args()[0]
	if function == "objects.remove" && at.list != nil && of.Kind() == ast.StructKind {
		for _, key := range at.list.Keys {
			if f := at.typ.Field(key); !hasMember(of, key) && (f == nil || f.Default == nil || f.Default == "") {
				problem(" needs %s", key)
			}
		}
	}
	at.whole = true
	w.value(of, at)
}

// alternative returns the expression to write for an item of a list instead of a mark.
func alternative(list *shape.Type) string {
	if list.Merge == shape.Atomic {
		return ", which merges as one value: write objects.replace(list.filter(…)) in its place"
	}
	return ": write objects.remove(…) with the keys of the item"
}

// mergesAtomically reports a value that merges as one, whatever value contains it.
func (at spot) mergesAtomically() bool {
	return (at.typ.Kind == shape.List || hasMembers(at.typ)) &&
		(at.typ.Merge == shape.Atomic || at.field != nil && at.field.Atomic)
}

// part returns the spot of a part of a value.
func (at spot) part() spot {
	at.atomic = at.atomic || at.mergesAtomically() && !at.granular
	at.named, at.granular = false, false
	return at
}

// judgeApply judges the arguments of objects.apply.
func (w *walk) judgeApply(c ast.CallExpr) {
	if len(c.Args()) < 2 {
		return
	}
	value, part := c.Args()[0], c.Args()[1]
	switch w.typeOf(value).Kind() {
	case celtypes.DynKind, celtypes.AnyKind, celtypes.StructKind, celtypes.MapKind, celtypes.OpaqueKind,
		celtypes.TypeParamKind, celtypes.ErrorKind, celtypes.UnspecifiedKind:
	default:
		w.add(Problem{Class: WrongType, ID: value.ID(), Message: fmt.Sprintf(
			"objects.apply: the first value is of type '%s', not an object", typeText(w.typeOf(value)))}, spot{})
	}
	if part.Kind() != ast.StructKind {
		return
	}
	name := part.AsStruct().TypeName()
	at, ok := w.placeNamed(name)
	if !ok {
		return
	}
	if at.typ == nil || !hasMembers(at.typ) && !acceptsSeveral(at.typ) {
		w.seen[part.ID()] = true
		w.add(w.misnaming(name, part.ID()), spot{})
		return
	}
	at.granular = true
	w.object(part, at)
}

// misnaming returns the mistake of a literal in objects.apply whose name is not a position. Released names do not have
// .item.
func (w *walk) misnaming(name string, id int64) Problem {
	p := Problem{Class: UnknownField, ID: id, Message: "objects.apply: no " + name}
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return p
	}
	parent, last := name[:i], name[i+1:]
	at, _ := w.placeNamed(parent)
	if last == "item" && at.typ != nil && hasMembers(at.typ) {
		p.Class, p.Name, p.Want, p.Suggestion = WrongName, name, parent, "write "+parent+"{…}"
		return p
	}
	p.Suggestion = DidYouMean(last, Fields(at.typ))
	return p
}

// markedValue returns the argument of objects.remove and objects.replace, or any other value itself.
func markedValue(e ast.Expr) ast.Expr {
	if e.Kind() == ast.CallKind && len(e.AsCall().Args()) == 1 {
		switch effects.Function(e.AsCall()) {
		case "objects.remove", "objects.replace":
			return e.AsCall().Args()[0]
		}
	}
	return e
}

// hasMember reports whether a literal sets a member.
func hasMember(e ast.Expr, name string) bool {
	return slices.ContainsFunc(e.AsStruct().Fields(),
		func(f ast.EntryExpr) bool { return f.AsStructField().Name() == name })
}

// isText reports a type whose values may be text.
func isText(t *cel.Type) bool {
	switch t.Kind() {
	case celtypes.StringKind, celtypes.DynKind, celtypes.AnyKind, celtypes.TypeParamKind, celtypes.ErrorKind,
		celtypes.UnspecifiedKind:
		return true
	}
	return false
}

// toUnset explains how a mutation removes a value.
func (w *walk) toUnset() string {
	if w.own {
		return "write objects.unset()"
	}
	return "use a JSON patch with op remove"
}
