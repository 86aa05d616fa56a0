package report

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// longest is the number of source lines that an excerpt shows in full; of a longer expression it shows the lines around
// the mark, and counts the others.
const longest = 12

// A sourceLine is one line of an expression as in the file. Lines are computed from positions alone: files are not read
// again, and an expression from standard input has an excerpt, too.
type sourceLine struct {
	number int // in the file; 0 if unknown
	offset int // of text in the expression
	text   string
}

// linesOf splits an expression at the line breaks of the file, and removes blank lines at both ends and the common
// indentation.
func linesOf(e policy.Expr) []sourceLine {
	var lines []sourceLine
	start, number := 0, e.Locate(0).Line
	folded := false
	end := func(i int) {
		l := sourceLine{number, start, e.Src[start:i]}
		if folded { // the space that replaces the line break is not indentation
			trimmed := strings.TrimLeft(l.text, " ")
			l.offset += len(l.text) - len(trimmed)
			l.text = trimmed
		}
		l.text = strings.TrimRightFunc(l.text, unicode.IsSpace)
		lines = append(lines, l)
	}
	for i, r := range e.Src {
		if r == '\n' {
			end(i)
			start, number, folded = i+1, e.Locate(i+1).Line, false
		} else if at := e.Locate(i).Line; at != number && i > start {
			end(i)
			start, number, folded = i, at, true
		} else if i == start {
			number = at
		}
	}
	if start < len(e.Src) {
		end(len(e.Src))
	}
	for len(lines) > 0 && lines[0].text == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && lines[len(lines)-1].text == "" {
		lines = lines[:len(lines)-1]
	}
	shared := -1
	for _, l := range lines {
		if l.text == "" {
			continue
		}
		if n := len(l.text) - len(strings.TrimLeft(l.text, " ")); shared < 0 || n < shared {
			shared = n
		}
	}
	for i := range lines {
		if cut := min(shared, len(lines[i].text)); cut > 0 {
			lines[i].text = lines[i].text[cut:]
			lines[i].offset += cut
		}
	}
	return lines
}

// A mark is the part of an expression that a message concerns: the bytes from..to of its text.
type mark struct{ from, to int }

// markOf finds the mark: the position itself if it lies within the expression, the name in the message if it occurs
// once, or else the whole expression.
func markOf(e policy.Expr, at policy.Position, err error) mark {
	whole := trimMark(e.Src)
	if at.IsValid() && at != e.Locate(0) && at != e.Locate(whole.from) {
		for i := range e.Src {
			if i > 0 && e.Locate(i) == at {
				if e.Src[i] == '.' { // of a selected member
					return mark{i, i + 1 + wordLength(e.Src[i+1:])}
				}
				return mark{i, i + wordLength(e.Src[i:])}
			}
		}
	}
	if key := (*celgate.NoSuchKeyError)(nil); errors.As(err, &key) {
		if found := mentions(e.Src, key.Key); len(found) == 1 {
			return found[0]
		}
	}
	return whole
}

func trimMark(s string) mark {
	from := len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
	return mark{from, max(from, len(strings.TrimRightFunc(s, unicode.IsSpace)))}
}

// wordLength returns the length of the identifier at the start of s, or else of its first character.
func wordLength(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if n < 0 {
		return len(s)
	}
	if n == 0 {
		_, n = utf8.DecodeRuneInString(s)
	}
	return n
}

// excerpt renders the position of an expression, its lines and the mark:
//
//	  --> policies/replicas.yaml:14:17
//	   |
//	14 | object.spec.replicas <= 5
//	   | ^^^^^^^^^^^^^^^^^^^^^^^^^
//
// It returns the lines and the width of the gutter, under which footers align.
func (p palette) excerpt(e policy.Expr, m mark, width int) (out []string, gutter int) {
	lines := linesOf(e)
	for _, l := range lines {
		gutter = max(gutter, len(strconv.Itoa(l.number)))
	}
	if place := e.Locate(m.from); place.IsValid() {
		out = append(out, strings.Repeat(" ", gutter)+p.paint(blue, "-->")+" "+escapeControls(place.String()))
	}
	bar := func(number int, text string) {
		n := ""
		if number > 0 {
			n = strconv.Itoa(number)
		}
		out = append(out, strings.TrimRight(p.paint(blue, fmt.Sprintf("%*s |", gutter, n))+" "+text, " "))
	}
	bar(0, "")

	first, last := linesOfMark(lines, m)
	if width > 0 {
		width = max(width-gutter-3, 20)
	}
	whole := trimMark(e.Src)
	pointless := m.from <= whole.from && m.to >= whole.to // the mark covers everything shown
	across := !pointless && last > first                  // a mark over several lines is a bracket at their left
	if across && width > 0 {
		width -= 2
	}
	shown := linesAround(first, last, len(lines))
	for i := 0; i < len(lines); i++ {
		if !shown(i) {
			hidden := i
			for i+1 < len(lines) && !shown(i+1) {
				i++
			}
			text := "… " + plural(i-hidden+1, "more line", "more lines")
			if across && hidden > first && i < last {
				text = p.paint(red, "|") + " " + p.paint(dim, text)
			} else {
				text = p.paint(dim, text)
			}
			bar(0, text)
			continue
		}
		l := lines[i]
		text, from, to := window(cells(l, m))
		row, start := 0, 0 // columns of the line before the piece, and before the piece with the end of the mark
		for _, piece := range chunks(text, width) {
			number, lead := l.number, ""
			if row > 0 || i > 0 && lines[i-1].number == number {
				number = 0 // a continuation of the same line
			}
			if across {
				switch {
				case i == first && row == 0:
					lead = p.paint(red, "/") + " "
				case i >= first && i <= last:
					lead = p.paint(red, "|") + " "
				default:
					lead = "  "
				}
			}
			bar(number, lead+string(piece))
			if a, b := max(from, row), min(to, row+len(piece)); !across && !pointless && a < b {
				bar(0, strings.Repeat(" ", a-row)+p.paint(red, strings.Repeat("^", b-a)))
			}
			if row < to {
				start = row
			}
			row += len(piece)
		}
		if across && i == last {
			bar(0, p.paint(red, "|"+strings.Repeat("_", max(0, to-1-start)+1)+"^"))
		}
	}
	return out, gutter
}

// linesOfMark returns the first and the last line of a mark.
func linesOfMark(lines []sourceLine, m mark) (first, last int) {
	last = len(lines) - 1
	for i, l := range lines {
		if l.offset <= m.from {
			first = i
		}
		if l.offset < m.to {
			last = i
		}
	}
	return first, max(first, last)
}

// linesAround reports which of n lines are shown if those from first to last are marked.
func linesAround(first, last, n int) func(int) bool {
	return func(i int) bool {
		switch {
		case n <= longest:
			return true
		case last-first >= longest: // both ends of a long mark
			return i >= first-1 && i < first+longest/2 || i > last-longest/4 && i <= last
		default:
			return i >= first-2 && i <= last+2
		}
	}
}

// cells returns the visible characters of a line, and the columns from..to of the mark.
func cells(l sourceLine, m mark) (text []rune, from, to int) {
	from, to = -1, 0
	for i, r := range l.text {
		at := l.offset + i
		if at >= m.from && at < m.to && from < 0 {
			from = len(text)
		}
		if r == '\t' {
			text = append(text, ' ', ' ', ' ', ' ')
		} else {
			text = append(text, []rune(escapeControls(string(r)))...)
		}
		if at >= m.from && at < m.to {
			to = len(text)
		}
	}
	return text, from, to
}

// longestLine is the number of characters of a line in an excerpt.
const longestLine = 1000

// window cuts a long line to the surroundings of the start of the mark, or to its beginning without a mark.
func window(text []rune, from, to int) ([]rune, int, int) {
	if len(text) <= longestLine {
		return text, from, to
	}
	start := max(0, min(from-longestLine/4, len(text)-longestLine))
	end := start + longestLine
	cut := slices.Clone(text[start:end])
	if start > 0 {
		cut[0] = '…'
	}
	if end < len(text) {
		cut[len(cut)-1] = '…'
	}
	if from >= 0 {
		from = max(from-start, 0)
	}
	return cut, from, min(max(to-start, 0), len(cut))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
