package plan

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/celgate/celgate/internal/bound"
)

// MeterName is the name by which [Variables] resolve to the *bound.Meter of an evaluation. No expression can name it.
const MeterName = "#meter"

// meter returns the meter of the evaluation, nil without one.
func (m *machine) meter() *bound.Meter {
	if m.vars == nil {
		return nil
	}
	return MeterOf(m.vars)
}

// MeterOf returns the meter of an evaluation, nil without one.
func MeterOf(vars Variables) *bound.Meter {
	v, _ := vars.ResolveName(MeterName)
	meter, _ := v.(*bound.Meter)
	return meter
}

// affords charges a call.
func (m *machine) affords(guard bound.Guard, args ...ref.Val) bool {
	n := copy(m.args[:], args) // a copy, so that the caller's arguments need not escape to the heap
	err := guard(m.meter(), m.args[:n])
	clear(m.args[:n])
	return err == nil
}

// chargeComparison charges a comparison.
func (m *machine) chargeComparison(left, right ref.Val) bool {
	if !bound.IsMade(left) || !bound.IsMade(right) {
		return true
	}
	return m.affords(compare, left, right)
}

var compare = bound.GuardOf(operators.Equals, overloads.Equals)

// chargeList charges a new list of items, and returns it.
func (m *machine) chargeList(list ref.Val, items []ref.Val) ref.Val {
	if bound.IsHeavy(items) && bound.ChargeMade(m.meter(), list) != nil {
		return nil
	}
	return list
}

// Bound makes programs of cel-go charge their calls as plans do. Results and costs stay the same.
func (f *Functions) Bound() cel.ProgramOption {
	b := &builder{functions: f.dispatcher}
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch i := i.(type) {
		case interpreter.InterpretableCall:
			return b.buildGuarded(i), nil
		case interpreter.InterpretableConstructor:
			for _, v := range i.InitVals() {
				if !isConstant(v) { // otherwise cel-go makes it a constant
					return &chargedConstructor{i}, nil
				}
			}
		}
		return i, nil
	})
}

func isConstant(i interpreter.InterpretableV2) bool {
	_, is := i.(interpreter.InterpretableConst)
	return is
}

func (b *builder) buildGuarded(call interpreter.InterpretableCall) interpreter.InterpretableV2 {
	name := call.Function()
	guard := bound.GuardOf(name, call.OverloadID())
	args := call.Args()
	if guard == nil || len(args) == 0 || isConstant(args[len(args)-1]) && isOptimized(name) {
		return call
	}
	g := &guardedCall{InterpretableCall: call, guard: guard}
	if name == operators.Equals || name == operators.NotEquals {
		return g
	}
	g.impl = b.implementation(name, call.OverloadID())
	if g.impl != nil && (g.impl.NonStrict || g.impl.Async != nil) {
		return call
	}
	return g
}

// isOptimized reports whether cel-go replaces a call whose last argument is constant.
func isOptimized(name string) bool {
	return name == operators.In || name == operators.OldIn || name == "in" || name == "find" || name == "findAll" ||
		overloads.IsTypeConversionFunction(name)
}

// A guardedCall evaluates a call as evalBinary, evalVarArgs, evalEq and evalNe of interpreter/interpretable.go v0.29.2
// do, and charges it between the arguments and the call.
type guardedCall struct {
	interpreter.InterpretableCall
	guard bound.Guard
	impl  *functions.Overload // nil: none, or a comparison
}

func (c *guardedCall) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

func (c *guardedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	nodes := c.Args()
	args := make([]ref.Val, len(nodes))
	for i, n := range nodes {
		args[i] = n.Exec(frame)
		if len(nodes) > 2 && types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	for _, v := range args { // with one or two arguments all of them are evaluated
		if types.IsUnknownOrError(v) {
			return v
		}
	}
	if err := c.guard(MeterOf(frame), args); err != nil {
		stop(err)
	}
	switch c.Function() {
	case operators.Equals:
		return types.Equal(args[0], args[1])
	case operators.NotEquals:
		return types.Bool(types.Equal(args[0], args[1]) != types.True)
	}
	return types.LabelErrNode(c.ID(), c.apply(args))
}

func (c *guardedCall) apply(args []ref.Val) ref.Val {
	if c.impl != nil && (c.impl.OperandTrait == 0 || args[0].Type().HasTrait(c.impl.OperandTrait)) {
		switch {
		case len(args) == 1 && c.impl.Unary != nil:
			return c.impl.Unary(args[0])
		case len(args) == 2 && c.impl.Binary != nil:
			return c.impl.Binary(args[0], args[1])
		case c.impl.Function != nil:
			return c.impl.Function(args...)
		}
	}
	if args[0].Type().HasTrait(traits.ReceiverType) {
		return args[0].(traits.Receiver).Receive(c.Function(), c.OverloadID(), args[1:])
	}
	if len(args) > 2 {
		return types.NewErr("no such overload: %s %d", c.Function(), c.ID())
	}
	return types.NewErr("no such overload: %s", c.Function())
}

// A chargedConstructor charges the list, map or object that it makes.
type chargedConstructor struct {
	interpreter.InterpretableConstructor
}

func (c *chargedConstructor) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

func (c *chargedConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := c.InterpretableConstructor.Exec(frame)
	if !bound.IsMade(v) {
		return v
	}
	if err := bound.ChargeMade(MeterOf(frame), v); err != nil {
		stop(err)
	}
	return v
}

// stop ends the evaluation in the way in which cel-go ends one that exceeds the cost limit. As a value, the error would
// not: a loop would continue, and cost tracking does not expect errors in the place of lists.
func stop(err error) {
	panic(interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: err.Error()})
}
