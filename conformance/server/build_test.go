package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/conformance"
)

// TestReleases tests the table of other minors: a plugin outside of [Disturbing] would still be turned off, and an
// unknown minor must be refused.
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
	if got := MutatingVersion(""); got != "v1" {
		t.Errorf("the newest serves MutatingAdmissionPolicies in %q", got)
	}
	for _, minor := range Minors() { // consistent with the tables of kinds
		want, err := conformance.MutatingVersion(minor)
		if got := MutatingVersion(minor); got != want || err != nil {
			t.Errorf("%s serves MutatingAdmissionPolicies in %q, not %q: %v", minor, got, want, err)
		}
		if got := lacks(minor, "MutatingAdmissionPolicy"); got != (want == "") {
			t.Errorf("%s lacks the plugin of MutatingAdmissionPolicies: %t", minor, got)
		}
		if on := MutatingArgs(minor) != nil; on != (want != "" && want != "v1") {
			t.Errorf("%s: %v", minor, MutatingArgs(minor))
		}
	}
	if got := stamp("v1.33.13"); !strings.Contains(got, "gitVersion=v1.33.13 ") ||
		!strings.HasSuffix(got, "gitMinor=33") {
		t.Error(got)
	}
	if _, _, err := Build(t.Context(), "1.9"); err == nil ||
		!strings.Contains(err.Error(), "no kube-apiserver 1.9: there are [1.30 1.31") {
		t.Error(err)
	}
}
