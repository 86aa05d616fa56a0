package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
)

// lowerKinds returns the native text for one path of a scope. It must be the same for all kinds that have the path; ""
// if none has it.
func (m *mutation) lowerKinds(path int, kinds []typed.Kind, native func(*way, []hop) (string, error)) (string, error) {
	var found string
	var of typed.Kind
	for _, kind := range kinds {
		hops, t, err := m.hops(m.ParsedScope().Paths[path], kind.Type)
		if err != nil {
			return "", err
		}
		if hops == nil {
			continue
		}
		src, err := native(m.way(t), hops)
		if err != nil {
			return "", err
		}
		if found != "" && found != src {
			return "", &unsayable{"scope", fmt.Sprintf("it is not the same in objects of %s and of %s", of.Kind, kind.Kind)}
		}
		found, of = src, kind
	}
	return found, nil
}

// operationsOfAll returns the JSON patch that has the effect of a mutation with a scope on objects of some kinds.
func (m *mutation) operationsOfAll(kinds []typed.Kind) (string, error) {
	var all []string
	for i := range m.ParsedScope().Paths {
		src, err := m.lowerKinds(i, kinds, func(w *way, hops []hop) (string, error) {
			src, err := w.operations(hops, "object")
			if w.unsets { // from the end, so that indices stay valid
				src += ".reverse()"
			}
			return src, err
		})
		if err != nil {
			return "", err
		}
		if src != "" {
			all = append(all, src)
		}
	}
	if len(all) == 0 {
		return "", &unsayable{"scope", "none of the matched kinds has " + m.Scope.Src}
	}
	return strings.Join(all, " + "), nil
}

// operations returns the patch of the values that hops lead to from a value.
func (w *way) operations(hops []hop, from string) (string, error) {
	src, n := from, 0
	for ; n < len(hops) && hops[n].Member != ""; n++ {
		src += access(hops[n])
		w.enter(hops[n], "")
	}
	if n == len(hops) {
		ops, condition, err := w.operationsOfValue(w.typ, hops[n-1])
		if err != nil {
			return "", err
		}
		if condition != "" {
			ops = group(condition) + " ? " + group(ops) + " : []"
		}
		return src + ".optMap(" + locals.Item + ", " + ops + ").orValue([])", nil
	}
	h, rest := hops[n], hops[n+1:]
	if n > 0 {
		src += map[bool]string{true: ".orValue({})", false: ".orValue([])"}[h.in.Kind == shape.Map]
	}
	key, item := w.variables(h, rest)
	w.enter(h, key)
	filter := selects(h, item)
	var ops string
	var err error
	if len(rest) == 0 {
		var condition string
		ops, condition, err = w.operationsOfValue(w.typ, h)
		filter = conjoin(filter, condition)
	} else {
		ops, err = w.operations(rest, item)
	}
	if err != nil {
		return "", err
	}
	args := []string{key, item}
	if filter != "" {
		args = append(args, filter)
	}
	return src + ".transformList(" + strings.Join(append(args, ops), ", ") + ").flatten()", nil
}

// operationsOfValue returns the patch of one value of the scope, at the end of a hop, and its condition.
func (w *way) operationsOfValue(t *shape.Type, last hop) (ops, condition string, err error) {
	ops, err = branches(w.resolve(w.Expr), "[]", func(e ast.Expr) (string, error) {
		if w.PatchType == policy.JSONPatch {
			return w.prefixPaths(e)
		}
		switch function(e) {
		case "objects.unset":
			w.unsets = w.unsets || last.in.Kind == shape.List
			return "[" + operation("remove", w.pointer, "") + "]", nil
		case "objects.replace":
			value, err := w.replacement(e.AsCall().Args()[0], t)
			return "[" + operation("replace", w.pointer, value) + "]", err
		}
		if e.Kind() != ast.StructKind {
			return "", w.unknownError("is not written as an Item{…}")
		}
		if t.Kind == shape.Struct || t.Kind == shape.Map {
			return w.members(e, t, locals.Item, w.pointer)
		}
		return "", w.unknownError("is not for values of this type")
	})
	return ops, w.condition(), err
}

// unknownError is the error for a part of the expression without a native form.
func (w *way) unknownError(format string, args ...any) error {
	return &unsayable{w.expressionField(), "its result " + fmt.Sprintf(format, args...)}
}

func operation(op string, pointer joined, value string) string {
	src := `JSONPatch{op: "` + op + `", path: ` + pointer.String()
	if value != "" {
		src += ", value: " + value
	}
	return src + "}"
}

// prefixPaths returns a JSON patch whose paths begin with that of the value.
func (w *way) prefixPaths(e ast.Expr) (string, error) {
	var err error
	found := 0
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.StructKind || e.AsStruct().TypeName() != "JSONPatch" {
			return
		}
		found++
		fields := e.AsStruct().Fields()
		if wrong := w.decodable(fields); wrong != nil {
			err = wrong
		}
		for i, f := range fields {
			member := f.AsStructField()
			switch text, known := constant(member.Value()); {
			case member.Name() == "op" && !known:
				err = w.unknownError("has an op that is not constant")
			case member.Name() == "op" && text == "test":
				err = w.unknownError("has the op test: if it fails, kube-apiserver drops the whole patch, not only one value")
			case member.Name() == "path" || member.Name() == "from":
				made, wrong := w.extendPath(member.Value())
				if wrong != nil {
					err = wrong
					return
				}
				fields[i] = nodes.NewStructField(f.ID(), member.Name(), made, false)
			}
		}
	}))
	if err == nil && found == 0 && !(e.Kind() == ast.ListKind && e.AsList().Size() == 0) {
		err = w.unknownError("has operations that are not literals")
	}
	return text(e), err
}

// decodable refuses an operation that may turn the object into one that its kind cannot decode.
func (w *way) decodable(fields []ast.EntryExpr) error {
	if w.policy.FailurePolicy != policy.Ignore {
		return nil
	}
	given := map[string]ast.Expr{}
	for _, f := range fields {
		given[f.AsStructField().Name()] = f.AsStructField().Value()
	}
	text := func(name string) string {
		if given[name] == nil {
			return ""
		}
		s, _ := constant(given[name])
		return s
	}
	op, path := text("op"), text("path")
	if op == "remove" {
		return nil
	}
	if path != "" && (op == "add" || op == "replace") && given["value"] != nil {
		steps := strings.Split(strings.TrimPrefix(path, "/"), "/")
		at := w.typ
		for _, step := range steps {
			step = tree.UnescapeToken(step)
			if at != nil && at.Kind == shape.List {
				step = effects.Item
			}
			at = typed.Locate(at, []string{step}).Type
		}
		if at != nil && w.isCertain(given["value"], at) {
			return nil
		}
	}
	return w.undecodable("a value")
}

// undecodable is the error for a value whose type may not be that of its place.
func (w *way) undecodable(what string) error {
	return w.unknownError("has %s whose type is not known before evaluation: even with failurePolicy Ignore kube-apiserver denies "+
		"an object that it cannot decode", what)
}

// extendPath returns the path of a JSON patch below the value.
func (w *way) extendPath(path ast.Expr) (ast.Expr, error) {
	first := path
	for function(first) == operators.Add {
		first = first.AsCall().Args()[0]
	}
	begin, known := constant(first)
	if !known || !strings.HasPrefix(begin, "/") {
		return nil, w.unknownError("has a path that does not begin with a /: it is that of the value itself, or not known")
	}
	pointer := w.pointer.with(piece{text: begin})
	made, err := parse(pointer.String())
	if err != nil {
		return nil, err
	}
	first.SetKindCase(made)
	return path, nil
}

// members returns the patch that merges a literal into an existing value.
func (w *way) members(e ast.Expr, t *shape.Type, value string, at joined) (string, error) {
	var parts, ops []string
	flush := func() {
		if len(ops) > 0 {
			parts = append(parts, "["+strings.Join(ops, ", ")+"]")
		}
		ops = nil
	}
	entries, err := w.entries(e)
	if err != nil {
		return "", err
	}
	for _, x := range entries {
		src, always, err := w.one(x, t, value, at)
		if err != nil {
			return "", err
		}
		if always {
			ops = append(ops, src)
			continue
		}
		flush()
		parts = append(parts, src)
	}
	if flush(); len(parts) == 0 {
		return "[]", nil
	}
	if len(parts) > 1 {
		for i := range parts {
			parts[i] = group(parts[i])
		}
	}
	return strings.Join(parts, " + "), nil
}

// An entry is a member of a literal.
type entry struct {
	name     string   // empty: computed
	key      ast.Expr // of a map; nil: name
	value    ast.Expr
	optional bool
}

// entries returns the members of a literal of a struct or a map.
func (w *way) entries(e ast.Expr) (all []entry, err error) {
	switch e.Kind() {
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			m := f.AsStructField()
			all = append(all, entry{m.Name(), nil, m.Value(), m.IsOptional()})
		}
	case ast.MapKind:
		for _, f := range e.AsMap().Entries() {
			m := f.AsMapEntry()
			name, _ := constant(m.Key())
			all = append(all, entry{name, m.Key(), m.Value(), m.IsOptional()})
		}
	default:
		return nil, w.unknownError("is merged, and is not written as a literal: %s", text(e))
	}
	return all, nil
}

// one returns the patch of one member of a literal: an operation that always applies, or a list of operations.
func (w *way) one(x entry, in *shape.Type, value string, at joined) (src string, always bool, err error) {
	t, atomic := in.Elem, in.Kind == shape.Map && merges(in.Elem)
	h := hop{in: in}
	if h.Member = x.name; in.Kind == shape.Struct {
		f := in.Field(x.name)
		if f == nil {
			return "", false, w.unknownError("has the member %s, which is not fully known", x.name)
		}
		t, atomic = f.Type, f.Atomic || merges(f.Type)
	}
	there := value + access(h)
	if x.name == "" {
		there = value + "[?" + text(x.key) + "]"
		at = at.with(piece{text: "/"}, piece{expr: "jsonpatch.escapeKey(" + operand(x.key) + ")"})
	} else {
		at = at.with(piece{text: "/" + tree.EscapeToken(x.name)})
	}
	removed := func() string { return there + ".hasValue() ? [" + operation("remove", at, "") + "] : []" }
	switch function(x.value) {
	case "objects.unset":
		return removed(), false, nil
	case "objects.replace":
		whole, err := w.replacement(x.value.AsCall().Args()[0], t)
		return operation("add", at, whole), true, err
	case "optional.none":
		if x.optional {
			return removed(), false, nil
		}
	}
	isLiteral := x.value.Kind() == ast.StructKind || x.value.Kind() == ast.MapKind
	switch {
	case t.Kind == shape.List || atomic:
		return "", false, w.unknownError("has %s, which is a list or merges as one value: write objects.replace(…) to replace "+
			"the old value", describe(x))
	case (t.Kind == shape.Struct || t.Kind == shape.Map) && (!isLiteral || x.optional):
		return "", false, w.unknownError("has %s, which is merged and not written as a literal", describe(x))
	case isLiteral:
		inner, err := w.members(x.value, t, there, at)
		if err != nil {
			return "", false, err
		}
		whole, err := w.replacement(x.value, t)
		return there + ".orValue(null) != null ? " + group(inner) + " : [" + operation("add", at, whole) + "]", false, err
	case !w.isCertain(x.value, t):
		return "", false, w.undecodable(describe(x))
	case x.optional:
		v := w.freshName("of")
		return operand(x.value) + ".optMap(" + v + ", [" + operation("add", at, v) + "]).orValue([])", false, nil
	}
	return operation("add", at, text(x.value)), true, nil
}

func describe(x entry) string {
	if x.name != "" {
		return x.name
	}
	return text(x.key)
}

// replacement returns the text of a value that replaces the existing one, or is new: members that it removes are left
// out.
func (w *way) replacement(e ast.Expr, t *shape.Type) (string, error) {
	var err error
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.StructKind:
			s := e.AsStruct()
			kept := slices.DeleteFunc(slices.Clone(s.Fields()), func(f ast.EntryExpr) bool {
				return function(f.AsStructField().Value()) == "objects.unset"
			})
			e.SetKindCase(nodes.NewStruct(e.ID(), s.TypeName(), kept))
		case ast.MapKind:
			kept := slices.DeleteFunc(slices.Clone(e.AsMap().Entries()), func(f ast.EntryExpr) bool {
				return function(f.AsMapEntry().Value()) == "objects.unset"
			})
			e.SetKindCase(nodes.NewMap(e.ID(), kept))
		case ast.CallKind:
			switch name := function(e); {
			case name == "objects.replace":
				e.SetKindCase(e.AsCall().Args()[0])
			case strings.HasPrefix(name, "objects."):
				err = w.unknownError("has %s in a value that is new", name)
			}
		}
	}))
	if err == nil && !w.isCertain(e, t) {
		err = w.undecodable("a value")
	}
	return text(e), err
}

// isCertain reports whether the value of an expression can be decoded as a type, as far as that must be known.
func (w *way) isCertain(e ast.Expr, t *shape.Type) bool {
	if w.policy.FailurePolicy != policy.Ignore {
		return true
	}
	all := func(list []ast.Expr) bool {
		return !slices.ContainsFunc(list, func(e ast.Expr) bool { return !w.isCertain(e, t) })
	}
	switch {
	case function(e) == operators.Conditional:
		return all(e.AsCall().Args()[1:])
	case e.Kind() == ast.ListKind && t.Kind == shape.List:
		t = t.Elem
		return all(e.AsList().Elements())
	case function(e) == "string", function(e) == operators.Add && isText(e):
		return t.Kind == shape.String || t.Kind == shape.IntOrString
	case e.Kind() == ast.StructKind || e.Kind() == ast.MapKind:
		entries, err := w.entries(e)
		return err == nil && !slices.ContainsFunc(entries, func(x entry) bool {
			member := t.Elem
			if f := t.Field(x.name); t.Kind == shape.Struct && f != nil {
				member = f.Type
			}
			return member == nil || !w.isCertain(x.value, member)
		})
	case e.Kind() != ast.LiteralKind:
		return false
	}
	switch v := e.AsLiteral().(type) {
	case types.String:
		return t.Kind == shape.String || t.Kind == shape.IntOrString
	case types.Bool:
		return t.Kind == shape.Boolean
	case types.Int:
		return t.Kind == shape.Integer && v == types.Int(int8(v)) || t.Kind == shape.Number ||
			t.Kind == shape.IntOrString
	}
	return false
}

// isText reports whether an expression evaluates to a string, or an error.
func isText(e ast.Expr) bool {
	if _, known := constant(e); known || function(e) == "string" {
		return true
	}
	return function(e) == operators.Add && slices.ContainsFunc(e.AsCall().Args(), isText)
}
