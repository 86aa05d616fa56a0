package quirks

import (
	"strings"
	"testing"
)

func TestUnknownNote(t *testing.T) {
	for _, r := range Releases() {
		if note := r.UnknownNote(); !r.Recorded || note != "" {
			t.Errorf("%s: recorded %v, %q", r.Minor, r.Recorded, note)
		}
	}
	added := Release{Minor: "1.38", Version: "1.38.0-alpha.1"}
	if note := added.UnknownNote(); !strings.HasPrefix(note, "Kubernetes 1.38 is known from the modules of 1.38.0-alpha.1") {
		t.Errorf("a minor that no server answered for: %q", note)
	}
}
