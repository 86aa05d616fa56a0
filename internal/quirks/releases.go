package quirks

import (
	"fmt"
	"slices"
)

// A Release is the server of a minor that celgate supports.
type Release struct {
	Minor    string // such as "1.36"
	Version  string // the patch whose modules were examined, such as "1.36.3"
	Recorded bool   // a server of it answered the corpus

	// Own means that celgate-webhook uses the kinds and the CEL of the minor. For older servers it uses those of the
	// newest, so that policies may use features that their server does not have.
	Own bool

	// Static means that servers read static policies from files, and reserve their names.
	Static bool
}

// CheckStatic returns an error for a minor whose servers do not read static policies, see [Release].
func CheckStatic(minor string) error {
	return fmt.Errorf("Kubernetes %s reads no static policies unless the feature gate ManifestBasedAdmissionControlConfig "+
		"is on", minor)
}

// releases are the releases of all minors, newest last.
var releases = []Release{
	{Minor: "1.30", Version: "1.30.14", Recorded: true},
	{Minor: "1.31", Version: "1.31.14", Recorded: true},
	{Minor: "1.32", Version: "1.32.13", Recorded: true},
	{Minor: "1.33", Version: "1.33.13", Recorded: true},
	{Minor: "1.34", Version: "1.34.4", Recorded: true},
	{Minor: "1.35", Version: "1.35.4", Recorded: true},
	{Minor: "1.36", Version: "1.36.3", Recorded: true, Own: true},
	{Minor: "1.37", Version: "1.37.2", Recorded: true, Own: true, Static: true},
}

// Releases returns the releases of all minors, newest last.
func Releases() []Release { return slices.Clone(releases) }

// ReleaseOf returns the release of a minor; zero for an unknown one.
func ReleaseOf(minor string) Release {
	for _, r := range releases {
		if r.Minor == minor {
			return r
		}
	}
	return Release{}
}

// UnknownNote describes the basis of the answers about a release if they were not recorded from a server; else it is
// empty.
func (r Release) UnknownNote() string {
	if r.Recorded || r.Minor == "" {
		return ""
	}
	return fmt.Sprintf("Kubernetes %s is known from the modules of %s, not from a server: its kinds, fields, defaults, "+
		"features, warnings and refusals, and the answers of its CEL libraries. Other differences from %s are not known",
		r.Minor, r.Version, releases[len(releases)-1].Minor)
}
