package manifest

import (
	"errors"

	"github.com/celgate/celgate/policy"
)

// A Problem describes a part of the input that could not be read, in one line.
type Problem struct {
	Position policy.Position
	Message  string
	// Warning means that the input is complete without this part: an ordinary file of another kind in a directory, or
	// text that kubectl ignores too.
	Warning bool

	Hint     string    // further advice, or ""
	Document *Document // the document concerned; nil if there is none
	Err      error     // the cause, if it has more than the message; else nil
}

// ErrNoObject is the Err of a problem with a document that is not a Kubernetes object, perhaps intentionally.
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
