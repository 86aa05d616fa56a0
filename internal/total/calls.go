package total

import (
	"regexp"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// call returns the known facts about the value of a call.
func (w *walk) call(c ast.CallExpr, known facts) (value, bool) {
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		left, ok := w.eval(c.Args()[0], known)
		if !ok || left.kind != boolean {
			return value{}, false
		}
		right, ok := w.eval(c.Args()[1], known.add(knownMembers(c.Args()[0], c.FunctionName() == operators.LogicalAnd)))
		return right, ok && right.kind == boolean
	case operators.Conditional:
		return w.conditional(c.Args(), known)
	case operators.Index:
		on, ok := w.eval(c.Args()[0], known)
		at := member(c.Args()[0], c.Args()[1])
		if !ok || on.kind != mapping || !known[at] || on.elem == nil {
			return value{}, false
		}
		return *on.elem, true
	}
	var args []value
	var all []ast.Expr
	if c.IsMemberFunction() {
		if c.Target().Kind() == ast.IdentKind && c.Target().AsIdent() == "optional" {
			return w.optionalCall(c, known)
		}
		all = append(all, c.Target())
	}
	for _, e := range append(all, c.Args()...) {
		v, ok := w.eval(e, known)
		if !ok {
			return value{}, false
		}
		args = append(args, v)
	}
	if c.IsMemberFunction() {
		return method(c, args)
	}
	return function(c, args)
}

func (w *walk) conditional(args []ast.Expr, known facts) (value, bool) {
	if v, ok := w.eval(args[0], known); !ok || v.kind != boolean {
		return value{}, false
	}
	a, ok := w.eval(args[1], known.add(knownMembers(args[0], true)))
	if !ok {
		return value{}, false
	}
	b, ok := w.eval(args[2], known.add(knownMembers(args[0], false)))
	if !ok {
		return value{}, false
	}
	return *join(&a, &b), true
}

// optionalCall returns the known facts about optional.none() and optional.of(v).
func (w *walk) optionalCall(c ast.CallExpr, known facts) (value, bool) {
	switch {
	case c.FunctionName() == "none" && len(c.Args()) == 0:
		return value{kind: optional}, true
	case c.FunctionName() == "of" && len(c.Args()) == 1:
		v, ok := w.eval(c.Args()[0], known)
		return value{kind: optional, elem: &v}, ok
	}
	return value{}, false
}

// function returns the known facts about the value of an operator or a function.
func function(c ast.CallExpr, args []value) (value, bool) {
	first, last := args[0], args[len(args)-1]
	switch c.FunctionName() {
	case operators.Equals, operators.NotEquals:
		return value{kind: boolean}, true
	case operators.LogicalNot, operators.NotStrictlyFalse:
		return value{kind: boolean}, first.kind == boolean
	case operators.In:
		return value{kind: boolean}, last.kind == listing || last.kind == mapping
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return value{kind: boolean}, first.kind == last.kind && (first.kind == text || first.kind == integer)
	case operators.Add:
		if first.kind == listing && last.kind == listing {
			return value{kind: listing, elem: join(first.elem, last.elem)}, true
		}
		return aText, first.kind == text && last.kind == text
	case operators.OptSelect, operators.OptIndex:
		return optionalMember(c, first)
	case "size":
		return value{kind: integer}, hasSize(first)
	case "string":
		return aText, first.kind == text || first.kind == integer || first.kind == boolean
	}
	return value{}, false
}

// optionalMember returns the known facts about a.?b and a[?b].
func optionalMember(c ast.CallExpr, on value) (value, bool) {
	if on.kind == optional && on.elem != nil {
		on = *on.elem
	}
	name := c.Args()[1]
	if on.kind != record && on.kind != mapping || name.Kind() != ast.LiteralKind {
		return value{}, false
	}
	key, ok := name.AsLiteral().Value().(string)
	member, _ := on.member(key)
	return value{kind: optional, elem: &member}, ok
}

func hasSize(v value) bool { return v.kind == text || v.kind == listing || v.kind == mapping }

// method returns the known facts about the value of a member function; the first argument is its target.
func method(c ast.CallExpr, args []value) (value, bool) {
	on, rest := args[0], args[1:]
	switch name := c.FunctionName(); on.kind {
	case text:
		return textMethod(c, name, rest)
	case optional:
		switch {
		case name == "hasValue" && len(rest) == 0:
			return value{kind: boolean}, true
		case name == "orValue" && len(rest) == 1:
			if on.elem != nil && on.elem.kind == unknown {
				return value{}, true
			}
			return *join(on.elem, &rest[0]), true
		}
	case listing, mapping:
		return value{kind: integer}, name == "size" && len(rest) == 0
	case checker:
		switch {
		case name == "check" && len(rest) == 1 && rest[0].kind == text:
			return value{kind: decision}, true
		case (name == "group" || name == "resource" || name == "subresource" || name == "namespace" || name == "name") &&
			len(rest) == 1 && rest[0].kind == text:
			return on, true
		}
	case decision:
		return value{kind: boolean}, name == "allowed" && len(rest) == 0
	}
	return value{}, false
}

func textMethod(c ast.CallExpr, name string, rest []value) (value, bool) {
	switch name {
	case "startsWith", "endsWith", "contains":
		return value{kind: boolean}, len(rest) == 1 && rest[0].kind == text
	case "matches":
		if len(rest) != 1 || c.Args()[0].Kind() != ast.LiteralKind {
			return value{}, false
		}
		pattern, _ := c.Args()[0].AsLiteral().Value().(string)
		_, err := regexp.Compile(pattern)
		return value{kind: boolean}, rest[0].kind == text && err == nil
	case "size":
		return value{kind: integer}, len(rest) == 0
	case "lowerAscii", "upperAscii", "trim":
		return aText, len(rest) == 0
	case "split":
		return texts, len(rest) == 1 && rest[0].kind == text
	}
	return value{}, false
}
