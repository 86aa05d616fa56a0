// Package yamlscan decodes the part of YAML that most manifests use, over ten times faster than the library in kubectl,
// and with the same result (see [Scanner]). It also has rules for all of YAML: the value of a plain scalar in YAML 1.1,
// and the kinds of bytes in a text.
package yamlscan

const (
	// MaxDepth is the maximum nesting of mappings and lists. The deepest built-in kind has about 30 levels. Every
	// consumer of a tree is recursive; the limit protects all of them from hostile input.
	MaxDepth = 1000

	// maxInterned is the number of distinct keys that a scanner keeps, to share their text between documents.
	maxInterned = 4096
)
