package effects

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/celgate/celgate/internal/tree"
)

// A Write is a field that a mutation sets.
type Write struct {
	Path   Path
	ID     int64 // in the syntax tree
	Op     string
	Value  ast.Expr // nil if the operation does not have one
	Append bool     // of a JSON patch: to the end of a list
	Exact  bool     // the whole path is known
}

// AppliedLeaves returns the leaves that the Object{…} literals of an ApplyConfiguration set.
func AppliedLeaves(e ast.Expr) []Write {
	var all []Write
	collectApplied(e, Path{Root: "object"}, &all)
	return all
}

func collectApplied(e ast.Expr, at Path, all *[]Write) {
	switch e.Kind() {
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			member := f.AsStructField()
			below := at.Step(member.Name())
			if !descend(member.Value(), below, all) {
				*all = append(*all, Write{Path: below, ID: f.ID(), Op: "apply", Value: member.Value(), Exact: true})
			}
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			key, ok := literal(entry.AsMapEntry().Key()).(string)
			below := at.Step(Item)
			if ok {
				below = at.Step(key)
			}
			if !descend(entry.AsMapEntry().Value(), below, all) {
				*all = append(*all, Write{Path: below, ID: entry.ID(), Op: "apply", Value: entry.AsMapEntry().Value(),
					Exact: ok})
			}
		}
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			collectApplied(item, at.Step(itemStep(item)), all)
		}
	case ast.CallKind:
		c := e.AsCall()
		switch c.FunctionName() {
		case operators.Conditional:
			collectApplied(c.Args()[1], at, all)
			collectApplied(c.Args()[2], at, all)
		case operators.Add:
			for _, a := range c.Args() {
				collectApplied(a, at, all)
			}
		}
	case ast.ComprehensionKind:
		collectApplied(e.AsComprehension().LoopStep(), at, all)
	}
}

// itemStep returns the step into a list item: its name if it is a literal, as in [name=proxy], otherwise any item.
func itemStep(e ast.Expr) string {
	if e.Kind() == ast.StructKind {
		for _, f := range e.AsStruct().Fields() {
			if name, ok := literal(f.AsStructField().Value()).(string); ok && f.AsStructField().Name() == "name" {
				return "[name=" + name + "]"
			}
		}
	}
	return Item
}

// Generalize returns the path with all steps into named items replaced by [Item].
func (p Path) Generalize() Path {
	steps := p.Split()
	for i, s := range steps {
		if strings.HasPrefix(s, "[") {
			steps[i] = Item
		}
	}
	return NewPath(p.Root, steps...)
}

// descend follows a value with Object{…} literals; false for a leaf.
func descend(e ast.Expr, at Path, all *[]Write) bool {
	before := len(*all)
	collectApplied(e, at, all)
	return len(*all) > before
}

// PatchOperations returns the operations of the JSONPatch{…} literals of a JSON patch.
func PatchOperations(e ast.Expr) []Write {
	var all []Write
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.StructKind || e.AsStruct().TypeName() != "JSONPatch" {
			return
		}
		var w Write
		w.ID = e.ID()
		for _, f := range e.AsStruct().Fields() {
			member := f.AsStructField()
			switch member.Name() {
			case "op":
				w.Op, _ = literal(member.Value()).(string)
			case "path":
				w.ID = member.Value().ID()
				w.Path, w.Append, w.Exact = pointer(member.Value())
			case "value":
				w.Value = member.Value()
			}
		}
		all = append(all, w)
	}))
	return all
}

// pointer parses the literal parts of a JSON pointer; a computed part is one step or the end.
func pointer(e ast.Expr) (p Path, appends, exact bool) {
	var parts []any // text, or nil for a computed part
	collectPieces(e, &parts)
	p, exact = Path{Root: "object"}, true
	text := ""
	for i, part := range parts {
		s, ok := part.(string)
		switch {
		case ok:
			text += s
		case strings.HasSuffix(text, "/"): // a computed step
			text += "\x01"
			exact = exact && i == len(parts)-1
		default:
			return p, false, false
		}
	}
	if text == "" {
		return p, false, len(parts) > 0
	}
	steps := strings.Split(strings.TrimPrefix(text, "/"), "/")
	for i, s := range steps {
		switch {
		case s == "-" && i == len(steps)-1:
			appends = true
			p = p.Step(Item)
		case strings.Contains(s, "\x01") || number(s):
			p = p.Step(Item)
		default:
			p = p.Step(tree.UnescapeToken(s))
		}
	}
	return p, appends, exact
}

func collectPieces(e ast.Expr, parts *[]any) {
	if s, ok := literal(e).(string); ok {
		*parts = append(*parts, s)
		return
	}
	if e.Kind() == ast.CallKind {
		c := e.AsCall()
		switch {
		case c.FunctionName() == operators.Add && len(c.Args()) == 2:
			collectPieces(c.Args()[0], parts)
			collectPieces(c.Args()[1], parts)
			return
		case strings.HasSuffix(c.FunctionName(), "escapeKey") && len(c.Args()) == 1:
			if s, ok := literal(c.Args()[0]).(string); ok {
				*parts = append(*parts, tree.EscapeToken(s))
				return
			}
		}
	}
	*parts = append(*parts, nil)
}

// number reports an index, which may count from the end of a list.
func number(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return s != "" && strings.Trim(s, "0123456789") == ""
}
