// Package inline inlines the libraries of the dialect: calls of functions become their bodies, and variables get the
// names that they have beside those of a policy. It works on texts, so that the evaluated expression is exactly that of
// a native policy with the same text.
package inline

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/spell"
)

// A Member is a part of a library: a variable or a function.
type Member struct {
	Variable string   // the name of the variable as a member of variables; empty: the member is a function
	Params   []string // of a function
	Body     string   // of a function: without comments, with the bodies of called functions inlined
	Takes    []string // for each of Params: the conversion of an argument, such as string; empty: none
	Gives    string   // the conversion of the result; empty: none
}

// Libraries are the members of libraries, by library and name.
type Libraries map[string]map[string]Member

// Longest is the largest size of an expression in bytes after inlining.
const Longest = 64 << 10

// MostMacros is the largest number of macros that libraries may add to an expression: the time in which cel-go checks
// the types of an expression grows with the square of their number.
const MostMacros = 200

// An Error is an error about a library name at a byte of a text.
type Error struct {
	At   int
	Text string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// A Text is an expression after inlining.
type Text struct {
	Code string
	Uses []string // the full names of the variables and functions in the text itself, each once

	parts []part
}

// A part of the code is a copy of a part of the text, or replaces it.
type part struct {
	code     int // its start
	from, to int // in the text
	verbatim bool
}

// Origin returns the bytes of the text as written that the byte at offset of the code copies or replaces; verbatim: it
// is a copy, and to is the end of the copied part.
func (t *Text) Origin(offset int) (from, to int, verbatim bool) {
	i, found := slices.BinarySearchFunc(t.parts, offset, func(p part, at int) int { return p.code - at })
	if !found {
		i--
	}
	if i < 0 {
		return offset, offset, true
	}
	p := t.parts[i]
	if p.verbatim {
		at := min(p.from+offset-p.code, p.to)
		return at, at, true
	}
	return p.from, p.to, false
}

// IsReplaced reports whether other code replaces the part of the text that begins at offset.
func (t *Text) IsReplaced(offset int) bool {
	return t != nil && slices.ContainsFunc(t.parts, func(p part) bool { return !p.verbatim && p.from == offset })
}

// Expand inlines the library parts in a text. It returns nil, without an error, if there are none. If without is not
// empty, it is the reason why variables are not allowed: using one is an error.
func Expand(src string, known Libraries, without string) (*Text, *Error) {
	if !mentions(src, known) {
		return nil, nil
	}
	x := newExpander(src, known)
	x.without = without
	x.expand(0, len(x.tokens), 0, len(src))
	if x.err != nil || len(x.uses) == 0 {
		return nil, x.err
	}
	return &Text{Code: x.code.String(), Uses: slices.Sorted(maps.Keys(x.uses)), parts: x.parts}, nil
}

// NamesOf returns the members of a library that a text names, with the offset of their first use, by their own names.
func NamesOf(src, library string) map[string]int {
	all := map[string]int{}
	x := newExpander(src, Libraries{library: nil})
	for i := range x.tokens {
		if _, ok := x.libraryAt(i); ok {
			if _, before := all[x.tokens[i+2].text]; !before {
				all[x.tokens[i+2].text] = x.tokens[i].from
			}
		}
	}
	return all
}

// Trim returns the text without the given number of leading bytes, which are white space.
func (t *Text) Trim(bytes int) *Text {
	if bytes == 0 {
		return t
	}
	trimmed := *t
	trimmed.parts = slices.Clone(t.parts)
	for i, p := range trimmed.parts {
		if p.verbatim && p.from < bytes { // it begins with the white space
			trimmed.Code = trimmed.Code[bytes-p.from:]
		}
		trimmed.parts[i].from, trimmed.parts[i].to = max(p.from-bytes, 0), p.to-bytes
		if i > 0 || !p.verbatim {
			trimmed.parts[i].code = p.code - (len(t.Code) - len(trimmed.Code))
		}
	}
	return &trimmed
}

// mentions reports whether a text may use a library.
func mentions(src string, known Libraries) bool {
	for name := range known {
		if strings.Contains(src, name) {
			return true
		}
	}
	return false
}

// Body returns the text of a function in a form that can be part of another expression.
func Body(code string) string {
	var b strings.Builder
	end := 0
	for _, t := range tokens(code) {
		if between := code[end:t.from]; end > 0 && between != "" {
			if strings.Contains(between, "//") {
				between = " "
			}
			b.WriteString(between)
		}
		b.WriteString(t.text)
		end = t.to
	}
	return b.String()
}

// An expander writes the code of one text.
type expander struct {
	src     string
	tokens  []token
	known   Libraries
	without string
	locals  []local

	code   strings.Builder
	parts  []part
	uses   map[string]bool
	macros int // in the code of libraries
	err    *Error
}

func newExpander(src string, known Libraries) *expander {
	x := &expander{src: src, tokens: tokens(src), known: known}
	x.locals = findLocals(x.tokens, known)
	return x
}

// A local is a call in which the name of a library has another meaning: between the tokens first and last, a macro
// declares it.
type local struct {
	name        string
	first, last int
}

// findLocals returns the calls with an argument that is nothing but the name of a library: if the call is not a macro,
// the name is undeclared.
func findLocals(t []token, known Libraries) (all []local) {
	var open []int
	declared := map[int][]string{} // by the opening parenthesis
	for i := range t {
		switch {
		case t[i].kind == symbol && strings.Contains("([{", t[i].text):
			open = append(open, i)
		case t[i].kind == symbol && strings.Contains(")]}", t[i].text) && len(open) > 0:
			first := open[len(open)-1]
			open = open[:len(open)-1]
			for _, name := range declared[first] {
				all = append(all, local{name, first, i})
			}
		case t[i].kind == word && len(open) > 0 && i+1 < len(t):
			_, named := known[t[i].text]
			if in := open[len(open)-1]; named && t[in].text == "(" && (t[i-1].text == "(" || t[i-1].text == ",") &&
				(t[i+1].text == "," || t[i+1].text == ")") {
				declared[in] = append(declared[in], t[i].text)
			}
		}
	}
	return all
}

// macroNames are the macros of CEL that evaluate an expression for items.
var macroNames = []string{"all", "exists", "exists_one", "existsOne", "map", "filter", "transformList", "transformMap",
	"transformMapEntry", "sortBy", "bind", "reduce"}

// countMacros returns the number of macros among tokens.
func countMacros(t []token) (n int) {
	for i := range t {
		if i+1 < len(t) && t[i+1].text == "(" && slices.Contains(macroNames, t[i].text) {
			n++
		}
	}
	return n
}

func (x *expander) fail(at int, format string, args ...any) {
	if x.err == nil {
		x.err = &Error{at, fmt.Sprintf(format, args...)}
	}
}

// copy copies bytes of the text.
func (x *expander) copy(from, to int) {
	if from < to {
		x.parts = append(x.parts, part{x.code.Len(), from, to, true})
		x.code.WriteString(x.src[from:to])
	}
}

// put writes code that replaces bytes of the text.
func (x *expander) put(code string, from, to int) {
	x.parts = append(x.parts, part{x.code.Len(), from, to, false})
	x.code.WriteString(code)
	if x.code.Len() > Longest {
		x.fail(from, "with its libraries the expression has more than %d bytes", Longest)
	}
}

// expand writes the tokens from first up to last, which are the bytes from up to to of the text.
func (x *expander) expand(first, last, from, to int) {
	for i := first; i < last && x.err == nil; i++ {
		library, ok := x.libraryAt(i)
		if !ok {
			continue
		}
		x.copy(from, x.tokens[i].from)
		member := x.tokens[i+2]
		name := x.tokens[i].text + "." + member.text
		m, ok := library[member.text]
		if !ok {
			x.failUndeclared(x.tokens[i], member, library)
			return
		}
		if x.uses == nil {
			x.uses = map[string]bool{}
		}
		x.uses[name] = true
		called := i+3 < len(x.tokens) && x.tokens[i+3].text == "("
		switch {
		case m.Variable == "" && !called:
			x.fail(x.tokens[i].from, "%s is a function of %s: its arguments are missing", name, countArguments(len(m.Params)))
		case m.Variable != "" && called:
			x.fail(x.tokens[i].from, "%s is a variable, not a function", name)
		case m.Variable != "" && x.without != "":
			x.fail(x.tokens[i].from, "%s is a variable, and %s", name, x.without)
		case m.Variable != "":
			x.put("variables."+m.Variable, x.tokens[i].from, member.to)
			i += 2
			from = member.to
		default:
			end := x.call(name, m, i)
			if x.err == nil {
				i, from = end, x.tokens[end].to
			}
		}
	}
	x.copy(from, to)
}

func countArguments(n int) string {
	if n == 1 {
		return "one argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// libraryAt returns the library if its name and that of a member begin at a token.
func (x *expander) libraryAt(i int) (map[string]Member, bool) {
	t := x.tokens
	if t[i].kind != word || i+2 >= len(t) || t[i+1].text != "." || t[i+2].kind != word || isSelected(t, i) {
		return nil, false
	}
	library, ok := x.known[t[i].text]
	if ok && slices.ContainsFunc(x.locals, func(l local) bool {
		return l.name == t[i].text && l.first < i && i < l.last
	}) {
		return nil, false
	}
	return library, ok
}

// isSelected reports whether a word is the name of a member of the operand before it.
func isSelected(t []token, i int) bool {
	return i > 0 && t[i-1].text == "." || i > 1 && t[i-1].text == "?" && t[i-2].text == "."
}

func (x *expander) failUndeclared(library, member token, known map[string]Member) {
	text := fmt.Sprintf("undeclared reference to '%s.%s'", library.text, member.text)
	near := spell.Nearest(member.text, slices.Sorted(maps.Keys(known)), max(2, len(member.text)/3))
	if near != "" {
		text += fmt.Sprintf(" (did you mean %s.%s?)", library.text, near)
	}
	x.fail(library.from, "%s", text)
}

// call writes the body of a function in place of its call, which begins at a token, and returns the last token of the
// call. An argument is evaluated once, before the body: it becomes the only item of a list whose macro map names it. A
// literal and a name, which cannot fail and are free, are put into the body. Arguments and results are converted to the
// declared types; otherwise the compiler would not know the types of values from an object.
func (x *expander) call(name string, m Member, at int) (end int) {
	args, end := x.arguments(at + 3)
	begin := x.tokens[at].from
	switch {
	case end == len(x.tokens):
		x.fail(begin, "the closing ) of %s is missing", name)
	case len(args) != len(m.Params):
		x.fail(begin, "%s takes %s, not %d", name, countArguments(len(m.Params)), len(args))
	}
	if x.err != nil {
		return end
	}
	to := x.tokens[end].to
	taken := words(tokens(m.Body))
	for _, a := range args {
		maps.Copy(taken, words(x.tokens[a.first:a.last]))
	}
	body, closing := tokens(m.Body), ""
	x.macros += countMacros(body)
	replaced := map[string]string{}
	x.put(m.Gives+"(", begin, to)
	for i, a := range args {
		param, takes := m.Params[i], m.takes(i)
		if text, plain := x.plainText(a, param, body, takes); plain {
			replaced[param] = text
			continue
		}
		x.macros++
		bound := param
		inArguments := func() bool {
			return slices.ContainsFunc(args, func(a argument) bool { return words(x.tokens[a.first:a.last])[bound] })
		}
		for n := 1; inArguments() || bound != param && taken[bound]; n++ {
			bound = fmt.Sprintf("%s%d", param, n)
		}
		taken[bound], replaced[param] = true, bound
		open, shut := "[", "].map("+bound+", "
		if takes != "" {
			open, shut = "["+takes+"(", ")"+shut
		}
		x.put(open, begin, to)
		x.expand(a.first, a.last, x.tokens[a.first].from, x.tokens[a.last-1].to)
		x.put(shut, begin, to)
		closing += ")[0]"
	}
	x.put(rename(m.Body, body, replaced)+closing+")", begin, to)
	if x.macros > MostMacros {
		x.fail(begin, "the libraries add more than %d macros to the expression", MostMacros)
	}
	return end
}

// An argument is the tokens from first up to last.
type argument struct{ first, last int }

// arguments returns the arguments of a call after its opening parenthesis, and the closing one; len(x.tokens) if it is
// missing.
func (x *expander) arguments(open int) (all []argument, end int) {
	depth, first := 0, open+1
	for i := open; i < len(x.tokens); i++ {
		if x.tokens[i].kind != symbol {
			continue
		}
		switch x.tokens[i].text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				if i > first {
					all = append(all, argument{first, i})
				}
				return all, i
			}
		case ",":
			if depth == 1 {
				if i == first {
					x.fail(x.tokens[i].from, "an argument is missing")
				}
				all = append(all, argument{first, i})
				first = i + 1
			}
		}
	}
	return all, len(x.tokens)
}

// takes returns the conversion of an argument.
func (m Member) takes(i int) string {
	if i < len(m.Takes) {
		return m.Takes[i]
	}
	return ""
}

// plainText returns the text of an argument that may occur in a body as often as the param does.
func (x *expander) plainText(a argument, param string, body []token, takes string) (string, bool) {
	if a.last-a.first != 1 {
		return "", false
	}
	switch t := x.tokens[a.first]; {
	case t.kind == literal:
		return "(" + t.text + ")", takes == "" || takes == typeOf(t.text)
	case t.kind == word: // it must not have another meaning in the body
		return t.text, takes == "" && (t.text == param || !words(body)[t.text])
	default:
		return "", false
	}
}

// typeOf returns the type of a literal; empty if it is not obvious.
func typeOf(text string) string {
	switch {
	case text[0] == '"' || text[0] == '\'':
		return "string"
	case strings.Trim(text, "0123456789") == "":
		return "int"
	}
	return ""
}

// words returns the names among tokens, without those of members.
func words(t []token) map[string]bool {
	all := map[string]bool{}
	for i := range t {
		if t[i].kind == word && !isSelected(t, i) {
			all[t[i].text] = true
		}
	}
	return all
}

// rename returns a text, which has these tokens, with other names.
func rename(text string, t []token, names map[string]string) string {
	var b strings.Builder
	end := 0
	var open []int // the open brackets, by token
	for i := range t {
		switch t[i].text {
		case "(", "[", "{":
			open = append(open, i)
		case ")", "]", "}":
			open = open[:max(len(open)-1, 0)]
		}
		other, ok := names[t[i].text]
		if !ok || t[i].kind != word || isSelected(t, i) || namesField(t, i, open) {
			continue
		}
		b.WriteString(text[end:t[i].from] + other)
		end = t[i].to
	}
	return b.String() + text[end:]
}

// namesField reports whether a word is the name of a field in a literal such as Object.spec{name: value}.
func namesField(t []token, i int, open []int) bool {
	if len(open) == 0 || i+1 >= len(t) || t[i+1].text != ":" {
		return false
	}
	brace := open[len(open)-1]
	if t[brace].text != "{" || brace == 0 || t[brace-1].kind != word || t[brace-1].text == "in" {
		return false // of a map
	}
	before := i - 1
	if t[before].text == "?" {
		before--
	}
	return before == brace || t[before].text == ","
}
