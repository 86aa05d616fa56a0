package policy

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Locate returns the place in the source file that a write-time error of p is about: inside of an expression that
// does not compile, else the start of the field or of its nearest parent, else p.Position.
func (p *Policy) Locate(err *field.Error) Position {
	if x, ok := p.expr(err.Field); ok {
		if at := x.Locate(compileOffset(err, x.Src)); at.IsValid() {
			return at
		}
	}
	if at := locate(p.places, err.Field); at.IsValid() {
		return at
	}
	return p.Position
}

// Locate returns the place in the source file of the field that a write-time error of b is about, of its nearest
// parent, or b.Position.
func (b *Binding) Locate(err *field.Error) Position {
	if at := locate(b.places, err.Field); at.IsValid() {
		return at
	}
	return b.Position
}

// expr returns the expression at a field path.
func (p *Policy) expr(path string) (Expr, bool) {
	for _, list := range [][]NamedExpr{p.MatchConditions, p.Variables} {
		for _, x := range list {
			if x.Expr.Field == path {
				return x.Expr, path != ""
			}
		}
	}
	for _, x := range p.Validations {
		switch path {
		case x.Expr.Field:
			return x.Expr, path != ""
		case x.MessageExpr.Field:
			return x.MessageExpr, path != ""
		}
	}
	for _, x := range p.AuditAnnotations {
		if x.ValueExpr.Field == path {
			return x.ValueExpr, path != ""
		}
	}
	for _, x := range p.Mutations {
		if x.Expr.Field == path {
			return x.Expr, path != ""
		}
	}
	return Expr{}, false
}

// compileOffset returns the byte offset in src that the first problem of a compilation error names; 0 if it names
// none. The compiler counts lines and, in code points, columns from 1, of the text without the white space around
// it where the server trims that.
func compileOffset(err *field.Error, src string) int {
	_, at, ok := strings.Cut(err.Detail, "ERROR: <input>:")
	if !ok {
		return 0
	}
	fields := strings.SplitN(at, ":", 3)
	if len(fields) < 3 {
		return 0
	}
	line, lineErr := strconv.Atoi(fields[0])
	column, columnErr := strconv.Atoi(fields[1])
	if lineErr != nil || columnErr != nil {
		return 0
	}
	offset, rest := 0, src
	if trims(err.Field) {
		rest = strings.TrimLeftFunc(src, unicode.IsSpace)
		offset = len(src) - len(rest)
	}
	for ; line > 1; line-- {
		end := strings.IndexByte(rest, '\n')
		if end < 0 {
			return offset
		}
		offset, rest = offset+end+1, rest[end+1:]
	}
	for ; column > 1 && rest != "" && rest[0] != '\n'; column-- {
		_, size := utf8.DecodeRuneInString(rest)
		offset, rest = offset+size, rest[size:]
	}
	return offset
}

// trims reports that the server compiles the expression at path without the white space around it.
func trims(path string) bool {
	for _, prefix := range []string{"spec.matchConditions", "spec.auditAnnotations", "spec.mutations"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
