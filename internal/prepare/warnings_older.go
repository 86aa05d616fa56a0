package prepare

import (
	"net/netip"

	apiversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/celgate/celgate/internal/pattern"
)

// news are warnings of the newest minor that older ones word differently, or lack, according to WarningsOnCreate,
// WarningsOnUpdate and GetWarningsFor… of their pkg/registry, pkg/api and k8s.io/apimachinery.
var news = []struct {
	since uint           // minor
	text  pattern.Regexp // the new part of the text
	was   string         // the replacement for older minors; a text that becomes empty is left out
}{
	{36, pattern.New(`is invalid: use "`), `will be considered invalid in a future Kubernetes release: use "`},
	{36, pattern.New(`^spec\.externalIPs is deprecated .*`), ""},
	{36, pattern.New(`^metadata\.name: names ending with "\.static\.k8s\.io" .*`), ""},
	{35, pattern.New(`^spec\.trafficDistribution: .*`), ""},
	{35, pattern.New(`^spec\.driver: driver names should be lowercase; .*`), ""},
	{35, pattern.New(`^spec\.serviceAccountTokenInSecrets is unset; .*`), ""},
	{35, pattern.New(`^ResourceQuota .* should be less than .*`), ""},
	{34, pattern.New(`^spec\.\w+ is ignored for headless services`), ""},
	{33, pattern.New(`^spec\.revisionHistoryLimit: .*`), ""},
	{33, pattern.New(`.*: duplicate port name .*`), ""},
	{33, pattern.New(`(deprecated in v1\.11), and disabled by default in v1\.33\+`), "$1"},
	{33, pattern.New(`^(status|subsets|endpoints)\b.* (IP|IPv6) address .*`), ""},
	{33, pattern.New(`^spec\.(podCIDRs|ingress|egress)\b.* (CIDR value|IP prefix|IPv6 prefix) .*`), ""},
	{33, pattern.New(`^spec\..*(dnsConfig\.nameservers|hostAliases)\b.* (IP|IPv6) address .*`), ""},
	{32, pattern.New(`^volume ".*" \(\w+\) has no sources provided`), ""},
	{32, pattern.New(`(a domain-qualified finalizer name) including a path \(/\)`), "$1"},
	{32, pattern.New(`.*: overlapping paths: .*`), ""},
}

// asOf returns warnings in the wording of a minor such as "1.33".
func asOf(minor string, texts []string) []string {
	v, err := apiversion.ParseMajorMinor(minor)
	if err != nil || len(texts) == 0 {
		return texts
	}
	var given []string
	for _, text := range texts {
		for _, n := range news {
			if v.Minor() < n.since {
				text = n.text().ReplaceAllString(text, n.was)
			}
		}
		if text != "" {
			given = append(given, text)
		}
	}
	return given
}

// olderIP warns about an address as pkg/api/service/warnings.go v1.32.13, also if it is none.
func (w *warner) olderIP(at *place, text string) {
	if text == "" {
		return
	}
	switch ip, err := netip.ParseAddr(text); {
	case err != nil:
		w.say(at, "IP address was accepted, but will be invalid in a future Kubernetes release: %v", err)
	case ip.Is6() && ip.String() != text:
		w.say(at, "IPv6 address %q is not in RFC 5952 canonical format (%q), which may cause controller apply-loops",
			text, ip)
	}
}

// olderCIDR is the same for a prefix.
func (w *warner) olderCIDR(at *place, text string) {
	switch prefix, err := netip.ParsePrefix(text); {
	case err != nil:
		w.say(at, "IP prefix was accepted, but will be invalid in a future Kubernetes release: %v", err)
	case prefix.Addr().Is6() && prefix.String() != text:
		w.say(at, "IPv6 prefix %q is not in RFC 5952 canonical format (%q), which may cause controller apply-loops",
			text, prefix)
	}
}
