package typed

import (
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/schema"
)

// A Place is where a path leads in a type.
type Place struct {
	Type  *schema.Type  // nil: not declared
	Field *schema.Field // the last member on the way; nil for the root and for items
	Owner *schema.Type  // the struct of Field
	Open  bool          // the path leaves what is declared: anything may be there
	Depth int           // the number of steps that are declared
}

// Locate follows a path from the root type.
func Locate(t *schema.Type, steps []string) Place {
	at := Place{Type: t}
	for _, step := range steps {
		switch {
		case at.Type == nil:
			return at
		case at.Type.Kind == schema.Struct:
			f := at.Type.Field(step)
			if f == nil {
				return Place{Open: open(at.Type), Owner: at.Type, Depth: at.Depth}
			}
			at.Owner, at.Field, at.Type = at.Type, f, f.Type
		case at.Type.Kind == schema.Map, at.Type.Kind == schema.List && step == effects.Item:
			at.Owner, at.Field, at.Type = nil, nil, at.Type.Elem
		case at.Type.Kind == schema.Any, at.Type.Kind == schema.Union:
			return Place{Open: true, Depth: at.Depth}
		default:
			return Place{Owner: at.Type, Depth: at.Depth}
		}
		at.Depth++
	}
	return at
}

// open reports a struct that takes members that it does not declare.
func open(t *schema.Type) bool { return t.PreserveUnknown || t.Embedded || len(t.Fields) == 0 }

// Fields are the names of the members that a struct declares.
func Fields(t *schema.Type) []string {
	if t == nil {
		return nil
	}
	names := make([]string, len(t.Fields))
	for i := range t.Fields {
		names[i] = t.Fields[i].Name
	}
	return names
}
