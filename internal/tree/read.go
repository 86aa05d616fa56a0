package tree

import (
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Reader makes trees of JSON text in one pass. Strings in trees share the memory of the text.
//
// It reads ordinary output of programs. It fails without an error message, for a decoder with good messages and rules
// for duplicate members, on text that is not JSON, members that the caller does not expect, more than a thousand nested
// brackets, numbers beyond float64, and invalid UTF-8. Its results equal those of sigs.k8s.io/json.
type Reader struct {
	text   string
	at     int
	depth  int
	null   bool
	failed bool

	// Members and items of unfinished maps and lists, which are made when their number is known.
	names  []string
	values []any
}

// maxDepth is more than objects of a server need, and little enough for the stack.
const maxDepth = 1000

// NewReader returns a reader of a text.
func NewReader(text string) *Reader {
	return &Reader{text: text, names: make([]string, 0, 64), values: make([]any, 0, 64)}
}

// Done reports whether the text was read to its end without a failure.
func (r *Reader) Done() bool {
	r.space()
	return !r.failed && r.at == len(r.text)
}

// HasNull reports whether a tree had a null in it.
func (r *Reader) HasNull() bool { return r.null }

func (r *Reader) fail() {
	r.failed, r.at = true, len(r.text)
}

// space skips white space, and returns the next byte, 0 at the end.
func (r *Reader) space() byte {
	for ; r.at < len(r.text); r.at++ {
		if c := r.text[r.at]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// next consumes a byte if it is the next one.
func (r *Reader) next(c byte) bool {
	if r.space() != c || r.at == len(r.text) {
		return false
	}
	r.at++
	return true
}

// maxMembers is the largest number of members for Members.
const maxMembers = 32

// Members reads an object: the body of the loop reads the member of each name. The reader fails on a repeated name.
func (r *Reader) Members() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !r.next('{') {
			r.fail()
			return
		}
		if r.next('}') {
			return
		}
		start := len(r.names)
		defer func() { r.names = r.names[:start] }()
		for {
			name := r.name()
			if before := r.names[start:]; len(before) == maxMembers || slices.Contains(before, name) {
				r.fail()
			}
			r.names = append(r.names, name)
			if r.failed || !yield(name) {
				return
			}
			if r.next(',') {
				continue
			}
			if !r.next('}') {
				r.fail()
			}
			return
		}
	}
}

// name reads the name of a member and the colon.
func (r *Reader) name() string {
	name := r.part()
	if !r.next(':') {
		r.fail()
	}
	return name
}

// Object reads an object, or null.
func (r *Reader) Object() map[string]any {
	switch value := r.Value().(type) {
	case map[string]any:
		return value
	case nil:
	default:
		r.fail()
	}
	return nil
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	value, ok := r.Value().(bool)
	if !ok {
		r.fail()
	}
	return value
}

// Strings reads a list of strings.
func (r *Reader) Strings() []string {
	list, ok := r.Value().([]any)
	if !ok {
		r.fail()
	}
	texts := make([]string, len(list))
	for i, item := range list {
		if texts[i], ok = item.(string); !ok {
			r.fail()
		}
	}
	return texts
}

// Value reads any value.
func (r *Reader) Value() any {
	switch c := r.space(); c {
	case '{':
		return r.object()
	case '[':
		return r.list()
	case '"':
		return r.part()
	case 't':
		return r.readWord("true", true)
	case 'f':
		return r.readWord("false", false)
	case 'n':
		r.null = r.null || r.depth > 0
		return r.readWord("null", nil)
	default:
		return r.number()
	}
}

func (r *Reader) readWord(word string, value any) any {
	if !strings.HasPrefix(r.text[r.at:], word) {
		r.fail()
		return nil
	}
	r.at += len(word)
	return value
}

func (r *Reader) object() map[string]any {
	if !r.open('}') {
		return map[string]any{}
	}
	names, values := len(r.names), len(r.values)
	for more := true; more; more = r.hasMore('}') {
		r.names = append(r.names, r.name())
		r.values = append(r.values, r.Value())
	}
	members := make(map[string]any, len(r.names)-names)
	for i, name := range r.names[names:] {
		members[name] = r.values[values+i]
	}
	r.names, r.values = r.names[:names], r.values[:values]
	return members
}

func (r *Reader) list() []any {
	if !r.open(']') {
		return []any{}
	}
	values := len(r.values)
	for more := true; more; more = r.hasMore(']') {
		r.values = append(r.values, r.Value())
	}
	open, items := r.values[:values], r.values[values:]
	if len(items) > longList { // too large to copy
		r.values = slices.Clone(open)
		return slices.Clip(items)
	}
	r.values = open
	return slices.Clone(items)
}

const longList = 1000

// open consumes an opening bracket, and reports whether the closing one does not follow.
func (r *Reader) open(end byte) bool {
	r.at++
	if r.depth++; r.depth > maxDepth {
		r.fail()
	}
	if r.failed || r.next(end) {
		r.depth--
		return false
	}
	return true
}

// hasMore consumes the comma before the next member or item, or the closing bracket.
func (r *Reader) hasMore(end byte) bool {
	if r.next(',') {
		return true
	}
	if !r.next(end) {
		r.fail()
	}
	r.depth--
	return false
}

// String reads a string, which does not share the memory of the text.
func (r *Reader) String() string { return strings.Clone(r.part()) }

// part reads a string.
func (r *Reader) part() string {
	if !r.next('"') {
		r.fail()
		return ""
	}
	start, ascii, escaped := r.at, true, false
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			text := r.text[start:r.at]
			r.at++
			if !ascii && !utf8.ValidString(text) {
				r.fail()
			}
			if escaped {
				return r.unquote(text)
			}
			return text
		case c == '\\':
			escaped = true
			r.at++
			ascii = ascii && r.at < len(r.text) && r.text[r.at] < utf8.RuneSelf
		case c < ' ':
			r.fail()
			return ""
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	r.fail()
	return ""
}

// short are the escapes of one letter.
var short = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unquote returns a string without its escapes.
func (r *Reader) unquote(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	for rest := text; ; {
		before, escape, found := strings.Cut(rest, `\`)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		c := short[escape[0]] // the text does not end inside an escape
		if c == 0 {
			break
		}
		out.WriteByte(c)
		rest = escape[1:]
	}
	var whole string // has \u escapes
	if json.Unmarshal([]byte(`"`+text+`"`), &whole) != nil {
		r.fail()
	}
	return whole
}

func (r *Reader) number() any {
	start := r.at
	r.sign("-")
	whole := r.at
	digits := r.digits()
	valid := digits == 1 || digits > 1 && r.text[whole] != '0'
	integer := true
	if r.sign(".") {
		integer, valid = false, valid && r.digits() > 0
	}
	if r.sign("eE") {
		integer = false
		r.sign("+-")
		valid = valid && r.digits() > 0
	}
	text := r.text[start:r.at]
	if integer && valid {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !valid {
		r.fail()
	}
	return n
}

// sign consumes one of several bytes, if it is next.
func (r *Reader) sign(any string) bool {
	found := r.at < len(r.text) && strings.IndexByte(any, r.text[r.at]) >= 0
	if found {
		r.at++
	}
	return found
}

func (r *Reader) digits() (n int) {
	for ; r.at < len(r.text) && '0' <= r.text[r.at] && r.text[r.at] <= '9'; r.at++ {
		n++
	}
	return n
}
