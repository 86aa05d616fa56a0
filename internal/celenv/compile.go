package celenv

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
)

// Compile checks an expression. Where cel-go panics, as its validator of literals v0.29.2 does about {?'a': object}, that is an
// issue of the expression.
func Compile(env *cel.Env, src string) (checked *cel.Ast, issues *cel.Issues) {
	defer func() {
		if p := recover(); p != nil {
			found := common.NewErrors(common.NewTextSource(src))
			found.ReportError(common.NewLocation(1, 0), "%s", fmt.Sprintf("cel-go panics: %v", p))
			checked, issues = nil, cel.NewIssues(found)
		}
	}()
	if strings.Contains(src, "`") {
		if issues := refusedSyntax(env, src); issues != nil {
			return nil, issues
		}
	}
	return env.Compile(src)
}
