// Package builtin holds the tables of the kinds that Kubernetes itself serves, one set per minor.
//
// Importing it is a choice: it adds the tables (about 400 kB for all minors) to a program. They are written by
// tools/schematables, kept by package internal/packed and decoded by package schema.
package builtin

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/packed"
	"github.com/celgate/celgate/schema"
)

//go:embed tables
var embedded embed.FS

var tables = func() fs.FS {
	folder, err := fs.Sub(embedded, "tables")
	if err != nil {
		panic(err) // "tables" is not a path
	}
	return folder
}()

// minors are those of tables.
var minors = packed.Minors(tables)

// Minors returns the Kubernetes minors that have tables, newest last.
func Minors() []string { return slices.Clone(minors) }

// Registry returns the registry of a Kubernetes minor such as "1.37". The
// error names the supported minors.
func Registry(minor string) (*schema.Registry, error) {
	if !slices.Contains(minors, minor) {
		return nil, fmt.Errorf("Kubernetes %q has no built-in types: supported: %s", minor,
			strings.Join(minors, ", "))
	}
	files, err := packed.Open(tables, minor)
	if err == nil {
		var r *schema.Registry
		if r, err = schema.Open(files); err == nil {
			return r, nil
		}
	}
	return nil, fmt.Errorf("types of Kubernetes %s: %w", minor, err)
}
