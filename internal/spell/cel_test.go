package spell

import (
	"testing"

	"github.com/celgate/celgate/internal/wording"
)

func TestCEL(t *testing.T) {
	for _, c := range [][2]string{
		{"undeclared reference to 'any' (in container '')", "did you mean exists?"},
		{"undeclared reference to 'startWith' (in container '')", "did you mean startsWith?"},
		{"undeclared reference to 'len' (in container '')", "did you mean size?"},
		{"undeclared reference to 'includes' (in container '')", "write value in list, or key in map"},
		{"undeclared reference to 'c' (in container '')", ""},
		{"undeclared reference to 'somethingElse' (in container '')", ""},
		{"Syntax error: token recognition error at: '= '", "did you mean ==?"},
		{"Syntax error: token recognition error at: '& '", "did you mean &&?"},
		{"Syntax error: mismatched input 'and' expecting <EOF>", "did you mean &&?"},
		{"Syntax error: missing ':' at '.'", ""},
	} {
		if got := CEL(wording.Read(c[0])); got != c[1] {
			t.Errorf("%s: %q, want %q", c[0], got, c[1])
		}
	}
}
