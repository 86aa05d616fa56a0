package playground

import (
	"strings"
	"unicode/utf16"

	"github.com/celgate/celgate/policy"
)

// A Place is a part of one of the texts in the coordinates of an editor: lines from 1, columns in UTF-16 units from 0.
// Line 0 means that the place is unknown. An unknown end is the end of the line.
type Place struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	EndLine   int    `json:"endLine"`
	EndColumn int    `json:"endColumn"`
}

func (a *Ask) place(at policy.Position) Place {
	line := a.line(at)
	p := Place{File: at.File, Line: at.Line, EndLine: at.Line, EndColumn: units(line, len(line))}
	if at.Column > 0 {
		p.Column = units(line, at.Column-1)
	}
	return p
}

// span returns the place of the bytes from..to of an expression; if both are 0, the place of at.
func (a *Ask) span(at policy.Position, x policy.Expr, from, to int) Place {
	if x.IsZero() || from >= to {
		return a.place(at)
	}
	first, last := x.Locate(from), x.Locate(to-1)
	p := a.place(first)
	if last.IsValid() && last.Column > 0 {
		p.EndLine, p.EndColumn = last.Line, units(a.line(last), last.Column)
	}
	return p
}

// line returns the text of the line at a position.
func (a *Ask) line(at policy.Position) string {
	text := map[string]string{PolicyFile: a.Policies, StateFile: a.State, ObjectFile: a.Objects,
		OldFile: a.Old}[at.File]
	for n := 1; n < at.Line; n++ {
		_, rest, more := strings.Cut(text, "\n")
		if !more {
			return ""
		}
		text = rest
	}
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSuffix(line, "\r")
}

// units returns the length of the first bytes of a line in UTF-16 units.
func units(line string, bytes int) int {
	n := 0
	for _, r := range line[:min(bytes, len(line))] {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}
