package check

import (
	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/typed"
	"github.com/celgate/celgate/schema"
)

// A presence is one question of [subject.isPresent].
type presence struct {
	kind  schema.GroupVersionKind
	steps string
	as    stage
}

// A stage is a point in the server's processing of an object.
type stage uint8

const (
	decoded    stage = iota // defaulted
	registered              // with the fields that the registry sets in a new object
	stored                  // with the fields that every stored object has
)

// always are members that the server fills in before any policy sees an object, or that every object has.
var always = map[string]bool{
	"apiVersion": true, "kind": true, "metadata": true, "metadata\x00name": true, "metadata\x00namespace": true,
}

// isPresent reports whether every object of a kind that has the parent of a path has the path itself, because it is
// required, always written or defaulted. It prepares an object with nothing but the parent, as the server does. In
// doubt, a field counts as present.
func (s *subject) isPresent(kind schema.GroupVersionKind, path effects.Path, as stage) bool {
	question := presence{kind, path.Steps, as}
	answer, known := s.presences[question]
	if !known {
		answer = s.findPresence(kind, path, as)
		s.presences[question] = answer
	}
	return answer
}

func (s *subject) findPresence(kind schema.GroupVersionKind, path effects.Path, as stage) bool {
	parent, last, ok := path.Parent()
	if !ok || last == effects.Item || always[path.Steps] {
		return true
	}
	t := s.Types.Type(kind)
	if t == nil {
		return true
	}
	at := typed.Locate(t, path.Split())
	in := typed.Locate(t, parent.Split())
	if in.Type != nil && in.Type.Kind == shape.Map {
		return false
	}
	if at.Field == nil || at.Type == nil || at.Field.Required {
		return true
	}
	object := map[string]any{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{"name": "a"}}
	if !grow(object, t, parent.Split()) {
		return true
	}
	prepared, err := s.objectAt(as, object, kind)
	if err != nil {
		return true
	}
	holder, ok := lookup(prepared, parent.Split()).(map[string]any)
	if !ok {
		return true
	}
	_, found := holder[last]
	return found
}

// objectAt returns an object as the server sees it at a stage.
func (s *subject) objectAt(as stage, object map[string]any, kind schema.GroupVersionKind) (map[string]any, error) {
	resource := s.Types.ResourceFor(kind)
	switch {
	case as == stored:
		object, _, err := prepare.ReadStored(object, s.Types, kind)
		return object, err
	case as == registered && resource != nil:
		in := prepare.Input{Types: s.Types, Resource: resource, Operation: "CREATE", Object: object}
		if resource.Namespaced {
			in.Namespace = "default"
		}
		result, err := prepare.Object(in)
		in.Object, in.SharesLabels = result.Object, result.SharesLabels
		return prepare.ObjectToValidate(in), err
	}
	return prepare.Normalise(object, s.Types, kind)
}

// grow creates the objects and lists on a path; false if the path does not lead to an object.
func grow(object map[string]any, t *shape.Type, steps []string) bool {
	if len(steps) == 0 {
		return true
	}
	child := typed.Locate(t, steps[:1]).Type
	rest := steps[1:]
	key := steps[0]
	if key == effects.Item {
		key = "a"
	}
	if child != nil && child.Kind == shape.List { // a list consumes the step to its item too
		if len(rest) == 0 || rest[0] != effects.Item {
			return false
		}
		if child.Elem.Kind != shape.Struct && child.Elem.Kind != shape.Map {
			return false
		}
		item := map[string]any{}
		object[key] = []any{item}
		return grow(item, child.Elem, rest[1:])
	}
	if child == nil || child.Kind != shape.Struct && child.Kind != shape.Map {
		return false
	}
	below, ok := object[key].(map[string]any)
	if !ok {
		below = map[string]any{}
		object[key] = below
	}
	return grow(below, child, rest)
}

func lookup(v any, steps []string) any {
	for _, step := range steps {
		switch at := v.(type) {
		case map[string]any:
			if step == effects.Item {
				step = "a"
			}
			v = at[step]
		case []any:
			if len(at) == 0 {
				return nil
			}
			v = at[0]
		default:
			return nil
		}
	}
	return v
}
