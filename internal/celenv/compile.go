package celenv

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
)

// Compile checks an expression. A panic of cel-go, such as that of its validator of literals v0.29.2 for {?'a':
// object}, becomes an issue of the expression.
func Compile(env *cel.Env, src string) (checked *cel.Ast, issues *cel.Issues) {
	return compile(env, common.NewTextSource(src))
}

func compile(env *cel.Env, src common.Source) (*cel.Ast, *cel.Issues) {
	parsed, issues := parse(env, src)
	if len(issues.Errors()) > 0 { // Err would render all issues, in time quadratic in the length of a line
		return nil, issues
	}
	return Check(env, parsed)
}

// Parse parses an expression for several environments that declare the same names. Its issues, and those of [Check], do
// not quote it: [Quote] does.
func Parse(env *cel.Env, src string) (*cel.Ast, *cel.Issues) {
	return parse(env, withoutQuotes(src))
}

func parse(env *cel.Env, src common.Source) (*cel.Ast, *cel.Issues) {
	if strings.Contains(src.Content(), "`") {
		if issues := refusedSyntax(env, src); issues != nil {
			return nil, issues
		}
	}
	return env.ParseSource(src)
}

// Check checks a parsed expression, like [Compile].
func Check(env *cel.Env, parsed *cel.Ast) (checked *cel.Ast, issues *cel.Issues) {
	defer func() {
		if p := recover(); p != nil {
			found := common.NewErrors(parsed.Source())
			found.ReportError(common.NewLocation(1, 0), "%s", fmt.Sprintf("cel-go panics: %v", p))
			checked, issues = nil, cel.NewIssues(found)
		}
	}()
	unknown := unknownFunctions(env, parsed)
	hidden := standIns{}
	hidePatterns(parsed, hidden)
	hideFormats(env, parsed, hidden)
	checked, issues = checkAs(env, parsed, hidden)
	if unknown == nil {
		return checked, issues
	}
	return nil, cel.NewIssues(unknown.Append(issues.Errors()))
}

// An unquoted source does not have excerpts: cel-go renders them in time quadratic in the length of a line.
type unquoted struct{ common.Source }

func withoutQuotes(src string) common.Source { return unquoted{common.NewTextSource(src)} }

func (unquoted) Snippet(int) (string, bool) { return "", false }

// longestQuoted is the longest line that cel-go quotes (common/error.go v0.29.2).
const longestQuoted = 16384

// Quote renders the issues of an expression parsed by [Parse] as cel-go renders those of a compiled one.
func Quote(issues *cel.Issues, src string) string {
	text := common.NewTextSource(src)
	found := slices.Clone(issues.Errors())
	slices.SortStableFunc(found, func(a, b *cel.Error) int {
		return cmp.Or(cmp.Compare(a.Location.Line(), b.Location.Line()),
			cmp.Compare(a.Location.Column(), b.Location.Column()))
	})
	var b strings.Builder
	for i, e := range found {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "ERROR: %s:%d:%d: %s", text.Description(), e.Location.Line(), e.Location.Column()+1, e.Message)
		if line, ok := text.Snippet(e.Location.Line()); ok && len(line) <= longestQuoted {
			quote(&b, strings.ReplaceAll(line, "\t", " "), e.Location.Column())
		}
	}
	unquoted := issues.String()
	if last := unquoted[strings.LastIndexByte(unquoted, '\n')+1:]; strings.HasSuffix(last,
		" more errors were truncated") {
		b.WriteString("\n" + last)
	}
	return b.String()
}

// quote writes a line and a mark below a column.
func quote(b *strings.Builder, line string, column int) {
	b.WriteString("\n | " + line + "\n | ")
	dots := [2]string{".", "\uff0e"}
	marks := [2]string{"^", "\uff3e"}
	wide := func() int {
		_, size := utf8.DecodeRuneInString(line)
		line = line[size:]
		if size > 1 {
			return 1
		}
		return 0
	}
	for i := 0; i < column && line != ""; i++ {
		b.WriteString(dots[wide()])
	}
	b.WriteString(marks[wide()])
}
