// Package effects finds the fields that an expression of a policy reads and writes, as paths in the syntax tree,
// without evaluating it.
//
// The result depends on the text alone. A path ends at a value that cannot be followed, such as the result of an
// unknown function or a computed index.
package effects

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Item is the step of a [Path] into any item of a list or any value of a map.
const Item = "[]"

// A Path names a field: a variable of the expression, such as object, and the steps from there.
type Path struct {
	Root  string
	Steps string // joined by NUL, so paths are comparable
}

const separator = "\x00"

// NewPath returns the path of the steps below root.
func NewPath(root string, steps ...string) Path { return Path{root, strings.Join(steps, separator)} }

// Split returns the steps.
func (p Path) Split() []string {
	if p.Steps == "" {
		return nil
	}
	return strings.Split(p.Steps, separator)
}

// Step returns the path with one more step.
func (p Path) Step(name string) Path {
	if p.Steps == "" {
		return Path{p.Root, name}
	}
	return Path{p.Root, p.Steps + separator + name}
}

// Parent returns the path without its last step, which is the second result; ok is false for a root.
func (p Path) Parent() (parent Path, last string, ok bool) {
	if p.Steps == "" {
		return p, "", false
	}
	i := strings.LastIndex(p.Steps, separator)
	if i < 0 {
		return Path{Root: p.Root}, p.Steps, true
	}
	return Path{p.Root, p.Steps[:i]}, p.Steps[i+1:], true
}

// Contains reports whether q is p or below it.
func (p Path) Contains(q Path) bool {
	return p.Root == q.Root && (p.Steps == "" || p.Steps == q.Steps || strings.HasPrefix(q.Steps, p.Steps+separator))
}

// String returns the path in the notation of expressions, such as object.spec.containers[].image.
func (p Path) String() string {
	var b strings.Builder
	b.WriteString(p.Root)
	for _, s := range p.Split() {
		switch {
		case strings.HasPrefix(s, "["):
			b.WriteString(s)
		case Identifier(s):
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s)
		default:
			b.WriteString("[" + strconv.Quote(s) + "]")
		}
	}
	return b.String()
}

// Identifier reports a step that expressions write as .step.
func Identifier(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// A Read is one use of a field.
type Read struct {
	Path Path
	ID   int64 // of the selection in the syntax tree
	Test bool  // has(…), or a membership test: absence is not an error
	Safe bool  // an optional selection: absence is not an error
}

// Reads are the fields that an expression reads, in the order of its text.
type Reads struct {
	List []Read
	// Variables are the names of the variables that it uses, without duplicates.
	Variables []string
	// Nulls are the roots and paths that are compared to null, or used in type().
	Nulls []Path
	// Paths are the fields that each expression may refer to, by id.
	Paths map[int64][]Path
	// Demands are the fields that determine the value, except for fields that are the value itself: see [Reads.All].
	Demands []Demand
}

// A Demand is a field that influences the value of an expression, and the relevant part of it.
type Demand struct {
	Path Path
	Of   Extent
}

// An Extent is the relevant part of a field.
type Extent int

// The extents.
const (
	Whole    Extent = iota // the value with all its parts
	Items                  // its items or keys
	Presence               // whether the value exists
)

// All returns the demands of e with reads r, including those of its value.
func (r *Reads) All(e ast.Expr) []Demand {
	w := &walker{reads: r}
	before := len(r.Demands)
	w.demand(e, r.Paths[e.ID()], Whole)
	all := r.Demands
	r.Demands = all[:before:before]
	return all
}

// Uses reports whether the expression reads path or something below it.
func (r *Reads) Uses(p Path) bool {
	return slices.ContainsFunc(r.List, func(x Read) bool { return p.Contains(x.Path) })
}

// Guards reports whether the expression checks that path exists: it tests it, selects it optionally or compares it to
// null.
func (r *Reads) Guards(p Path) bool {
	return slices.Contains(r.Nulls, p) ||
		slices.ContainsFunc(r.List, func(x Read) bool { return (x.Test || x.Safe) && x.Path == p })
}

// A Result is the possible value of an expression: one of the fields, or a value constructed from their items.
type Result struct {
	Paths    []Path
	Optional bool // an optional value: selecting from it is safe
}

// ReadsOf returns the fields that the expression reads. Variables are the results of the policy's variables, by name;
// fields behind variables are followed.
func ReadsOf(e ast.Expr, variables map[string]Result) *Reads {
	w := &walker{reads: &Reads{Paths: map[int64][]Path{}}, variables: variables}
	w.walk(e, scope{})
	return w.reads
}

// Result returns the possible values of the expression.
func (r *Reads) Result(e ast.Expr) Result { return Result{r.Paths[e.ID()], isOptional(e, nil)} }

type scope map[string][]Path

// bind returns the scope with one more name.
func (s scope) bind(name string, paths []Path) scope {
	inner := make(scope, len(s)+1)
	for k, v := range s {
		inner[k] = v
	}
	inner[name] = paths
	return inner
}

type walker struct {
	reads     *Reads
	variables map[string]Result
	depth     int
	kept      int64 // the item that a filter keeps, which is passed on unread
}

// demand records the relevant part of the fields that e may refer to. has(…) records its own demand.
func (w *walker) demand(e ast.Expr, paths []Path, of Extent) {
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
		return
	}
	for _, p := range paths {
		if d := (Demand{p, of}); p.Steps != "" || of == Whole {
			w.reads.Demands = append(w.reads.Demands, d)
		}
	}
}

// walkWhole walks an expression whose whole value is relevant.
func (w *walker) walkWhole(e ast.Expr, s scope) []Path {
	paths := w.walk(e, s)
	w.demand(e, paths, Whole)
	return paths
}

// maxDepth bounds the walk; CEL's parser accepts at most 250 levels.
const maxDepth = 2000

func (w *walker) walk(e ast.Expr, s scope) []Path {
	if w.depth > maxDepth {
		return nil
	}
	w.depth++
	defer func() { w.depth-- }()
	paths := w.visit(e, s)
	if len(paths) > 0 {
		w.reads.Paths[e.ID()] = paths
	}
	return paths
}

func (w *walker) visit(e ast.Expr, s scope) []Path {
	switch e.Kind() {
	case ast.IdentKind:
		name := strings.TrimPrefix(e.AsIdent(), ".")
		if paths, ok := s[name]; ok {
			return paths
		}
		p := NewPath(name)
		w.read(e.ID(), p, false, false)
		return []Path{p}
	case ast.SelectKind:
		return w.selection(e, s)
	case ast.CallKind:
		return w.call(e, s)
	case ast.ListKind: // the items of a literal are not items of the fields that they refer to
		for _, item := range e.AsList().Elements() {
			if paths := w.walk(item, s); item.ID() != w.kept {
				w.demand(item, paths, Whole)
			}
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.walkWhole(entry.AsMapEntry().Key(), s)
			w.walkWhole(entry.AsMapEntry().Value(), s)
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			w.walkWhole(f.AsStructField().Value(), s)
		}
	case ast.ComprehensionKind:
		return w.comprehension(e.AsComprehension(), s)
	}
	return nil
}

func (w *walker) read(id int64, p Path, test, safe bool) {
	w.reads.List = append(w.reads.List, Read{p, id, test, safe})
}

func (w *walker) selection(e ast.Expr, s scope) []Path {
	sel := e.AsSelect()
	operand := sel.Operand()
	if operand.Kind() == ast.IdentKind && operand.AsIdent() == "variables" && s["variables"] == nil {
		name := sel.FieldName()
		if !slices.Contains(w.reads.Variables, name) {
			w.reads.Variables = append(w.reads.Variables, name)
		}
		return w.variables[name].Paths
	}
	paths := w.step(e.ID(), w.walk(operand, s), sel.FieldName(), sel.IsTestOnly(), isOptional(operand, w.variables))
	if sel.IsTestOnly() {
		w.addDemands(paths, Presence)
	}
	return paths
}

func (w *walker) addDemands(paths []Path, of Extent) {
	for _, p := range paths {
		w.reads.Demands = append(w.reads.Demands, Demand{p, of})
	}
}

func (w *walker) step(id int64, from []Path, name string, test, safe bool) []Path {
	var out []Path
	for _, p := range from {
		next := p.Step(name)
		w.read(id, next, test, safe)
		out = append(out, next)
	}
	return out
}

// Operators of cel-go that it does not export.
const (
	optSelect = "_?._"
	optIndex  = "_[?_]"
)

func (w *walker) call(e ast.Expr, s scope) []Path {
	c := e.AsCall()
	args := c.Args()
	name := Function(c)
	switch {
	case (name == operators.Index || name == optIndex || name == optSelect) && len(args) == 2:
		from := w.walk(args[0], s)
		w.walkWhole(args[1], s)
		step := Item
		if text, ok := literal(args[1]).(string); ok {
			step = text
		}
		return w.step(e.ID(), from, step, false, name != operators.Index || isOptional(args[0], w.variables))
	case name == operators.Conditional && len(args) == 3:
		w.walkWhole(args[0], s)
		return union(w.walk(args[1], s), w.walk(args[2], s))
	case name == operators.Add && len(args) == 2:
		return union(w.walk(args[0], s), w.walk(args[1], s))
	case (name == operators.In || name == operators.OldIn) && len(args) == 2:
		w.walkIn(e, args, s)
		return nil
	case name == operators.Equals || name == operators.NotEquals:
		w.equality(e, args, s)
		return nil
	case name == "type" || name == "dyn":
		return w.passOn(name, args, s)
	}
	return w.function(c, name, s)
}

// walkIn walks the operator in, which searches a list or map.
func (w *walker) walkIn(e ast.Expr, args []ast.Expr, s scope) {
	w.walkWhole(args[0], s)
	from := w.walk(args[1], s)
	if _, ok := literal(args[0]).(string); !ok {
		w.demand(args[1], from, Whole)
	}
	if args[1].Kind() == ast.ListKind {
		for _, item := range args[1].AsList().Elements() {
			w.askKey(e.ID(), args[0], item, s)
		}
	}
	if text, ok := literal(args[0]).(string); ok {
		for _, p := range from {
			w.read(e.ID(), p.Step(text), true, false)
			w.addDemands([]Path{p.Step(text)}, Presence)
		}
	}
}

// equality walks == and !=.
func (w *walker) equality(e ast.Expr, args []ast.Expr, s scope) {
	for i, a := range args {
		paths := w.walk(a, s)
		if len(args) == 2 && args[1-i].Kind() == ast.LiteralKind && args[1-i].AsLiteral() == types.NullValue {
			w.reads.Nulls = append(w.reads.Nulls, paths...)
			w.demand(a, paths, Presence)
		} else {
			w.demand(a, paths, Whole)
		}
		if len(args) == 2 {
			w.askKey(e.ID(), a, args[1-i], s)
		}
	}
}

// passOn walks dyn, which returns its argument, and type, which depends only on the type of its argument.
func (w *walker) passOn(name string, args []ast.Expr, s scope) []Path {
	var paths []Path
	for _, a := range args {
		paths = union(paths, w.walk(a, s))
	}
	if name == "dyn" {
		return paths
	}
	w.reads.Nulls = append(w.reads.Nulls, paths...)
	w.addDemands(paths, Presence)
	return nil
}

// function walks a function call, and returns the fields that it passes on.
func (w *walker) function(c ast.CallExpr, name string, s scope) []Path {
	var target []Path
	if c.IsMemberFunction() && name == c.FunctionName() {
		target = w.walk(c.Target(), s)
		if of, looks := argumentExtent(name); looks {
			w.demand(c.Target(), target, of)
		}
	}
	for _, a := range c.Args() {
		paths := w.walk(a, s)
		if name == "orValue" || name == "or" {
			target = union(target, paths)
		} else if of, looks := argumentExtent(name); looks {
			w.demand(a, paths, of)
		}
	}
	switch name {
	case "optional.of", "optional.ofNonZeroValue":
		var paths []Path
		for _, a := range c.Args() {
			paths = union(paths, w.reads.Paths[a.ID()])
		}
		return paths
	case "orValue", "or", "value", "reverse", "distinct", "slice", "sort", "flatten":
		return target
	case "first", "last":
		var items []Path
		for _, p := range target {
			items = append(items, p.Step(Item))
		}
		return items
	}
	return nil
}

// argumentExtent returns the part of its arguments that a function reads; false if it returns an argument.
func argumentExtent(function string) (of Extent, looks bool) {
	switch function {
	case "size":
		return Items, true
	case "hasValue":
		return Presence, true
	case "orValue", "or", "value", "reverse", "distinct", "slice", "sort", "flatten", "first", "last", "optional.of",
		"optional.ofNonZeroValue", "dyn":
		return Whole, false
	}
	return Whole, true
}

// keyOf returns the name in a scope for the values whose keys a loop variable may hold.
func keyOf(variable string) string { return variable + separator + "key" }

// askKey treats a comparison of a loop variable over the keys of a map with one key as a test whether the map has it.
func (w *walker) askKey(id int64, variable, key ast.Expr, s scope) {
	if variable.Kind() != ast.IdentKind {
		return
	}
	if text, ok := literal(key).(string); ok {
		for _, p := range s[keyOf(variable.AsIdent())] {
			w.read(id, p.Step(text), true, false)
		}
	}
}

// isOptional reports an optional value: selecting an absent member of it is not an error.
func isOptional(e ast.Expr, variables map[string]Result) bool {
	switch e.Kind() {
	case ast.SelectKind:
		operand := e.AsSelect().Operand()
		if operand.Kind() == ast.IdentKind && operand.AsIdent() == "variables" {
			return variables[e.AsSelect().FieldName()].Optional
		}
		return isOptional(operand, variables)
	case ast.CallKind:
		c := e.AsCall()
		switch name := Function(c); {
		case name == optSelect, name == optIndex, strings.HasPrefix(name, "optional."), name == "or", name == "first",
			name == "last":
			return true
		case name == operators.Index:
			return isOptional(c.Args()[0], variables)
		case name == operators.Conditional:
			return isOptional(c.Args()[1], variables) || isOptional(c.Args()[2], variables)
		}
	}
	return false
}

func (w *walker) comprehension(c ast.ComprehensionExpr, s scope) []Path {
	if c.IterRange().Kind() == ast.ListKind && c.IterRange().AsList().Size() == 0 { // a named value, as in optMap
		return w.walk(c.Result(), s.bind(c.AccuVar(), w.walk(c.AccuInit(), s)))
	}
	from := w.walk(c.IterRange(), s)
	w.demand(c.IterRange(), from, Items)
	items := make([]Path, len(from))
	for i, p := range from {
		items[i] = p.Step(Item)
	}
	inner := s
	if c.HasIterVar2() {
		inner = inner.bind(c.IterVar(), nil).bind(c.IterVar2(), items)
	} else {
		inner = inner.bind(c.IterVar(), items)
	}
	w.walk(c.AccuInit(), s)
	inner = inner.bind(keyOf(c.IterVar()), from).bind(c.AccuVar(), nil)
	w.walk(c.LoopCondition(), inner)
	kept := w.kept
	if item := keptItem(c); item != nil {
		w.kept = item.ID()
	}
	w.walkWhole(c.LoopStep(), inner)
	w.kept = kept
	w.walk(c.Result(), s.bind(c.AccuVar(), nil))
	if keptItem(c) != nil {
		return from
	}
	return nil
}

// keptItem returns the item that a filter keeps, because the items of its result are items of its range; nil for other
// loops.
func keptItem(c ast.ComprehensionExpr) ast.Expr {
	step := c.LoopStep()
	if c.AccuInit().Kind() != ast.ListKind || step.Kind() != ast.CallKind ||
		step.AsCall().FunctionName() != operators.Conditional {
		return nil
	}
	item := addedItem(step.AsCall().Args()[1])
	if item == nil || item.Kind() != ast.IdentKind || item.AsIdent() != c.IterVar() {
		return nil
	}
	return item
}

// addedItem returns the only item of the list at the end of a sum; nil if e is not such a sum.
func addedItem(e ast.Expr) ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Add || len(e.AsCall().Args()) != 2 {
		return nil
	}
	list := e.AsCall().Args()[1]
	if list.Kind() != ast.ListKind || list.AsList().Size() != 1 {
		return nil
	}
	return list.AsList().Elements()[0]
}

// maxPaths is the maximum number of fields that one value may refer to: variables of variables could double it each
// time.
const maxPaths = 64

func union(a, b []Path) []Path {
	all := slices.Clone(a)
	for _, p := range b {
		if len(all) < maxPaths && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// Function returns the name of the called function, with the namespace that an unchecked tree stores separately.
func Function(c ast.CallExpr) string {
	if c.IsMemberFunction() && c.Target().Kind() == ast.IdentKind && namespaces[c.Target().AsIdent()] {
		return c.Target().AsIdent() + "." + c.FunctionName()
	}
	return c.FunctionName()
}

var namespaces = map[string]bool{"optional": true, "jsonpatch": true, "base64": true, "math": true, "strings": true, "objects": true}

// literal returns the Go value of a literal; nil for other expressions.
func literal(e ast.Expr) any {
	if e.Kind() != ast.LiteralKind {
		return nil
	}
	return e.AsLiteral().Value()
}
