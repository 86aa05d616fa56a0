package celgate

import (
	"errors"

	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/policy"
)

// Errors of outcomes and violations for [errors.Is]. Their texts are the server's.
var (
	// ErrBudget is the error of expressions that exceed a cost budget of the server. [ErrRequestCost] wraps it.
	ErrBudget = eval.ErrBudget

	// ErrRequestCost is the error of a policy that is not evaluated, because the policies before it exceeded
	// [Limits].Cost.
	ErrRequestCost error = textError{"the policies before exceeded the cost limit of the request", ErrBudget}

	// ErrCompile is the error of an expression that does not compile.
	ErrCompile = eval.ErrCompile

	// ErrNoParamKind is the error of a policy whose paramKind the server does not know.
	ErrNoParamKind = errors.New("failed to find resource referenced by paramKind")

	// ErrNoParams is the error of a paramRef that selects nothing, with parameterNotFoundAction Deny.
	ErrNoParams = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")

	// ErrNoDefaultParams is the error of a paramRef that selects nothing, with parameterNotFoundAction Default, if the
	// policy does not have defaultParams.
	ErrNoDefaultParams = errors.New("no params found for policy binding with `Default` parameterNotFoundAction, and the policy has no defaultParams")

	// ErrNoParamNamespace is the error of a paramRef without a namespace for a cluster-scoped object.
	ErrNoParamNamespace = errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
)

// Error types of outcomes and violations for [errors.As]. Their texts are the server's.
type (
	// An ExpressionError means that an expression could not be evaluated: Expr is its source, Err the reason.
	ExpressionError = eval.ExpressionError

	// A NoSuchKeyError is the error of reading a missing member or entry: Key is its name.
	NoSuchKeyError = eval.NoSuchKeyError
)

// A textError is an error with a text of its own.
type textError struct {
	text string
	error
}

func (e textError) Error() string { return e.text }
func (e textError) Unwrap() error { return e.error }

// A PatchError is the error of a mutation whose result cannot be applied to the object.
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
