package rewrite

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	yaml2 "go.yaml.in/yaml/v2"
	yaml "go.yaml.in/yaml/v3"

	"github.com/celgate/celgate/internal/layout"
	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/internal/shape"
)

// A style is the form of new text, taken from the surrounding text.
type style struct {
	json    bool
	newline string
	step    int         // columns by which a nested mapping is indented
	dash    int         // columns by which the dash of a list in a mapping is indented
	quote   layout.Form // of text that needs quotes
	unit    string      // JSON: one level of indentation; empty: everything on one line
	colon   string      // between key and value in JSON and flow collections
	comma   string      // between entries there
	pad     string      // inside the braces of a flow mapping
	quoted  bool        // no literal blocks
}

// A piece is the text of a value: the part on the line of its key or dash, and the lines below.
type piece struct {
	head string
	tail []string
}

// inline renders a value on one line, or for indented JSON on several.
func (s *style) inline(v any, t *shape.Type, quote layout.Form, indent string) string {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return "{}"
		}
		open, between, end := s.brackets(indent, true)
		var b strings.Builder
		b.WriteString("{" + open)
		for i, key := range membersOf(v, t) {
			if i > 0 {
				b.WriteString(between)
			}
			b.WriteString(s.key(key, quote, true) + s.colon + s.inline(v[key], memberType(t, key), quote,
				indent+s.unit))
		}
		b.WriteString(end + "}")
		return b.String()
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		open, between, end := s.brackets(indent, false)
		var b strings.Builder
		b.WriteString("[" + open)
		for i, item := range v {
			if i > 0 {
				b.WriteString(between)
			}
			b.WriteString(s.inline(item, elemType(t), quote, indent+s.unit))
		}
		b.WriteString(end + "]")
		return b.String()
	case string:
		return s.text(v, quote, true)
	}
	return number(v)
}

// brackets returns the text after the opening bracket of a flow collection, between its entries and before the closing
// bracket.
func (s *style) brackets(indent string, braces bool) (open, between, end string) {
	if s.json && s.unit != "" {
		inner := s.newline + indent + s.unit
		return inner, "," + inner, s.newline + indent
	}
	if braces {
		return s.pad, s.comma, s.pad
	}
	return "", s.comma, ""
}

// value renders a value in block style, for a key of a mapping at the given column.
func (s *style) value(v any, t *shape.Type, column int, quote layout.Form) piece {
	switch c := v.(type) {
	case map[string]any:
		if len(c) > 0 {
			return piece{tail: s.mapping(c, t, column+s.step)}
		}
	case []any:
		if len(c) > 0 {
			return piece{tail: s.sequence(c, t, column+s.dash)}
		}
	case string:
		if p, ok := literal(c, column+s.step); ok && !s.quoted {
			return p
		}
		return piece{head: s.text(c, quote, false)}
	}
	return piece{head: s.inline(v, t, quote, "")}
}

// item renders a value in block style, for an item of a list whose dashes are at the given column.
func (s *style) item(v any, t *shape.Type, column int, quote layout.Form) piece {
	var lines []string
	switch c := v.(type) {
	case map[string]any:
		if len(c) == 0 {
			return piece{head: "{}"}
		}
		lines = s.mapping(c, t, column+2)
	case []any:
		if len(c) == 0 {
			return piece{head: "[]"}
		}
		lines = s.sequence(c, t, column+2)
	default:
		return s.value(v, t, column, quote)
	}
	return piece{head: lines[0][column+2:], tail: lines[1:]}
}

func (s *style) mapping(m map[string]any, t *shape.Type, column int) []string {
	var lines []string
	quote := layout.Plain
	for _, key := range membersOf(m, t) {
		value := s.value(m[key], memberType(t, key), column, quote)
		lines = append(lines, s.member(key, value, column, layout.Plain)...)
	}
	return lines
}

// member returns the lines of a member of a block mapping.
func (s *style) member(key string, p piece, column int, quote layout.Form) []string {
	first := spaces(column) + s.key(key, quote, false) + ":"
	if p.head != "" {
		first += " " + p.head
	}
	return append([]string{first}, p.tail...)
}

func (s *style) sequence(list []any, t *shape.Type, column int) []string {
	var lines []string
	for _, item := range list {
		lines = append(lines, s.entry(s.item(item, elemType(t), column, layout.Plain), column)...)
	}
	return lines
}

// entry returns the lines of an item of a block sequence.
func (s *style) entry(p piece, column int) []string {
	return append([]string{strings.TrimRight(spaces(column)+"- "+p.head, " ")}, p.tail...)
}

func spaces(n int) string { return strings.Repeat(" ", n) }

func elemType(t *shape.Type) *shape.Type {
	if t == nil {
		return nil
	}
	return t.Elem
}

// membersOf returns the keys of a map in the order of writing: that of a built-in type's fields, else apiVersion, kind,
// metadata and name first.
func membersOf(m map[string]any, t *shape.Type) []string {
	keys := slices.Sorted(maps.Keys(m))
	rank := func(key string) int {
		i := slices.Index(firstMembers, key)
		switch {
		case key == "apiVersion" || key == "kind":
			return i - len(firstMembers)
		case t != nil && t.Name != "" && t.Kind == shape.Struct:
			return fieldIndex(t, key)
		case i >= 0:
			return i - len(firstMembers)
		}
		return 0
	}
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	return keys
}

var firstMembers = []string{"apiVersion", "kind", "metadata", "name"}

// fieldIndex returns the index of a field in a struct; unknown fields come last.
func fieldIndex(t *shape.Type, name string) int {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return i
		}
	}
	return math.MaxInt32
}

// number renders a scalar other than a string.
func number(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(b)
}

func (s *style) key(key string, quote layout.Form, flow bool) string {
	if s.json {
		return quoteText(key)
	}
	return s.text(key, quote, flow)
}

// text renders text in the given quotes, or in the nearest possible form.
func (s *style) text(v string, quote layout.Form, flow bool) string {
	switch {
	case s.json:
		return quoteText(v)
	case quote == layout.Plain && isPlain(v, flow):
		return v
	case quote == layout.Plain:
		quote = s.quote
	}
	if quote == layout.Single && !strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || !unicode.IsPrint(r) }) {
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	}
	return quoteText(v)
}

// quoteText returns text in double quotes that JSON and YAML read alike.
func quoteText(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range v {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r >= 0x7f && r <= 0xffff && !unicode.IsPrint(r):
			b.WriteString(`\u` + strconv.FormatInt(0x10000+int64(r), 16)[1:])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// simple matches text that does not need quotes anywhere, unless it reads as another value.
var simple = pattern.New(`^[A-Za-z0-9_/.][A-Za-z0-9_/.+@=()$;,'!?%&*~<>{}\[\]-]*(?:[ :][A-Za-z0-9_/.+@=()$-][A-Za-z0-9_/.+@=()$;,'!?%&*~<>{}\[\]-]*)*$`)

// isPlain reports whether text can be written without quotes and is a string in every version of YAML.
func isPlain(v string, flow bool) bool {
	if !simple().MatchString(v) || flow && strings.ContainsAny(v, ",[]{}") {
		return false
	}
	if isWord(v) {
		return false
	}
	if c := v[0]; c < '0' || c > '9' {
		if c != '.' && c != '+' && c != '-' {
			return true
		}
	} else if strings.Contains(v, ":") && !strings.ContainsFunc(v, unicode.IsLetter) {
		return false // a time or a number with base 60
	}
	switch strings.TrimLeft(v, "0123456789") {
	case "":
		return false
	case "m", "k", "Ki", "Mi", "Gi", "Ti", "s", "h": // most quantities and durations
		return true
	}
	var v1, v2 any
	if yaml2.Unmarshal([]byte(v), &v1) != nil || yaml.Unmarshal([]byte(v), &v2) != nil {
		return false
	}
	_, ok1 := v1.(string)
	_, ok2 := v2.(string)
	return ok1 && ok2
}

// isWord reports whether a plain scalar of letters is a boolean or null in some version of YAML.
func isWord(v string) bool {
	if len(v) > len("false") {
		return false
	}
	switch strings.ToLower(v) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}

// literal renders several lines as a literal block at the given column.
func literal(v string, column int) (piece, bool) {
	body := strings.TrimRight(v, "\n")
	if !strings.Contains(body, "\n") || body[0] == ' ' || body[0] == '\n' || strings.ContainsFunc(v, func(r rune) bool {
		return r != '\n' && r != '\t' && !unicode.IsPrint(r)
	}) {
		return piece{}, false
	}
	head := "|"
	switch len(v) - len(body) {
	case 0:
		head = "|-"
	case 1:
	default:
		head = "|+"
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(v, "\n"), "\n") {
		if line != "" {
			line = spaces(column) + line
		}
		lines = append(lines, line)
	}
	return piece{head, lines}, true
}
