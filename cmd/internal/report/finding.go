package report

import (
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/policy"
)

// A finding is something to say that has a place. The formats for other programs than a terminal show findings there.
type finding struct {
	level   check.Severity
	rule    string // what it is an instance of, such as a check or a policy
	title   string
	place   policy.Position
	cause   policy.Position // the expression to blame; invalid: none
	message string
	ignored string // why the author does not want to be told; empty: wants to
}
