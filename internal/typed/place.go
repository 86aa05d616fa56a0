package typed

import (
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/shape"
)

// A Place is the target of a path in a type.
type Place struct {
	Type  *shape.Type  // nil: not declared
	Field *shape.Field // the last member of the path; nil for the root and for items
	Owner *shape.Type  // the struct of Field
	Open  bool         // the path leaves the declared types: any value is possible
	Depth int          // the number of declared steps
}

// Locate follows a path from the root type.
func Locate(t *shape.Type, steps []string) Place {
	at := Place{Type: t}
	for _, step := range steps {
		switch {
		case at.Type == nil:
			return at
		case at.Type.Kind == shape.Struct:
			f := at.Type.Field(step)
			if f == nil {
				return Place{Open: isOpen(at.Type), Owner: at.Type, Depth: at.Depth}
			}
			at.Owner, at.Field, at.Type = at.Type, f, f.Type
		case at.Type.Kind == shape.Map, at.Type.Kind == shape.List && step == effects.Item:
			at.Owner, at.Field, at.Type = nil, nil, at.Type.Elem
		case at.Type.Kind == shape.Any, at.Type.Kind == shape.Union:
			return Place{Open: true, Depth: at.Depth}
		default:
			return Place{Owner: at.Type, Depth: at.Depth}
		}
		at.Depth++
	}
	return at
}

// isOpen reports a struct that accepts undeclared members.
func isOpen(t *shape.Type) bool { return t.PreserveUnknown || t.Embedded || len(t.Fields) == 0 }

// Fields returns the names of the declared members of a struct.
func Fields(t *shape.Type) []string {
	if t == nil {
		return nil
	}
	names := make([]string, len(t.Fields))
	for i := range t.Fields {
		names[i] = t.Fields[i].Name
	}
	return names
}
