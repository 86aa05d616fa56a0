package tree

import "testing"

func TestTokens(t *testing.T) {
	for name, token := range map[string]string{
		"": "", "a": "a", "example.com/a": "example.com~1a", "~": "~0", "~1": "~01", "~/": "~0~1", "~0": "~00",
	} {
		if got := EscapeToken(name); got != token {
			t.Errorf("the token of %q is %q, not %q", name, got, token)
		}
		if got := UnescapeToken(token); got != name {
			t.Errorf("the name of %q is %q, not %q", token, got, name)
		}
	}
}
