package plan

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Characters are counted eight at once where they are ASCII, and as ever where they are not.
func TestRunes(t *testing.T) {
	for _, other := range []string{"", "é", "日本", "\xff", "😀\x80"} {
		for before := range 20 {
			for after := range 20 {
				s := strings.Repeat("a", before) + other + strings.Repeat("z", after)
				if got, want := runes(s), uint64(utf8.RuneCountInString(s)); got != want {
					t.Fatalf("%q has %d, not %d", s, got, want)
				}
			}
		}
	}
}
