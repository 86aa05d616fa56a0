package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escapeControls returns s with control characters written as escapes, so that text from a manifest cannot
// steer the terminal. Line breaks and tabs stay.
func escapeControls(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !isShown(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isShown(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func isShown(r rune) bool {
	return r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) && r != utf8.RuneError
}

// Wrap breaks text at spaces into lines of at most width columns; it also breaks longer words. With width 0 it breaks
// at line breaks only.
func Wrap(text string, width int) []string {
	var lines []string
	for para := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(text), "\r", ""), "\n") {
		if width <= 0 || utf8.RuneCountInString(para) <= width {
			lines = append(lines, strings.TrimRight(para, " \t"))
			continue
		}
		var line strings.Builder
		n := 0
		for word := range strings.FieldsSeq(para) {
			w := utf8.RuneCountInString(word)
			if n > 0 && n+1+w > width {
				lines = append(lines, line.String())
				line.Reset()
				n = 0
			}
			for w > width {
				r := []rune(word)
				lines = append(lines, string(r[:width]))
				word, w = string(r[width:]), w-width
			}
			if n > 0 {
				line.WriteByte(' ')
				n++
			}
			line.WriteString(word)
			n += w
		}
		lines = append(lines, line.String())
	}
	return lines
}

// chunks splits source text into pieces of at most width, after a space if there is one in the second half; width 0
// does not split.
func chunks(r []rune, width int) [][]rune {
	if width <= 0 || len(r) <= width {
		return [][]rune{r}
	}
	var out [][]rune
	for len(r) > width {
		cut := width
		for i := width; i > width/2; i-- {
			if r[i-1] == ' ' {
				cut = i
				break
			}
		}
		out = append(out, r[:cut])
		r = r[cut:]
	}
	return append(out, r)
}
