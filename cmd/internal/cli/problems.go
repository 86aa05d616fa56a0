package cli

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/policy"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// compileError finds the problems in the server's message about an expression that does not compile. Each has its
// line and column, a message, and a picture of the place, which the report draws from the file instead.
var compileError = regexp.MustCompile(`ERROR: <input>:(\d+:\d+): ([^\n]*)`)

// problemsOf takes apart one cause of a refusal: every problem of an expression has a place of its own.
func problemsOf(path, message string, expr policy.Expr, locate func(*field.Error) policy.Position) []report.Problem {
	var out []report.Problem
	for _, m := range compileError.FindAllStringSubmatch(message, -1) {
		out = append(out, report.Problem{
			Field: path, Message: strings.TrimSuffix(m[2], " (in container '')"), Expr: expr,
			Position: locate(&field.Error{Field: path, Detail: m[0]}),
		})
	}
	if len(out) > 0 {
		return out
	}
	if !expr.IsZero() { // the excerpt shows the value
		for _, src := range []string{expr.Src, strings.TrimSpace(expr.Src)} {
			if detail, ok := strings.CutPrefix(message, "Invalid value: "+strconv.Quote(src)+": "); ok {
				message = detail
				break
			}
		}
	}
	return []report.Problem{{Field: path, Message: message, Expr: expr,
		Position: locate(&field.Error{Field: path, Detail: message})}}
}
