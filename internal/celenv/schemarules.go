package celenv

import (
	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// SchemaRules are the environments of the validation rules in CustomResourceDefinitions.
type SchemaRules struct {
	Base *environment.EnvSet

	// Expressions of a stored definition, which a server compiles even if only a newer minor may store them first.
	Rules, Messages map[string]bool
}

// SchemaRules returns the environments for a new definition.
func (s *Set) SchemaRules() *SchemaRules {
	return &SchemaRules{Base: s.base, Rules: map[string]bool{}, Messages: map[string]bool{}}
}

// RuleEnv implements the interface EnvLoader of k8s.io/apiextensions-apiserver.
func (r *SchemaRules) RuleEnv(set *environment.EnvSet, expression string) *cel.Env {
	return choose(set, r.Rules[expression])
}

// MessageExpressionEnv implements the same.
func (r *SchemaRules) MessageExpressionEnv(set *environment.EnvSet, expression string) *cel.Env {
	return choose(set, r.Messages[expression])
}

func choose(set *environment.EnvSet, stored bool) *cel.Env {
	if stored {
		return set.StoredExpressionsEnv()
	}
	return set.NewExpressionsEnv()
}
