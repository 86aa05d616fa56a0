package typed

import (
	"fmt"

	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/internal/shape"
)

// Follow returns the type of the values at the given steps from values of a type; nil if they may have any type. Known
// is the number of known steps: if it is less than all of them, values do not exist there.
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

// Astray explains why a scope does not have values in objects of some kinds, and suggests another one. It returns
// nothing if the scope may have values, or if a kind is not known.
func Astray(kinds []Kind, s *scope.Scope) (problem, meant string) {
	if len(kinds) == 0 || len(s.Paths) == 0 {
		return "", ""
	}
	var wrong string // the first member that the first kind does not have
	for i, kind := range kinds {
		if kind.Type == nil {
			return "", ""
		}
		for _, steps := range s.Paths {
			at, known := Follow(kind.Type, steps)
			switch {
			case known == len(steps):
				return "", ""
			case i > 0 || len(s.Paths) > 1:
			case steps[known].Member != "":
				wrong, meant = steps[known].Member, DidYouMean(steps[known].Member, Fields(at))
			}
		}
	}
	if wrong != "" && len(kinds) == 1 {
		return fmt.Sprintf("%s is not a field in %s %s", wrong, kinds[0].GroupVersion(), kinds[0].Kind), meant
	}
	return "the path " + s.Text + " does not exist in any matched kind", meant
}

func member(t *shape.Type, name string) (*shape.Type, bool) {
	switch t.Kind {
	case shape.Struct:
		if f := t.Field(name); f != nil {
			return f.Type, true
		}
		return nil, isOpen(t)
	case shape.Map:
		return t.Elem, true
	case shape.Any, shape.Union:
		return nil, true
	}
	return nil, false
}
