package report

import (
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/policy"
)

// A finding is a message with a position, as formats for other programs show it.
type finding struct {
	level   check.Severity
	rule    string // its kind, such as a check or a policy
	title   string
	place   policy.Position
	cause   policy.Position // the expression to blame; invalid: none
	message string
	ignored string // the author's reason to ignore it; empty: not ignored
}
