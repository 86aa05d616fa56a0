package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/internal/tree"
)

// NamespaceOf returns the namespace of a request about an object: of a namespaced object its own, or else otherwise or
// "default"; of a Namespace its own name, of other objects "".
func (r *Resource) NamespaceOf(object map[string]any, otherwise string) string {
	switch {
	case r.Namespaced:
		return cmp.Or(tree.Object(object).Namespace(), otherwise, "default")
	case r.GroupVersionKind() == namespaceKind:
		return tree.Object(object).Name()
	}
	return ""
}

var namespaceKind = GroupVersionKind{Version: "v1", Kind: "Namespace"}

// WithNamespace returns a namespaced object with its namespace, see [Resource.NamespaceOf]; other objects unchanged.
func (r *Resource) WithNamespace(object map[string]any, otherwise string) map[string]any {
	o := tree.Object(object)
	if !r.Namespaced || o.Namespace() != "" || o.Metadata() == nil {
		return object
	}
	return o.WithMetadata(o.Metadata().With(map[string]any{"namespace": r.NamespaceOf(object, otherwise)}))
}

// A ResourceError means that a request cannot be sent to any resource, or that several accept it.
type ResourceError struct {
	Kind     GroupVersionKind     // of the object
	Resource GroupVersionResource // the unknown one of a review; empty: the error is about the kind

	// Among are the resources with the subresource Subresource that accepts objects of the kind; sorted.
	Among       []string
	Subresource string

	Served        []string // the versions in which the server has the kind
	OfSubresource bool     // the kind is that of subresources

	// Mistaken means that a CustomResourceDefinition is not likely to define the kind: its group is one of the server's
	// own, or similar to the one that has the kind. Meant is the kind that was probably meant; zero: unknown.
	Mistaken bool
	Meant    GroupVersionKind
}

func (e *ResourceError) Error() string {
	switch {
	case !e.Resource.Empty():
		return fmt.Sprintf("unknown resource %s of %s", e.Resource.Resource,
			e.Resource.GroupVersion())
	case len(e.Among) > 0:
		return fmt.Sprintf("several resources have a subresource %s for %s", e.Subresource, kindText(e.Kind))
	case e.Kind.Group == "kustomize.config.k8s.io":
		return "a kustomization is not an object"
	case len(e.Served) > 0:
		return kindText(e.Kind) + " is not served"
	case e.OfSubresource:
		return kindText(e.Kind) + " is the kind of a subresource"
	}
	return "unknown kind " + kindText(e.Kind)
}

// Target returns the resource for objects of a kind, and its subresource if requested: "scale", or with its resource
// "deployments/scale". The error is a [*ResourceError], or describes a missing subresource.
func (r *Registry) Target(kind GroupVersionKind, subresource string) (to *Resource, sub string, err error) {
	resource, sub, named := strings.Cut(subresource, "/")
	if !named {
		resource, sub = "", subresource
	}
	if sub == "" {
		if res := r.ResourceFor(kind); res != nil && !res.NotServed {
			return res, "", nil
		}
		return nil, "", r.unknownKindError(kind)
	}
	if !named {
		if res := r.ResourceFor(kind); res != nil && res.Subresource(sub) != nil {
			resource = res.Resource + "." + res.Version + "." + res.Group
		}
	}
	var found []*Resource
	parents := map[string]bool{}
	var takes []string
	for _, res := range r.Resources() {
		s := res.Subresource(sub)
		if s == nil || res.NotServed || (named || resource != "") && !isNamed(resource, res) {
			continue
		}
		if s.Kind != kind {
			takes = append(takes, kindText(s.Kind))
			continue
		}
		found = append(found, res)
		parents[res.GroupResource().String()] = true
	}
	switch {
	case len(parents) > 1:
		return nil, "", &ResourceError{Kind: kind, Subresource: sub, Among: slices.Sorted(maps.Keys(parents))}
	case len(found) > 0:
		// The newest stable version that is on by default comes first.
		return slices.MinFunc(found, func(x, y *Resource) int {
			return cmp.Or(cmpBool(x.OffByDefault, y.OffByDefault),
				version.CompareKubeAwareVersionStrings(y.Version, x.Version))
		}), sub, nil
	case len(takes) > 0 && resource != "":
		return nil, "", fmt.Errorf("the subresource %s accepts %s, not %s", sub, takes[0], kindText(kind))
	case resource != "" && named:
		return nil, "", fmt.Errorf("the resource %s with a subresource %s does not exist", resource, sub)
	}
	return nil, "", fmt.Errorf("no resource has a subresource %s for %s", sub, kindText(kind))
}

// isNamed reports whether text names a resource in kubectl's notation: "deployments", "deployments.apps" or
// "deployments.v1.apps".
func isNamed(text string, r *Resource) bool {
	name, rest, _ := strings.Cut(text, ".")
	if name != r.Resource {
		return false
	}
	return rest == "" || rest == r.Group || rest == r.Version+"."+r.Group
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// unknownKindError is the error about a kind without a resource.
func (r *Registry) unknownKindError(kind GroupVersionKind) error {
	err := &ResourceError{Kind: kind, OfSubresource: r.Type(kind) != nil}
	for _, res := range r.Resources() {
		if res.Group == kind.Group && res.Kind == kind.Kind && !res.NotServed && !res.OffByDefault {
			err.Served = append(err.Served, res.GroupVersion().String())
		}
	}
	if len(err.Served) == 0 && !err.OfSubresource {
		err.Meant, err.Mistaken = r.nearestKind(kind)
	}
	return err
}

// nearestKind returns the kind that was probably meant by an unknown one, and whether that is certain.
func (r *Registry) nearestKind(kind GroupVersionKind) (near GroupVersionKind, mistaken bool) {
	const formerly = "extensions" // a group of the server until 1.21
	mistaken = kind.Group == formerly
	least := len(kind.Kind)/4 + 1
	for _, res := range r.Resources() {
		if res.Definition != nil || res.NotServed || res.OffByDefault {
			continue
		}
		own := res.Group == kind.Group || kind.Group == formerly
		mistaken = mistaken || own
		far := spell.Distance(res.Kind, kind.Kind)
		switch {
		case own:
		case far == 0 && isNearly(kind.Group, res.Group):
			mistaken = true
		case far != 0 || !slices.Contains([]string{"", formerly}, kind.Group): // in another group
			continue
		}
		if far < least || far == least && near.Empty() {
			near, least = res.GroupVersionKind(), far
		}
	}
	return near, mistaken
}

// isNearly reports whether a group is similar to one of the server's: apps, networking.k8s.io.
func isNearly(written, group string) bool {
	first := func(s string) string { return s[:max(strings.IndexByte(s, '.'), 0)] }
	const reserved = ".k8s.io" // a definition in it needs an approval
	switch {
	case written == "":
		return false
	case spell.Distance(written, group) <= 2, strings.HasPrefix(group, written+"."):
		return true
	}
	return first(written) == first(group) && strings.HasSuffix(written, reserved) && strings.HasSuffix(group, reserved)
}

// kindText returns a kind as in a manifest.
func kindText(kind GroupVersionKind) string {
	return kind.GroupVersion().String() + " " + kind.Kind
}
