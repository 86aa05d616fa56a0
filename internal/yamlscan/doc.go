// Package yamlscan decodes the part of YAML that most manifests are written in, over ten times faster than the library
// that kubectl uses, and with the same result (see [Scanner]). It also knows what is not particular to that part: what
// a plain scalar means in YAML 1.1, and which bytes a text holds.
package yamlscan

const (
	// MaxDepth is how deep mappings and lists may be nested. The deepest built-in kind has about 30 levels. Every
	// consumer of a tree is recursive; the limit keeps hostile input away from all of them.
	MaxDepth = 1000

	// maxInterned is how many distinct keys a scanner remembers to share their text between documents.
	maxInterned = 4096
)
