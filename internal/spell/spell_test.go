package spell

import "testing"

func TestNearest(t *testing.T) {
	words := []string{"replicas", "Paused", "selector", "select"}
	for _, c := range []struct {
		written string
		errors  int
		want    string
	}{
		{"replica", 1, "replicas"},
		{"replica", 0, ""},
		{"paused", 0, "Paused"},
		{"selectr", 1, "selector"}, // as near as select, but first
		{"", 5, ""},
		{"", 6, "Paused"},
	} {
		if got := Nearest(c.written, words, c.errors); got != c.want {
			t.Errorf("Nearest(%q, %d) = %q, want %q", c.written, c.errors, got, c.want)
		}
	}
	if d := Distance("kitten", "sitting"); d != 3 {
		t.Errorf("kitten and sitting are %d apart", d)
	}
}
