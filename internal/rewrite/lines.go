package rewrite

import "strings"

// lineEnd returns the offset of the line break that ends the line at i, or of the end.
func lineEnd(text string, i int) int {
	n := strings.IndexByte(text[i:], '\n')
	if n < 0 {
		return len(text)
	}
	if i+n > i && text[i+n-1] == '\r' {
		n--
	}
	return i + n
}

// lineStart returns the offset of the first byte of the line at i.
func lineStart(text string, i int) int { return strings.LastIndexByte(text[:i], '\n') + 1 }

// nextLine returns the offset of the line after the one that ends at i; -1 if there is none.
func nextLine(text string, i int) int {
	if i < len(text) && text[i] == '\r' {
		i++
	}
	if i >= len(text) {
		return -1
	}
	return i + 1
}
