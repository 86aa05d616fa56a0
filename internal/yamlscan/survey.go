package yamlscan

import (
	"strings"
	"unicode/utf8"
)

// A Survey lists the special bytes of a text; offsets are -1 if there are none.
type Survey struct {
	Tabs    bool
	Returns bool // carriage returns
	Breaks  bool // Unicode line breaks and byte order marks, which YAML treats differently
	Control int  // the first control character that YAML forbids
	Invalid int  // the first byte that is not UTF-8
}

// Look surveys text.
func Look(text string) Survey {
	s := Survey{Control: -1, Invalid: -1}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= ' ' && c < 0x7f || c == '\n' {
			continue
		}
		switch {
		case c == '\t':
			s.Tabs = true
		case c == '\r':
			s.Returns = true
		case c < utf8.RuneSelf:
			if s.Control < 0 {
				s.Control = i
			}
		default:
			r, n := utf8.DecodeRuneInString(text[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				s.Invalid = i
				return s
			case r == 0x85, r == 0x2028, r == 0x2029, r == 0xfeff:
				s.Breaks = true
			case r < 0xa0, r == 0xfffe, r == 0xffff:
				if s.Control < 0 {
					s.Control = i
				}
			}
			i += n - 1
		}
	}
	return s
}

// Content returns the offset of the first byte of text outside of spaces and comments, -1 if there is none.
func Content(text string) int {
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
