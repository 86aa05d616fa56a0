package manifest

import (
	"errors"

	"github.com/celgate/celgate/policy"
)

// A Problem is one thing that could not be read, in one line.
type Problem struct {
	Position policy.Position
	Message  string
	// Warning says that the rest of the input is complete without what is described here: an ordinary file of
	// another kind in a directory, or text that kubectl ignores too.
	Warning bool

	Hint     string    // what else a reader may want to know, or ""
	Document *Document // that the problem is about; nil if there is none
	Err      error     // what has gone wrong, if there is more to it than the message; else nil
}

// ErrNoObject is the Err of a problem with a document that is not a Kubernetes object, and may be meant to be none.
var ErrNoObject = errors.New("not a Kubernetes object")

// Unwrap returns Err.
func (p Problem) Unwrap() error { return p.Err }

// Error returns "file:line:column: message".
func (p Problem) Error() string {
	if place := p.Position.String(); place != "" {
		return place + ": " + p.Message
	}
	return p.Message
}
