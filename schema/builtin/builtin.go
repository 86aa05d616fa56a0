// Package builtin holds the tables of the kinds that Kubernetes itself serves, one set per minor.
//
// Importing it is a choice: it adds the tables (about 150 kB a minor) to a program. They are written by
// tools/schematables and decoded by package schema.
package builtin

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/celgate/celgate/schema"
)

//go:embed tables
var tables embed.FS

// Minors returns the Kubernetes minors that have tables, newest last.
func Minors() []string {
	entries, _ := tables.ReadDir("tables") // embedded, cannot fail
	minors := make([]string, 0, len(entries))
	for _, e := range entries {
		minors = append(minors, e.Name())
	}
	slices.SortFunc(minors, func(a, b string) int { // 1.9 before 1.10
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return minors
}

// Registry returns the registry of a Kubernetes minor such as "1.37". The
// error names the supported minors.
func Registry(minor string) (*schema.Registry, error) {
	files, err := fs.Sub(tables, "tables/"+minor)
	if err == nil {
		_, err = fs.Stat(files, "index")
	}
	if err != nil {
		return nil, fmt.Errorf("Kubernetes %q has no built-in types: supported: %s", minor,
			strings.Join(Minors(), ", "))
	}
	r, err := schema.Open(files)
	if err != nil {
		return nil, fmt.Errorf("types of Kubernetes %s: %w", minor, err)
	}
	return r, nil
}
