package prove

import (
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/storable"
)

// isRegistered reports whether a member is there and not empty.
func (m *machine) isRegistered(t *shape.Type, name string) bool {
	f := t.Field(name)
	return storable.Holds(storable.Required, t.Name, name) && (!m.mutates || f.Type.Kind == shape.List)
}

func isDefaulted(t *shape.Type, name string) bool {
	return storable.Holds(storable.Defaulted, t.Name, name)
}

// assumeSource assumes that a volume has a source.
func (n *node) assumeSource() {
	var sources []solve.Formula
	for i := range n.typ.Fields {
		if f := &n.typ.Fields[i]; f.Pointer && f.Type.Kind == shape.Struct {
			sources = append(sources, n.member(f.Name).present)
		}
	}
	n.m.store.Assume(n.m.store.Any(sources...))
	for i, a := range sources {
		for _, b := range sources[:i] {
			n.m.wishes = append(n.m.wishes, n.m.store.Conjoin(a, b).Negate())
		}
	}
}
