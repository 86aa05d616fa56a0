// Package plan evaluates checked CEL expressions and counts their costs in one pass.
//
// cel-go counts costs with an observer around every step, which takes three quarters of an evaluation. A [Plan] is the
// same expression as a tree of nodes that add the same costs themselves (as interpreter/runtimecost.go v0.29.2 with
// library.CostEstimator of k8s.io/apiserver v0.37.2). Its answers are exact, and it does not answer where they might
// not be: New returns nil for an expression that it does not cover completely, and Eval gives up at the first error,
// even one that a logical operator would absorb, and when the cost exceeds the limit. The caller then asks cel-go,
// which provides the text of the error, the cost and the place where evaluation stops.
package plan

import (
	"regexp"
	"runtime"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/mutation"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/locals"
)

// A Plan is one expression, ready to be evaluated. It is immutable and safe for concurrent use.
type Plan struct {
	root  node
	tree  treeNode // of an Object literal; else nil
	slots int      // local variables
	limit uint64
}

// A Variables resolves the names of the variables that the environment declares.
type Variables interface {
	ResolveName(name string) (any, bool)
}

// Functions are the implementations of an environment's functions.
type Functions struct {
	dispatcher interpreter.Dispatcher
	older      Older
}

// An Older lists differences of the language in older minors: see the quirks of the same names.
type Older struct {
	LibraryCosts    bool // functions of the Kubernetes libraries cost 1
	OptionalOfAny   bool // or and orValue return the value of a non-optional
	QuantityAliased bool // add and sub may change a quantity
	TextCosts       bool // startsWith, endsWith and the function matches have other costs
}

// NewFunctions collects the implementations of env. Environments that extend it without functions of their own share
// them.
func NewFunctions(env *cel.Env, older Older) (*Functions, error) {
	d := interpreter.NewDispatcher()
	for _, f := range env.Functions() {
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		if err := d.Add(bindings...); err != nil {
			return nil, err
		}
	}
	return &Functions{d, older}, nil
}

// New plans a checked expression with a cost limit. It returns nil for an expression that it does not cover.
func New(env *cel.Env, fns *Functions, checked *cel.Ast, limit uint64) *Plan {
	native := checked.NativeRep()
	b := &builder{
		functions: fns.dispatcher,
		older:     fns.older,
		refs:      native.ReferenceMap(),
		types:     native.TypeMap(),
		provider:  env.CELTypeProvider(),
		adapter:   env.CELTypeAdapter(),
		container: env.Container,
	}
	root := b.plan(native.Expr())
	if root == nil {
		return nil
	}
	p := &Plan{root: root, slots: b.slots, limit: limit}
	if s, ok := root.(*structure); ok && (s.typeName == rootType || s.typeName == locals.ItemType) {
		p.tree = structureTree(s, s.typeName)
	}
	return p
}

// A machine is the state of one evaluation.
type machine struct {
	vars       Variables
	records    Records // of vars; set on first use
	cost       uint64
	limit      uint64
	iterations uint64
	done       <-chan struct{}
	locals     []part
	args       [4]ref.Val // of a guarded call
}

var machines = sync.Pool{New: func() any { return new(machine) }}

// Panicked receives the reason when a plan gives up because of a panic in its own code, a defect of this package that
// cel-go hides. Tests set it before they evaluate anything.
var Panicked func(reason any)

// A Memory keeps the machine of one evaluation for the next one on the same goroutine; nil uses a shared pool.
type Memory struct{ free *machine }

func (f *Memory) take() *machine {
	if f == nil || f.free == nil {
		return machines.Get().(*machine)
	}
	m := f.free
	f.free = nil
	return m
}

func (f *Memory) keep(m *machine) {
	if f == nil || f.free != nil { // an expression evaluated within another one
		machines.Put(m)
		return
	}
	f.free = m
}

// Eval evaluates the plan. The result is never an error; ok is false if the plan gives up, and then the other results
// are meaningless.
func (p *Plan) Eval(vars Variables, done <-chan struct{}, memory *Memory) (value ref.Val, cost uint64, ok bool) {
	return p.run(vars, done, memory, p.root.eval)
}

func (p *Plan) run(vars Variables, done <-chan struct{}, memory *Memory, eval func(*machine) ref.Val) (value ref.Val,
	cost uint64, ok bool) {
	m := memory.take()
	m.vars, m.done, m.limit = vars, done, p.limit
	if len(m.locals) < p.slots {
		m.locals = make([]part, p.slots)
	}
	value, cost, ok, usable := p.attempt(m, eval)
	if usable {
		clear(m.locals[:p.slots])
		m.vars, m.records, m.done = nil, nil, nil
		memory.keep(m)
	}
	return value, cost, ok
}

// attempt evaluates once. After a panic the memory of the machine is not usable.
func (p *Plan) attempt(m *machine, eval func(*machine) ref.Val) (value ref.Val, cost uint64, ok, usable bool) {
	m.cost, m.iterations = 0, 0
	defer func() {
		if usable {
			return
		}
		if reason := recover(); Panicked != nil {
			Panicked(reason)
		}
		value, ok = nil, false // cel-go reports the error
	}()
	value = eval(m)
	usable = true
	if m.iterations >= ManyIterations {
		if l, is := m.vars.(Looper); is {
			l.NoteLoop(m.iterations, m.cost, m.cost > m.limit)
		}
	}
	if value == nil || m.cost > m.limit {
		return nil, 0, false, true
	}
	return value, m.cost, true, true
}

// ManyIterations is a number of iterations in one evaluation for which cel-go v0.29.2 takes a second or more: its cost
// tracker searches a stack that grows with every iteration.
const ManyIterations = 15_000

// A Looper is a Variables that receives evaluations with many iterations, their costs, and whether these exceed the
// limit.
type Looper interface {
	NoteLoop(iterations, cost uint64, over bool)
}

// interruptFrequency is the number of iterations between two looks at the context.
const interruptFrequency = 100

// next counts one iteration of a comprehension; false ends the evaluation.
func (m *machine) next() bool {
	m.iterations++
	if m.cost > m.limit {
		return false
	}
	return m.iterations%interruptFrequency != 0 || m.look()
}

// look yields the processor, and reports whether the result is still needed.
func (m *machine) look() bool {
	if m.done == nil {
		return true
	}
	select {
	case <-m.done:
		return false
	default:
		// to goroutines that answer at deadlines: many long evaluations would hold the processor for 10 ms each
		runtime.Gosched()
		return true
	}
}

// A node is one step. A nil value gives up.
type node interface {
	eval(m *machine) ref.Val
}

// A builder plans one expression. A nil node is one that is not covered.
type builder struct {
	functions interpreter.Dispatcher
	older     Older
	refs      map[int64]*ast.ReferenceInfo
	types     map[int64]*types.Type
	provider  types.Provider
	adapter   types.Adapter
	container *containers.Container
	scope     []local
	slots     int
}

// A local is a variable of a comprehension.
type local struct {
	name string
	slot int
	fold *fold // of an accumulator
}

func (b *builder) plan(e ast.Expr) node {
	switch e.Kind() {
	case ast.LiteralKind:
		return constant{e.AsLiteral()}
	case ast.IdentKind:
		return b.ident(e.ID())
	case ast.SelectKind:
		return b.selection(e)
	case ast.CallKind:
		return b.call(e)
	case ast.ListKind:
		return b.list(e.AsList())
	case ast.MapKind:
		return b.mapping(e.AsMap())
	case ast.StructKind:
		return b.structure(e.AsStruct())
	case ast.ComprehensionKind:
		return b.comprehension(e.AsComprehension())
	}
	return nil
}

// plans plans several expressions; nil unless all are covered.
func (b *builder) plans(exprs []ast.Expr) []node {
	nodes := make([]node, len(exprs))
	for i, e := range exprs {
		if nodes[i] = b.plan(e); nodes[i] == nil {
			return nil
		}
	}
	return nodes
}

func (b *builder) ident(id int64) node {
	r, known := b.refs[id]
	if !known {
		return nil
	}
	if r.Value != nil {
		return constant{r.Value}
	}
	if t := b.types[id]; t != nil && t.Kind() == types.TypeKind {
		v, found := b.provider.FindIdent(r.Name)
		if !found {
			return nil
		}
		return constant{v}
	}
	name := r.Name
	if name == "" || name[0] == '.' {
		return nil
	}
	for i := len(b.scope) - 1; i >= 0; i-- {
		if l := b.scope[i]; l.name == name {
			if l.fold != nil {
				return &attribute{root: accumulator{l.fold}, cost: 1}
			}
			return &attribute{root: iterator(l.slot), cost: 1}
		}
	}
	switch name {
	case "request", locals.Scope, locals.Item:
		return &attribute{root: record{global(name)}, cost: 1}
	}
	return &attribute{root: global(name), cost: 1}
}

func (b *builder) selection(e ast.Expr) node {
	if _, isIdent := b.refs[e.ID()]; isIdent {
		return b.ident(e.ID())
	}
	s := e.AsSelect()
	operand := b.plan(s.Operand())
	if operand == nil {
		return nil
	}
	if t := b.types[s.Operand().ID()]; t != nil && t.Kind() == types.StructKind {
		// Fields of a Go struct are read by functions of their own.
		if f, found := b.provider.FindStructFieldType(t.TypeName(), s.FieldName()); found && f.IsSet != nil &&
			f.GetFrom != nil {
			return nil
		}
	}
	name := types.String(s.FieldName())
	key := constantQualifier(name, false)
	if !s.IsTestOnly() {
		return qualify(operand, key)
	}
	switch operand := operand.(type) {
	case *attribute:
		if operand.optional {
			return nil
		}
	case *conditional:
		return nil
	}
	a := qualify(operand, key)
	return &presence{root: a.root, path: a.path[:len(a.path)-1], name: name}
}

// qualify appends a qualifier to an attribute, or makes an attribute of another operand.
func qualify(operand node, q qualifier) *attribute {
	var a attribute
	switch operand := operand.(type) {
	case *attribute:
		a = *operand
	case *conditional:
		a = attribute{root: operand} // a conditional itself is free
	default:
		a = attribute{root: operand, cost: 1}
	}
	a.path = append(a.path[:len(a.path):len(a.path)], q)
	a.optional = a.optional || q.optional
	return &a
}

func (b *builder) list(l ast.ListExpr) node {
	items := b.plans(l.Elements())
	if items == nil && l.Size() > 0 {
		return nil
	}
	n := &listing{items: make([]element, len(items)), adapter: b.adapter}
	for i, item := range items {
		n.items[i].node = item
	}
	for _, i := range l.OptionalIndices() {
		n.items[i].optional = true
	}
	return b.foldLiteral(n, items...)
}

func (b *builder) mapping(e ast.MapExpr) node {
	n := &mapping{adapter: b.adapter}
	var parts []node
	for _, entry := range e.Entries() {
		m := entry.AsMapEntry()
		key, value := b.plan(m.Key()), b.plan(m.Value())
		if key == nil || value == nil {
			return nil
		}
		n.keys, n.values = append(n.keys, key), append(n.values, element{value, m.IsOptional()})
		parts = append(parts, key, value)
	}
	return b.foldLiteral(n, parts...)
}

// foldLiteral evaluates a literal of constants once: such literals are free.
func (b *builder) foldLiteral(n node, parts ...node) node {
	for _, p := range parts {
		if _, ok := p.(constant); !ok {
			return n
		}
	}
	v := n.eval(&machine{})
	if v == nil {
		return nil
	}
	return constant{v}
}

func (b *builder) structure(s ast.StructExpr) node {
	n := &structure{provider: b.provider}
	for _, name := range b.container.ResolveCandidateNames(s.TypeName()) {
		if _, found := b.provider.FindStructType(name); found {
			n.typeName = name
			break
		}
	}
	if n.typeName == "" {
		return nil
	}
	for _, field := range s.Fields() {
		f := field.AsStructField()
		value := b.plan(f.Value())
		if value == nil {
			return nil
		}
		n.fields, n.values = append(n.fields, f.Name()), append(n.values, element{value, f.IsOptional()})
	}
	if n.typeName == mutation.JSONPatchTypeName {
		return operation{n}
	}
	return n
}

func (b *builder) comprehension(c ast.ComprehensionExpr) node {
	f := &fold{adapter: b.adapter, accumulator: b.slot(), iterator: b.slot()}
	f.init, f.over = b.plan(c.AccuInit()), b.plan(c.IterRange())
	outer := len(b.scope)
	b.scope = append(b.scope, local{c.AccuVar(), f.accumulator, f}, local{c.IterVar(), f.iterator, nil})
	if c.HasIterVar2() {
		f.entries, f.second = true, b.slot()
		b.scope = append(b.scope, local{c.IterVar2(), f.second, nil})
	}
	f.condition, f.step = b.plan(c.LoopCondition()), b.plan(c.LoopStep())
	b.scope = b.scope[:outer+1]
	f.result = b.plan(c.Result())
	b.scope = b.scope[:outer]
	if f.init == nil || f.over == nil || f.condition == nil || f.step == nil || f.result == nil {
		return nil
	}
	return recognize(f)
}

func (b *builder) slot() int {
	b.slots++
	return b.slots - 1
}

func (b *builder) call(e ast.Expr) node {
	c := e.AsCall()
	exprs := c.Args()
	if c.IsMemberFunction() {
		exprs = append([]ast.Expr{c.Target()}, exprs...)
	}
	args := b.plans(exprs)
	if args == nil && len(exprs) > 0 {
		return nil
	}
	switch c.FunctionName() {
	case operators.LogicalAnd:
		return &logical{terms: args, decisive: types.False}
	case operators.LogicalOr:
		return &logical{terms: args, decisive: types.True}
	case operators.Conditional:
		return &conditional{condition: args[0], yes: branch(args[1]), no: branch(args[2])}
	case operators.Equals:
		return &equality{args[0], args[1]}
	case operators.NotEquals:
		return &inequality{args[0], args[1]}
	case operators.Index:
		return index(args, false)
	case operators.OptSelect, operators.OptIndex:
		return index(args, true)
	case operators.NotStrictlyFalse:
		return notStrictlyFalse{args[0]}
	}
	return b.functionCall(e.ID(), c.FunctionName(), args)
}

// branch returns the operand of a conditional, whose resolution does not count as a step.
func branch(n node) node {
	if a, ok := n.(*attribute); ok {
		free := *a
		free.cost = 0
		if len(free.path) == 0 && !free.isRelative() {
			return free.root
		}
		return &free
	}
	return n
}

func index(args []node, optional bool) node {
	c, ok := args[1].(constant)
	if !ok {
		return qualify(args[0], qualifier{dynamic: branch(args[1]), optional: optional})
	}
	if !isKey(c.value) {
		return nil
	}
	return qualify(args[0], constantQualifier(c.value, optional))
}

func (b *builder) functionCall(id int64, name string, args []node) node {
	overload := ""
	if r := b.refs[id]; r == nil {
		return nil
	} else if len(r.OverloadIDs) == 1 {
		overload = r.OverloadIDs[0]
	}
	switch { // as decorateOptionalOr in cel/library.go v0.29.2
	case name == "or" && overload == "optional_or_optional":
		return &alternative{args[0], args[1], false, b.older.OptionalOfAny}
	case name == "orValue" && overload == "optional_orValue_value":
		return &alternative{args[0], args[1], true, b.older.OptionalOfAny}
	}
	impl := b.implementation(name, overload)
	if impl == nil || impl.NonStrict || impl.Async != nil {
		return nil
	}
	kind, covered := b.costOf(name, overload)
	if !covered {
		return nil
	}
	guard := bound.GuardOf(name, overload)
	if (name == "find" || name == "findAll") && len(args) > 1 {
		if c, ok := args[1].(constant); ok && isSmall(c.value) {
			if impl = searchOverload(impl, c.value); impl == nil {
				return nil
			}
		}
	}
	if kind == costMembership {
		if c, ok := args[1].(constant); ok {
			if set := membership(args[0], c.value); set != nil {
				return set
			}
		}
	}
	if name == overloads.Matches && kind == costMatches && len(args) == 2 {
		if c, ok := args[1].(constant); ok && isSmall(c.value) {
			pattern, isText := c.value.(types.String)
			if !isText {
				return nil
			}
			re, err := regexp.Compile(string(pattern))
			if err != nil {
				return nil
			}
			return &matches{args[0], re, regexCost(c.value), bound.PatternOf(string(pattern), bound.Served.Bytes)}
		}
	}
	var n node
	switch {
	case len(args) == 0:
		if impl.Function == nil {
			return nil
		}
		n = &variadic{name: name, overload: overload, impl: impl, cost: kind}
	case len(args) == 1 && impl.Unary != nil:
		n = &unary{name: name, overload: overload, arg: args[0], trait: impl.OperandTrait, impl: impl.Unary, cost: kind,
			guard: guard}
	case len(args) == 2 && impl.Binary != nil:
		n = &binary{name: name, overload: overload, left: args[0], right: args[1], trait: impl.OperandTrait,
			impl: impl.Binary, cost: kind, guard: guard,
			fast: shortcutOf(name, overload, kind, args[1]),
		}
	case impl.Function != nil:
		n = &variadic{name: name, overload: overload, args: args, impl: impl, cost: kind, guard: guard}
	default:
		return nil
	}
	if len(args) == 1 && overloads.IsTypeConversionFunction(name) {
		return b.foldLiteral(n, args...)
	}
	if pure[name] && !(name == "quantity" && b.older.QuantityAliased) {
		return evalConstant(n, args)
	}
	return n
}

// implementation finds a function as cel-go's planner does: by its overload, or else by its name.
func (b *builder) implementation(name, overload string) *functions.Overload {
	if overload != "" {
		if impl, found := b.functions.FindOverload(overload); found {
			return impl
		}
	}
	impl, _ := b.functions.FindOverload(name)
	return impl
}

// pure are functions whose value for constants is computed once, though every call has its cost.
var pure = map[string]bool{"quantity": true, "semver": true, "ip": true, "cidr": true, "isQuantity": true,
	"isSemver": true, "lowerAscii": true, "upperAscii": true}

func evalConstant(n node, args []node) node {
	for _, a := range args {
		if _, ok := a.(constant); !ok {
			return n
		}
	}
	var m machine
	v := n.eval(&m)
	if v == nil {
		return n
	}
	return &paid{v, m.cost}
}
