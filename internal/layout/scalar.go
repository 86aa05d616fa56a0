package layout

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// Spans map the decoded text of a scalar to its source text. An empty scalar does not have spans unless it is quoted.
type Spans []span

// A span maps the decoded bytes from text on to the source bytes from source on, one to one up to the next span. A
// decoded piece with another notation in the source (an escape, a folded line break) has its own span.
type span struct{ text, source int }

// Offset returns the offset in the source of the decoded byte at offset. The last span marks the end of both.
func (s Spans) Offset(offset int) int {
	i := sort.Search(len(s), func(i int) bool { return s[i].text > offset }) - 1
	if i < 0 {
		return s[0].source
	}
	at := s[i].source
	if i+1 < len(s) {
		at = min(at+offset-s[i].text, max(s[i+1].source-1, at))
	}
	return at
}

// Spans maps the decoded text of a scalar to its source text. It decodes the source again and compares: it stops at the
// first difference, so that the result is correct, and maps later offsets to that position.
func (n *Node) Spans(source string) Spans {
	a := aligner{source: source, want: n.Text, at: n.Start}
	switch n.Form {
	case Plain:
		if n.Text == "" {
			return nil
		}
		a.flow(0)
	case Single:
		a.at++
		a.flow('\'')
	case Double:
		a.at++
		a.flow('"')
	case Literal, Folded:
		a.block(n.Form == Folded)
	default:
		return nil
	}
	a.mark()
	return a.spans
}

// An aligner walks a source and its expected decoded text in parallel.
type aligner struct {
	source, want string
	at, done     int // positions in source and want
	spans        Spans
}

// mark starts a span at the current positions.
func (a *aligner) mark() {
	if n := len(a.spans); n > 0 && a.spans[n-1].text == a.done {
		a.spans[n-1].source = a.at
		return
	}
	a.spans = append(a.spans, span{a.done, a.at})
}

// take accepts that size bytes of the source decode to text, if text is the next expected part.
func (a *aligner) take(size int, text string) bool {
	if !strings.HasPrefix(a.want[a.done:], text) {
		return false
	}
	a.mark()
	a.at += size
	a.done += len(text)
	a.mark()
	return true
}

// flow aligns a plain (quote 0), single-quoted or double-quoted scalar, behind its opening quote.
func (a *aligner) flow(quote byte) {
	a.mark()
	for a.done < len(a.want) && a.at < len(a.source) {
		c := a.source[a.at]
		switch {
		case c == ' ' || c == '\t' || breakAt(a.source, a.at) > 0:
			if !a.space() {
				return
			}
		case c == '\'' && quote == '\'':
			if !strings.HasPrefix(a.source[a.at:], "''") || !a.take(2, "'") {
				return
			}
		case c == '"' && quote == '"':
			return
		case c == '\\' && quote == '"':
			if !a.escape() {
				return
			}
		case c == a.want[a.done]:
			a.at++
			a.done++
		default:
			return
		}
	}
}

// space aligns a run of blanks and line breaks. Without a break the blanks are literal; otherwise the first break is a
// space, and each further break a line feed.
func (a *aligner) space() bool {
	end, breaks := a.at, ""
	for first := true; end < len(a.source); {
		n := breakAt(a.source, end)
		switch {
		case n > 0:
			if !first {
				breaks += lineBreak(a.source[end : end+n])
			}
			first = false
			end += n
			continue
		case a.source[end] == ' ' || a.source[end] == '\t':
			end++
			continue
		}
		break
	}
	run := a.source[a.at:end]
	if strings.IndexFunc(run, func(r rune) bool { return r != ' ' && r != '\t' }) < 0 {
		if !strings.HasPrefix(a.want[a.done:], run) {
			return false
		}
		a.at += len(run)
		a.done += len(run)
		return true
	}
	if breaks == "" {
		breaks = " "
	}
	return a.take(len(run), breaks)
}

// lineBreak returns the decoded form of a line break.
func lineBreak(s string) string {
	if len(s) == 3 { // line and paragraph separators are literal
		return s
	}
	return "\n"
}

// escape aligns an escape sequence of a double-quoted scalar.
func (a *aligner) escape() bool {
	s := a.source[a.at:]
	if len(s) < 2 {
		return false
	}
	if n := breakAt(s, 1); n > 0 { // it and the blanks behind it vanish; further breaks do not
		breaks := ""
		for n++; n < len(s); {
			if size := breakAt(s, n); size > 0 {
				breaks += lineBreak(s[n : n+size])
				n += size
			} else if s[n] == ' ' || s[n] == '\t' {
				n++
			} else {
				break
			}
		}
		return a.take(n, breaks)
	}
	size := 2
	switch s[1] {
	case 'x':
		size = 4
	case 'u':
		size = 6
		// JSON writes characters beyond the basic plane as two escapes.
		if r, n := utf8.DecodeRuneInString(a.want[a.done:]); r > 0xffff && n == 4 {
			size = 12
		}
	case 'U':
		size = 10
	}
	_, n := utf8.DecodeRuneInString(a.want[a.done:])
	return size <= len(s) && a.take(size, a.want[a.done:a.done+n])
}

// block aligns a literal or folded scalar from its indicator on: lines of text with breaks between them. Folding turns
// one break into a space, or drops the first of several.
func (a *aligner) block(folded bool) {
	if !a.skipToNextLine() {
		return
	}
	indent := a.indent()
	if indent < 0 {
		return
	}
	for a.done < len(a.want) {
		breaks := a.breaks(indent)
		rest := a.want[a.done:]
		count, dropped := len(rest)-len(strings.TrimLeft(rest, "\n")), 0
		switch {
		case folded && count == 0 && len(breaks) == 1 && rest[0] == ' ':
			count = 1
		case count > len(breaks):
			return
		case count < len(breaks) && count < len(rest):
			if !folded || count != len(breaks)-1 {
				return
			}
			dropped = 1
		}
		next := a.at
		for _, at := range breaks[dropped : dropped+count] {
			a.at = at
			a.mark()
			a.done++
			a.at += breakAt(a.source, at)
		}
		if a.done == len(a.want) {
			return
		}
		a.at = next
		line := a.line()
		if len(line) < indent || !strings.HasPrefix(a.want[a.done:], line[indent:]) || len(line) == 0 {
			return
		}
		a.at += indent
		a.mark()
		a.at += len(line) - indent
		a.done += len(line) - indent
	}
}

// breaks moves to the next line with more than its indentation and returns the offsets of the line breaks before it.
func (a *aligner) breaks(indent int) (offsets []int) {
	for a.at < len(a.source) {
		line := a.line()
		if len(line) > indent || strings.Trim(line, " ") != "" {
			break
		}
		a.at += len(line)
		if n := a.breakSize(); n > 0 {
			offsets = append(offsets, a.at)
			a.at += n
		}
	}
	return offsets
}

// line returns the rest of the source line without its break.
func (a *aligner) line() string {
	end := a.at
	for end < len(a.source) && breakAt(a.source, end) == 0 {
		end++
	}
	return a.source[a.at:end]
}

// breakSize returns the size of the line break at a.at.
func (a *aligner) breakSize() int {
	if a.at >= len(a.source) {
		return 0
	}
	return breakAt(a.source, a.at)
}

// skipToNextLine moves to the start of the next line.
func (a *aligner) skipToNextLine() bool {
	a.at += len(a.line())
	n := a.breakSize()
	a.at += n
	return n > 0
}

// indent returns the indentation of a block scalar: the difference between the indentation of its first line with other
// characters than spaces and that of the same decoded line. It is -1 if such a line does not exist.
func (a *aligner) indent() int {
	for want := range strings.Lines(a.want) {
		text := strings.TrimLeft(want, " ")
		if text == "" || text == "\n" {
			continue
		}
		source := aligner{source: a.source, at: a.at}
		for line := source.line(); ; line = source.line() {
			if rest := strings.TrimLeft(line, " "); rest != "" {
				return max(len(line)-len(rest)-(len(want)-len(text)), -1)
			}
			if !source.skipToNextLine() {
				return -1
			}
		}
	}
	return -1
}
