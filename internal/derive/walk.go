package derive

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	celtypes "github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"

	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/policy"
)

// A place is the position of a write, as a validation reads it.
type place struct {
	text string       // of an optional value
	path effects.Path // for messages
}

var root = place{"object", effects.Path{Root: "object"}}

// member returns the place of a member.
func (at place) member(name string) place {
	step := ".?" + name
	if !effects.Identifier(name) || reserved[name] {
		step = "[?" + strconv.Quote(name) + "]"
	}
	return place{at.text + step, at.path.Step(name)}
}

// item returns the place of the items of a list, which a variable of a macro stands for.
func (at place) item(variable string) place { return place{variable, at.path.Step(effects.Item)} }

// list returns the expression of the list at a place, which is empty if the list is absent.
func (at place) list() string { return at.text + ".orValue([])" }

// reserved holds the words that are not valid names after a dot.
var reserved = map[string]bool{"in": true, "true": true, "false": true, "null": true}

// A derivation derives the assertions of one mutation.
type derivation struct {
	*deriver
	*mutation
	depth int // of macros
	paths []effects.Path
	all   []effects.Path // lists of which all items are asserted
}

// mutation derives the fields that one mutation sets.
func (d *deriver) mutation(m *mutation) {
	w := &derivation{deriver: d, mutation: m}
	if m.Use == policy.UseJSONPatch {
		w.operations(m.tree.Expr())
		return
	}
	w.derivePatch(m.tree.Expr())
}

func (w *derivation) keep(all []string) {
	for _, text := range all {
		w.assertions = append(w.assertions, assertion{w.Expr, w.Index, text, w.paths, w.all})
	}
	w.paths, w.all = nil, nil
}

// derivePatch derives the parts of an ApplyConfiguration, each as a separate validation.
func (w *derivation) derivePatch(e ast.Expr) { w.assertLeaves(e, root) }

// assertLeaves adds a validation for each leaf below structs.
func (w *derivation) assertLeaves(e ast.Expr, at place) {
	if e.Kind() == ast.StructKind && len(e.AsStruct().Fields()) > 0 {
		for _, f := range e.AsStruct().Fields() {
			member := f.AsStructField()
			if !member.IsOptional() {
				w.assertLeaves(member.Value(), at.member(member.Name()))
				continue
			}
			w.keep(w.optionalField(member.Value(), at.member(member.Name())))
		}
		return
	}
	if e.Kind() == ast.StructKind && at.path.Steps == "" {
		return // Object{}
	}
	w.keep(w.value(e, at))
}

// value returns the condition that holds after a value was merged at a place.
func (w *derivation) value(e ast.Expr, at place) []string {
	switch e.Kind() {
	case ast.StructKind:
		var all []string
		for _, f := range e.AsStruct().Fields() {
			all = append(all, w.member(f.AsStructField().Name(), f.AsStructField().Value(),
				f.AsStructField().IsOptional(), at)...)
		}
		return w.assertPresent(all, len(e.AsStruct().Fields()), at)
	case ast.MapKind:
		var all []string
		for _, entry := range e.AsMap().Entries() {
			pair := entry.AsMapEntry()
			name, ok := literal(pair.Key()).(string)
			if !ok {
				return w.computedKey(pair, at)
			}
			all = append(all, w.member(name, pair.Value(), pair.IsOptional(), at)...)
		}
		return w.assertPresent(all, len(e.AsMap().Entries()), at)
	case ast.ListKind:
		return w.items(e, at)
	case ast.ComprehensionKind:
		return w.loop(e, at)
	case ast.CallKind:
		c := e.AsCall()
		switch effects.Function(c) {
		case operators.Conditional:
			if a, b := c.Args()[1], c.Args()[2]; isComposite(a) || isComposite(b) {
				return w.branches(c.Args()[0], func(e ast.Expr) []string { return w.value(e, at) }, a, b, at)
			}
		case operators.Add:
			if isComposite(c.Args()[0]) || isComposite(c.Args()[1]) {
				return append(w.value(c.Args()[0], at), w.value(c.Args()[1], at)...)
			}
		case "optional.of":
			return w.value(c.Args()[0], at)
		}
	}
	return w.leaf(e, at)
}

// isComposite reports an expression that is not a single value: its parts have their own assertions.
func isComposite(e ast.Expr) bool {
	switch e.Kind() {
	case ast.StructKind, ast.MapKind, ast.ListKind, ast.ComprehensionKind:
		return true
	case ast.CallKind:
		c := e.AsCall()
		switch effects.Function(c) {
		case operators.Add:
			return isComposite(c.Args()[0]) || isComposite(c.Args()[1])
		case operators.Conditional:
			return isComposite(c.Args()[1]) || isComposite(c.Args()[2])
		}
	}
	return false
}

func literal(e ast.Expr) any {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral().Value()
}

// assertPresent asserts that a value without members exists.
func (w *derivation) assertPresent(all []string, members int, at place) []string {
	if members > 0 || at.path.Steps == "" {
		return all
	}
	w.paths = append(w.paths, at.path)
	return []string{at.text + ".hasValue()"}
}

func (w *derivation) member(name string, value ast.Expr, optional bool, at place) []string {
	if optional {
		return w.optionalField(value, at.member(name))
	}
	return w.value(value, at.member(name))
}

// optionalField derives ?field: value.
func (w *derivation) optionalField(e ast.Expr, at place) []string {
	if e.Kind() == ast.CallKind {
		switch c := e.AsCall(); effects.Function(c) {
		case "optional.none":
			return nil
		case "optional.of":
			return w.value(c.Args()[0], at)
		}
	}
	if w.copiesField(e, at.path) {
		return nil
	}
	text, ok := w.steadyText(e, at)
	if !ok {
		return nil
	}
	w.paths = append(w.paths, at.path)
	return []string{fmt.Sprintf("(%s).optMap(set, %s).orValue(true)", text, w.equation("set", at, nil))}
}

// computedKey derives a member with a computed name.
func (w *derivation) computedKey(pair ast.MapEntry, at place) []string {
	if isComposite(pair.Value()) || pair.IsOptional() {
		return w.refuseWrite(at, "the name of a member is computed")
	}
	key, ok := w.steadyText(pair.Key(), at)
	if !ok {
		return nil
	}
	value, ok := w.steadyText(pair.Value(), at)
	if !ok {
		return nil
	}
	w.paths = append(w.paths, at.path)
	return []string{fmt.Sprintf("%s[?%s] == optional.of(%s)", at.text, key, value)}
}

// items derives the items of a list literal: the list contains each of them.
func (w *derivation) items(e ast.Expr, at place) []string {
	var all []string
	w.adds(at)
	for _, item := range e.AsList().Elements() {
		if !isComposite(item) {
			if text, ok := w.steadyText(item, at); ok {
				w.paths = append(w.paths, at.path)
				all = append(all, fmt.Sprintf("%s in %s", operand(text), at.list()))
			}
			continue
		}
		all = append(all, w.exists(item, at)...)
	}
	return all
}

// adds records that items are added to a list.
func (w *derivation) adds(at place) {
	w.added = append(w.added, assertion{Expr: w.Expr, index: w.Index, paths: []effects.Path{at.path.Generalize()}})
}

// exists derives that a list has an item with the given members.
func (w *derivation) exists(item ast.Expr, at place) []string {
	w.adds(at)
	variable := w.variable()
	before := len(w.result.Refused)
	members := w.value(item, at.item(variable))
	w.depth--
	if len(members) == 0 || len(w.result.Refused) > before {
		return nil // an item with a partly known condition could be another one
	}
	return []string{fmt.Sprintf("%s.exists(%s, %s)", at.list(), variable, joinAnd(members))}
}

// variable returns the name of the variable of a macro.
func (w *derivation) variable() string {
	w.depth++
	return "item" + strings.Repeat("s", w.depth-1)
}

func joinAnd(all []string) string {
	if len(all) == 0 {
		return "true"
	}
	return strings.Join(all, " && ")
}

// loop derives the result of map for each item.
func (w *derivation) loop(e ast.Expr, at place) []string {
	c := e.AsComprehension()
	condition, item := "", ast.Expr(nil)
	step := c.LoopStep()
	if step.Kind() == ast.CallKind && step.AsCall().FunctionName() == operators.Conditional {
		text, ok := w.steadyText(step.AsCall().Args()[0], at)
		if !ok {
			return nil
		}
		condition, step = text, step.AsCall().Args()[1]
	}
	if step.Kind() == ast.CallKind && step.AsCall().FunctionName() == operators.Add {
		if list := step.AsCall().Args()[1]; list.Kind() == ast.ListKind && list.AsList().Size() == 1 {
			item = list.AsList().Elements()[0]
		}
	}
	if item == nil || c.HasIterVar2() || !isComposite(item) {
		return w.leaf(e, at)
	}
	own := false
	for _, p := range w.part.reads.Paths[c.IterRange().ID()] {
		own = own || p.Generalize() == at.path.Generalize()
	}
	var members []string
	before := len(w.result.Refused)
	if own {
		members = w.value(item, at.item(c.IterVar()))
	} else if _, ok := w.steadyText(c.IterRange(), at); ok {
		members = w.exists(item, at)
	}
	if len(members) == 0 || len(w.result.Refused) > before {
		return nil
	}
	text, ok := w.text(c.IterRange(), at)
	if !ok {
		return nil
	}
	if path, who := w.changedRead(w.readsOf(w.part.reads, c.IterRange())); own && who != "" && path != at.path.Generalize() {
		w.result.Notes = append(w.result.Notes, Refusal{w.Expr, fmt.Sprintf(
			"which items of %s are selected depends on %s, %s: the validation does not cover the others", writePath(at.path), path,
			who)})
	}
	if own {
		w.all = append(w.all, at.path.Generalize())
	}
	body := joinAnd(members)
	if condition != "" {
		body = fmt.Sprintf("!(%s) || %s", condition, body)
	}
	return []string{fmt.Sprintf("%s.all(%s, %s)", operand(text), c.IterVar(), body)}
}

// branches derives a conditional value.
func (w *derivation) branches(condition ast.Expr, derive func(ast.Expr) []string, yes, no ast.Expr,
	at place) []string {
	before := len(w.result.Refused)
	a, b := derive(yes), derive(no)
	if len(w.result.Refused) > before || len(a)+len(b) == 0 {
		return nil
	}
	if slices.Equal(a, b) {
		return a
	}
	text, ok := w.steadyText(condition, at)
	if !ok {
		return nil
	}
	switch {
	case len(b) == 0:
		return []string{fmt.Sprintf("!(%s) || %s", text, joinAnd(a))}
	case len(a) == 0:
		return []string{fmt.Sprintf("%s || %s", operand(text), joinAnd(b))}
	}
	return []string{fmt.Sprintf("(%s) ? (%s) : (%s)", text, joinAnd(a), joinAnd(b))}
}

// leaf derives a value that is compared directly.
func (w *derivation) leaf(e ast.Expr, at place) []string {
	if w.copiesField(e, at.path) {
		return nil
	}
	if e.Kind() == ast.LiteralKind && e.AsLiteral() == celtypes.NullValue {
		return w.refuseWrite(at, "null is refused")
	}
	if e.Kind() == ast.CallKind && effects.Function(e.AsCall()) == "optional.none" {
		return w.refuseWrite(at, "the field is cleared, and may have a default")
	}
	text, ok := w.steadyText(e, at)
	if !ok {
		return nil
	}
	if isComposite(e) || w.typeAt(at) != nil && w.typeAt(at).Kind == shape.Struct {
		return w.refuseWrite(at, "it is computed as a whole")
	}
	if steps := at.path.Split(); len(steps) == 1 && (steps[0] == "apiVersion" || steps[0] == "kind") ||
		len(steps) > 0 && steps[0] == "status" {
		return w.refuseWrite(at, "the API server sets it")
	}
	w.paths = append(w.paths, at.path)
	return []string{w.equation(w.json(text, e), at, e)}
}

// json writes a value in the form of a JSON patch.
func (w *derivation) json(text string, e ast.Expr) string {
	if w.types == nil || w.Use != policy.UseJSONPatch {
		return text
	}
	switch w.types.GetType(e.ID()).Kind() {
	case celtypes.BytesKind:
		return "base64.encode(" + text + ")"
	case celtypes.TimestampKind, celtypes.DurationKind:
		return "string(" + text + ")"
	}
	return text
}

// equation compares a place with the text of a value.
func (w *derivation) equation(text string, at place, e ast.Expr) string {
	t := w.typeAt(at)
	kind := shape.Any
	if t != nil {
		kind = t.Kind
	}
	zero := ""
	switch kind {
	case shape.Boolean:
		zero = "false"
	case shape.Integer:
		zero = "0"
	case shape.String:
		zero = `""`
	case shape.Quantity:
		return fmt.Sprintf("%s.optMap(is, quantity(string(is)).compareTo(quantity(string(%s))) == 0).orValue(false)", at.text,
			text)
	case shape.Map:
		return fmt.Sprintf("(%s).all(key, %s[?key] == optional.of((%s)[key]))", text, at.text, text)
	case shape.List:
		return fmt.Sprintf("(%s).all(set, set in %s)", text, at.list())
	}
	if zero == "" && e != nil && e.Kind() == ast.LiteralKind {
		switch e.AsLiteral().Value().(type) {
		case bool:
			zero = "false"
		case int64:
			zero = "0"
		case string:
			zero = `""`
		}
	}
	if zero == "" {
		return fmt.Sprintf("%s == optional.of(%s)", at.text, text)
	}
	return fmt.Sprintf("%s.orValue(%s) == %s", at.text, zero, operand(text))
}

// typeAt returns the type at a place in the first kind that has it; nil if it is not known.
func (w *derivation) typeAt(at place) *shape.Type {
	for _, t := range w.opts.Types {
		if found := typed.Locate(t, at.path.Generalize().Split()); found.Type != nil {
			return found.Type
		}
	}
	return nil
}

func (w *derivation) refuseWrite(at place, format string, args ...any) []string {
	w.refuse(w.Expr, "%s cannot be derived: %s", pathOrWhole(writePath(at.path)), fmt.Sprintf(format, args...))
	return nil
}

func pathOrWhole(path string) string {
	if path == "" {
		return "the mutation"
	}
	return path
}

// steadyText writes an expression that has the same value when the validation runs.
func (w *derivation) steadyText(e ast.Expr, at place) (string, bool) {
	if why := w.unsteadyReason(&w.part, e); why != "" {
		w.refuseWrite(at, "%s", why)
		return "", false
	}
	return w.text(e, at)
}

func (w *derivation) text(e ast.Expr, at place) (string, bool) {
	text, err := parser.Unparse(e, w.tree.SourceInfo())
	if err != nil {
		w.refuseWrite(at, "it cannot be written: %v", err)
		return "", false
	}
	return text, true
}

// operand puts an expression with operators into parentheses.
func operand(text string) string {
	if strings.ContainsAny(text, " ") && !strings.HasPrefix(text, `"`) {
		return "(" + text + ")"
	}
	return text
}
