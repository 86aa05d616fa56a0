package merge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/shape"
)

// A Problem is a value that does not fit the type at its place.
type Problem struct {
	Path    string // such as .spec.template.spec.containers[name="app"].image; empty for the object itself
	Message string
}

func (p Problem) Error() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems are all problems of an object.
type Problems []Problem

func (ps Problems) Error() string {
	if len(ps) == 1 {
		return ps[0].Error()
	}
	var b strings.Builder
	b.WriteString("errors:")
	for _, p := range ps {
		b.WriteString("\n  " + p.Error())
	}
	return b.String()
}

// addPrefix prepends a path element to the paths of problems.
func (ps Problems) addPrefix(element string) Problems {
	for i := range ps {
		ps[i].Path = element + ps[i].Path
	}
	return ps
}

func problem(format string, args ...any) Problems {
	return Problems{{Message: fmt.Sprintf(format, args...)}}
}

// maxDepth is the nesting limit of encoding/json.
const maxDepth = 10_000

// A validator finds values that do not fit their types (as typed/validate.go v6.4.2).
type validator struct {
	duplicates bool                  // associative lists may have items with equal keys
	everyKey   bool                  // items of keyed lists must not lack one of several keys
	sorted     bool                  // visit members in the order of their names
	only       map[*shape.Type][]int // if not nil, visit only values of these types, and these members of structs
	atomic     *bool                 // if not nil, set when there may be an atomic value
}

func (v validator) validate(r ref, object map[string]any) Problems {
	if v.only != nil && len(v.only) == 0 {
		return nil
	}
	if problems := v.value(r, object, maxDepth); len(problems) == 0 {
		return nil
	}
	// Nearly all objects fit, so members are sorted only in this case.
	v.sorted = true
	return v.value(r, object, maxDepth)
}

func (v validator) value(r ref, value any, depth int) Problems {
	if v.only != nil {
		if _, ok := v.only[r.typ]; !ok {
			return nil
		}
	}
	if depth == 0 {
		return problem("exceeded max depth")
	}
	switch x := value.(type) {
	case map[string]any:
		if r.isMap() {
			v.mayBeAtomic(r.atomicMap())
			return v.members(r, x, depth-1)
		}
	case []any:
		if r.isList() {
			v.mayBeAtomic(r.atomicList())
			return v.items(r, x, depth-1)
		}
	case nil:
		return nil
	default:
		if fitsScalar(r.scalar(), value) {
			return nil
		}
	}
	return unfitProblem(r, value)
}

func (v validator) mayBeAtomic(is bool) {
	if is && v.atomic != nil {
		*v.atomic = true
	}
}

// A valueUnstructured prints like the library's wrapper of a value.
type valueUnstructured struct{ Value any }

// unfitProblem returns the problem of a non-null value of a form that its type does not accept.
func unfitProblem(r ref, value any) Problems {
	wrapped := &valueUnstructured{value}
	isScalar := fitsScalar(anyScalar, value)
	switch {
	case isScalar && r.scalar() != noScalar:
		// A scalar is validated as one even if the type has other forms.
	case r.isMap():
		return problem("expected map, got %v", wrapped)
	}
	switch r.scalar() {
	case numeric:
		return problem("expected numeric (int or float), got %T", value)
	case text:
		return problem("expected string, got %s", strings.Replace(fmt.Sprintf("%#v", wrapped), "merge.", "value.", 1))
	case boolean:
		return problem("expected boolean, got %v", wrapped)
	case anyScalar:
		return problem("expected any scalar, got %v", wrapped)
	}
	return problem("expected list, got %v", wrapped)
}

func fitsScalar(s scalar, value any) bool {
	switch value.(type) {
	case string:
		return s == text || s == anyScalar
	case bool:
		return s == boolean || s == anyScalar
	case int64, float64:
		return s == numeric || s == anyScalar
	}
	return false
}

func (v validator) members(r ref, members map[string]any, depth int) (problems Problems) {
	if v.only != nil && !v.sorted && r.typ.Kind == shape.Struct {
		for _, i := range v.only[r.typ] {
			name := r.typ.Fields[i].Name
			if value := members[name]; value != nil {
				child, _ := r.member(name)
				if problems := v.value(child, value, depth); len(problems) > 0 {
					return problems
				}
			}
		}
		return nil
	}
	if !v.sorted {
		for name, value := range members {
			child, ok := r.member(name)
			if !ok {
				return undeclaredProblem(name)
			}
			if problems := v.value(child, value, depth); len(problems) > 0 {
				return problems
			}
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		child, ok := r.member(name)
		if !ok {
			return append(problems, undeclaredProblem(name)...)
		}
		problems = append(problems, v.value(child, members[name], depth).addPrefix("."+name)...)
	}
	return problems
}

func undeclaredProblem(name string) Problems {
	return Problems{{Path: "." + name, Message: "field not declared in schema"}}
}

func (v validator) items(r ref, items []any, depth int) (problems Problems) {
	elem := r.item()
	if r.atomicList() {
		for i, item := range items {
			if found := v.value(elem, item, depth); len(found) > 0 {
				problems = append(problems, found.addPrefix(fmt.Sprintf("[%d]", i))...)
			}
		}
		return problems
	}
	var seen keySet
	for i, item := range items {
		k, err := r.key(item)
		if v.everyKey {
			err = cmp.Or(r.lackedKey(item), err)
		}
		if err != nil {
			return append(problems, problem("element %d: %v", i, err)...)
		}
		if !v.duplicates && !seen.add(k) {
			problems = append(problems, problem("duplicate entries for key %s", r.keyText(item))...)
		}
		if found := v.value(elem, item, depth); len(found) > 0 {
			problems = append(problems, found.addPrefix(r.keyText(item))...)
		}
	}
	return problems
}

// A keySet is a set of keys.
type keySet struct {
	few  [maxScan]key
	size int
	many map[key]bool // once there are more
}

// add adds a key and reports whether it is new.
func (s *keySet) add(k key) bool {
	if s.many != nil {
		known := s.many[k]
		s.many[k] = true
		return !known
	}
	if slices.Contains(s.few[:s.size], k) {
		return false
	}
	if s.size < maxScan {
		s.few[s.size] = k
		s.size++
		return true
	}
	s.many = map[key]bool{k: true}
	for _, k := range s.few {
		s.many[k] = true
	}
	return true
}
