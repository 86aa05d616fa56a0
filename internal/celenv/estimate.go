package celenv

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"k8s.io/apiserver/pkg/cel/library"
)

// Sizes are assumed of values whose size is not known before an expression runs.
type Sizes struct {
	Items uint64 // of a list or map
	Text  uint64 // characters of a string
}

// Estimate returns the most that an expression can cost if no value is larger than the sizes.
func Estimate(env *cel.Env, tree *cel.Ast, sizes Sizes) (uint64, error) {
	estimate, err := env.EstimateCost(tree, &library.CostEstimator{SizeEstimator: sizes})
	return estimate.Max, err
}

// EstimateSize makes Sizes an estimator of cel-go.
func (s Sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	size := s.Text
	switch element.Type().Kind() {
	case cel.ListKind, cel.MapKind:
		size = s.Items
	}
	return &checker.SizeEstimate{Max: size}
}

// EstimateCallCost leaves the costs of functions to the libraries.
func (s Sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
