package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/schema"
)

// sayRelease prints, once for each Kubernetes minor, the basis of its answers if they are not recorded from a server,
// and the policies that its servers serve only with certain flags.
func (c *console) sayRelease(w *world) {
	release := quirks.ReleaseOf(minorOrNewest(w.version))
	if c.releases == nil {
		c.releases = map[string]bool{}
	}
	if unknown := release.UnknownNote(); unknown != "" && !c.releases[release.Minor] {
		c.say(unknown, "")
	}
	c.releases[release.Minor] = true
	for _, p := range w.set.Policies {
		kind := schema.GroupKind{Group: nativeGroup, Kind: string(p.Kind)}
		version, native := strings.CutPrefix(p.APIVersion, nativeGroup+"/")
		served, optional := w.types.Versions(kind)
		if !native || len(served) > 0 || !slices.Contains(optional, version) {
			continue
		}
		key := release.Minor + " " + kind.Kind
		if !c.releases[key] {
			c.say(fmt.Sprintf("Kubernetes %s serves %s only with the flags --feature-gates=%s=true and "+
				"--runtime-config=%s/%s=true, which celgate assumes", release.Minor, kind.Kind,
				kind.Kind, nativeGroup, version), "")
		}
		c.releases[key] = true
	}
}
