package yamlscan

import (
	"math"
	"strings"
)

// A Scanner decodes the part of YAML that most manifests use:
//
//   - block mappings with plain or quoted keys on one line, block sequences, both nested in any way;
//   - plain and quoted scalars on one line, literal blocks without indentation indicator;
//   - flow collections on one line with simple members, such as {}, ["ALL"] and {cpu: 100m};
//   - comments.
//
// It rejects a document at the first unsupported element, which includes every error; the YAML library then decodes the
// document. Accepted documents have the same value as in the library (FuzzDecode). The text must not contain carriage
// returns, control characters or Unicode line breaks (see Survey); values share memory with it.
type Scanner struct {
	text  string
	pos   int // next byte
	line  int // offset of the start of the line with pos
	col   int // column of the content at pos after next or skip; -1 at the end
	depth int
	tabs  bool // the text contains tabs

	keys  map[string]string // keys seen in earlier documents
	list  bool              // the scanner is in the root's member "items"
	items []int             // offsets of its dashes
}

// Decode returns the value of text, and false if text has an unsupported element. tabs reports whether the text
// contains tabs.
func (b *Scanner) Decode(text string, tabs bool) (any, bool) {
	b.text, b.tabs = text, tabs
	b.pos, b.line, b.depth, b.list, b.items = 0, 0, 0, false, nil
	if !b.next() || b.col < 0 {
		return nil, b.col < 0 && b.pos == len(b.text)
	}
	v, ok := b.node()
	return v, ok && b.col < 0
}

// Items returns the offsets of the dashes of the list "items" in the last decoded text.
func (b *Scanner) Items() []int { return b.items }

// next moves from the start of a line to the next content, behind blank lines and comments.
func (b *Scanner) next() bool {
	for b.line = b.pos; b.pos < len(b.text); {
		switch b.text[b.pos] {
		case ' ':
			b.pos++
		case '\n':
			b.pos++
			b.line = b.pos
		case '#':
			b.endOfLine()
			b.line = b.pos
		case '\t':
			b.col = -1
			return false
		default:
			b.col = b.pos - b.line
			return true
		}
	}
	b.col = -1
	return true
}

// endOfLine moves to the start of the next line.
func (b *Scanner) endOfLine() {
	if i := strings.IndexByte(b.text[b.pos:], '\n'); i >= 0 {
		b.pos += i + 1
	} else {
		b.pos = len(b.text)
	}
}

// blankAt reports whether the byte at i is a space, a line break or the end.
func (b *Scanner) blankAt(i int) bool {
	return i >= len(b.text) || b.text[i] == ' ' || b.text[i] == '\n'
}

// isAtEntry reports whether a sequence entry starts at pos.
func (b *Scanner) isAtEntry() bool { return b.text[b.pos] == '-' && b.blankAt(b.pos+1) }

// node decodes the mapping or sequence that starts at pos.
func (b *Scanner) node() (any, bool) {
	if b.isAtEntry() {
		return b.sequence()
	}
	key, found, ok := b.key()
	if !found || !ok {
		return nil, false
	}
	return b.mapping(key)
}

// mapping decodes a block mapping after its first key. It ends at content of a smaller column.
func (b *Scanner) mapping(key string) (any, bool) {
	if b.depth++; b.depth > MaxDepth {
		return nil, false
	}
	col, m := b.col, make(map[string]any)
	for {
		if b.depth == 1 {
			b.list = key == "items"
		}
		if _, duplicate := m[key]; duplicate {
			return nil, false
		}
		v, ok := b.value(col, false)
		if !ok {
			return nil, false
		}
		m[key] = v
		if b.col < col {
			b.depth--
			return m, true
		}
		if b.col > col || b.isAtEntry() {
			return nil, false
		}
		var found bool
		if key, found, ok = b.key(); !found || !ok {
			return nil, false
		}
	}
}

// sequence decodes a block sequence. It ends at content of a smaller column, or of the same column without a dash.
func (b *Scanner) sequence() (any, bool) {
	if b.depth++; b.depth > MaxDepth {
		return nil, false
	}
	col, list := b.col, []any{}
	for {
		if b.list && b.depth == 2 {
			b.items = append(b.items, b.pos)
		}
		b.pos++ // the dash
		v, ok := b.value(col, true)
		if !ok {
			return nil, false
		}
		list = append(list, v)
		if b.col < col || b.col == col && !b.isAtEntry() {
			b.depth--
			return list, true
		}
		if b.col > col {
			return nil, false
		}
	}
}

// key reads a key with its colon. found is false, and pos unchanged, if no key starts at pos.
func (b *Scanner) key() (key string, found, ok bool) {
	start, end := b.pos, b.pos
	switch c := b.text[start]; {
	case c == '"' || c == '\'':
		s, ok := b.decodeQuoted()
		if !ok {
			return "", false, false
		}
		end, b.pos = b.pos, start
		if !b.colonAt(end) {
			return "", false, true
		}
		key = s
	case isWord(c) || c == '_' || c == '/':
		for end < len(b.text) && isKeyByte(b.text[end]) {
			end++
		}
		if !b.colonAt(end) {
			return "", false, true
		}
		key = b.text[start:end]
		if len(key) <= 5 || c <= '9' {
			if _, text := DecodePlain(key).(string); !text {
				return "", false, false
			}
		}
	default:
		return "", false, true
	}
	if end-start > 1000 { // the library allows 1024
		return "", false, false
	}
	b.pos = end + 1
	return b.intern(key), true, true
}

// colonAt reports whether the byte at i is a colon that ends a key.
func (b *Scanner) colonAt(i int) bool { return i < len(b.text) && b.text[i] == ':' && b.blankAt(i+1) }

// intern returns the one copy of a key.
func (b *Scanner) intern(key string) string {
	if k, ok := b.keys[key]; ok {
		return k
	}
	key = strings.Clone(key)
	if b.keys == nil {
		b.keys = make(map[string]string)
	}
	if len(b.keys) < maxInterned {
		b.keys[key] = key
	}
	return key
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func isKeyByte(c byte) bool {
	return isWord(c) || c == '-' || c == '_' || c == '.' || c == '/' || c == '$'
}

// value decodes the value behind a key or a dash in a collection at column col, and moves to the next content.
func (b *Scanner) value(col int, entry bool) (any, bool) {
	for b.pos < len(b.text) && b.text[b.pos] == ' ' {
		b.pos++
	}
	if b.pos == len(b.text) || b.text[b.pos] == '\n' || b.text[b.pos] == '#' {
		b.endOfLine()
		if !b.next() {
			return nil, false
		}
		if b.col > col || b.col == col && !entry && b.isAtEntry() {
			return b.node()
		}
		return nil, true
	}
	if entry {
		if b.isAtEntry() {
			b.col = b.pos - b.line
			return b.sequence()
		}
		start := b.pos
		key, found, ok := b.key()
		if !ok {
			return nil, false
		}
		if found {
			b.col = start - b.line
			return b.mapping(key)
		}
	}
	var v any
	var ok bool
	switch c := b.text[b.pos]; c {
	case '|':
		v, ok = b.literal(col)
		return v, ok && b.next() && b.col <= col
	case '"', '\'':
		v, ok = b.decodeQuoted()
	case '[', '{':
		v, ok = b.flow()
	default:
		v, ok = b.decodePlain()
	}
	return v, ok && b.rest() && b.next() && b.col <= col
}

// rest moves to the next line if the line has only spaces and a comment left.
func (b *Scanner) rest() bool {
	start := b.pos
	for b.pos < len(b.text) && b.text[b.pos] == ' ' {
		b.pos++
	}
	if b.pos < len(b.text) && b.text[b.pos] != '\n' && (b.text[b.pos] != '#' || b.pos == start) {
		return false
	}
	b.endOfLine()
	return true
}

// decodePlain decodes a plain scalar up to the end of the line or a comment.
func (b *Scanner) decodePlain() (any, bool) {
	switch c := b.text[b.pos]; c {
	case '-':
		if b.blankAt(b.pos + 1) {
			return nil, false
		}
	case '?', ':', ',', ']', '}', '#', '&', '*', '!', '>', '%', '@', '`', '\t':
		return nil, false
	}
	s := b.text[b.pos:]
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[:i]
	}
	for i := 0; ; {
		j := strings.IndexByte(s[i:], '#')
		if j < 0 {
			break
		}
		if i += j; s[i-1] == ' ' { // i > 0: a plain scalar does not start with '#'
			s = s[:i]
			break
		}
		i++
	}
	s = strings.TrimRight(s, " ")
	for i := 0; ; i++ {
		j := strings.IndexByte(s[i:], ':')
		if j < 0 {
			break
		}
		if i += j; i+1 == len(s) || s[i+1] == ' ' {
			return nil, false
		}
	}
	if b.tabs && strings.IndexByte(s, '\t') >= 0 {
		return nil, false
	}
	b.pos += len(s)
	return CheckFinite(DecodePlain(s))
}

// CheckFinite refuses numbers that JSON does not have.
func CheckFinite(v any) (any, bool) {
	if f, ok := v.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		return nil, false
	}
	return v, true
}

// decodeQuoted decodes a quoted scalar on one line.
func (b *Scanner) decodeQuoted() (string, bool) {
	quote := b.text[b.pos]
	s := b.text[b.pos+1:]
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = s[:i]
	}
	if b.tabs && strings.IndexByte(s, '\t') >= 0 {
		return "", false
	}
	i := strings.IndexByte(s, quote)
	if i < 0 {
		return "", false
	}
	if quote == '"' && strings.IndexByte(s[:i], '\\') < 0 || quote == '\'' && (i+1 == len(s) || s[i+1] != '\'') {
		b.pos += i + 2
		return s[:i], true
	}
	out := make([]byte, 0, len(s))
	for i = 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == quote && quote == '\'' && i+1 < len(s) && s[i+1] == quote:
			i++
		case c == quote:
			b.pos += i + 2
			return string(out), true
		case c == '\\' && quote == '"':
			if i++; i == len(s) {
				return "", false
			}
			switch s[i] {
			case '"', '\\':
				c = s[i]
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'r':
				c = '\r'
			default:
				return "", false
			}
		}
		out = append(out, c)
	}
	return "", false
}

// literal decodes a literal block scalar inside a collection at column col.
func (b *Scanner) literal(col int) (any, bool) {
	b.pos++
	chomp := byte(0)
	if b.pos < len(b.text) && (b.text[b.pos] == '-' || b.text[b.pos] == '+') {
		chomp = b.text[b.pos]
		b.pos++
	}
	for b.pos < len(b.text) && b.text[b.pos] == ' ' {
		b.pos++
	}
	if b.pos == len(b.text) || b.text[b.pos] != '\n' {
		return nil, false
	}
	b.pos++

	breaks := 0 // not yet written
	for b.pos < len(b.text) && b.text[b.pos] == '\n' {
		b.pos++
		breaks++
	}
	indent := b.indent(math.MaxInt)
	if indent <= col || b.pos+indent == len(b.text) || b.text[b.pos+indent] == '\n' || b.text[b.pos+indent] == '\t' {
		return nil, false
	}
	out := make([]byte, 0, b.literalSize(indent)+breaks)
	for b.pos < len(b.text) {
		n := b.indent(indent)
		switch {
		case b.pos+n == len(b.text):
			b.pos += n
		case b.text[b.pos+n] == '\n': // a blank line
			b.pos += n + 1
			breaks++
			continue
		case n < indent && b.text[b.pos+n] == '\t':
			return nil, false
		}
		if n < indent || b.pos == len(b.text) {
			break
		}
		for range breaks {
			out = append(out, '\n')
		}
		breaks = 0
		b.pos += n
		start := b.pos
		b.endOfLine()
		s := b.text[start:b.pos]
		if t, ok := strings.CutSuffix(s, "\n"); ok {
			s, breaks = t, 1
		}
		out = append(out, s...)
	}
	switch {
	case chomp == '+':
	case chomp == '-':
		breaks = 0
	default:
		breaks = min(breaks, 1)
	}
	for range breaks {
		out = append(out, '\n')
	}
	return string(out), true
}

// indent counts the spaces at pos, at most limit.
func (b *Scanner) indent(limit int) (n int) {
	for n < limit && b.pos+n < len(b.text) && b.text[b.pos+n] == ' ' {
		n++
	}
	return n
}

// literalSize returns an upper bound of the size of the literal text with the given indentation at pos.
func (b *Scanner) literalSize(indent int) (n int) {
	for i := b.pos; i < len(b.text); {
		end := strings.IndexByte(b.text[i:], '\n') + 1
		if end == 0 {
			end = len(b.text) - i
		}
		line := b.text[i : i+end]
		spaces := 0
		for spaces < len(line) && line[spaces] == ' ' {
			spaces++
		}
		if spaces < indent && line[spaces:] != "\n" {
			break
		}
		n += max(len(line)-indent, 1)
		i += end
	}
	return n
}

// flow decodes a flow collection on one line.
func (b *Scanner) flow() (any, bool) {
	if b.depth++; b.depth > MaxDepth {
		return nil, false
	}
	defer func() { b.depth-- }()
	mapping := b.text[b.pos] == '{'
	var list []any
	var m map[string]any
	if closing := byte(']'); mapping {
		closing, m = '}', make(map[string]any)
		b.pos++
		if b.skipSpaces() == closing {
			b.pos++
			return m, true
		}
	} else {
		list = []any{}
		b.pos++
		if b.skipSpaces() == closing {
			b.pos++
			return list, true
		}
	}
	for {
		key := ""
		if mapping {
			k, ok := b.flowScalar()
			text, isText := k.(string)
			if !ok || !isText || !b.colonAt(b.pos) {
				return nil, false
			}
			if _, duplicate := m[text]; duplicate {
				return nil, false
			}
			b.pos++
			key = b.intern(text)
		}
		var v any
		var ok bool
		switch b.skipSpaces() {
		case '{', '[':
			v, ok = b.flow()
		default:
			v, ok = b.flowScalar()
		}
		if !ok {
			return nil, false
		}
		if mapping {
			m[key] = v
		} else {
			list = append(list, v)
		}
		switch c := b.skipSpaces(); {
		case c == ',':
			b.pos++
			b.skipSpaces()
		case c == '}' && mapping:
			b.pos++
			return m, true
		case c == ']' && !mapping:
			b.pos++
			return list, true
		default:
			return nil, false
		}
	}
}

// skipSpaces skips spaces and returns the next byte, a line break at the end.
func (b *Scanner) skipSpaces() byte {
	for b.pos < len(b.text) && b.text[b.pos] == ' ' {
		b.pos++
	}
	if b.pos == len(b.text) {
		return '\n'
	}
	return b.text[b.pos]
}

// flowScalar decodes a quoted scalar or a short plain one in a flow collection.
func (b *Scanner) flowScalar() (any, bool) {
	if b.pos == len(b.text) {
		return nil, false
	}
	start := b.pos
	switch c := b.text[start]; {
	case c == '"' || c == '\'':
		s, ok := b.decodeQuoted()
		return s, ok && b.pos-start <= 1000
	case isWord(c) || c == '/' || c == '.' || c == '_':
		end := start
		for end < len(b.text) && (isKeyByte(b.text[end]) || b.text[end] == ':' && !b.blankAt(end+1) &&
			isWord(b.text[end+1])) {
			end++
		}
		if end-start > 1000 {
			return nil, false
		}
		b.pos = end
		return CheckFinite(DecodePlain(b.text[start:end]))
	}
	return nil, false
}
