// Package schema knows the kinds and resources that a server serves.
//
// A [Registry] has those that are built in, from the tables of package builtin, and those of
// CustomResourceDefinitions; it converts objects between versions.
package schema

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/shape"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Names of apimachinery, so that users of this package need one import.
type (
	// GroupVersionKind names a kind.
	GroupVersionKind = schema.GroupVersionKind
	// GroupVersionResource names a resource.
	GroupVersionResource = schema.GroupVersionResource
	// GroupVersion names a version of an API group.
	GroupVersion = schema.GroupVersion
	// GroupResource names a resource in all its versions.
	GroupResource = schema.GroupResource
	// GroupKind names a kind in all its versions.
	GroupKind = schema.GroupKind
)

// A Resource is one resource of one group and version, as discovery lists it.
type Resource struct {
	GroupVersionResource
	Kind         string
	Namespaced   bool
	Subresources []Subresource  // sorted by name
	Definition   map[string]any // the CustomResourceDefinition of a custom resource; nil: a built-in one
	NotServed    bool           // a version that exists only for Equivalent matching

	// OffByDefault is set for built-in resources that a server serves only if it is started with the version in
	// --runtime-config, or with a feature gate: all alpha and beta resources.
	OffByDefault bool

	// Storage is the key of the equivalence class: resources with the same Storage hold the same objects. It is the
	// name of a built-in resource (all versions; also events of core and events.k8s.io) and the name of a definition.
	Storage string
}

// GroupVersionKind returns the kind of the resource's objects.
func (r *Resource) GroupVersionKind() GroupVersionKind {
	return r.GroupVersion().WithKind(r.Kind)
}

// Subresource returns the subresource called name, or nil.
func (r *Resource) Subresource(name string) *Subresource {
	for i := range r.Subresources {
		if r.Subresources[i].Name == name {
			return &r.Subresources[i]
		}
	}
	return nil
}

// A Subresource is served below a resource.
type Subresource struct {
	Name string           // such as "scale"
	Kind GroupVersionKind // of the objects that the subresource accepts, such as autoscaling/v1 Scale
}

// A Registry knows the types of kinds and the resources that a server serves. It is immutable and safe for concurrent
// use; types of built-in kinds are decoded on first use.
//
// Package builtin has the registries of Kubernetes minors; [Registry.WithCustomResources] adds to them. The zero value
// is empty.
type Registry struct {
	tables    *tables
	resources map[GroupVersionResource]*Resource
	byKind    map[GroupVersionKind]*Resource
	classes   map[string][]*Resource           // by Storage, in the order in which the server registers them
	custom    map[GroupVersionKind]*shape.Type // of definitions, and types in which a server differs from the tables
}

// Open returns the registry of the tables that tools/schematables wrote into files. The error names an unreadable line
// of the index.
func Open(files fs.FS) (*Registry, error) {
	raw, err := fs.ReadFile(files, "index")
	if err != nil {
		return nil, err
	}
	r := &Registry{
		tables: &tables{files: files, kinds: map[GroupVersionKind]string{}, off: map[string]bool{},
			packages: map[string]*typePackage{}},
		resources: map[GroupVersionResource]*Resource{},
		byKind:    map[GroupVersionKind]*Resource{},
		classes:   map[string][]*Resource{},
	}
	if err := r.readIndex(string(raw)); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Registry) readIndex(text string) error {
	var (
		group    GroupVersion
		resource *Resource
		number   int
	)
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "off":
			r.tables.off[words[1]] = true
		case len(words) == 2 && words[0] == "group":
			gv, err := schema.ParseGroupVersion(words[1])
			if err != nil {
				return fmt.Errorf("index:%d: %w", number, err)
			}
			group = gv
		case len(words) == 3 && words[0] == "kind" && strings.Contains(words[2], "."):
			r.tables.kinds[group.WithKind(words[1])] = words[2]
		case len(words) >= 4 && words[0] == "resource":
			resource = &Resource{
				GroupVersionResource: group.WithResource(words[1]), Kind: words[2],
				Namespaced: words[3] == "namespaced",
				Storage:    words[1], OffByDefault: slices.Contains(words[4:], "off"),
			}
			r.add(resource)
		case len(words) == 4 && words[0] == "sub" && resource != nil:
			gv, err := schema.ParseGroupVersion(words[2])
			if err != nil {
				return fmt.Errorf("index:%d: %w", number, err)
			}
			resource.Subresources = append(resource.Subresources,
				Subresource{Name: words[1], Kind: gv.WithKind(words[3])})
		default:
			return fmt.Errorf("index:%d: unknown line %q", number, line)
		}
	}
	return nil
}

func (r *Registry) add(res *Resource) {
	r.resources[res.GroupVersionResource] = res
	r.byKind[res.GroupVersionKind()] = res
	r.classes[res.Storage] = append(r.classes[res.Storage], res)
}

// Type returns the type of a kind, or nil if the registry does not know it. It also knows kinds without a resource:
// those of subresources such as autoscaling/v1 Scale and v1 PodExecOptions, lists, and the options of meta.k8s.io/v1.
func (r *Registry) Type(kind GroupVersionKind) *shape.Type {
	if t := r.custom[kind]; t != nil {
		return t
	}
	if r.tables == nil {
		return nil
	}
	return r.tables.typeOf(kind)
}

// ResourceFor returns the resource with objects of a kind, or nil.
func (r *Registry) ResourceFor(kind GroupVersionKind) *Resource { return r.byKind[kind] }

// Resource returns a resource, or nil.
func (r *Registry) Resource(res GroupVersionResource) *Resource { return r.resources[res] }

// Resources returns all resources, sorted by group, version and name.
func (r *Registry) Resources() []*Resource {
	all := make([]*Resource, 0, len(r.resources))
	for _, res := range r.resources {
		all = append(all, res)
	}
	slices.SortFunc(all, func(a, b *Resource) int {
		return strings.Compare(a.Group+"/"+a.Version+"/"+a.Resource, b.Group+"/"+b.Version+"/"+b.Resource)
	})
	return all
}

// Equivalents returns the resources that hold the same objects as res and have the subresource (any for ""), including
// res, in the order in which the server registers them. Resources that are off by default are left out, except for
// those in the version of res.
func (r *Registry) Equivalents(res GroupVersionResource, subresource string) []*Resource {
	self := r.resources[res]
	if self == nil {
		return nil
	}
	var all []*Resource
	for _, other := range r.classes[self.Storage] {
		if other.OffByDefault && other.GroupVersion() != res.GroupVersion() {
			continue
		}
		if subresource == "" || other.Subresource(subresource) != nil {
			all = append(all, other)
		}
	}
	return all
}

// ServedVersions returns the versions in which a server with its default flags serves a kind, the preferred one first.
func (r *Registry) ServedVersions(kind GroupKind) []string {
	served, _ := r.Versions(kind)
	return served
}

// Versions returns the versions in which a server serves a kind by default, and those in which it does so only with
// certain flags, the preferred ones first.
func (r *Registry) Versions(kind GroupKind) (served, optional []string) {
	for _, res := range r.resources {
		switch {
		case res.Group != kind.Group || res.Kind != kind.Kind || res.NotServed:
		case res.OffByDefault:
			optional = append(optional, res.Version)
		default:
			served = append(served, res.Version)
		}
	}
	return sortVersions(served), sortVersions(optional)
}

func sortVersions(versions []string) []string {
	slices.SortFunc(versions, func(a, b string) int { return -version.CompareKubeAwareVersionStrings(a, b) })
	return slices.Compact(versions)
}

// KindFor returns the kind of the objects that a resource or its subresource accepts.
func (r *Registry) KindFor(res GroupVersionResource, subresource string) (GroupVersionKind, bool) {
	self := r.resources[res]
	if self == nil {
		return GroupVersionKind{}, false
	}
	if subresource == "" {
		return self.GroupVersionKind(), true
	}
	if sub := self.Subresource(subresource); sub != nil {
		return sub.Kind, true
	}
	return GroupVersionKind{}, false
}
