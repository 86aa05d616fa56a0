package celgate

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/state"
)

// Load reads files of a file system, and directories recursively; without a path, all files. The Set of the bundle is
// what [New] compiles, its Objects are for [Options]. The error joins the problems of all documents that cannot be
// used; the bundle contains the others.
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

// Must returns a value, and panics if there is an error instead. It is for programs that cannot continue without the
// value.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// toTrees converts objects made of Go values; see [tree.Convert].
func toTrees(objects []map[string]any) ([]map[string]any, error) {
	trees := make([]map[string]any, len(objects))
	for i, object := range objects {
		converted, err := tree.Convert(object)
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", i, err)
		}
		trees[i] = converted
	}
	return trees, nil
}

// withDefinitions returns the types with those of the CustomResourceDefinitions among objects.
func withDefinitions(objects []map[string]any, types *schema.Registry) (*schema.Registry, error) {
	definitions := manifest.Trees(manifest.Definitions(manifest.DocumentsOf(objects)))
	if len(definitions) == 0 {
		return types, nil
	}
	return types.WithCustomResources(definitions...)
}

// clusterOf returns a cluster with objects as their authors wrote them.
func clusterOf(objects []map[string]any, types *schema.Registry) (*state.Cluster, error) {
	stored := make([]map[string]any, len(objects))
	for i, object := range objects {
		stored[i] = object
		kind := tree.Object(object).Kind()
		if types.Type(kind) == nil {
			continue
		}
		// otherwise package state reports the error, if it matters
		if read, _, err := prepare.ReadStored(object, types, kind); err == nil {
			stored[i] = read
		}
	}
	return state.New(types, stored...)
}
