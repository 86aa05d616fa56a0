package prove

import (
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/solve"
	"github.com/celgate/celgate/internal/tree"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A model does not include the rules of the registry. A refusal names them, and repair changes the object accordingly.
// This does not affect the correctness of answers, because the engines also decide about the repaired object.

// repair changes an object according to the causes of a refusal, and reports whether it changed.
func (r *Room) repair(object map[string]any, t *shape.Type, causes []metav1.StatusCause) bool {
	changed := false
	for _, c := range slices.Backward(causes) { // items of lists from the end
		path := splitPath(c.Field)
		if len(path) == 0 {
			continue
		}
		switch c.Type {
		case metav1.CauseTypeFieldValueNotSupported:
			values := supportedValues(c.Message)
			if len(values) == 0 {
				continue
			}
			r.learn(path, values)
			changed = setAt(object, path, values[0]) || changed
		case metav1.CauseTypeFieldValueRequired:
			if made, ok := minimalAt(t, path); ok {
				changed = setAt(object, path, made) || changed
			}
		case metav1.CauseTypeForbidden, metav1.CauseTypeFieldValueInvalid, metav1.CauseTypeFieldValueDuplicate:
			changed = setFlag(object, t, path, c.Message) || removePath(object, path) || changed
		}
	}
	return changed
}

// learn records the values that a registry accepts at a path: later models use them, if possible.
func (r *Room) learn(path []string, values []string) {
	class := "object"
	for _, step := range path {
		if _, err := strconv.Atoi(step); err == nil {
			class += "[]"
		} else {
			class += "." + step
		}
	}
	if r.supported == nil {
		r.supported = map[string][]string{}
	}
	r.supported[class] = values
}

// isSupported returns the condition that a text is one of the values that the registry is known to accept.
func (r *request) isSupported(n *node, known map[string][]string) solve.Formula {
	class := strings.Replace(n.class, "oldObject.", "object.", 1)
	values := known[class]
	if values == nil {
		values = known[strings.TrimSuffix(class, ".name")] // as in spec.os
	}
	if values == nil {
		return solve.True
	}
	out := solve.False
	for _, v := range values {
		out = r.m.store.Disjoin(out, r.m.store.Member(n.text, r.m.store.Word(v)))
	}
	return out
}

var quotedText = pattern.New(`"([^"]*)"`)

// supportedValues parses the values that a refusal lists.
func supportedValues(message string) (values []string) {
	_, list, ok := strings.Cut(message, "supported values: ")
	if !ok {
		return nil
	}
	for _, found := range quotedText().FindAllStringSubmatch(list, -1) {
		values = append(values, found[1])
	}
	return values
}

// splitPath splits a field path into names, keys and indexes.
func splitPath(field string) (steps []string) {
	for field != "" {
		switch {
		case field[0] == '[':
			end := strings.IndexByte(field, ']')
			if end < 0 {
				return nil
			}
			steps = append(steps, field[1:end])
			field = field[end+1:]
		default:
			field = strings.TrimPrefix(field, ".")
			end := strings.IndexAny(field, ".[")
			if end < 0 {
				end = len(field)
			}
			if end == 0 {
				return nil
			}
			steps = append(steps, field[:end])
			field = field[end:]
		}
	}
	return steps
}

var neededFlag = pattern.New("`([A-Za-z]+)` must be (true|false)")

// setFlag sets the flag of the same object that a refusal names as the condition of a value, such as "`hostUsers` must
// be false to use `Unmasked`". It is a member of the value's holder, or of one of the holders of that.
func setFlag(object map[string]any, t *shape.Type, path []string, message string) bool {
	found := neededFlag().FindStringSubmatch(message)
	if found == nil {
		return false
	}
	for i := len(path) - 1; i >= 0; i-- {
		holder := typeAt(t, path[:i])
		if holder == nil || holder.Kind != shape.Struct {
			continue
		}
		if f := holder.Field(found[1]); f != nil && f.Type.Kind == shape.Boolean {
			return setAt(object, append(slices.Clone(path[:i]), f.Name), found[2] == "true")
		}
	}
	return false
}

// minimalAt returns a minimal value of the type at a path.
func minimalAt(t *shape.Type, path []string) (any, bool) {
	if t = typeAt(t, path); t == nil {
		return nil, false
	}
	return minimal(t, 0), true
}

// typeAt returns the type at a path; nil: there is none.
func typeAt(t *shape.Type, path []string) *shape.Type {
	for _, step := range path {
		if t == nil {
			return nil
		}
		switch t.Kind {
		case shape.Struct:
			f := t.Field(step)
			if f == nil {
				return nil
			}
			t = f.Type
		case shape.List, shape.Map:
			t = t.Elem
		default:
			return nil
		}
	}
	return t
}

// holderAt finds the parent of the last step of a path.
func holderAt(v any, path []string) any {
	holder, _ := tree.Find(v, path[:len(path)-1])
	return holder
}

func setAt(object map[string]any, path []string, to any) bool {
	last := path[len(path)-1]
	switch at := holderAt(object, path).(type) {
	case map[string]any:
		if inner, ok := at[last].(map[string]any); ok && len(inner) > 0 {
			if _, named := inner["name"]; named { // as in spec.os
				inner["name"] = to
				return true
			}
			return false
		}
		at[last] = to
		return true
	case []any:
		if i, err := strconv.Atoi(last); err == nil && i >= 0 && i < len(at) {
			at[i] = to
			return true
		}
	}
	return false
}

func removePath(object map[string]any, path []string) bool {
	at, ok := holderAt(object, path).(map[string]any)
	if !ok {
		return false
	}
	last := path[len(path)-1]
	if _, there := at[last]; !there || len(path) == 1 {
		return false
	}
	delete(at, last)
	return true
}
