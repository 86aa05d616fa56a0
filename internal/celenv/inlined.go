package celenv

import (
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"

	"github.com/celgate/celgate/policy"
)

// parseExpression parses an expression of a policy with library parts inlined. The positions of nodes and issues are
// those in the text as written: inlined code has the position of the reference that it replaces.
func parseExpression(env *cel.Env, x policy.Expr, source func(string) common.Source) (*cel.Ast, *cel.Issues) {
	src := source(x.Src)
	at, problem := x.Problem()
	text := x.InlinedText()
	if problem == "" && text == nil {
		return parse(env, src)
	}
	if parsed, issues := parse(env, src); len(issues.Errors()) > 0 {
		return parsed, issues
	}
	if problem != "" {
		found := common.NewErrors(src)
		place, _ := src.OffsetLocation(int32(utf8.RuneCountInString(x.Src[:at])))
		found.ReportError(place, "%s", problem)
		return nil, cel.NewIssues(found)
	}
	parsed, issues := parse(env, source(text.Code))
	if len(issues.Errors()) > 0 { // about the whole, which is too deep or too long
		found := common.NewErrors(src)
		found.ReportError(common.NewLocation(1, 0), "with its libraries: %s", issues.Errors()[0].Message)
		return nil, cel.NewIssues(found)
	}
	return restorePlaces(parsed, x, src)
}

// restorePlaces changes the positions in the parsed code of an expression to those in the text as written.
func restorePlaces(parsed *cel.Ast, x policy.Expr, src common.Source) (*cel.Ast, *cel.Issues) {
	message, err := cel.AstToParsedExpr(parsed)
	if err != nil {
		found := common.NewErrors(src)
		found.ReportError(common.NewLocation(1, 0), "%v", err)
		return nil, cel.NewIssues(found)
	}
	message.SourceInfo.LineOffsets = src.LineOffsets()
	placed := cel.ParsedExprToAstWithSource(message, src)
	places := placing{x: x, ascii: len(x.Code()) == utf8.RuneCountInString(x.Code()) &&
		len(x.Src) == utf8.RuneCountInString(x.Src)}
	info := placed.NativeRep().SourceInfo()
	for id, r := range parsed.NativeRep().SourceInfo().OffsetRanges() {
		info.SetOffsetRange(id, places.rangeOf(r))
	}
	return placed, nil
}

// A placing maps positions of nodes in the code of an expression to its text. CEL counts code points.
type placing struct {
	x     policy.Expr
	ascii bool
}

func (p placing) rangeOf(r ast.OffsetRange) ast.OffsetRange {
	at := int(r.Start)
	if !p.ascii {
		at = byteOf(p.x.Code(), at)
	}
	from, to, verbatim := p.x.InlinedText().Origin(at)
	if !p.ascii {
		from, to = utf8.RuneCountInString(p.x.Src[:from]), utf8.RuneCountInString(p.x.Src[:to])
	}
	if verbatim {
		return ast.OffsetRange{Start: int32(from), Stop: int32(from) + r.Stop - r.Start}
	}
	return ast.OffsetRange{Start: int32(from), Stop: int32(to)}
}

// byteOf returns the offset in bytes of a code point.
func byteOf(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
