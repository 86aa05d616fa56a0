package celenv

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/library"
)

// Sizes are the assumed sizes of values before an expression is evaluated.
type Sizes struct {
	Items uint64 // of a list or map
	Text  uint64 // characters of a string
}

// Estimate returns the highest cost of an expression if no value exceeds the sizes.
func Estimate(env *cel.Env, tree *cel.Ast, sizes Sizes) (uint64, error) {
	estimate, err := env.EstimateCost(tree, &library.CostEstimator{SizeEstimator: sizes})
	return estimate.Max, err
}

// EstimateSize implements an estimator of cel-go.
func (s Sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	size := s.Text
	switch element.Type().Kind() {
	case cel.ListKind, cel.MapKind:
		size = s.Items
	}
	return &checker.SizeEstimate{Max: size}
}

// rangeOfItems estimates lists.range of an argument that is not a constant, for which cel-go assumes any number:
// usually it is the size of a list.
func rangeOfItems(estimator checker.CostEstimator, _ *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	size := checker.SizeEstimate{Max: math.MaxUint64}
	if of, ok := estimator.(*library.CostEstimator); ok {
		if assumed, ok := of.SizeEstimator.(Sizes); ok {
			size.Max = assumed.Items
		}
	}
	if len(args) == 1 && args[0].Expr().Kind() == ast.LiteralKind {
		if n, ok := args[0].Expr().AsLiteral().(types.Int); ok {
			size = checker.FixedSizeEstimate(uint64(max(n, 0)))
		}
	}
	cost := size.MultiplyByCostFactor(1).Add(checker.FixedCostEstimate(1 + common.ListCreateBaseCost))
	return &checker.CallEstimate{CostEstimate: cost, ResultSize: &size}
}

// EstimateCallCost leaves the costs of functions to the libraries.
func (s Sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
