// Package objects has functions for mutations of the dialect, for changes that an Object literal cannot express:
//
//	objects.unset()            takes away what is at its place
//	objects.remove(item)       takes an item with the same keys out of a list, or an equal one out of a set
//	objects.replace(value)     takes the place of what is there, also where that merges as one value
//	objects.apply(value, part) is value with part merged into it, by the rules of the place that the name of the type
//	                           of part says
//
// The first three return marks for package merge; other operations do not accept them.
package objects

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	celcommon "github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/patch/merge"
)

// Place is the variable with the [Merger] of the object for objects.apply. It is not a valid name in expressions.
const Place = "@place"

// A Merger merges by the rules of the kind of an object.
type Merger interface {
	Merge(value ref.Val, part *dynamic.ObjectVal) ref.Val
}

// Library is the library of these functions.
type Library struct{}

// LibraryName is the name of the library.
func (Library) LibraryName() string { return "celgate.objects" }

// Overloads.
const (
	overloadUnset   = "objects_unset"
	overloadRemove  = "objects_remove"
	overloadReplace = "objects_replace"
	// OverloadApply is that of objects.apply.
	OverloadApply = "objects_apply"
)

// CompileOptions declares the functions.
func (Library) CompileOptions() []cel.EnvOption {
	of := cel.TypeParamType("T")
	whole := func(_ checker.CostEstimator, _ *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
		size := checker.SizeEstimate{}
		for _, a := range args[:min(len(args), 2)] {
			known := checker.SizeEstimate{Max: math.MaxUint32}
			if s := a.ComputedSize(); s != nil {
				known = *s
			}
			size = size.Add(known)
		}
		return &checker.CallEstimate{CostEstimate: size.MultiplyByCostFactor(celcommon.StringTraversalCostFactor).
			Add(checker.FixedCostEstimate(1))}
	}
	return []cel.EnvOption{
		cel.Variable(Place, cel.DynType),
		cel.Function("objects.unset", cel.Overload(overloadUnset, nil, of,
			cel.FunctionBinding(func(...ref.Val) ref.Val { return &Mark{} }))),
		cel.Function("objects.remove", cel.Overload(overloadRemove, []*cel.Type{of}, of,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return &Mark{of: v, removes: true} }))),
		cel.Function("objects.replace", cel.Overload(overloadReplace, []*cel.Type{of}, of,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return &Mark{of: v} }))),
		cel.Function("objects.apply", cel.Overload(OverloadApply, []*cel.Type{cel.DynType, of, cel.DynType}, of,
			cel.FunctionBinding(apply))),
		cel.Macros(cel.ReceiverMacro("apply", 2, func(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr,
			*celcommon.Error) {
			if target.Kind() != ast.IdentKind || target.AsIdent() != "objects" {
				return nil, nil
			}
			return f.NewCall("objects.apply", args[0], args[1], f.NewIdent(Place)), nil
		})),
		cel.CostEstimatorOptions(checker.OverloadCostEstimate(overloadReplace, whole),
			checker.OverloadCostEstimate(OverloadApply, whole)),
	}
}

// ProgramOptions defines the costs of the functions: those of a text with the length of their arguments.
func (Library) ProgramOptions() []cel.ProgramOption {
	cost := func(args []ref.Val, _ ref.Val) *uint64 {
		var size int64
		for _, a := range args[:min(len(args), 2)] {
			values, text := bound.Weight(a, mostWeighed)
			size += min(values, mostWeighed) + min(text, mostWeighed)
		}
		of := 1 + uint64(math.Ceil(float64(size)*celcommon.StringTraversalCostFactor))
		return &of
	}
	return []cel.ProgramOption{cel.CostTrackerOptions(interpreter.OverloadCostTracker(overloadReplace, cost),
		interpreter.OverloadCostTracker(OverloadApply, cost))}
}

// mostWeighed is more than an evaluation may cost.
const mostWeighed = 20_000_000

func apply(args ...ref.Val) ref.Val {
	part, ok := args[1].(*dynamic.ObjectVal)
	if !ok {
		return types.NewErr("objects.apply: the second value is of type %s: write an Object literal, such as "+
			"Object.spec.containers{…}", args[1].Type().TypeName())
	}
	merger, ok := args[2].Value().(Merger)
	if !ok {
		return types.NewErr("objects.apply: the kind of the object does not have a schema")
	}
	return merger.Merge(args[0], part)
}

// NewPlace returns the value of the variable [Place].
func NewPlace(m Merger) ref.Val { return place{m} }

type place struct{ Merger }

var placeType = types.NewOpaqueType("objects.place")

func (p place) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("a place is not a value")
}
func (p place) ConvertToType(ref.Type) ref.Val { return types.NewErr("a place is not a value") }
func (p place) Equal(other ref.Val) ref.Val    { return types.Bool(other == ref.Val(p)) }
func (p place) Type() ref.Type                 { return placeType }
func (p place) Value() any                     { return p.Merger }

// A Mark is the result of unset, remove or replace.
type Mark struct {
	of      ref.Val // nil: unset
	removes bool
}

// Content returns the argument of a mark; nil if it has none.
func (m *Mark) Content() ref.Val { return m.of }

// Value returns the mark of package merge.
func (m *Mark) Value() any {
	switch {
	case m.of == nil:
		return merge.Unset{}
	case m.removes:
		return merge.Remove{Item: Tree(m.of)}
	}
	return merge.Replace{Value: Tree(m.of)}
}

// String returns the call that makes the mark.
func (m *Mark) String() string {
	switch {
	case m.of == nil:
		return "objects.unset()"
	case m.removes:
		return "objects.remove(…)"
	}
	return "objects.replace(…)"
}

var markType = types.NewOpaqueType("objects.mark")

// Type returns a type of its own.
func (m *Mark) Type() ref.Type { return markType }

// Equal compares marks of the same kind.
func (m *Mark) Equal(other ref.Val) ref.Val {
	o, ok := other.(*Mark)
	switch {
	case !ok || m.removes != o.removes || (m.of == nil) != (o.of == nil):
		return types.False
	case m.of == nil:
		return types.True
	}
	return m.of.Equal(o.of)
}

// ConvertToNative fails: a mark is not JSON.
func (m *Mark) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s is for ApplyConfiguration", m.String())
}

// ConvertToType converts only to its own type.
func (m *Mark) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case markType:
		return m
	case types.TypeType:
		return markType
	}
	return types.NewErr("%s is not a %s", m.String(), t.TypeName())
}

// Tree returns the value in a patch for v. Unlike in the server's conversion of an Object literal, lists and maps in
// lists and maps are trees, too. Values that a patch cannot hold stay Go values, for the merge to refuse.
func Tree(v ref.Val) any {
	switch v := v.(type) {
	case *types.Optional:
		if !v.HasValue() {
			return nil
		}
		return Tree(v.GetValue())
	case interface {
		Tree() (any, types.Adapter)
	}:
		content, _ := v.Tree()
		return ToTree(content)
	case *Mark:
		return v.Value()
	case *dynamic.ObjectVal:
		return ToTree(v.Value())
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			out = append(out, Tree(it.Next()))
		}
		return out
	case traits.Mapper:
		if v.Type() != types.MapType {
			break // such as variables
		}
		out := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.(types.String)
			if !ok {
				return types.NewErr("map key %v is of type %s, not string", key, key.Type().TypeName())
			}
			out[string(name)] = Tree(v.Get(key))
		}
		return out
	}
	return v.Value()
}

// A shower is a Go value that stands for a tree.
type shower interface{ Tree() any }

// ToTree returns a tree in which lists and maps that are CEL values are trees, too. Without any it is v itself.
func ToTree(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := v
		for name, member := range v {
			whole := ToTree(member)
			if isSame(member, whole) {
				continue
			}
			if reflect.ValueOf(out).Pointer() == reflect.ValueOf(v).Pointer() {
				out = make(map[string]any, len(v))
				for name, member := range v {
					out[name] = member
				}
			}
			out[name] = whole
		}
		return out
	case []any:
		out, copied := v, false
		for i, item := range v {
			whole := ToTree(item)
			if isSame(item, whole) {
				continue
			}
			if !copied {
				out, copied = append([]any(nil), v...), true
			}
			out[i] = whole
		}
		return out
	case merge.Remove:
		return merge.Remove{Item: ToTree(v.Item)}
	case merge.Replace:
		return merge.Replace{Value: ToTree(v.Value)}
	case shower:
		return ToTree(v.Tree())
	case ref.Val:
		return Tree(v)
	case []ref.Val:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = Tree(item)
		}
		return out
	case map[ref.Val]ref.Val:
		out := make(map[string]any, len(v))
		for key, member := range v {
			name, ok := key.(types.String)
			if !ok {
				return v
			}
			out[string(name)] = Tree(member)
		}
		return out
	}
	return v
}

// isSame reports whether ToTree has left a value unchanged.
func isSame(before, after any) bool {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		return ok && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	case []any:
		a, ok := after.([]any)
		return ok && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
	case merge.Remove, merge.Replace, shower, ref.Val, []ref.Val, map[ref.Val]ref.Val:
		return false
	}
	return true
}

// Unsets replaces ?field: optional.none() and ?"key": optional.none(), literally in an Object or Item literal or in a
// map in one, by objects.unset(), because that is their purpose. A computed optional leaves the field unchanged. It
// returns the ids of the replaced nodes.
func Unsets(parsed *cel.Ast) []int64 {
	var found []int64
	made := ast.NewExprFactory()
	literal := func(value ast.Expr) bool {
		if value.Kind() != ast.CallKind {
			return false
		}
		c := value.AsCall()
		return c.IsMemberFunction() && c.FunctionName() == "none" && len(c.Args()) == 0 &&
			c.Target().Kind() == ast.IdentKind && c.Target().AsIdent() == "optional"
	}
	unset := func(value ast.Expr) {
		found = append(found, value.ID())
		value.SetKindCase(made.NewMemberCall(value.ID(), "unset", made.NewIdent(value.AsCall().Target().ID(), "objects")))
	}
	var visit func(e ast.Expr, inside bool)
	visit = func(e ast.Expr, inside bool) {
		switch e.Kind() {
		case ast.StructKind:
			s := e.AsStruct()
			root, _, _ := strings.Cut(s.TypeName(), ".")
			object := root == "Object" || root == locals.ItemType
			fields, before := make([]ast.EntryExpr, 0, len(s.Fields())), len(found)
			for _, f := range s.Fields() {
				field := f.AsStructField()
				optional := field.IsOptional()
				if object && optional && literal(field.Value()) {
					unset(field.Value())
					optional = false
				}
				fields = append(fields, made.NewStructField(f.ID(), field.Name(), field.Value(), optional))
			}
			if len(found) > before {
				e.SetKindCase(made.NewStruct(e.ID(), s.TypeName(), fields))
			}
			for _, f := range fields {
				visit(f.AsStructField().Value(), object)
			}
		case ast.MapKind:
			entries, before := make([]ast.EntryExpr, 0, e.AsMap().Size()), len(found)
			for _, entry := range e.AsMap().Entries() {
				m := entry.AsMapEntry()
				optional := m.IsOptional()
				if inside && optional && literal(m.Value()) {
					unset(m.Value())
					optional = false
				}
				entries = append(entries, made.NewMapEntry(entry.ID(), m.Key(), m.Value(), optional))
			}
			if len(found) > before {
				e.SetKindCase(made.NewMap(e.ID(), entries))
			}
			for _, entry := range entries {
				visit(entry.AsMapEntry().Value(), inside)
			}
		case ast.ListKind:
			for _, item := range e.AsList().Elements() {
				visit(item, inside)
			}
		case ast.CallKind:
			c := e.AsCall()
			if c.IsMemberFunction() {
				visit(c.Target(), false)
			}
			for i, a := range c.Args() {
				visit(a, inside && c.FunctionName() == operators.Conditional && i > 0)
			}
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.Result()} {
				visit(part, false)
			}
			visit(c.LoopStep(), inside)
		case ast.SelectKind:
			visit(e.AsSelect().Operand(), false)
		}
	}
	visit(parsed.NativeRep().Expr(), false)
	return found
}
