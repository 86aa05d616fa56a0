// Package eval runs compiled policies on the values of one request.
//
// Budgets, the order of evaluation and the texts of errors are those of pkg/admission/plugin/cel and
// pkg/admission/plugin/policy v0.37.2.
package eval

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/policy"
)

// Inputs are the values that the expressions of one invocation see. A nil value is null, a nil authorizer is
// not bound.
type Inputs struct {
	Object    ref.Val
	OldObject ref.Val
	Params    ref.Val
	Request   LazyRecord
	Namespace Lazy

	Authorizer      Lazy
	RequestResource Lazy // authorizer.requestResource

	Type *shape.Type // of the object, where a scope needs it; nil: not known
	Kind *Kind       // of the object, where objects.apply needs it; nil: not known

	Place string // of the object in what was requested, if it is a template there, such as spec.template; else empty

	Binding *policy.Binding // that says which validations are evaluated; nil: all are
	Each    *Each           // the item that a mutation is made for; nil: none

	At *Scoped // the value that expressions are evaluated for; nil: the object

	Witness Witness      // nil: nobody asks
	Meter   *bound.Meter // nil: one for each call
}

// A Witness is told what is worth a note.
type Witness interface {
	// NoteLoop is about evaluations with many iterations, for which a server takes seconds and more.
	NoteLoop(iterations uint64)
	// NoteQuirk is about a quirk that changes what an expression, or its value in a JSON patch, comes to.
	NoteQuirk(quirks.ID)
	// NoteVariable is about a variable that has been evaluated.
	NoteVariable(variable string, failed bool)
}

// A Lazy is a value that is made when an expression asks for it, and then always the same. Nil is null.
type Lazy interface{ Resolve() ref.Val }

// A LazyRecord is a Lazy object of which one can have single members, in the form that the value has.
type LazyRecord interface {
	Lazy
	plan.Record
	Form() Form
}

// Made is a value that is there already.
type Made struct{ ref.Val }

// Resolve returns the value.
func (m Made) Resolve() ref.Val { return m.Val }

// A Result is what one expression evaluated to.
type Result struct {
	Value ref.Val // nil for an error and for an expression that does not exist
	Err   error
	Cost  int64 // including the variables that were evaluated on behalf of it
}

// An activation resolves the names of expressions that are evaluated together: variables are evaluated once.
type activation struct {
	Inputs
	ctx       context.Context
	variables variables
	over      uint64 // what the last evaluation cost, if it looped for long and passed the limit
	mended    mended
	scoped    *Scoped // nil: no scope
}

// NoteLoop is told about an evaluation with many iterations.
func (a *activation) NoteLoop(iterations, cost uint64, over bool) {
	if a.Witness != nil {
		a.Witness.NoteLoop(iterations)
	}
	if over {
		a.over = cost
	}
}

func newActivation(ctx context.Context, prog *compile.Program, in Inputs) *activation {
	a := &activation{Inputs: in}
	a.begin(ctx, prog)
	return a
}

// begin makes the activation one for other expressions, which see its inputs.
func (a *activation) begin(ctx context.Context, prog *compile.Program) {
	a.ctx, a.over, a.mended, a.scoped = ctx, 0, mended{}, a.At
	a.variables = variables{activation: a, declared: prog.Variables}
}

func (a *activation) Parent() interpreter.Activation { return nil }

func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case "object":
		return nilToNull(a.Object), true
	case "oldObject":
		return nilToNull(a.OldObject), true
	case "params":
		return nilToNull(a.Params), true
	case "request":
		return resolveLazy(a.Request), true
	case "namespaceObject":
		return resolveLazy(a.Namespace), true
	case "authorizer":
		return resolveLazy(a.Authorizer), a.Authorizer != nil
	case "authorizer.requestResource":
		return resolveLazy(a.RequestResource), a.RequestResource != nil
	case "variables":
		return &a.variables, true
	case plan.MeterName:
		return a.Meter, a.Meter != nil
	case objects.Place:
		if a.Kind == nil {
			return types.NullValue, true
		}
		return objects.NewPlace(a.Kind), true
	}
	if a.Each != nil && a.Each.Name == name {
		return a.Each.Value, true
	}
	if a.scoped != nil {
		return a.scoped.resolve(name)
	}
	return nil, false
}

// Record returns the record or the tree that a variable holds, nil for none.
func (a *activation) Record(variable string) (any, types.Adapter) {
	switch {
	case variable != "request":
		if a.scoped != nil {
			return a.scoped.tree()
		}
	case a.Request != nil:
		return a.Request, adapter{a.Request.Form()}
	}
	return nil, nil
}

func nilToNull(v ref.Val) ref.Val {
	if v == nil {
		return types.NullValue
	}
	return v
}

func resolveLazy(l Lazy) ref.Val {
	if l == nil {
		return types.NullValue
	}
	return nilToNull(l.Resolve())
}

// group evaluates expressions one after the other with one budget, of which it returns the rest. The error is
// that of the group as a whole: then there are no results.
func (a *activation) group(expressions []*compile.Expression, budget int64) ([]Result, int64, error) {
	results := make([]Result, len(expressions))
	for i, e := range expressions {
		if e == nil {
			continue
		}
		var err error
		if results[i], budget, err = a.evaluate(e, budget); err != nil {
			return results[:i], 0, err
		}
	}
	return results, budget, nil
}

// evaluate runs one expression. The error is one that ends its group.
func (a *activation) evaluate(e *compile.Expression, budget int64) (Result, int64, error) {
	if e.Err != nil {
		a.meetRefused(e)
		return Result{Err: &CompileError{e.Err, "compilation error: "}}, budget, nil
	}
	a.Meter.Start()
	value, cost, err := run(a.ctx, e, a)
	return a.spend(e, budget, value, cost, err)
}

// spend takes what an expression cost, which is not known if it is negative, from a budget.
func (a *activation) spend(e *compile.Expression, budget int64, value ref.Val, cost int64, err error) (Result, int64,
	error) {
	before := budget
	// What the variables cost counts first, whether or not the expression failed.
	if budget -= a.variables.takeCost(); a.isOverdrawn(budget) {
		return Result{}, 0, ErrBudget
	}
	if cost < 0 {
		return Result{}, 0, fmt.Errorf("runtime cost could not be calculated for expression: %v, no further expression will be run", e.Src)
	}
	if budget -= cost; a.isOverdrawn(budget) {
		return Result{}, 0, ErrBudget
	}
	if err != nil {
		return Result{Err: &ExpressionError{e.Src, typedError(err)}, Cost: before - budget}, budget, nil
	}
	return Result{Value: value, Cost: before - budget}, budget, nil
}

// A repeated expression is evaluated for one value of a scope after the other.
type repeated struct {
	*activation
	e    *compile.Expression
	plan plan.Repeated
	fast bool // nobody watches, and there is a plan
}

// repeat begins evaluations of an expression, until close.
func (a *activation) repeat(e *compile.Expression) repeated {
	r := repeated{activation: a, e: e}
	if e.Err == nil && e.Plan != nil && e.Watch == nil && (len(e.Mended) == 0 || a.Witness == nil) {
		r.plan, r.fast = e.Plan.Repeat(a, a.ctx.Done()), true
	}
	return r
}

// evaluate is [activation.evaluate] of the expression.
func (r *repeated) evaluate(budget int64) (Result, int64, error) {
	if !r.fast {
		return r.activation.evaluate(r.e, budget)
	}
	r.Meter.Start()
	before := r.Meter.Mark()
	value, planned, ok := r.plan.Eval()
	if ok && r.variables.cost == 0 && int64(planned) <= budget && r.mended.saved == nil {
		return Result{Value: value, Cost: int64(planned)}, budget - int64(planned), nil
	}
	if ok {
		return r.spend(r.e, budget, value, int64(planned), nil)
	}
	value, cost, err := runUnplanned(r.ctx, r.e, r.activation, before)
	return r.spend(r.e, budget, value, cost, err)
}

func (r *repeated) close() {
	if r.fast {
		r.plan.Close()
	}
}

// run evaluates an expression; cost is -1 if it is not known.
func run(ctx context.Context, e *compile.Expression, vars *activation) (value ref.Val, cost int64, err error) {
	switch {
	case len(e.Mended) > 0 && vars.Witness != nil:
		return vars.compare(ctx, e)
	case e.Watch != nil:
		return evaluateWatched(ctx, e, vars)
	}
	return runPlain(ctx, e, vars)
}

// runAlone is run without looking at what the expression comes to without quirks.
func runAlone(ctx context.Context, e *compile.Expression, vars *activation) (value ref.Val, cost int64, err error) {
	if e.Watch != nil {
		return evaluateWatched(ctx, e, vars)
	}
	return runPlain(ctx, e, vars)
}

func runPlain(ctx context.Context, e *compile.Expression, vars *activation) (value ref.Val, cost int64, err error) {
	before := vars.Meter.Mark()
	if e.Plan != nil {
		if value, cost, ok := e.Plan.Eval(vars, ctx.Done()); ok {
			return value, int64(cost), nil
		}
	}
	return runUnplanned(ctx, e, vars, before)
}

// runUnplanned evaluates an expression by cel-go, after its plan, if there is one, has given up. Before is what the
// meter was before that.
func runUnplanned(ctx context.Context, e *compile.Expression, vars *activation, before bound.Mark) (value ref.Val,
	cost int64, err error) {
	if e.Plan != nil {
		if cost := vars.over; cost > 0 { // cel-go would come to this after minutes
			vars.over = 0
			return nil, int64(min(cost, math.MaxInt64)), interpreter.EvalCancelledError{
				Message: "operation cancelled: actual cost limit exceeded", Cause: interpreter.CostLimitExceeded}
		}
		if stopped := vars.Meter.Err(); stopped != nil { // where cel-go would be stopped, too
			return nil, 0, stopped
		}
		vars.Meter.Reset(before)
	}
	var details *cel.EvalDetails
	err = vars.Meter.DoWatched(ctx, func(ctx context.Context) (err error) {
		value, details, err = e.Program.ContextEval(ctx, vars)
		return err
	})
	if stopped := vars.Meter.Err(); err != nil && stopped != nil { // whatever cel-go makes of it
		return nil, 0, stopped
	}
	if details == nil || details.ActualCost() == nil {
		return nil, -1, err
	}
	return value, int64(min(*details.ActualCost(), math.MaxInt64)), err
}

// evaluateWatched evaluates an expression that somebody watches: apart, because a deferred call costs those that nobody
// does.
func evaluateWatched(ctx context.Context, e *compile.Expression, vars *activation) (value ref.Val, cost int64,
	err error) {
	from := vars.Meter.Mark()
	defer func() { vars.Meter.DoExempt(from, func() { e.Watch(ctx, vars, err != nil) }) }()
	alone := *e
	alone.Watch = nil
	return run(ctx, &alone, vars)
}

// variables is the lazy value of the variables variable. Each is evaluated when it is first used.
type variables struct {
	activation *activation
	declared   []compile.Variable
	values     []ref.Val // nil: not yet evaluated
	cost       int64     // of those evaluated since takeCost
	quiet      bool      // nobody is told of them yet
}

var variablesType = types.NewObjectType("kubernetes.variables",
	traits.IndexerType|traits.FieldTesterType|traits.IterableType)

func (v *variables) takeCost() int64 {
	cost := v.cost
	v.cost = 0
	return cost
}

func (v *variables) Find(key ref.Val) (ref.Val, bool) {
	s, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	name := string(s)
	if strings.Contains(name, "__") { // only then is anything escaped
		if name, ok = apiservercel.Unescape(name); !ok {
			return nil, false
		}
	}
	for i := range v.declared {
		if v.declared[i].Name == name {
			return v.value(i), true
		}
	}
	return nil, false
}

func (v *variables) value(i int) ref.Val {
	if v.values == nil {
		v.values = make([]ref.Val, len(v.declared))
	}
	switch v.values[i] {
	case nil:
		v.values[i] = inEvaluation
		v.values[i] = v.evaluate(&v.declared[i])
		if !v.quiet {
			v.tell(i)
		}
	case inEvaluation: // through dyn(variables)
		return types.NewErr("composited variable %q fails to evaluate: it refers to itself", v.declared[i].Name)
	default:
		v.activation.meetAliased(v.values[i])
	}
	return v.values[i]
}

// tell tells the witness that a variable has been evaluated.
func (v *variables) tell(i int) {
	if w := v.activation.Witness; w != nil {
		w.NoteVariable(v.declared[i].Name, types.IsError(v.values[i]))
	}
}

// tellAll tells the witness of all that have been.
func (v *variables) tellAll() {
	for i := range v.values {
		if v.values[i] != nil {
			v.tell(i)
		}
	}
}

// inEvaluation stands in the place of a variable while it is evaluated.
var inEvaluation ref.Val = new(variables)

func (v *variables) evaluate(declared *compile.Variable) ref.Val {
	if declared.Err != nil {
		v.activation.meetRefused(declared.Expression)
		return types.NewErr("composited variable %q fails to compile: %w", declared.Name,
			&CompileError{Err: declared.Err})
	}
	value, cost, err := run(v.activation.ctx, declared.Expression, v.activation)
	if cost < 0 {
		return types.NewErr("unable to calculate cost of variable %q", declared.Name)
	}
	if v.cost += cost; v.cost < 0 {
		v.cost = math.MaxInt64
	}
	if err != nil {
		return types.NewErr("composited variable %q fails to evaluate: %w", declared.Name, err)
	}
	return value
}

// The rest of traits.Mapper.

func (v *variables) Get(key ref.Val) ref.Val {
	if value, found := v.Find(key); found {
		return value
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

func (v *variables) Contains(key ref.Val) ref.Val {
	value, found := v.Find(key)
	if value != nil && types.IsUnknownOrError(value) {
		return value
	}
	return types.Bool(found)
}

// Iterator yields the values, not the names, as k8s.io/apiserver/pkg/cel/lazy v0.37.2 does.
func (v *variables) Iterator() traits.Iterator { return &variableIterator{variables: v} }

type variableIterator struct {
	ref.Val   // an iterator is never used as a value
	variables *variables
	next      int
}

func (it *variableIterator) HasNext() ref.Val {
	return types.Bool(it.next < len(it.variables.declared))
}

func (it *variableIterator) Next() ref.Val {
	it.next++
	return it.variables.value(it.next - 1)
}

func (v *variables) Size() ref.Val { return types.Int(len(v.declared)) }

func (v *variables) Type() ref.Type { return variablesType }

func (v *variables) Value() any { return types.NoSuchOverloadErr() }

func (v *variables) Equal(other ref.Val) ref.Val {
	o, ok := other.(*variables)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(v == o)
}

var _ interpreter.Activation = (*activation)(nil)

// celenv's limits, under the names that read well here.
const (
	budget      = celenv.Budget
	matchBudget = celenv.MatchBudget
)

func (v *variables) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("disallowed conversion from %q to %q", variablesType.TypeName(), t.Name())
}

func (v *variables) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case variablesType:
		return v
	case types.TypeType:
		return variablesType
	}
	return types.NewErr("disallowed conversion from %q to %q", variablesType.TypeName(), t.TypeName())
}
