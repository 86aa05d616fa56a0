package celenv

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"
)

// extended is a library of the dialect; servers do not have it:
//
//	hash.fnv32a(<string>) <int>
//	hash.sha256(<string>) <string>
//	hash.sha256(<bytes>) <string>
//	lists.reduce(<list>, acc, init, x, <expression>)
//	<list>.reduce(acc, init, x, <expression>)
//
// fnv32a is the 32 bits of FNV-1a, for choosing one of several; sha256 is in lower case, for detecting changes of a
// text. reduce returns the last value of acc, which starts as init and becomes the value of the expression for each
// item x; its cost is that of other macros.
type extended struct{}

// Overloads of the functions.
const (
	overloadFNV        = "hash_fnv32a_string"
	overloadSHA        = "hash_sha256_string"
	overloadSHAOfBytes = "hash_sha256_bytes"
)

func (extended) LibraryName() string { return "celgate.extended" }

func (extended) CompileOptions() []cel.EnvOption {
	estimate := func(_ checker.CostEstimator, _ *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
		size := checker.SizeEstimate{Max: math.MaxUint64}
		if len(args) == 1 {
			if known := args[0].ComputedSize(); known != nil {
				size = *known
			}
		}
		return &checker.CallEstimate{
			CostEstimate: size.MultiplyByCostFactor(common.StringTraversalCostFactor).Add(checker.FixedCostEstimate(1)),
			ResultSize:   &checker.SizeEstimate{Min: 2 * sha256.Size, Max: 2 * sha256.Size},
		}
	}
	return []cel.EnvOption{
		cel.Function("hash.fnv32a", cel.Overload(overloadFNV, []*cel.Type{cel.StringType}, cel.IntType,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				h := fnv.New32a()
				_, _ = h.Write([]byte(v.(types.String))) // it never fails
				return types.Int(h.Sum32())
			}))),
		cel.Function("hash.sha256",
			cel.Overload(overloadSHA, []*cel.Type{cel.StringType}, cel.StringType,
				cel.UnaryBinding(func(v ref.Val) ref.Val { return shaOf([]byte(v.(types.String))) })),
			cel.Overload(overloadSHAOfBytes, []*cel.Type{cel.BytesType}, cel.StringType,
				cel.UnaryBinding(func(v ref.Val) ref.Val { return shaOf(v.(types.Bytes)) }))),
		cel.Macros(
			cel.ReceiverMacro("reduce", 4, func(f cel.MacroExprFactory, list ast.Expr, args []ast.Expr) (ast.Expr,
				*common.Error) {
				return reduce(f, list, args)
			}),
			cel.ReceiverMacro("reduce", 5, func(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr,
				*common.Error) {
				if target.Kind() != ast.IdentKind || target.AsIdent() != "lists" {
					return nil, nil
				}
				return reduce(f, args[0], args[1:])
			}),
		),
		cel.CostEstimatorOptions(checker.OverloadCostEstimate(overloadFNV, estimate),
			checker.OverloadCostEstimate(overloadSHA, estimate),
			checker.OverloadCostEstimate(overloadSHAOfBytes, estimate)),
	}
}

func (extended) ProgramOptions() []cel.ProgramOption {
	cost := func(args []ref.Val, _ ref.Val) *uint64 {
		size := 0
		switch v := args[0].(type) {
		case types.String:
			size = len(v)
		case types.Bytes:
			size = len(v)
		}
		of := 1 + uint64(math.Ceil(float64(size)*common.StringTraversalCostFactor))
		return &of
	}
	return []cel.ProgramOption{cel.CostTrackerOptions(interpreter.OverloadCostTracker(overloadFNV, cost),
		interpreter.OverloadCostTracker(overloadSHA, cost), interpreter.OverloadCostTracker(overloadSHAOfBytes, cost))}
}

func shaOf(b []byte) ref.Val {
	sum := sha256.Sum256(b)
	return types.String(hex.EncodeToString(sum[:]))
}

// reduce expands reduce(acc, init, x, expression).
func reduce(f parser.ExprHelper, list ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
	for _, name := range []ast.Expr{args[0], args[2]} {
		if name.Kind() != ast.IdentKind {
			return nil, f.NewError(name.ID(), "argument must be a simple name")
		}
	}
	acc, item := args[0].AsIdent(), args[2].AsIdent()
	if acc == item || acc == f.AccuIdentName() || item == f.AccuIdentName() {
		return nil, f.NewError(args[2].ID(), "two names of reduce must differ")
	}
	return f.NewComprehension(list, item, acc, args[1], f.NewLiteral(types.True), args[3], f.NewIdent(acc)), nil
}
