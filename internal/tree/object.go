package tree

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Object is the tree of a Kubernetes object, or a map in one, for reading. A member that is missing, or of another
// type, reads as the zero value.
type Object map[string]any

// At returns the map at a path, nil if there is none.
func (o Object) At(path ...string) Object {
	for _, member := range path {
		next, _ := o[member].(map[string]any)
		o = next
	}
	return o
}

// Text returns a member that is text.
func (o Object) Text(member string) string {
	s, _ := o[member].(string)
	return s
}

// List returns a member that is a list.
func (o Object) List(member string) []any {
	l, _ := o[member].([]any)
	return l
}

// Number returns an integer member, or absent if it is missing.
func (o Object) Number(member string, absent int64) int64 {
	switch n := o[member].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return absent
}

// Kind returns the kind in the object's apiVersion and kind.
func (o Object) Kind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.Text("apiVersion"), o.Text("kind"))
}

// Metadata returns the metadata of the object.
func (o Object) Metadata() Object {
	metadata, _ := o["metadata"].(map[string]any)
	return metadata
}

// Name returns metadata.name.
func (o Object) Name() string { return o.Metadata().Text("name") }

// Namespace returns metadata.namespace.
func (o Object) Namespace() string { return o.Metadata().Text("namespace") }

// Path returns "namespace/name", or the name of an object without a namespace.
func (o Object) Path() string {
	metadata := o.Metadata()
	if namespace := metadata.Text("namespace"); namespace != "" {
		return namespace + "/" + metadata.Text("name")
	}
	return metadata.Text("name")
}

// Labels returns metadata.labels.
func (o Object) Labels() Object { return o.At("metadata", "labels") }

// Annotation returns the value of an annotation.
func (o Object) Annotation(key string) string { return o.At("metadata", "annotations").Text(key) }

// With returns a copy with members set.
func (o Object) With(members map[string]any) map[string]any {
	copied := maps.Clone(map[string]any(o))
	if copied == nil {
		copied = map[string]any{}
	}
	maps.Copy(copied, members)
	return copied
}

// Without returns a copy without members.
func (o Object) Without(members ...string) map[string]any {
	copied := maps.Clone(map[string]any(o))
	for _, member := range members {
		delete(copied, member)
	}
	return copied
}

// WithMetadata returns a copy of the object with other metadata.
func (o Object) WithMetadata(metadata map[string]any) map[string]any {
	return o.With(map[string]any{"metadata": metadata})
}
