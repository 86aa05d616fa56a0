package eval

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/interpreter"
)

// ErrBudget is the error of expressions that together cost more than their budget, with the server's text. The error of
// a single expression beyond its limit is also one.
var ErrBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

// An ExpressionError means that an expression could not be evaluated.
type ExpressionError struct {
	Expr string
	Err  error
}

func (e *ExpressionError) Error() string {
	return fmt.Sprintf("expression '%v' resulted in error: %v", e.Expr, e.Err)
}
func (e *ExpressionError) Unwrap() error { return e.Err }

// ErrCompile is the error of evaluating an expression that does not compile.
var ErrCompile = errors.New("the expression does not compile")

// A compileError is the reason why an expression does not compile.
type compileError struct {
	err    error
	before string
}

func (e *compileError) Error() string        { return e.before + e.err.Error() }
func (e *compileError) Unwrap() error        { return e.err }
func (e *compileError) Is(target error) bool { return target == ErrCompile }

// A NoSuchKeyError is the error of reading a missing member or entry.
type NoSuchKeyError struct {
	Key string
	Err error // with the whole text
}

func (e *NoSuchKeyError) Error() string { return e.Err.Error() }
func (e *NoSuchKeyError) Unwrap() error { return e.Err }

// An UnboundError is the error of reading a variable that is declared but not bound.
type UnboundError struct {
	Name string
	Err  error // with the whole text
}

func (e *UnboundError) Error() string { return e.Err.Error() }
func (e *UnboundError) Unwrap() error { return e.Err }

// A limitError is the error of an expression that exceeds the limit for one expression.
type limitError struct{ error }

func (e limitError) Is(target error) bool { return target == ErrBudget }
func (e limitError) Unwrap() error        { return e.error }

// typedError gives an evaluation error its type. cel-go does not export its error types, so this function, and no
// other, reads their texts (resolutionError in interpreter/attributes.go v0.29.2).
func typedError(err error) error {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return limitError{err}
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		text := cause.Error()
		if key, ok := strings.CutPrefix(text, "no such key: "); ok {
			return &NoSuchKeyError{key, err}
		}
		if name, ok := strings.CutPrefix(text, "no such attribute(s): "); ok {
			return &UnboundError{name, err}
		}
	}
	return err
}
