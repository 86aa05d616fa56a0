package derive

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/celgate/celgate/internal/effects"
)

// operations derives assertions from the operations of a JSON patch, a separate validation for each independent one.
func (w *derivation) operations(e ast.Expr) {
	switch {
	case e.Kind() == ast.ListKind:
		for _, op := range e.AsList().Elements() {
			w.keep(w.operation(op))
		}
	case e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Add:
		w.operations(e.AsCall().Args()[0])
		w.operations(e.AsCall().Args()[1])
	default:
		w.keep(w.patch(e))
	}
}

// patch returns the condition that holds after operations.
func (w *derivation) patch(e ast.Expr) []string {
	switch e.Kind() {
	case ast.ListKind:
		var all []string
		for _, op := range e.AsList().Elements() {
			all = append(all, w.operation(op)...)
		}
		return all
	case ast.CallKind:
		c := e.AsCall()
		switch c.FunctionName() {
		case operators.Add:
			return append(w.patch(c.Args()[0]), w.patch(c.Args()[1])...)
		case operators.Conditional:
			if len(effects.PatchOperations(e)) > 0 && isTrivial(c.Args()[1]) && isTrivial(c.Args()[2]) {
				return nil // parents to which another operation adds a value
			}
			return w.branches(c.Args()[0], w.patch, c.Args()[1], c.Args()[2], root)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		if step := c.LoopStep(); step.Kind() == ast.CallKind && step.AsCall().FunctionName() == operators.Add &&
			!c.HasIterVar2() {
			text, ok := w.steadyText(c.IterRange(), root)
			if !ok {
				return nil
			}
			if members := w.patch(step.AsCall().Args()[1]); len(members) > 0 {
				return []string{fmt.Sprintf("%s.all(%s, %s)", operand(text), c.IterVar(), joinAnd(members))}
			}
			return nil
		}
	}
	return w.refuseWrite(root, "its operations are computed")
}

// isTrivial reports operations that only add empty lists and maps.
func isTrivial(e ast.Expr) bool {
	if e.Kind() != ast.ListKind {
		return false
	}
	for _, write := range effects.PatchOperations(e) {
		if write.Op != "add" || write.Value == nil || !isEmptyLiteral(write.Value) {
			return false
		}
	}
	return true
}

func isEmptyLiteral(e ast.Expr) bool {
	return e.Kind() == ast.ListKind && e.AsList().Size() == 0 || e.Kind() == ast.MapKind && e.AsMap().Size() == 0
}

func (w *derivation) operation(e ast.Expr) []string {
	all := effects.PatchOperations(e)
	if e.Kind() != ast.StructKind || len(all) != 1 {
		return w.refuseWrite(root, "its operations are computed")
	}
	op := all[0]
	at, steps, indexed := root, op.Path.Split(), false
	for i, s := range steps {
		if s == effects.Item {
			if i < len(steps)-1 || !op.Exact {
				return w.refuseWrite(place{path: op.Path}, "items do not have fixed places")
			}
			indexed = true
			continue
		}
		at = at.member(s)
	}
	switch {
	case !op.Exact:
		return w.refuseWrite(place{path: op.Path}, "the path is computed")
	case op.Op == "remove" && !indexed && (len(steps) == 1 || steps[0] == "status"):
		return w.refuseWrite(at, "the API server sets it")
	case op.Op == "remove" && !indexed:
		w.paths = append(w.paths, at.path)
		return []string{"!" + at.text + ".hasValue()"}
	case op.Op != "add" && op.Op != "replace" || op.Value == nil || op.Op == "replace" && indexed:
		return w.refuseWrite(place{path: op.Path}, "unknown op %s", strings.TrimSpace(op.Op))
	case isEmptyLiteral(op.Value):
		return nil
	case !indexed:
		return w.value(op.Value, at)
	case isComposite(op.Value):
		return w.exists(op.Value, at)
	}
	w.adds(at)
	text, ok := w.steadyText(op.Value, at)
	if !ok {
		return nil
	}
	w.paths = append(w.paths, at.path)
	return []string{fmt.Sprintf("%s in %s", operand(text), at.list())}
}
