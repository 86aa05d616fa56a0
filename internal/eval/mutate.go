package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/objects"
	"github.com/celgate/celgate/internal/patch/jsonpatch"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
)

// ApplyConfiguration evaluates a mutation to the tree of its Object literal. Values that a patch cannot hold (null,
// unsigned integers, bytes, times, literals below the first level of a map or list) stay the Go values to which the
// server converts them, for the merge to refuse.
func ApplyConfiguration(ctx context.Context, prog *compile.Program, e *compile.Expression, in Inputs) (map[string]any,
	int64, error) {
	if e.Err == nil && e.Plan != nil && e.Watch == nil && len(e.Mended) == 0 {
		a := newActivation(ctx, prog, in)
		a.variables.quiet = true // variables are evaluated again if the plan gives up
		before := in.Meter.Mark()
		in.Meter.Start()
		if tree, cost, ok := e.Plan.Tree(a, ctx.Done()); ok {
			a.variables.tellAll()
			left := budget - a.variables.takeCost() // it is not negative, and may be as large as an int64
			if left < 0 || left < int64(cost) {
				return nil, 0, ErrBudget
			}
			if prog.Kind == policy.Admission {
				tree, _ = objects.ToTree(tree).(map[string]any)
			}
			return tree, budget - left + int64(cost), nil
		}
		if stopped := in.Meter.Err(); stopped != nil {
			return nil, 0, stopped
		}
		in.Meter.Reset(before)
	}
	value, cost, err := mutationResult(ctx, prog, e, in)
	if err != nil {
		return nil, cost, err
	}
	if value, err = unlessVerdict(prog, value); err != nil {
		return nil, cost, err
	}
	if mark, ok := value.(*objects.Mark); ok {
		return nil, cost, fmt.Errorf("%v is for a part of an object, as in Object{spec: …}", mark)
	}
	object, ok := value.(*dynamic.ObjectVal)
	if !ok { // cannot happen: the expression is type-checked
		return nil, cost, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", value.Type())
	}
	if err := bound.ChargeTree(in.Meter, object); err != nil {
		return nil, cost, err
	}
	own := prog.Kind == policy.Admission
	check := checkTypeNames
	if own {
		check = checkNames
	}
	if err := check(object); err != nil {
		return nil, cost, err
	}
	tree, ok := object.Value().(map[string]any)
	if own && ok {
		tree, ok = objects.ToTree(tree).(map[string]any)
	}
	if !ok {
		return nil, cost, fmt.Errorf("invalid return type: %T", object)
	}
	return tree, cost, nil
}

// checkTypeNames returns an error for literals whose type is not that of their place. The server lists them in the
// order of a Go map, this function in their own order.
func checkTypeNames(object *dynamic.ObjectVal) error {
	err := object.CheckTypeNamesMatchFieldPathNames()
	if err == nil {
		return nil
	}
	lines := strings.Split(err.Error(), "\n")
	slices.Sort(lines)
	return fmt.Errorf("type mismatch: %s", strings.Join(lines, "\n"))
}

// JSONPatch evaluates a mutation to the operations of its JSONPatch literals.
func JSONPatch(ctx context.Context, prog *compile.Program, e *compile.Expression, in Inputs) ([]jsonpatch.Operation,
	int64, error) {
	value, cost, err := mutationResult(ctx, prog, e, in)
	if err != nil {
		return nil, cost, err
	}
	if value, err = unlessVerdict(prog, value); err != nil {
		return nil, cost, err
	}
	list, ok := value.(traits.Lister)
	if !ok { // cannot happen: the expression is type-checked
		return nil, cost, errors.New("type mismatch: JSONPatchType.expression should evaluate to array")
	}
	var ops []jsonpatch.Operation
	for it := list.Iterator(); it.HasNext() == types.True; {
		op, err := operation(it.Next(), in)
		if err != nil {
			return nil, cost, err
		}
		ops = append(ops, op)
	}
	return ops, cost, nil
}

// ErrNotJSON is the error of a value of a JSON patch that cannot be converted to JSON.
var ErrNotJSON = errors.New("JSONPath valueExpression evaluated to a type that could not marshal to JSON")

// mutationResult evaluates a mutation with a budget of its own.
func mutationResult(ctx context.Context, prog *compile.Program, e *compile.Expression, in Inputs) (ref.Val, int64,
	error) {
	a := newActivation(ctx, prog, in)
	if e.Err != nil {
		a.meetRefused(e)
		return nil, 0, &compileError{err: e.Err}
	}
	r, _, err := a.evaluate(e, budget)
	if err != nil {
		return nil, 0, err
	}
	return r.Value, r.Cost, r.Err
}

func operation(v ref.Val, in Inputs) (jsonpatch.Operation, error) {
	patch, ok := v.(*mutation.JSONPatchVal)
	if !ok {
		native, err := v.ConvertToNative(reflect.TypeFor[*mutation.JSONPatchVal]())
		if err != nil {
			return jsonpatch.Operation{}, fmt.Errorf(
				"type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch: %w", err)
		}
		if patch, ok = native.(*mutation.JSONPatchVal); !ok {
			return jsonpatch.Operation{}, fmt.Errorf(
				"type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of %T",
				native)
		}
	}
	op := jsonpatch.Operation{Op: patch.Op, Path: patch.Path, From: patch.From, HasValue: patch.Val != nil}
	if patch.Val == nil {
		return op, nil
	}
	if err := bound.ChargeTree(in.Meter, patch.Val); err != nil {
		return op, err
	}
	if object, ok := patch.Val.(*dynamic.ObjectVal); ok {
		if err := checkTypeNames(object); err != nil {
			return op, err
		}
	}
	var err error
	if op.Value, err = jsonTree(patch.Val); err != nil {
		return op, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	if in.Witness != nil && holdsBigInteger(patch.Val, op.Value) {
		in.Witness.NoteQuirk(quirks.PatchBigInteger)
	}
	return op, nil
}

// jsonTree converts a CEL value to JSON by CEL's own rules: big integers become strings, and so do durations and times.
// CEL's conversion panics for a literal that it cannot walk; here that is an error.
func jsonTree(v ref.Val) (tree any, err error) {
	switch v := v.(type) { // the usual values in patches
	case types.String:
		return string(v), nil
	case types.Bool:
		return bool(v), nil
	}
	defer func() {
		if p := recover(); p != nil {
			tree, err = nil, fmt.Errorf("%v", p)
		}
	}()
	native, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, err
	}
	value, ok := native.(*structpb.Value)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", native)
	}
	return protoTree(value)
}

func protoTree(v *structpb.Value) (any, error) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return nil, nil
	case *structpb.Value_BoolValue:
		return k.BoolValue, nil
	case *structpb.Value_StringValue:
		return k.StringValue, nil
	case *structpb.Value_NumberValue:
		return number(k.NumberValue)
	case *structpb.Value_ListValue:
		list := make([]any, len(k.ListValue.GetValues()))
		for i, item := range k.ListValue.GetValues() {
			var err error
			if list[i], err = protoTree(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *structpb.Value_StructValue:
		members := make(map[string]any, len(k.StructValue.GetFields()))
		for name, member := range k.StructValue.GetFields() {
			var err error
			if members[name], err = protoTree(member); err != nil {
				return nil, err
			}
		}
		return members, nil
	}
	return nil, errors.New("proto: google.protobuf.Value: none of the oneof fields is set")
}

// number returns a JSON number; one without a fraction or exponent is an integer.
func number(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("proto: google.protobuf.Value: cannot have %v for number value", f)
	}
	// From 1e21 on the text form has an exponent; below that and within int64 it is an integer.
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return int64(f), nil
	}
	return f, nil
}
