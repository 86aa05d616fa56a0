package celgate

import (
	"errors"
	"fmt"

	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// ErrBudget is the error, by [errors.Is], of expressions that cost more than the server lets them, and of a
// [CostError].
var ErrBudget = eval.ErrBudget

// A CostError says that a policy is not evaluated, because those before it have cost more than [Limits].Cost.
type CostError struct{ Spent, Limit int64 } // CEL cost units

func (e *CostError) Error() string {
	return fmt.Sprintf("not evaluated: the policies before it have cost %d CEL cost units, and all of a request may cost %d",
		e.Spent, e.Limit)
}

// Is reports that ErrBudget is what the error is, too.
func (e *CostError) Is(target error) bool { return target == ErrBudget }

// The errors of outcomes and violations, for [errors.As]. Their texts are the server's.
type (
	// An ExpressionError says that an expression has no value: Expr is its source, Err why.
	ExpressionError = eval.ExpressionError

	// A CompileError says that an expression does not compile: Err is why.
	CompileError = eval.CompileError

	// A NoSuchKeyError says that a member or an entry is read that is not there: Key is its name.
	NoSuchKeyError = eval.NoSuchKeyError
)

// The errors of a configuration: of a binding that selects params.
var (
	// ErrNoParams is that of a paramRef that selects nothing where that denies.
	ErrNoParams = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")

	// ErrNoDefaultParams is the error of a paramRef that selects nothing and asks for the default params of a policy
	// without any.
	ErrNoDefaultParams = errors.New("no params found for policy binding with `Default` parameterNotFoundAction, and the policy has no defaultParams")

	// ErrNoParamNamespace is that of a cluster-scoped object and a paramRef that leaves the namespace to the object.
	ErrNoParamNamespace = errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
)

// A ParamKindError says that the server does not know the kind of the params of a policy.
type ParamKindError struct{ Kind schema.GroupVersionKind }

func (e *ParamKindError) Error() string {
	return fmt.Sprintf("failed to find resource referenced by paramKind: '%s'", e.Kind)
}

// A PatchError says that what a mutation evaluated to cannot be applied to the object.
type PatchError struct {
	Type policy.PatchType
	Err  error
}

func (e *PatchError) Error() string {
	switch e.Type {
	case policy.JSONPatch:
		return "JSON Patch: " + e.Err.Error()
	case policy.JSONMergePatch:
		return "JSON merge patch: " + e.Err.Error()
	}
	return "error applying patch: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *PatchError) Unwrap() error { return e.Err }
