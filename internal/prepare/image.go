package prepare

import (
	"regexp"
	"strings"
	"sync"

	"github.com/celgate/celgate/internal/pattern"
)

// reference is the grammar of image references of github.com/distribution/reference v0.6.0, compiled on first use.
var reference = sync.OnceValue(func() *regexp.Regexp {
	const (
		label  = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
		host   = `(?:` + label + `(?:\.` + label + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
		atom   = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
		path   = atom + `(?:/` + atom + `)*`
		tag    = `\w[\w.-]{0,127}`
		digest = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[[:xdigit:]]{32,}`
	)
	return regexp.MustCompile(`^` + host + `/(` + path + `)(?::(` + tag + `))?(?:@(` + digest + `))?$`)
})

// bareDigest matches a digest without its algorithm, which is not the name of an image.
var bareDigest = pattern.New(`^[a-f0-9]{64}$`)

// validDigest reports whether a digest is absent or well-formed, as github.com/opencontainers/go-digest does.
func validDigest(digest string) bool {
	algorithm, hex, found := strings.Cut(digest, ":")
	if !found {
		return true
	}
	sizes := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}
	return sizes[algorithm] == len(hex) && strings.ToLower(hex) == hex
}

// isLatest reports whether an image reference has the tag latest: explicitly, or as a valid reference with neither tag
// nor digest, as pkg/util/parsers v1.37.2 ParseImageName.
func isLatest(image string) bool {
	// A reference with another tag, or with only a digest, is not latest, valid or not.
	if before, _, found := strings.Cut(image, "@"); found {
		if !strings.HasSuffix(before, ":latest") {
			return false
		}
	} else if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') && image[i:] != ":latest" {
		return false
	}
	if bareDigest().MatchString(image) {
		return false
	}
	domain, path, found := strings.Cut(image, "/")
	switch {
	case !found:
		domain, path = "docker.io", image
	case domain == "index.docker.io":
		domain = "docker.io"
	case domain == "localhost" || strings.ContainsAny(domain, ".:") || strings.ToLower(domain) != domain:
	default:
		domain, path = "docker.io", image
	}
	if domain == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	name, _, _ := strings.Cut(path, ":")
	if strings.ToLower(name) != name {
		return false
	}
	match := reference().FindStringSubmatch(domain + "/" + path)
	if match == nil || len(match[1]) > 255 || !validDigest(match[3]) {
		return false
	}
	return match[2] == "latest" || match[2] == "" && match[3] == ""
}
