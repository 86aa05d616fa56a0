package typed

import (
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/shape"
)

// A Place is where a path leads in a type.
type Place struct {
	Type  *shape.Type  // nil: not declared
	Field *shape.Field // the last member on the way; nil for the root and for items
	Owner *shape.Type  // the struct of Field
	Open  bool         // the path leaves what is declared: anything may be there
	Depth int          // the number of steps that are declared
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
				return Place{Open: open(at.Type), Owner: at.Type, Depth: at.Depth}
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

// open reports a struct that takes members that it does not declare.
func open(t *shape.Type) bool { return t.PreserveUnknown || t.Embedded || len(t.Fields) == 0 }

// Fields are the names of the members that a struct declares.
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
