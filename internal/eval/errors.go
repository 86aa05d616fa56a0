package eval

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/interpreter"
)

// ErrBudget is the error of expressions that together cost more than their budget, with the server's text. That of a
// single one which goes beyond the limit is one, too.
var ErrBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

// An ExpressionError says that an expression has no value.
type ExpressionError struct {
	Expr string
	Err  error
}

func (e *ExpressionError) Error() string {
	return fmt.Sprintf("expression '%v' resulted in error: %v", e.Expr, e.Err)
}
func (e *ExpressionError) Unwrap() error { return e.Err }

// A CompileError says that an expression does not compile, which matters once it is to be evaluated.
type CompileError struct {
	Err    error
	before string
}

func (e *CompileError) Error() string { return e.before + e.Err.Error() }
func (e *CompileError) Unwrap() error { return e.Err }

// A NoSuchKeyError says that a member or an entry is read that is not there.
type NoSuchKeyError struct {
	Key string
	Err error // with the whole text
}

func (e *NoSuchKeyError) Error() string { return e.Err.Error() }
func (e *NoSuchKeyError) Unwrap() error { return e.Err }

// An UnboundError says that a variable is declared, but has no value here.
type UnboundError struct {
	Name string
	Err  error // with the whole text
}

func (e *UnboundError) Error() string { return e.Err.Error() }
func (e *UnboundError) Unwrap() error { return e.Err }

// A limitError is that of an expression that costs too much alone.
type limitError struct{ error }

func (e limitError) Is(target error) bool { return target == ErrBudget }
func (e limitError) Unwrap() error        { return e.error }

// typedError gives an error of an evaluation its type. cel-go's own errors have none that can be seen: this is the only
// place that reads their texts (resolutionError in interpreter/attributes.go v0.29.2).
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
