package report

import "runtime/debug"

// stamped is the version that the linker sets in programs of a release.
var stamped string

// Version returns the version of a release, or else the one that the Go tool recorded: the tag of the module, or the
// commit of a build from source.
func Version() string {
	if stamped != "" {
		return stamped
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
