package cli

import (
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// problemsOf splits one cause of a refusal into problems: each mistake in an expression has a position of its own.
func problemsOf(path, message string, expr policy.Expr, locate func(*field.Error) policy.Position) []report.Problem {
	var out []report.Problem
	for _, p := range wording.Problems(message) {
		out = append(out, report.Problem{Field: path, Message: p.Message, Expr: expr,
			Position: locate(&field.Error{Field: path, Detail: p.Detail()})})
	}
	if len(out) > 0 {
		return out
	}
	// The excerpt shows the value.
	return []report.Problem{{Field: path, Message: expr.TrimValue(message), Expr: expr,
		Position: locate(&field.Error{Field: path, Detail: message})}}
}
