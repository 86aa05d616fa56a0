package compile

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// Extent returns the range of bytes of a part of an expression in its text, without parentheses around it; 0, 0 if
// unknown. A macro has the extent of its call.
func Extent(src string, tree *ast.AST, part ast.Expr) (from, to int) {
	from, to = len(src), 0
	info := tree.SourceInfo()
	ast.PostOrderVisit(part, ast.NewExprVisitor(func(e ast.Expr) {
		r, ok := info.GetOffsetRange(e.ID())
		if !ok {
			return
		}
		at := ByteOffset(src, int(r.Start))
		from, to = min(from, at), max(to, at+wordLength(src[at:]))
		if e.Kind() != ast.LiteralKind { // their length is counted in bytes
			to = max(to, ByteOffset(src, int(r.Stop))) // covers the call of a library function behind it
		}
		if !strings.HasPrefix(src[at:], "(") {
			return
		}
		before := strings.TrimRight(src[:at], " \t\r\n")
		if e.Kind() == ast.CallKind && !e.AsCall().IsMemberFunction() &&
			strings.HasSuffix(before, e.AsCall().FunctionName()) {
			from = min(from, len(before)-len(e.AsCall().FunctionName()))
		}
		if e.Kind() != ast.ComprehensionKind && e.Kind() != ast.SelectKind {
			return
		}
		// The position of a macro is its parenthesis; its arguments need not be in the tree.
		_, length, _ := brackets(src[at:])
		to = max(to, at+length)
		if e.Kind() == ast.SelectKind && strings.HasSuffix(before, operators.Has) {
			from = min(from, len(before)-len(operators.Has))
		}
	}))
	if from >= to {
		return 0, 0
	}
	_, _, missing := brackets(src[from:to])
	for ; missing > 0; missing-- {
		before := strings.TrimRight(src[:from], " \t\r\n")
		if !strings.HasSuffix(before, "(") {
			break
		}
		from = len(before) - 1
	}
	for open, _, _ := brackets(src[from:to]); open > 0; open-- {
		next := to + len(src[to:]) - len(strings.TrimLeft(src[to:], " \t\r\n"))
		if next == len(src) || !strings.ContainsRune(")]}", rune(src[next])) {
			break
		}
		to = next + 1
	}
	return from, to
}

// ByteOffset returns the offset in bytes of the n-th code point of s: CEL counts code points.
func ByteOffset(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// wordLength returns the length of the word or string literal at the start of s, including a dot before it.
func wordLength(s string) int {
	if s == "" {
		return 0
	}
	n := 0
	switch s[0] {
	case '.':
		n = 1
		if strings.HasPrefix(s, ".?") {
			n = 2
		}
	case '\'', '"':
		return quotedLength(s)
	case '-': // of a number
		n = 1
	}
	for n < len(s) && (s[n] == '_' || s[n] >= '0' && s[n] <= '9' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' &&
		s[n] <= 'Z' || s[n] == '.' && isDigit(s, 0) && isDigit(s, n+1)) {
		n++
	}
	return max(n, 1)
}

func isDigit(s string, at int) bool { return at < len(s) && s[at] >= '0' && s[at] <= '9' }

// quotedLength returns the length of the string literal at the start of s.
func quotedLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return len(s)
}

// brackets returns the number of open brackets at the end of s, the length of s up to the one that closes the first, -1
// if there is none, and the number of brackets that are opened before s.
func brackets(s string) (open, closed, missing int) {
	closed = -1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			if open--; open == 0 && closed < 0 {
				closed = i + 1
			}
			missing = max(missing, -open)
		case '\'', '"':
			i += quotedLength(s[i:]) - 1
		}
	}
	return open, closed, missing
}
