package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// A definition is an OpenAPI schema as far as the tables need it.
type definition struct {
	Ref                  string                 `json:"$ref"`
	AllOf                []definition           `json:"allOf"`
	Type                 string                 `json:"type"`
	Format               string                 `json:"format"`
	Properties           map[string]*definition `json:"properties"`
	AdditionalProperties *definition            `json:"additionalProperties"`
	Items                *definition            `json:"items"`
	Required             []string               `json:"required"`
	Default              any                    `json:"default"`
	ListType             string                 `json:"x-kubernetes-list-type"`
	ListMapKeys          []string               `json:"x-kubernetes-list-map-keys"`
	MapType              string                 `json:"x-kubernetes-map-type"`
	PatchStrategy        string                 `json:"x-kubernetes-patch-strategy"`
	PatchMergeKey        string                 `json:"x-kubernetes-patch-merge-key"`
	Kinds                []groupVersionKind     `json:"x-kubernetes-group-version-kind"`
}

type groupVersionKind struct{ Group, Version, Kind string }

// ref returns the name that the definition refers to, also through the one member of an allOf.
func (d *definition) ref() string {
	ref := d.Ref
	if ref == "" && len(d.AllOf) == 1 {
		ref = d.AllOf[0].Ref
	}
	return ref[strings.LastIndex(ref, "/")+1:]
}

// list returns the merge rule of a list as the tables write it, as kube-openapi pkg/schemaconv reads it:
// x-kubernetes-list-type, else the patch strategy, else atomic.
func (d *definition) list() (string, error) {
	switch d.ListType {
	case "atomic":
		return "", nil
	case "set":
		return "{}", nil
	case "map":
		if len(d.ListMapKeys) == 0 {
			return "", fmt.Errorf("a list of type map without keys")
		}
		return "{" + strings.Join(d.ListMapKeys, ",") + "}", nil
	case "":
	default:
		return "", fmt.Errorf("unknown list type %q", d.ListType)
	}
	if d.PatchStrategy == "merge" || d.PatchStrategy == "merge,retainKeys" {
		return "{" + d.PatchMergeKey + "}", nil
	}
	return "", nil
}

// isAtomic reports whether maps and structs with this definition merge as one value.
func (d *definition) isAtomic() (bool, error) {
	switch d.MapType {
	case "", "granular":
		return false, nil
	case "atomic":
		return true, nil
	}
	return false, fmt.Errorf("unknown map type %q", d.MapType)
}

// readDefinitions reads the schemas of all documents. A name has the same schema in every document, except for the list
// of kinds that the document serves.
func readDefinitions(dir string) (map[string]*definition, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	all := map[string]*definition{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var doc struct {
			Components struct{ Schemas map[string]*definition }
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for name, d := range doc.Components.Schemas {
			d.Kinds = nil
			if seen := all[name]; seen != nil && !reflect.DeepEqual(seen, d) {
				return nil, fmt.Errorf("%s: %s differs from the other documents", file, name)
			}
			all[name] = d
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no OpenAPI documents in %s", dir)
	}
	return all, nil
}

// definitionName returns the OpenAPI name of a Go type: the host of its package is reversed.
func definitionName(t reflect.Type) string {
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(host, ".")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}
