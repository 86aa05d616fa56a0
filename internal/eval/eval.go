// Package eval runs compiled policies on the values of one request.
//
// Budgets, the order of evaluation and the texts of errors are those of pkg/admission/plugin/cel and
// pkg/admission/plugin/policy v0.37.2.
package eval

import (
	"context"
	"errors"
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

// Inputs are the values that the expressions of one invocation read. A nil value is null, a nil authorizer is not
// bound.
type Inputs struct {
	Object    ref.Val
	OldObject ref.Val
	Params    ref.Val
	Request   LazyRecord
	Namespace Lazy

	Authorizer      Lazy
	RequestResource Lazy // authorizer.requestResource

	Type *shape.Type // of the object, for scopes; nil: unknown
	Kind *Kind       // of the object, for objects.apply; nil: unknown

	Place string // of the object inside the requested one if it is a template, such as spec.template; else empty

	Binding *policy.Binding // selects the validations to evaluate; nil: all
	Each    *Each           // the item of forEach; nil: none

	At *Scoped // the value of a scope; nil: the object

	Witness Witness      // may be nil
	Meter   *bound.Meter // nil: one for each call
}

// A Witness receives facts that deserve a note.
type Witness interface {
	// NoteLoop is called for evaluations with many iterations, which take a server seconds or longer.
	NoteLoop(iterations uint64)
	// NoteQuirk is called for a quirk that changes the result of an expression, or its value in a JSON patch.
	NoteQuirk(quirks.ID)
	// NoteVariable is called for a variable that was evaluated.
	NoteVariable(variable string, failed bool)
}

// A Lazy is a value that is made on first use, and cached. Nil is null.
type Lazy interface{ Resolve() ref.Val }

// A LazyRecord is a Lazy object whose members can be read one by one, in the form that they have in its value.
type LazyRecord interface {
	Lazy
	plan.Record
	Form() Form
}

// Made is a Lazy value that exists already.
type Made struct{ ref.Val }

// Resolve returns the value.
func (m Made) Resolve() ref.Val { return m.Val }

// A Result is the result of one expression.
type Result struct {
	Value ref.Val // nil for an error and for a missing expression
	Err   error
	Cost  int64 // including variables evaluated for it
}

// An activation resolves the names of expressions that share variables; each variable is evaluated once.
type activation struct {
	Inputs
	ctx       context.Context
	variables variables
	over      uint64 // the cost of the last evaluation, if it had many iterations and exceeded the limit
	mended    mended
	scoped    *Scoped // nil: the expression is not evaluated for a scope
	memory    *plan.Memory
}

// NoteLoop receives an evaluation with many iterations.
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

// begin prepares the activation for other expressions with the same inputs.
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
		if a.scoped != nil {
			return objects.NewPlace(placed{a.Kind, a.scoped.Path}), true
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

// Record returns the record or tree of a variable; nil if it is neither.
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

// group evaluates expressions in order with one budget, and returns the rest of the budget. An error concerns the group
// as a whole: then there are no results.
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

// evaluate evaluates one expression. An error ends its group.
func (a *activation) evaluate(e *compile.Expression, budget int64) (Result, int64, error) {
	if e.Err != nil {
		a.meetRefused(e)
		return Result{Err: &compileError{e.Err, "compilation error: "}}, budget, nil
	}
	a.Meter.Start()
	value, cost, err := run(a.ctx, e, a)
	if err == nil && a.isPlain(cost, budget) {
		return Result{Value: value, Cost: cost}, budget - cost, nil
	}
	return a.spend(e, budget, value, cost, err)
}

// isPlain reports whether an evaluation only takes its cost from a budget, and the budget suffices.
func (a *activation) isPlain(cost, budget int64) bool {
	return a.variables.cost == 0 && 0 <= cost && cost <= budget && a.mended.saved == nil
}

// spend takes the cost of an expression from a budget; a negative cost is unknown.
func (a *activation) spend(e *compile.Expression, budget int64, value ref.Val, cost int64, err error) (Result, int64,
	error) {
	before := budget
	// The costs of variables count first, whether or not the expression failed.
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

// run evaluates an expression; cost is -1 if unknown.
func run(ctx context.Context, e *compile.Expression, vars *activation) (value ref.Val, cost int64, err error) {
	switch {
	case len(e.Mended) > 0 && vars.Witness != nil:
		return vars.compare(ctx, e)
	case e.Watch != nil:
		return evaluateWatched(ctx, e, vars)
	}
	return runPlain(ctx, e, vars)
}

// runAlone is run without the evaluations that detect quirks.
func runAlone(ctx context.Context, e *compile.Expression, vars *activation) (value ref.Val, cost int64, err error) {
	if e.Watch != nil {
		return evaluateWatched(ctx, e, vars)
	}
	return runPlain(ctx, e, vars)
}

func runPlain(ctx context.Context, e *compile.Expression, vars *activation) (value ref.Val, cost int64, err error) {
	before := vars.Meter.Mark()
	if e.Plan != nil {
		if value, cost, ok := e.Plan.Eval(vars, ctx.Done(), vars.memory); ok {
			return value, int64(cost), nil
		}
	}
	return runUnplanned(ctx, e, vars, before)
}

// runUnplanned evaluates an expression with cel-go, after its plan, if any, has given up. before is the state of the
// meter before that.
func runUnplanned(ctx context.Context, e *compile.Expression, vars *activation, before bound.Mark) (value ref.Val,
	cost int64, err error) {
	if e.Plan != nil {
		if cost := vars.over; cost > 0 { // cel-go would take minutes to report the same
			vars.over = 0
			return nil, int64(min(cost, math.MaxInt64)), interpreter.EvalCancelledError{
				Message: "operation cancelled: actual cost limit exceeded", Cause: interpreter.CostLimitExceeded}
		}
		if stopped := vars.Meter.Err(); stopped != nil { // cel-go would be stopped, too
			return nil, 0, stopped
		}
		vars.Meter.Reset(before)
	}
	var details *cel.EvalDetails
	err = vars.Meter.DoWatched(ctx, func(ctx context.Context) (err error) {
		value, details, err = e.Program.ContextEval(ctx, vars)
		return err
	})
	if stopped := vars.Meter.Err(); err != nil && stopped != nil { // whatever error cel-go returned
		return nil, 0, stopped
	}
	if details == nil || details.ActualCost() == nil {
		return nil, -1, err
	}
	return value, int64(min(*details.ActualCost(), math.MaxInt64)), err
}

// evaluateWatched evaluates an expression with a Looper; it is separate, because a deferred call costs time that other
// evaluations need not spend.
func evaluateWatched(ctx context.Context, e *compile.Expression, vars *activation) (value ref.Val, cost int64,
	err error) {
	from := vars.Meter.Mark()
	defer func() {
		// The second evaluation does not have a limit: one that the first has reached would take as long as it likes.
		if !errors.Is(typedError(err), ErrBudget) && vars.Meter.Err() == nil {
			vars.Meter.DoExempt(from, func() { e.Watch(ctx, vars, err != nil) })
		}
	}()
	alone := *e
	alone.Watch = nil
	return run(ctx, &alone, vars)
}

// variables is the lazy value of the variables variable. Each variable is evaluated on first use.
type variables struct {
	activation *activation
	declared   []compile.Variable
	values     []ref.Val // nil: not yet evaluated
	cost       int64     // of those evaluated since takeCost
	quiet      bool      // they are not reported yet
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
	if strings.Contains(name, "__") { // other names do not contain escapes
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

// tell reports an evaluated variable to the witness.
func (v *variables) tell(i int) {
	if w := v.activation.Witness; w != nil {
		w.NoteVariable(v.declared[i].Name, types.IsError(v.values[i]))
	}
}

// tellAll reports all evaluated variables.
func (v *variables) tellAll() {
	for i := range v.values {
		if v.values[i] != nil {
			v.tell(i)
		}
	}
}

// inEvaluation marks a variable that is being evaluated.
var inEvaluation ref.Val = new(variables)

func (v *variables) evaluate(declared *compile.Variable) ref.Val {
	if declared.Err != nil {
		v.activation.meetRefused(declared.Expression)
		return types.NewErr("composited variable %q fails to compile: %w", declared.Name,
			&compileError{err: declared.Err})
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

// The following methods complete traits.Mapper.

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
	ref.Val   // iterators are not used as values
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

// Limits of celenv, under short names.
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
