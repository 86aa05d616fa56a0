package policy

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/wording"
)

// Locate returns the position of a write-time error of p: the place in an expression that does not compile, or the
// start of the field or of its nearest parent, or p.Position. It reads the field and the detail of err.
func (p *Policy) Locate(err *field.Error) Position {
	if x := p.ExpressionAt(err.Field); !x.IsZero() {
		if at := x.Locate(compileOffset(err, x.Src)); at.IsValid() {
			return at
		}
	}
	return locateField(p.place, fieldOf(err, p.MatchConstraints), p.Position)
}

// Locate returns the position of the field of a write-time error of b, or of its nearest parent, or b.Position.
func (b *Binding) Locate(err *field.Error) Position {
	return locateField(b.place, fieldOf(err, b.MatchResources), b.Position)
}

func locateField(place func(path string) Locator, path string, otherwise Position) Position {
	if at := locate(place, path); at.IsValid() {
		return at
	}
	return otherwise
}

// fieldOf returns the path of the field of err. The server omits indices in errors about operations of a mutating
// policy: see validator.mutatingOperations.
func fieldOf(err *field.Error, m *MatchResources) string {
	const rules = ".resourceRules"
	parent, ok := strings.CutSuffix(err.Field, rules+".operations")
	if !ok || m == nil {
		return err.Field
	}
	for i, r := range m.ResourceRules {
		for j, op := range r.Operations {
			named := err.BadValue == word(op) || strings.Contains(err.Detail, strconv.Quote(op))
			if named && !slices.Contains(mutatingOperations, word(op)) {
				return parent + rules + index(i) + ".operations" + index(j)
			}
		}
	}
	return err.Field
}

// compileOffset returns the byte offset in src of the first problem in a compilation error; 0 if there is none. For
// trimmed expressions the compiler counts without leading white space.
func compileOffset(err *field.Error, src string) int {
	problems := wording.Problems(err.Detail)
	if len(problems) == 0 {
		return 0
	}
	line, column := problems[0].Line, problems[0].Column
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

// trims reports whether the server compiles the expression at path without the white space around it.
func trims(path string) bool {
	for _, prefix := range []string{"spec.matchConditions", "spec.auditAnnotations", "spec.mutations"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
