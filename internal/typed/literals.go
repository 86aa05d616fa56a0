package typed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	celtypes "github.com/google/cel-go/common/types"

	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/spell"
)

// A Class is a kind of mistake.
type Class uint8

// The classes.
const (
	UnknownField Class = iota // a member that the type does not declare
	WrongType                 // a value whose type is not valid at its position
	WrongName                 // a literal with the name of another position
	AtomicValue               // a value that an ApplyConfiguration may not write
	NullValue                 // null, which an ApplyConfiguration may not write
	MissingKey                // an item of a keyed list without its key
	WrongRead                 // an expression reads a value that does not exist or has another type
)

// A Problem is one mistake in an expression. Problems are comparable.
type Problem struct {
	Class      Class
	ID         int64  // of the node in the syntax tree
	Message    string // in the words of cel-go or the server
	Suggestion string
	Path       string // of the struct without this field, such as spec.template; empty for the root
	Name, Want string // of WrongName: the name in the text, and the name of the position

	// Doubtful is set if some values of the type are valid, so the server accepts some requests.
	Doubtful bool
}

// A walk visits the literals of a mutation together with the type of the object.
type walk struct {
	own          bool // the mutation is one of the dialect
	patch        bool // values of a JSON patch: any literal is converted, null is a value
	isMergePatch bool // values of a JSON merge patch: null removes
	checked      *ast.AST
	names        *names // of the types of the object
	itemNames    *names // of the types of the value in a scope; nil without a scope
	found        map[Problem]bool
	seen         map[int64]bool // the Object literals that were judged at their positions
	dynamic      bool           // the type of some value is not known
}

// A spot is a position of a value.
type spot struct {
	typ      *shape.Type
	field    *shape.Field
	path     string      // such as spec.replicas
	name     string      // of the Object literal for this position
	strict   bool        // the server checks the names of literals here
	loose    bool        // below a map or an untyped value, where the server does not check for atomic values
	maybe    bool        // an optional value is unwrapped here
	outside  bool        // not known to become part of the result
	summed   bool        // part of a sum of lists
	named    bool        // the literals in it get their names from the literal here
	inside   string      // of a list or map literal: its name in messages
	list     *shape.Type // the list with the value
	whole    bool        // in objects.replace or objects.remove, where marks are not allowed
	atomic   bool        // part of a value that merges atomically
	granular bool        // the mutation writes all of it, however it merges
	root     bool        // the path begins at the object
}

func (w *walk) add(p Problem, at spot) {
	p.Doubtful = p.Doubtful || at.outside
	w.found[p] = true
}

// value judges a value at a spot.
func (w *walk) value(e ast.Expr, at spot) {
	if at.typ == nil {
		return
	}
	if at.inside != "" && !w.own && w.isMade(e) {
		w.add(Problem{Class: WrongType, ID: e.ID(), Suggestion: "write " + at.name + "{…}",
			Message: "a literal of a map or list " + at.inside + " is not converted"}, at)
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		if w.call(e.AsCall(), e, at) {
			return
		}
	case ast.ComprehensionKind:
		w.comprehension(e, at)
		return
	}
	if w.isNull(e, at) {
		return
	}
	at = w.reportAtomic(e, at)
	switch {
	case e.Kind() == ast.StructKind && (hasMembers(at.typ) || acceptsSeveral(at.typ)):
		w.object(e, at)
	case e.Kind() == ast.MapKind && (hasMembers(at.typ) || acceptsSeveral(at.typ)):
		w.mapping(e, at)
	case e.Kind() == ast.ListKind && at.typ.Kind == shape.List:
		for i, item := range e.AsList().Elements() {
			w.item(item, at, slices.Contains(e.AsList().OptionalIndices(), int32(i)))
		}
	default:
		w.judgeType(e, at)
	}
}

// anything is the type of undescribed members.
var anything = &shape.Type{Kind: shape.Any}

func hasMembers(t *shape.Type) bool { return t.Kind == shape.Struct || t.Kind == shape.Map }

// call follows calls that return one of their arguments; false for other calls.
func (w *walk) call(c ast.CallExpr, e ast.Expr, at spot) bool {
	switch effects.Function(c) {
	case operators.Conditional:
		w.value(c.Args()[1], at)
		w.value(c.Args()[2], at)
		return true
	case operators.Add:
		if at.typ.Kind != shape.List {
			return false
		}
		at = w.reportAtomic(e, at)
		// The server does not look into a sum of lists. A sum with an empty list is the other list (apiserver
		// pkg/cel/mutation/dynamic/objects.go v0.37.2).
		at.summed = true
		for _, part := range c.Args() {
			w.value(part, at)
		}
		return true
	case "optional.none": // writes nothing
		w.findUnwrapped(e, at)
		return true
	case "optional.of", "optional.ofNonZeroValue":
		w.findUnwrapped(e, at)
		w.value(c.Args()[0], at)
		return true
	case "objects.unset", "objects.remove", "objects.replace":
		w.mark(c, e, at)
		return true
	case "dyn":
		if w.isMergePatch {
			w.value(withoutDyn(e), at)
			return true
		}
		return w.own && at.path == "" // around a verdict
	case "orValue":
		if c.IsMemberFunction() && len(c.Args()) == 1 {
			inner := at
			inner.maybe = true
			w.value(c.Target(), inner)
			w.value(c.Args()[0], at)
			return true
		}
	}
	return false
}

// withoutDyn returns the argument of dyn(). Maps of a merge patch use dyn() for members of several types.
func withoutDyn(e ast.Expr) ast.Expr {
	for e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "dyn" && len(e.AsCall().Args()) == 1 {
		e = e.AsCall().Args()[0]
	}
	return e
}

// findUnwrapped finds an optional value where the server does not unwrap optionals.
func (w *walk) findUnwrapped(e ast.Expr, at spot) {
	if at.maybe || w.patch {
		return
	}
	w.reportMistyped(e, at, w.typeOf(e), "write ?"+lastElement(at.path)+": …", true)
}

// comprehension follows the results of map, filter and optMap.
func (w *walk) comprehension(e ast.Expr, at spot) {
	c := e.AsComprehension()
	if c.IterRange().Kind() == ast.ListKind && c.IterRange().AsList().Size() == 0 { // optMap
		w.value(c.Result(), at)
		return
	}
	at = w.reportAtomic(e, at)
	before := len(w.found)
	if at.typ.Kind == shape.List {
		w.items(c.LoopStep(), c, at)
	}
	if len(w.found) == before {
		w.judgeType(e, at)
	}
}

// items visits the list literals that a comprehension adds to its result.
func (w *walk) items(e ast.Expr, c ast.ComprehensionExpr, at spot) {
	if e.Kind() != ast.CallKind {
		return
	}
	call := e.AsCall()
	switch call.FunctionName() {
	case operators.Conditional:
		w.items(call.Args()[1], c, at)
		w.items(call.Args()[2], c, at)
	case operators.Add:
		first, added := call.Args()[0], call.Args()[1]
		if first.Kind() != ast.IdentKind || first.AsIdent() != c.AccuVar() || added.Kind() != ast.ListKind {
			return
		}
		for _, item := range added.AsList().Elements() {
			if item.Kind() == ast.IdentKind && item.AsIdent() == c.IterVar() { // filter
				w.value(c.IterRange(), at)
				continue
			}
			w.item(item, at, false)
		}
	}
}

func (w *walk) item(e ast.Expr, list spot, optional bool) {
	at := list.part()
	at.typ, at.field, at.list, at.maybe = list.typ.Elem, nil, list.typ, optional
	if of := markedValue(e); list.typ.Merge == shape.Keyed && of.Kind() == ast.StructKind && !w.patch &&
		!slices.ContainsFunc(list.typ.Keys, func(key string) bool { return hasMember(of, key) }) {
		w.add(Problem{Class: MissingKey, ID: of.ID(), Suggestion: "set it, as in name: c.name",
			Message: fmt.Sprintf("an item of %s without %s", list.path, strings.Join(list.typ.Keys, ", "))}, at)
	}
	at.inside = "among the items of " + list.path
	w.value(e, at)
}

// isMade reports a list or map that the expression constructs from others. In a list or map, the server leaves it a CEL
// value.
func (w *walk) isMade(e ast.Expr) bool {
	if w.patch {
		return false
	}
	switch e.Kind() {
	case ast.MapKind, ast.ListKind:
		return true
	case ast.CallKind:
		return effects.Function(e.AsCall()) == operators.Add && w.typeOf(e).Kind() == celtypes.ListKind
	case ast.ComprehensionKind:
		kind := w.typeOf(e).Kind()
		return kind == celtypes.ListKind || kind == celtypes.MapKind
	}
	return false
}

func (w *walk) object(e ast.Expr, at spot) {
	w.seen[e.ID()] = true
	name := e.AsStruct().TypeName()
	if at.named {
		at.name, at.strict, at.named = name, true, false
	}
	if at.strict && name != at.name {
		w.add(Problem{Class: WrongName, ID: e.ID(), Name: name, Want: at.name, Suggestion: "write " + at.name + "{…}",
			Message: fmt.Sprintf("unexpected type name %q, expected %q", name, at.name), Doubtful: at.summed}, at)
	}
	for _, f := range e.AsStruct().Fields() {
		member := f.AsStructField()
		w.member(f.ID(), member.Name(), member.Value(), at, false, member.IsOptional())
	}
}

func (w *walk) mapping(e ast.Expr, at spot) {
	if at.typ.Kind == shape.Struct && !isOpen(at.typ) && !w.patch {
		w.reportMistyped(e, at, w.typeOf(e), "write "+at.name+"{…}", true)
	}
	for _, entry := range e.AsMap().Entries() {
		pair := entry.AsMapEntry()
		name, ok := literal(pair.Key()).(string)
		switch {
		case ok:
			w.member(pair.Key().ID(), name, pair.Value(), at, true, pair.IsOptional())
		case w.own && !isText(w.typeOf(pair.Key())):
			w.add(Problem{Class: WrongType, ID: pair.Key().ID(), Message: fmt.Sprintf("expected a key of type 'string' "+
				"but provided type is '%s'", typeText(w.typeOf(pair.Key())))}, at)
		case at.typ.Kind == shape.Map:
			w.member(pair.Key().ID(), effects.Item, pair.Value(), at, true, pair.IsOptional())
		}
	}
}

func literal(e ast.Expr) any {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral().Value()
}

func (w *walk) member(id int64, name string, value ast.Expr, at spot, inMap, optional bool) {
	if w.isMergePatch {
		if value = withoutDyn(value); value.Kind() == ast.LiteralKind && value.AsLiteral() == celtypes.NullValue {
			return // which may remove an absent value
		}
	}
	next := at.part()
	next.path, next.field, next.list, next.maybe = name, nil, nil, optional
	if at.path != "" {
		next.path = at.path + "." + name
	}
	if !inMap {
		next.name = at.name + "." + name
	}
	switch {
	case at.typ.Kind == shape.Struct:
		f := at.typ.Field(name)
		if f == nil {
			if !isOpen(at.typ) {
				w.add(Problem{Class: UnknownField, ID: id, Message: "undefined field '" + name + "'", Path: at.path,
					Suggestion: DidYouMean(name, Fields(at.typ))}, at)
				return
			}
			f = &shape.Field{Type: anything}
		}
		next.typ, next.field = f.Type, f
	case at.typ.Kind == shape.Map:
		next.typ, next.loose = at.typ.Elem, true
	default: // free
		next.loose = true
	}
	if next.inside = ""; inMap {
		next.inside = "in the values of " + pathOrRoot(at.path)
	}
	w.value(value, next)
}

// DidYouMean suggests the most similar name; empty if none is similar.
func DidYouMean(name string, names []string) string {
	if near := spell.Nearest(name, names, len(name)/3); near != "" {
		return "did you mean " + near + "?"
	}
	return ""
}

func pathOrRoot(path string) string {
	if path == "" {
		return "the root"
	}
	return path
}

func lastElement(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// reportAtomic reports a value of an atomic list, map or struct in an ApplyConfiguration, once with all its parts.
func (w *walk) reportAtomic(e ast.Expr, at spot) spot {
	if w.patch || w.own || at.loose || !at.mergesAtomically() {
		return at
	}
	w.add(Problem{Class: AtomicValue, ID: e.ID(), Suggestion: "use a JSON patch for it",
		Message: at.path + " is atomic: an ApplyConfiguration may not write it"}, at)
	at.loose = true
	return at
}

func (w *walk) isNull(e ast.Expr, at spot) bool {
	if e.Kind() != ast.LiteralKind || e.AsLiteral() != celtypes.NullValue {
		return false
	}
	switch {
	case w.patch:
	case at.path == "":
		w.add(Problem{Class: NullValue, ID: e.ID(), Suggestion: "write Object{}, which changes nothing",
			Message: "the mutation is null, which the server refuses"}, at)
	default:
		w.add(Problem{Class: NullValue, ID: e.ID(), Suggestion: w.toUnset(),
			Message: at.path + ": null, which does not unset it"}, at)
	}
	return true
}

// judgeType judges a value by its type alone.
func (w *walk) judgeType(e ast.Expr, at spot) {
	if at.path == "" && (!w.patch || w.isMergePatch) && !at.whole { // the type of the result has its own check
		return
	}
	got := w.typeOf(e)
	if got.Kind() == celtypes.OpaqueKind && got.TypeName() == "optional_type" && len(got.Parameters()) == 1 {
		w.findUnwrapped(e, at)
		got = got.Parameters()[0]
	}
	if n, ok := literal(e).(int64); ok && w.patch && (n > 1<<53-1 || n < -(1<<53-1)) {
		w.add(Problem{Class: WrongType, ID: e.ID(),
			Message: at.path + ": an integer beyond 2^53-1 becomes text in a JSON patch"}, at)
		return
	}
	switch fit, note := w.fits(at.typ, got); fit {
	case no:
		w.reportMistyped(e, at, got, note, false)
	case partly:
		w.reportMistyped(e, at, got, note, true)
	case unknown:
		w.dynamic = true
	}
}

// reportMistyped reports a value whose type differs from that of its position, in the words of cel-go.
func (w *walk) reportMistyped(e ast.Expr, at spot, got *cel.Type, suggestion string, doubtful bool) {
	of := "an item of '" + lastElement(at.path) + "'"
	switch {
	case at.path == "":
		of = "the value"
	case at.field != nil || at.loose:
		of = "field '" + lastElement(at.path) + "'"
	}
	w.add(Problem{Class: WrongType, ID: e.ID(), Suggestion: suggestion, Doubtful: doubtful, Message: fmt.Sprintf(
		"expected type of %s is '%s' but provided type is '%s'", of, describe(at.typ, at.name), typeText(got))}, at)
}

// typeText writes a type as cel-go's messages do.
func typeText(t *cel.Type) string { return stripNullMark(checker.FormatCELType(t)) }

// stripNullMark removes the mark of nullable types from a message.
func stripNullMark(message string) string {
	for _, root := range []string{objectName, paramsName, locals.ItemType} {
		for {
			before, after, ok := strings.Cut(message, "wrapper("+root)
			if !ok {
				break
			}
			message = before + root + strings.Replace(after, ")", "", 1)
		}
	}
	return message
}

// describe writes the type of a position.
func describe(t *shape.Type, name string) string {
	switch t.Kind {
	case shape.Boolean:
		return "bool"
	case shape.Integer:
		return "int"
	case shape.Number:
		return "double"
	case shape.Quantity:
		return "quantity"
	case shape.IntOrString:
		return "int or string"
	case shape.String, shape.Bytes, shape.Time, shape.MicroTime, shape.Duration:
		return "string"
	case shape.List:
		return "list(" + describe(t.Elem, name) + ")"
	case shape.Map:
		return "map(string, " + describe(t.Elem, name) + ")"
	case shape.Struct:
		return name
	}
	return "dyn"
}

// typeOf returns the type of a value, as far as it is known.
func (w *walk) typeOf(e ast.Expr) *cel.Type {
	if w.checked != nil {
		if t := w.checked.GetType(e.ID()); t != nil && t.Kind() != celtypes.ErrorKind {
			return t
		}
	}
	switch e.Kind() {
	case ast.StructKind:
		return cel.ObjectType(e.AsStruct().TypeName())
	case ast.MapKind:
		return cel.MapType(cel.DynType, cel.DynType)
	case ast.ListKind:
		return cel.ListType(cel.DynType)
	case ast.LiteralKind:
		if t, ok := e.AsLiteral().Type().(*cel.Type); ok {
			return t
		}
	}
	return cel.DynType
}

// judgeOthers judges the Object literals outside of known positions, by their names.
func (w *walk) judgeOthers(e ast.Expr) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && effects.Function(e.AsCall()) == "objects.apply" {
			w.judgeApply(e.AsCall())
			return
		}
		if e.Kind() != ast.StructKind || w.seen[e.ID()] {
			return
		}
		if at, ok := w.placeNamed(e.AsStruct().TypeName()); ok && at.typ != nil {
			at.outside, at.loose = true, true
			w.object(e, at)
		}
	}))
}

// placeNamed returns the position that a type name stands for; false if it is not a name of Object or Item.
func (w *walk) placeNamed(name string) (at spot, ok bool) {
	root, path, _ := strings.Cut(name, ".")
	all := w.names
	switch {
	case root == locals.ItemType && w.itemNames != nil:
		all = w.itemNames
	case root != objectName:
		return spot{}, false
	}
	return spot{typ: all.find(name), path: path, name: name, strict: true}, true
}
