package policy

import (
	"strconv"
	"strings"
)

// A Position is a place in a source file. Line and Column count from 1, Column in bytes; zero is unknown.
type Position struct {
	File   string
	Line   int
	Column int
}

// IsValid reports whether the line is known.
func (p Position) IsValid() bool { return p.Line > 0 }

// String returns "file:line:column" without the parts that are not known.
func (p Position) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	for _, n := range []int{p.Line, p.Column} {
		if n == 0 {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(':')
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}
