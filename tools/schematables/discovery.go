package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A group is one group and version with its resources.
type group struct {
	schema.GroupVersion
	resources []*servedResource
	kinds     []kind // filled in by the walk
}

type servedResource struct {
	metav1.APIResource
	subresources []metav1.APIResource
}

type kind struct{ name, typ string }

// readGroups reads the discovery documents. Core comes first, then the groups as /apis lists them; the versions of
// a group are in the order in which the server registers them.
func readGroups(dir string) ([]*group, error) {
	var list metav1.APIGroupList
	if err := readJSON(filepath.Join(dir, "apis.json"), &list); err != nil {
		return nil, err
	}
	core, err := readGroup(filepath.Join(dir, "api__v1.json"))
	if err != nil {
		return nil, err
	}
	groups := []*group{core}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			read, err := readGroup(filepath.Join(dir, "apis__"+g.Name+"__"+v.Version+".json"))
			if err != nil {
				return nil, err
			}
			groups = append(groups, read)
		}
	}
	return groups, checkShared(groups)
}

// checkShared reports groups that share the name of a resource. Resources of one name share their storage prefix and
// are equivalent (k8s.io/apiserver pkg/server/storage: ResourcePrefix is the lower-case name without the group, except
// for pkg/kubeapiserver's SpecialDefaultResourcePrefixes, none of which unites two names), and then the order in which
// the server installs the groups matters. Only events are known to be shared.
func checkShared(groups []*group) error {
	owner := map[string]string{}
	for _, g := range groups {
		for _, r := range g.resources {
			if other, ok := owner[r.Name]; ok && other != g.Group && r.Name != "events" {
				return fmt.Errorf("the groups %q and %q share the name %s: check which one the server installs first",
					other, g.Group, r.Name)
			}
			owner[r.Name] = g.Group
		}
	}
	return nil
}

func readGroup(file string) (*group, error) {
	var list metav1.APIResourceList
	if err := readJSON(file, &list); err != nil {
		return nil, err
	}
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	g := &group{GroupVersion: gv}
	byName := map[string]*servedResource{}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			res := &servedResource{APIResource: r}
			byName[r.Name] = res
			g.resources = append(g.resources, res)
		}
	}
	for _, r := range list.APIResources {
		name, sub, ok := strings.Cut(r.Name, "/")
		if !ok {
			continue
		}
		parent := byName[name]
		if parent == nil {
			return nil, fmt.Errorf("%s: %s has no parent", file, r.Name)
		}
		r.Name = sub
		if r.Version == "" {
			r.Group, r.Version = gv.Group, gv.Version
		}
		parent.subresources = append(parent.subresources, r)
	}
	return g, nil
}

func readJSON(file string, into any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
