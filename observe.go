package celgate

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/policy"
)

// A Branch is a part of an expression that decides what else of it is evaluated: an operand of && or ||, or the
// condition of ?:. The bodies of macros such as all, exists and filter are made of them too.
type Branch = compile.Branch

// An Observation is one value of a branch of an expression, or with Branch -1 of the expression itself.
type Observation struct {
	Policy *policy.Policy
	Expr   policy.Expr
	Branch int // index among the branches of the expression
	Value  BranchValue
}

// A BranchValue is what a branch came to.
type BranchValue int

// The values of branches.
const (
	OtherValue BranchValue = iota // an error, or the value of an expression that is no condition
	BranchTrue
	BranchFalse
)

// An Observed is an expression of a policy in force with its branches.
type Observed struct {
	Policy   *policy.Policy
	Field    string // the server's path of the expression
	Branches []Branch
}

// NewObserved is [New] for an engine that tells what the branches of expressions come to, from the goroutines that make
// decisions. It decides as any other engine, slowly. It also returns what there is to observe.
func NewObserved(set *policy.Set, opts Options, observe func(Observation)) (*Engine, []Observed, error) {
	e, err := New(set, opts)
	if err != nil {
		return nil, nil, err
	}
	var all []Observed
	for _, h := range e.index.hooks {
		p := h.Policy
		program, branches, err := compile.Observed(e.envs, p, func(x policy.Expr, branch int, value ref.Val) {
			seen := Observation{Policy: p, Expr: x, Branch: branch}
			switch value {
			case types.True:
				seen.Value = BranchTrue
			case types.False:
				seen.Value = BranchFalse
			}
			observe(seen)
		})
		if err != nil {
			return nil, nil, fmt.Errorf("policy %s: %w", p.Name, err)
		}
		h.Program = program
		for x := range p.Expressions() {
			all = append(all, Observed{p, x.Field, branches[x.Field]})
		}
	}
	return e, all, nil
}
