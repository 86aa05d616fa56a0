package report

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/celgate/celgate/cmd/internal/suite"
)

// coverage writes the expressions of each policy as in the file, with the outcomes of the expressions and their
// branches, and a table of all policies. A line that begins with "!" has an outcome that no case reaches.
func (t *suiteText) coverage(c *suite.Coverage) {
	for _, p := range c.Policies {
		t.line(t.p.paint(bold, escapeControls(p.Name)))
		for entries := range groupByExpression(p.Entries) {
			t.writeAnnotated(entries[0], entries[1:])
		}
		t.line("")
	}
	t.coverageTable(c)
}

// groupByExpression yields each entry with the branches of its expression.
func groupByExpression(entries []*suite.Entry) iter.Seq[[]*suite.Entry] {
	return func(yield func([]*suite.Entry) bool) {
		for len(entries) > 0 {
			n := 1
			for n < len(entries) && entries[n].Branch {
				n++
			}
			if !yield(entries[:n]) {
				return
			}
			entries = entries[n:]
		}
	}
}

// partOf returns a percentage.
func partOf(seen, of int) float64 {
	if of == 0 {
		return 100
	}
	return 100 * float64(seen) / float64(of)
}

// counts returns the outcomes of an entry in words.
func counts(e *suite.Entry) string {
	var cells []string
	for _, o := range e.Outcomes {
		if o.Count == 0 {
			cells = append(cells, "never "+o.Name)
		} else {
			cells = append(cells, fmt.Sprintf("%s %d", o.Name, o.Count))
		}
	}
	return strings.Join(cells, ", ")
}

// writeMarked writes a line, with a "!" before it if an outcome was never reached.
func (t *suiteText) writeMarked(e *suite.Entry, line string) {
	lead := indent
	if len(e.MissingOutcomes()) > 0 {
		lead = t.p.paint(red, "!") + indent[1:]
	}
	t.line(strings.TrimRight(lead+line, " "))
}

// writeAnnotated writes an expression with its counts, and below each of its lines the counts of the branches that
// begin there.
func (t *suiteText) writeAnnotated(e *suite.Entry, branches []*suite.Entry) {
	style := func(e *suite.Entry) style {
		if len(e.MissingOutcomes()) > 0 {
			return yellow
		}
		return plain
	}
	head := e.Name + "  " + t.p.paint(style(e), counts(e))
	if e.Expr.IsZero() {
		head += "  " + t.p.paint(dim, escapeControls(e.Place.String()))
	}
	t.writeMarked(e, head)
	lines := linesOf(e.Expr)
	gutter := 0
	for _, l := range lines {
		gutter = max(gutter, len(strconv.Itoa(l.number)))
	}
	width := 0
	if t.o.Width > 0 {
		width = max(t.o.Width-2*len(indent)-gutter-3, 20)
	}
	bar := func(number string) string { return t.p.paint(blue, fmt.Sprintf("%*s |", gutter, number)) + " " }
	for i, l := range lines {
		text, _, _ := cells(l, mark{})
		row := 0
		for _, piece := range chunks(text, width) {
			number := ""
			if row == 0 && l.number > 0 && (i == 0 || lines[i-1].number != l.number) {
				number = strconv.Itoa(l.number)
			}
			t.line(strings.TrimRight(indent+indent+bar(number)+string(piece), " "))
			for _, b := range branches {
				if _, from, to := cells(l, mark{b.From, b.To}); from >= row && from < row+len(piece) &&
					b.From >= l.offset {
					t.writeMarked(b, indent+bar("")+t.underline(b, style(b), from-row, min(to, row+len(piece))-row, width))
				}
			}
			row += len(piece)
		}
	}
}

// underline returns a line that marks the columns from..to, with the counts of a branch: to their right, to their left
// if there is more room, or over their end.
func (t *suiteText) underline(b *suite.Entry, s style, from, to, width int) string {
	line, label := "-", counts(b)
	if len(b.MissingOutcomes()) > 0 {
		line = "^"
	}
	length := utf8.RuneCountInString(label) + 1
	switch room := width - length - from; {
	case width == 0 || to-from <= room:
	case length <= from:
		return strings.Repeat(" ", from-length) + t.p.paint(s, label+" "+strings.Repeat(line, to-from))
	default:
		return strings.Repeat(" ", from) + t.p.paint(s, strings.Repeat(line, max(1, room-1))+"… "+label)
	}
	return strings.Repeat(" ", from) + t.p.paint(s, strings.Repeat(line, max(1, to-from))+" "+label)
}

// coverageTable writes a row for each policy.
func (t *suiteText) coverageTable(c *suite.Coverage) {
	seen, total := c.Count()
	rows := [][]string{{"policy", "seen", "of", "coverage"}}
	for _, p := range c.Policies {
		s, n := p.Count()
		rows = append(rows, []string{escapeControls(p.Name), strconv.Itoa(s), strconv.Itoa(n), percent(partOf(s, n))})
	}
	rows = append(rows, []string{"all", strconv.Itoa(seen), strconv.Itoa(total), percent(c.Percent())})
	var widths [4]int
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	slices.SortStableFunc(rows[1:len(rows)-1], func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	for i, row := range rows {
		line := row[0] + strings.Repeat(" ", widths[0]-utf8.RuneCountInString(row[0]))
		for j, cell := range row[1:] {
			line += "  " + strings.Repeat(" ", widths[j+1]-utf8.RuneCountInString(cell)) + cell
		}
		if i == 0 || i == len(rows)-1 {
			line = t.p.paint(bold, line)
		}
		t.line(line)
	}
	t.line("")
}
