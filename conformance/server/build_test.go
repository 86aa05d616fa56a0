package server

import (
	"slices"
	"strings"
	"testing"
)

// TestReleases holds the table of other minors together: a plugin that is not in [Disturbing] would be turned off
// nevertheless, and a minor that there is not must be refused.
func TestReleases(t *testing.T) {
	for minor, r := range releases {
		if !strings.HasPrefix(r.version, "v"+minor+".") {
			t.Errorf("%s is built as %s", minor, r.version)
		}
		for _, name := range r.unknown {
			if !slices.Contains(Disturbing, name) {
				t.Errorf("%s: %s is not in Disturbing", minor, name)
			}
		}
	}
	if _, _, err := Build(t.Context(), "1.9"); err == nil ||
		!strings.Contains(err.Error(), "no kube-apiserver 1.9: there are [1.33") {
		t.Error(err)
	}
}
