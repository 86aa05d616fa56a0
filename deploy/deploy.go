// Package deploy holds the manifests that put celgate into a cluster.
package deploy

import (
	"bytes"
	"embed"
	"io/fs"
	"strings"
)

//go:embed crds/*.yaml celgate.yaml
var files embed.FS

// Definitions returns celgate's own kinds, one document after the other.
func Definitions() []byte {
	names, err := fs.Glob(files, "crds/*.yaml")
	if err != nil {
		return nil // the pattern is good
	}
	documents := make([][]byte, len(names))
	for i, name := range names {
		documents[i], _ = files.ReadFile(name) // it was just listed
	}
	return bytes.Join(documents, []byte("---\n"))
}

// Server returns the manifests that run celgate, from an image.
func Server(image string) []byte {
	text, _ := files.ReadFile("celgate.yaml") // embedded
	return []byte(strings.Replace(string(text), "image: celgate\n", "image: "+image+"\n", 1))
}
