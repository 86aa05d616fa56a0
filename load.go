package celgate

import (
	"errors"
	"io/fs"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
)

// Load reads what paths of a file system name: files, and directories with all that is below them; without a path
// everything. The Set of the bundle is what [New] compiles, its Objects are for [Options]. The error joins everything
// that cannot be read or used, and the bundle holds the rest.
func Load(fsys fs.FS, paths ...string) (*manifest.Bundle, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	return load(manifest.Loader{FS: fsys}, paths)
}

// LoadFiles is [Load] for the files of the system; "-" is the standard input.
func LoadFiles(paths ...string) (*manifest.Bundle, error) { return load(manifest.Loader{}, paths) }

func load(from manifest.Loader, paths []string) (*manifest.Bundle, error) {
	docs, problems := from.Load(paths...)
	var errs []error
	for _, p := range problems {
		if !p.Warning {
			errs = append(errs, p)
		}
	}
	bundle := manifest.NewBundle(docs...)
	return bundle, errors.Join(append(errs, bundle.Err())...)
}

// Must returns a value, and panics if there is an error instead. It is for programs that cannot go on without the
// value.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// withDefinitions returns the types with those of the CustomResourceDefinitions among objects.
func withDefinitions(objects []map[string]any, types *schema.Registry) (*schema.Registry, error) {
	definitions := manifest.Trees(manifest.Definitions(manifest.DocumentsOf(objects)))
	if len(definitions) == 0 {
		return types, nil
	}
	return types.WithCustomResources(definitions...)
}

// clusterOf returns a cluster that holds objects as their authors wrote them.
func clusterOf(objects []map[string]any, types *schema.Registry) (*state.Cluster, error) {
	stored := make([]map[string]any, len(objects))
	for i, object := range objects {
		stored[i] = object
		kind := tree.Object(object).Kind()
		if types.Type(kind) == nil {
			continue
		}
		// else state says what is wrong, if it matters
		if read, _, err := prepare.ReadStored(object, types, kind); err == nil {
			stored[i] = read
		}
	}
	return state.New(types, stored...)
}
