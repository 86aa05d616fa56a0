package manifest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/layout"
	"github.com/celgate/celgate/internal/yamlscan"
)

// explain returns the position of a decoder's error in s.Text, and a message.
func (s *Source) explain(err error) (offset int, message string) {
	start := max(yamlscan.Content(s.Text), 0)
	var syntax *syntaxError
	var unfit *valueError
	switch {
	case errors.Is(err, errDuplicate):
		if second, first, found := s.places().FindDuplicate(); found {
			return second.Start, fmt.Sprintf("key %q is already set on line %d", second.Name, s.positionAt(first).Line)
		}
		return start, err.Error()
	case errors.Is(err, errDepth):
		return tooDeep(s.Text), err.Error()
	case errors.As(err, &syntax):
		return min(max(syntax.offset, 0), len(s.Text)), syntax.message
	case errors.As(err, &unfit):
		at, found := findUnfit(s.places(), unfit)
		if !found {
			at = start
		}
		if i := templateAt(s.Text, at); unfit == errKey && i >= 0 {
			return i, templateMessage
		}
		return at, unfit.message
	}
	return explainLibrary(s.Text, err)
}

// tooDeep returns the offset of the first value that is nested too deeply.
func tooDeep(text string) int {
	at := -1
	var walk func(v *layout.Node, depth int)
	walk = func(v *layout.Node, depth int) {
		if v.Form.IsCollection() && depth > yamlscan.MaxDepth && (at < 0 || v.Start < at) {
			at = v.Start
		}
		if at >= 0 {
			return
		}
		for _, e := range v.Entries {
			walk(e.Value, depth+1)
		}
	}
	walk(layoutOf(text, false), 1)
	if at < 0 {
		at = max(yamlscan.Content(text), 0)
	}
	return at
}

// findUnfit returns the offset of the first value that cannot be expressed in JSON.
func findUnfit(v *layout.Node, err *valueError) (at int, found bool) {
	for _, e := range v.Entries {
		value := e.Value.Resolve()
		switch {
		case v.Form == layout.Mapping && err == errKey && e.Bad:
			return e.Start, true
		case err != errKey && value.Form == layout.Plain:
			if _, ok := yamlscan.CheckFinite(yamlscan.DecodePlain(value.Text)); !ok ||
				strings.Contains(err.message, "number "+value.Text+" ") {
				return value.Start, true
			}
		}
		if at, found = findUnfit(e.Value, err); found {
			return at, true
		}
	}
	return 0, false
}

const templateMessage = `"{{" begins a template, not YAML; render it first (helm template)`

// templateAt returns the offset of "{{" on the line at offset, or at the start of the line below; -1 if there is none.
func templateAt(text string, offset int) int {
	start := strings.LastIndexByte(text[:offset], '\n') + 1
	line, _, _ := strings.Cut(text[start:], "\n")
	if i := strings.Index(line, "{{"); i >= 0 {
		return start + i
	}
	return -1
}

// explainLibrary locates an error of the YAML library. The library reports at most lines, and counts those of parser
// errors from 0 and those of scanner errors from 1 (go.yaml.in/yaml/v2 v2.4.4 decode.go: fail), so the column is found
// by searching for the cause.
func explainLibrary(text string, err error) (offset int, message string) {
	line, problem := problemOf(err)
	t := lines{text: text, starts: layout.LineStarts(text)}
	start := max(yamlscan.Content(text), 0)
	switch {
	case strings.HasPrefix(text[start:], "%"):
		return start, "kubectl does not understand directives such as %YAML; remove the line"
	case strings.HasPrefix(problem, "did not find expected ") && isParserError(problem):
		offset, message = t.parserProblem(line+1, problem)
	default:
		var found bool
		if offset, message, found = t.scannerProblem(max(line, 1), problem); !found {
			offset, message = t.valueProblem(line, problem)
		}
	}
	if i := templateAt(text, offset); i >= 0 {
		return i, templateMessage
	}
	return offset, message
}

// problemOf splits an error of the library into its line, 0 if there is none, and its message.
func problemOf(err error) (line int, problem string) {
	problem = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(problem, "line "); ok {
		if digits, rest, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(digits); err == nil {
				return n, rest
			}
		}
	}
	return 0, problem
}

// parserProblem explains an unexpected construct on line n.
func (t lines) parserProblem(n int, problem string) (offset int, message string) {
	if at := t.textBehindQuote(n); at >= 0 {
		return at, "unexpected text behind a quoted value"
	}
	switch problem {
	case "did not find expected key":
		message = "expected a key at this indentation"
	case "did not find expected '-' indicator":
		message = "expected a list item at this indentation, or something less indented"
	case "did not find expected node content":
		message = "expected a value"
	default:
		message = strings.TrimPrefix(problem, "did not find ") + " in the flow collection"
	}
	return t.firstNonBlank(n), message
}

// scannerProblem explains an unexpected character on line n.
func (t lines) scannerProblem(n int, problem string) (offset int, message string, found bool) {
	switch problem {
	case "found character that cannot start any token":
		offset, message = t.badToken(n)
	case "found a tab character where an indentation space is expected",
		"found a tab character that violates indentation":
		offset, message = t.firstTab(n), "a tab cannot indent; use spaces"
	case "mapping values are not allowed in this context":
		offset = t.secondColon(n)
		message = `unexpected ": "; put text that holds it in quotes, or check the indentation`
	case "block sequence entries are not allowed in this context":
		offset, message = t.dash(n), `a list item is not allowed here; check the indentation`
	case "could not find expected ':'":
		offset, message = t.key(n), `expected "key: value"`
	case "found unexpected end of stream":
		offset, message = t.openQuote(n), "the quote is never closed"
	case "found unknown escape character", "found invalid Unicode character escape code",
		"did not find expected hexdecimal number":
		offset = t.find(n, `\`)
		message = "unknown escape in a double-quoted text; write \\\\ for a backslash, or use single quotes"
	case "did not find expected comment or line break":
		offset, message = t.firstNonBlank(n), "only a comment may stand behind the | or > of a block"
	default:
		return 0, "", false
	}
	return offset, message, true
}

// valueProblem explains an invalid value, or another error on its line.
func (t lines) valueProblem(line int, problem string) (offset int, message string) {
	switch {
	case strings.HasPrefix(problem, "unknown anchor '"):
		name, _, _ := strings.Cut(strings.TrimPrefix(problem, "unknown anchor '"), "'")
		return max(strings.Index(t.text, "*"+name), 0), "no anchor &" + name + " before this alias"
	case strings.HasPrefix(problem, "anchor '"):
		name, _, _ := strings.Cut(strings.TrimPrefix(problem, "anchor '"), "'")
		return max(strings.Index(t.text, "&"+name), 0), "the value of anchor &" + name + " contains itself"
	case problem == "document contains excessive aliasing":
		return max(strings.Index(t.text, "*"), 0), "too many values come from aliases"
	case strings.HasPrefix(problem, "invalid map key: "):
		at, _ := findUnfit(layoutOf(t.text, false), errKey)
		return at, errKey.message
	case strings.HasPrefix(problem, "map merge requires "):
		return max(strings.Index(t.text, "<<"), 0), "a merge key needs a mapping or a list of mappings"
	case strings.HasPrefix(problem, "cannot decode "):
		written, want, _ := strings.Cut(strings.TrimPrefix(problem, "cannot decode "), "` as a ")
		_, written, _ = strings.Cut(written, "`")
		return max(strings.Index(t.text, want), 0), fmt.Sprintf("%q is not a %s", written, want)
	case problem == "found undefined tag handle":
		return t.find(line+1, "!"), "undefined tag"
	case problem == "!!binary value contains invalid base64 data":
		return max(strings.Index(t.text, "!!binary"), 0), problem
	}
	return t.firstNonBlank(max(line, 1)), problem
}

// isParserError distinguishes errors of the library's parser from those of its scanner with the same beginning.
func isParserError(problem string) bool {
	switch what := strings.TrimPrefix(problem, "did not find expected "); what {
	case "key", "'-' indicator", "node content", "',' or ']'", "',' or '}'":
		return true
	}
	return false
}

// lines finds offsets by line in a text. Lines count from 1; those beyond the end stand for the end.
type lines struct {
	text   string
	starts []int
}

// line returns a line without its break, and its offset.
func (t lines) line(n int) (string, int) {
	if n > len(t.starts) {
		return "", len(t.text)
	}
	start, end := t.starts[n-1], len(t.text)
	if n < len(t.starts) {
		end = t.starts[n]
	}
	return strings.TrimRight(t.text[start:end], "\r\n"), start
}

// firstNonBlank returns the offset of the first non-blank byte of line n; at the end of the text that of the end of the
// last line with content.
func (t lines) firstNonBlank(n int) int {
	s, start := t.line(n)
	if start >= len(t.text) {
		return len(strings.TrimRight(t.text, " \t\r\n"))
	}
	return start + len(s) - len(strings.TrimLeft(s, " \t"))
}

// find returns the offset of what on line n or below, or else that of the line.
func (t lines) find(n int, what string) int {
	_, start := t.line(n)
	if i := strings.Index(t.text[start:], what); i >= 0 {
		return start + i
	}
	return t.firstNonBlank(n)
}

// textBehindQuote returns the offset of text that follows a quoted scalar on line n; -1 if there is none.
func (t lines) textBehindQuote(n int) int {
	s, start := t.line(n)
	for i := 0; i < len(s); i++ {
		if s[i] != '"' && s[i] != '\'' || i > 0 && strings.IndexByte(" [{,", s[i-1]) < 0 {
			continue
		}
		end := i + 1
		for end < len(s) && s[end] != s[i] {
			if s[end] == '\\' && s[i] == '"' {
				end++
			}
			end++
		}
		if end >= len(s) {
			return -1
		}
		rest := strings.TrimLeft(s[end+1:], " \t")
		if rest != "" && strings.IndexByte(":,]}#", rest[0]) < 0 {
			return start + len(s) - len(rest)
		}
		i = end
	}
	return -1
}

func (t lines) firstTab(n int) int {
	s, start := t.line(n)
	if i := strings.IndexByte(s, '\t'); i >= 0 {
		return start + i
	}
	return t.firstNonBlank(n)
}

// badToken explains a character that cannot start a token.
func (t lines) badToken(n int) (offset int, message string) {
	s, start := t.line(n)
	indent := len(s) - len(strings.TrimLeft(s, " \t"))
	if i := strings.IndexByte(s[:indent], '\t'); i >= 0 {
		return start + i, "a tab cannot indent; use spaces"
	}
	for i := indent; i < len(s); i++ {
		if strings.IndexByte("@`%\t|>", s[i]) >= 0 && (i == indent || strings.IndexByte(" [{,-", s[i-1]) >= 0) {
			if s[i] == '\t' {
				return start + i, "a tab cannot stand here; use spaces"
			}
			return start + i, fmt.Sprintf("%q cannot start a value; put it in quotes", s[i:i+1])
		}
	}
	return start + indent, "unexpected character"
}

// secondColon returns the offset of the second colon on the line that may end a key, or of the only one.
func (t lines) secondColon(n int) int {
	s, start := t.line(n)
	at, count := -1, 0
	quote := byte(0)
	for i := 0; i < len(s) && count < 2; i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && (i == 0 || strings.IndexByte(" [{,", s[i-1]) >= 0):
			quote = c
		case c == ':' && (i+1 == len(s) || s[i+1] == ' ' || s[i+1] == '\t'):
			at = i
			count++
		}
	}
	if at < 0 {
		return t.firstNonBlank(n)
	}
	return start + at
}

// dash returns the offset of the last dash on line n that is followed by a blank.
func (t lines) dash(n int) int {
	s, start := t.line(n)
	if i := strings.LastIndex(s+" ", "- "); i >= 0 {
		return start + i
	}
	return t.firstNonBlank(n)
}

// key returns the start of the last line with content before line n: the library detects a missing colon on the next
// line, except for a line of more than 1024 characters.
func (t lines) key(n int) int {
	if s, start := t.line(n); len(s) > 1024 {
		return start + len(s) - len(strings.TrimLeft(s, " -"))
	}
	for n--; n > 0; n-- {
		if s, start := t.line(n); yamlscan.Content(s) >= 0 {
			return start + len(s) - len(strings.TrimLeft(s, " -"))
		}
	}
	return t.firstNonBlank(1)
}

// openQuote returns the offset of the unclosed quote that the library reports on line n. The library fails in the same
// way on every prefix of the text that contains the quote, and on no shorter one.
func (t lines) openQuote(n int) int {
	const enough = 256 << 10 // each attempt parses the text
	if len(t.text) > enough {
		return t.firstNonBlank(n)
	}
	low, high := 1, len(t.starts) // the quote is on a line of low to high
	for low < high {
		middle := (low + high) / 2
		_, end := t.line(middle + 1)
		if isUnclosed(t.text[:end]) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	s, start := t.line(low)
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c == '"' || c == '\'') && (i == 0 || strings.IndexByte(" [{,:-", s[i-1]) >= 0) &&
			strings.Count(s[i:], string(c))%2 == 1 {
			return start + i
		}
	}
	return t.firstNonBlank(low)
}

// isUnclosed reports whether the library reaches the end of text inside quotes.
func isUnclosed(text string) bool {
	_, _, err := decodeLibrary(text)
	return err != nil && strings.HasSuffix(err.Error(), "found unexpected end of stream")
}
