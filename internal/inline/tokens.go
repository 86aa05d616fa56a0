package inline

import (
	"strings"
	"unicode/utf8"
)

// A token is a piece of the text of an expression that is neither white space nor a comment.
type token struct {
	kind     kind
	from, to int // bytes of the text
	text     string
}

type kind uint8

const (
	symbol  kind = iota // one character, such as ( or .
	word                // an identifier, or a word of the language
	literal             // a number or a quoted text
)

// tokens splits the text of an expression. It does not fail, even on text that CEL refuses.
func tokens(src string) (all []token) {
	for at := 0; at < len(src); {
		var size int
		is := symbol
		switch c := src[at]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			at++
			continue
		case strings.HasPrefix(src[at:], "//"):
			at += lineLength(src[at:])
			continue
		case quotedLength(src[at:]) > 0:
			size, is = quotedLength(src[at:]), literal
		case c >= '0' && c <= '9':
			size, is = numberLength(src[at:]), literal
		case isLetter(c):
			size, is = wordLength(src[at:]), word
		default:
			_, size = utf8.DecodeRuneInString(src[at:])
		}
		all = append(all, token{is, at, at + size, src[at : at+size]})
		at += size
	}
	return all
}

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func lineLength(s string) int {
	if end := strings.IndexByte(s, '\n'); end >= 0 {
		return end
	}
	return len(s)
}

func wordLength(s string) int {
	n := 0
	for n < len(s) && (isLetter(s[n]) || s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}

// numberLength returns the length of the number at the start of s; a dot belongs to it if a digit follows.
func numberLength(s string) int {
	n := wordLength(s)
	if n+1 < len(s) && s[n] == '.' && s[n+1] >= '0' && s[n+1] <= '9' {
		n += 1 + wordLength(s[n+1:])
	}
	if n < len(s) && (s[n] == '+' || s[n] == '-') && strings.HasSuffix(strings.ToLower(s[:n]), "e") &&
		!strings.HasPrefix(s, "0x") {
		n += 1 + wordLength(s[n+1:])
	}
	return n
}

// quotedLength returns the length of the string or quoted name at the start of s, with its prefix; 0 if there is none.
func quotedLength(s string) int {
	prefix := 0
	for prefix < len(s) && prefix < 2 && strings.IndexByte("rRbB", s[prefix]) >= 0 {
		prefix++
	}
	if prefix == len(s) || strings.IndexByte("\"'`", s[prefix]) < 0 || prefix > 0 && s[prefix] == '`' {
		return 0
	}
	raw := strings.ContainsAny(s[:prefix], "rR")
	quote := s[prefix : prefix+1]
	if triple := strings.Repeat(quote, 3); quote != "`" && strings.HasPrefix(s[prefix:], triple) {
		quote = triple
	}
	for i := prefix + len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return len(s)
}
