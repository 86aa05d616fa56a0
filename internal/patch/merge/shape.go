package merge

import (
	"github.com/celgate/celgate/internal/shape"
)

// A ref is a type in the place where it is used. Its methods answer the questions that structured-merge-diff asks of
// the schema, which k8s.io/kube-openapi/pkg/schemaconv builds from the OpenAPI document: a value may be a scalar, a
// list or a map, and free types may be all of them.
type ref struct {
	typ    *shape.Type // nil for values without a schema
	atomic bool        // the field makes the map atomic
	open   bool        // a type above, written out in the same schema, keeps unknown members
}

// untyped is the type of the items of lists without a schema: free values that are atomic.
var untyped = &shape.Type{Kind: shape.Any, Merge: shape.Atomic}

// A scalar is the set of scalars that a type accepts.
type scalar uint8

const (
	noScalar scalar = iota
	numeric
	text
	boolean
	anyScalar
)

// isFree reports whether the type accepts values of any form. IntOrString and unions do not have a type in OpenAPI v3.
func (r ref) isFree() bool {
	if r.typ == nil {
		return true
	}
	switch r.typ.Kind {
	case shape.Any, shape.IntOrString, shape.Union:
		return true
	}
	return false
}

func (r ref) scalar() scalar {
	if r.isFree() {
		return anyScalar
	}
	switch r.typ.Kind {
	case shape.Boolean:
		return boolean
	case shape.Integer, shape.Number:
		return numeric
	case shape.Bytes, shape.Duration:
		return text
	case shape.String:
		if r.typ.Format == "" || r.typ.Format == "byte" {
			return text
		}
		return anyScalar
	case shape.Quantity, shape.Time, shape.MicroTime:
		return anyScalar
	}
	return noScalar
}

func (r ref) isMap() bool {
	return r.isFree() || r.typ.Kind == shape.Struct || r.typ.Kind == shape.Map
}

func (r ref) isList() bool {
	return r.isFree() || r.typ.Kind == shape.List
}

// atomicMap reports whether maps of the type merge as one value.
func (r ref) atomicMap() bool {
	return r.atomic || r.typ != nil && r.typ.Merge == shape.Atomic
}

// atomicList reports whether lists of the type merge as one value.
func (r ref) atomicList() bool {
	return r.isFree() || r.typ.Merge != shape.Set && r.typ.Merge != shape.Keyed
}

// keyNames returns the members that identify an item of an associative list; none for a set.
func (r ref) keyNames() []string {
	if r.typ.Merge == shape.Keyed {
		return r.typ.Keys
	}
	return nil
}

// declaredMember returns the place of a member that the type declares.
func (r ref) declaredMember(name string) (ref, bool) {
	if r.typ == nil || r.typ.Kind != shape.Struct {
		return ref{}, false
	}
	field := r.typ.Field(name)
	if field == nil {
		return ref{}, false
	}
	child := r.descend(field.Type)
	child.atomic = field.Atomic
	return child, true
}

// member returns the place of any member; false if the type does not accept it.
func (r ref) member(name string) (ref, bool) {
	if child, ok := r.declaredMember(name); ok {
		return child, true
	}
	switch {
	case r.isFree():
		return ref{}, true
	case r.typ.Kind == shape.Map:
		return r.descend(r.typ.Elem), true
	case r.typ.Kind == shape.Struct:
		// An object without properties is free-form to OpenAPI.
		return ref{}, r.open || r.typ.PreserveUnknown || len(r.typ.Fields) == 0
	}
	return ref{}, false
}

// item returns the place of the items of a list.
func (r ref) item() ref {
	if r.isFree() || r.typ.Elem == nil {
		return ref{typ: untyped}
	}
	return r.descend(r.typ.Elem)
}

// descend returns a place in a value of this type. Types written out in the same schema inherit that unknown members
// are kept, named ones do not (as kube-openapi's convert.visitSpec).
func (r ref) descend(t *shape.Type) ref {
	if t == nil {
		return ref{}
	}
	return ref{typ: t, open: t.Name == "" && (r.open || r.typ.PreserveUnknown)}
}
