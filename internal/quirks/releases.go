package quirks

import (
	"fmt"
	"slices"
)

// A Release is the server of a minor whose behaviour celgate knows.
type Release struct {
	Minor    string // such as "1.36"
	Version  string // the patch whose modules were read and run, such as "1.36.3"
	Recorded bool   // a server of it answered the corpus

	// Own means that celgate-webhook takes the kinds and the CEL of the minor on its servers. On older ones it takes
	// those of the newest, so that policies may use what their server does not have.
	Own bool

	// Static means that servers read static policies from files, and that nobody else may write objects of their names.
	Static bool
}

// CheckStatic says of a minor whose servers read no static policies, in [Release], that they do not.
func CheckStatic(minor string) error {
	return fmt.Errorf("Kubernetes %s reads no static policies unless the feature gate ManifestBasedAdmissionControlConfig "+
		"is on", minor)
}

// releases are those of all minors, newest last.
var releases = []Release{
	{Minor: "1.30", Version: "1.30.14"},
	{Minor: "1.31", Version: "1.31.14"},
	{Minor: "1.32", Version: "1.32.13"},
	{Minor: "1.33", Version: "1.33.13"},
	{Minor: "1.34", Version: "1.34.4"},
	{Minor: "1.35", Version: "1.35.4"},
	{Minor: "1.36", Version: "1.36.3", Own: true},
	{Minor: "1.37", Version: "1.37.2", Recorded: true, Own: true, Static: true},
}

// Releases returns those of all minors, newest last.
func Releases() []Release { return slices.Clone(releases) }

// ReleaseOf returns the release of a minor; the zero value of one that is not known.
func ReleaseOf(minor string) Release {
	for _, r := range releases {
		if r.Minor == minor {
			return r
		}
	}
	return Release{}
}

// UnknownNote says on what the answers about a release rest, if no server gave them; else it is empty.
func (r Release) UnknownNote() string {
	if r.Recorded || r.Minor == "" {
		return ""
	}
	return fmt.Sprintf("Kubernetes %s is known from the modules of %s: its kinds, fields, declared defaults and features, "+
		"and what its CEL libraries answer. What its code makes of an object otherwise than 1.37 is not known, "+
		"for no server of it was asked", r.Minor, r.Version)
}
