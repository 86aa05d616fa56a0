package schema

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The apimachinery names, so that users of this package need one import.
type (
	GroupVersionKind     = schema.GroupVersionKind
	GroupVersionResource = schema.GroupVersionResource
	GroupVersion         = schema.GroupVersion
	GroupResource        = schema.GroupResource
)

// A Resource is one resource of one group and version, as discovery lists it.
type Resource struct {
	GroupVersionResource
	Kind         string
	Namespaced   bool
	Subresources []Subresource   // sorted by name
	Custom       *CustomResource // set for resources of a CustomResourceDefinition
	NotServed    bool            // a version that exists for Equivalent matching only

	// Storage is the key of the equivalence class: resources with the same Storage hold the same objects.
	Storage string
}

// A Subresource is served below a resource.
type Subresource struct {
	Name string           // such as "scale"
	Kind GroupVersionKind // of the objects that the subresource takes, such as autoscaling/v1 Scale
}

// A CustomResource is what a CustomResourceDefinition says beyond its resource.
type CustomResource struct {
	Definition map[string]any // the CustomResourceDefinition
}
