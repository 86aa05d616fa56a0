package manifest

import (
	"strings"
	"unicode/utf8"
)

// A survey says what kinds of bytes a text holds; offsets are -1 if there are none.
type survey struct {
	tabs    bool
	returns bool // carriage returns
	breaks  bool // Unicode line breaks and byte order marks, which YAML treats in its own way
	control int  // the first control character that YAML does not allow
	invalid int  // the first byte that is not UTF-8
}

// look surveys text.
func look(text string) survey {
	s := survey{control: -1, invalid: -1}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= ' ' && c < 0x7f || c == '\n' {
			continue
		}
		switch {
		case c == '\t':
			s.tabs = true
		case c == '\r':
			s.returns = true
		case c < utf8.RuneSelf:
			if s.control < 0 {
				s.control = i
			}
		default:
			r, n := utf8.DecodeRuneInString(text[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				s.invalid = i
				return s
			case r == 0x85, r == 0x2028, r == 0x2029, r == 0xfeff:
				s.breaks = true
			case r < 0xa0, r == 0xfffe, r == 0xffff:
				if s.control < 0 {
					s.control = i
				}
			}
			i += n - 1
		}
	}
	return s
}

// content returns the offset of the first byte of text that is neither space nor comment, -1 if there is none.
func content(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n':
		case '#':
			end := strings.IndexByte(text[i:], '\n')
			if end < 0 {
				return -1
			}
			i += end
		default:
			return i
		}
	}
	return -1
}
