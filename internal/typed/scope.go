package typed

import (
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/internal/shape"
)

// Follow returns the type of the values that steps lead to from values of a type; nil for those that may be anything.
// Known is the number of steps that lead somewhere: there are no values if it is not all of them.
func Follow(t *shape.Type, steps scope.Steps) (at *shape.Type, known int) {
	at = t
	for i, step := range steps {
		if at == nil {
			return nil, len(steps)
		}
		switch {
		case at.Kind == shape.Any, at.Kind == shape.Union:
			return nil, len(steps)
		case step.Member != "":
			next, ok := member(at, step.Member)
			if !ok {
				return at, i
			}
			if step.With != "" && next != nil {
				if _, ok := member(next, step.With); !ok {
					return at, i
				}
			}
			at = next
		case at.Kind == shape.List, at.Kind == shape.Map:
			at = at.Elem
		case at.Kind == shape.Struct: // as a map of its members
			at = nil
		default:
			return at, i
		}
	}
	return at, len(steps)
}

func member(t *shape.Type, name string) (*shape.Type, bool) {
	switch t.Kind {
	case shape.Struct:
		if f := t.Field(name); f != nil {
			return f.Type, true
		}
		return nil, open(t)
	case shape.Map:
		return t.Elem, true
	case shape.Any, shape.Union:
		return nil, true
	}
	return nil, false
}

// scopedType returns the type of the values of a scope in objects of a type; nil if it is not known, or there are none.
func scopedType(t *shape.Type, s *scope.Scope) *shape.Type {
	for _, steps := range s.Paths {
		if at, known := Follow(t, steps); known == len(steps) {
			return at
		}
	}
	return nil
}
