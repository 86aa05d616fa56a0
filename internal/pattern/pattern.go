// Package pattern has regular expressions that are compiled when they are first used. A command uses few of celgate's
// patterns, and to compile all of them takes a tenth of its start.
package pattern

import (
	"regexp"
	"sync"
)

// A Regexp returns a regular expression, which the first call compiles.
type Regexp func() *regexp.Regexp

// New returns the Regexp of a text. The text must be a constant: internal/archtest compiles all of them.
func New(text string) Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// String returns the text.
func (r Regexp) String() string { return r().String() }
