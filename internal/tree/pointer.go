package tree

import "strings"

// EscapeToken returns the token of a JSON Pointer for the name of a member (RFC 6901).
func EscapeToken(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// UnescapeToken returns the name of the member that a token of a JSON Pointer stands for.
func UnescapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}
