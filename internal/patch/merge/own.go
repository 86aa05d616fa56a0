package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
)

// A ConsentError lists the atomic lists, maps and structs of a patch of the dialect that would replace other values.
type ConsentError struct {
	Paths []string // such as .spec.template.spec.containers[name="app"].args
}

func (e *ConsentError) Error() string {
	has := "the object has another value there"
	if len(e.Paths) > 1 {
		has = "the object has other values there"
	}
	return fmt.Sprintf("may not mutate atomic arrays, maps or structs: %s: %s, objects.replace(…) consents",
		strings.Join(e.Paths, ", "), has)
}

// ApplyOwn is [Merger.Apply] for patches of the dialect. They may have marks, and may set atomic values that live lacks
// or already has. held returns the object's stored form, in which other values may prove equal; nil if unknown. The
// error may wrap a [*ConsentError].
func (m *Merger) ApplyOwn(live, patch map[string]any, t *shape.Type,
	held func(map[string]any) (map[string]any, error)) (map[string]any, error) {
	v := validator{duplicates: true}
	if t == nil {
		return apply(live, patch, t, v)
	}
	if t.Name != "" {
		v.only = m.leadToSuspects(t)
	}
	root := ref{typ: t}
	for _, name := range []string{"apiVersion", "kind"} {
		if IsMark(patch[name]) {
			return nil, unfitPatch(problem("the patch cannot change it").addPrefix("." + name))
		}
	}
	patch = withoutIdentity(patch)
	if hasMark(patch) {
		// The live object is validated first, because marks use its keys.
		if problems := v.validate(root, live); len(problems) > 0 {
			return nil, fmt.Errorf("failed to convert original object to typed object: %w", problems)
		}
		left, rest, problems := unmark(root, live, patch, true)
		if len(problems) > 0 {
			return nil, unfitPatch(problems)
		}
		live, patch = left, rest
	}
	var atomic bool
	if problems := (validator{atomic: &atomic}).validate(root, patch); len(problems) > 0 {
		return nil, unfitPatch(problems)
	}
	if problems := v.validate(root, live); len(problems) > 0 {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", problems)
	}
	result, _ := merge(root, live, patch)
	merged, ok := result.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("failed to convert typed object to object: failed to convert value to unstructured for type %T", result)
	}
	if !atomic {
		return merged, nil
	}
	conflicts := conflicts(root, live, patch, nil)
	if len(conflicts) > 0 && held != nil {
		if normal, err := held(merged); err == nil {
			conflicts = slices.DeleteFunc(conflicts, func(c conflict) bool {
				return tree.Equal(c.valueIn(root, live), c.valueIn(root, normal))
			})
		}
	}
	if len(conflicts) > 0 {
		refused := &ConsentError{}
		for _, c := range conflicts {
			refused.Paths = append(refused.Paths, c.String())
		}
		return nil, fmt.Errorf("invalid ApplyConfiguration: %w", refused)
	}
	return merged, nil
}

func unfitPatch(problems Problems) error {
	return fmt.Errorf("failed to convert patch object to typed object: %w", problems)
}

// A Place is the position of a value in the objects of a type.
type Place struct{ ref }

// RootOf returns the place of the objects themselves. Places in objects of the type nil are unknown.
func RootOf(t *shape.Type) Place { return Place{ref{typ: t}} }

// Member returns the place of a member of the values at the place.
func (p Place) Member(name string) Place {
	r, _ := p.member(name)
	return Place{r}
}

// Item returns the place of the items of the lists at the place.
func (p Place) Item() Place { return Place{p.item()} }

// Value returns a value with a patch of the dialect merged into it, by the rules of their place, and the conflicts that
// would need consent.
func (m *Merger) Value(at Place, live any, patch map[string]any) (any, []Conflict, error) {
	r := at.asGranular() // the whole value is written, not a part of an enclosing one
	if !r.isMap() {
		return nil, nil, problem("its values are not objects: write objects.replace(…)")
	}
	members, ok := live.(map[string]any)
	if !ok && live != nil {
		return nil, nil, problem("it is not an object: write objects.replace(…)")
	}
	if hasMark(patch) {
		left, rest, problems := unmark(r, members, patch, false)
		if len(problems) > 0 {
			return nil, nil, problems
		}
		members, patch = left, rest
	}
	var atomic bool
	if problems := (validator{atomic: &atomic}).validate(r, patch); len(problems) > 0 {
		return nil, nil, problems
	}
	if problems := (validator{duplicates: true}).validate(r, members); len(problems) > 0 {
		return nil, nil, problems
	}
	merged, _ := merge(r, members, patch)
	if !atomic {
		return merged, nil, nil
	}
	return merged, conflicts(r, members, patch, nil), nil
}

// A Conflict is the path of an atomic value in a patch that differs from the existing value.
type Conflict = conflict

// ValueIn returns the value at the path in a value at a place.
func (c conflict) ValueIn(at Place, v any) any { return c.valueIn(at.asGranular(), v) }

// A conflict is the path of an atomic value in a patch that differs from the existing value.
type conflict []element

// An element leads to a member, or to the item of a list that has a key.
type element struct {
	member string
	key    key
	text   string // of the key
}

func (c conflict) String() string {
	var b strings.Builder
	for _, e := range c {
		if e.text != "" {
			b.WriteString(e.text)
			continue
		}
		b.WriteString("." + e.member)
	}
	return b.String()
}

// valueIn returns the value at the path in an object.
func (c conflict) valueIn(r ref, v any) any {
	for _, e := range c {
		if e.text == "" {
			members, _ := v.(map[string]any)
			v = members[e.member]
			r, _ = r.member(e.member)
			continue
		}
		items, _ := v.([]any)
		v = nil
		for _, item := range items {
			if k, err := r.key(item); err == nil && k == e.key {
				v = item
				break
			}
		}
		r = r.item()
	}
	return v
}

// conflicts returns the atomic values of a patch that would replace others. They have the same positions as in
// [atomics]: below declared members and items of lists; null is not one.
func conflicts(r ref, live, patch any, at conflict) (all []conflict) {
	if live == nil {
		return nil
	}
	switch patch := patch.(type) {
	case map[string]any:
		if !r.isMap() {
			return nil
		}
		if r.atomicMap() {
			return conflictsOf(live, patch, at)
		}
		members, _ := live.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(patch)) {
			if child, ok := r.declaredMember(name); ok {
				all = append(all, conflicts(child, members[name], patch[name], append(at, element{member: name}))...)
			}
		}
	case []any:
		if !r.isList() {
			return nil
		}
		if r.atomicList() {
			return conflictsOf(live, patch, at)
		}
		items, _ := live.([]any)
		keys := r.keys(nil, items)
		for _, item := range patch {
			k, _ := r.key(item)
			if i := slices.Index(keys, k); i >= 0 {
				all = append(all, conflicts(r.item(), items[i], item,
					append(at, element{key: k, text: r.keyText(item)}))...)
			}
		}
	}
	return all
}

func conflictsOf(live, patch any, at conflict) []conflict {
	if tree.Equal(live, patch) {
		return nil
	}
	return []conflict{slices.Clone(at)}
}

// Part returns a value with a patch merged into it. Both are at the place below from that names lead to, as in the name
// of an Object type; lists and maps on the way do not have names. known is false if there is no such place.
func (m *Merger) Part(from Place, names []string, live any, patch map[string]any) (merged any, known bool,
	err error) {
	r := from.ref
	for _, name := range names {
		r = r.contents()
		child, ok := r.declaredMember(name)
		if !ok {
			return nil, false, nil
		}
		r = child
	}
	if r = r.contents().asGranular(); !r.isMap() { // the caller writes the whole value
		return nil, false, nil
	}
	members, ok := live.(map[string]any)
	if !ok {
		return nil, true, fmt.Errorf("the first value is not an object")
	}
	if hasMark(patch) {
		if problems := (validator{duplicates: true}).validate(r, members); len(problems) > 0 {
			return nil, true, problems
		}
		left, rest, problems := unmark(r, members, patch, false)
		if len(problems) > 0 {
			return nil, true, problems
		}
		members, patch = left, rest
	}
	var atomic bool
	if problems := (validator{atomic: &atomic}).validate(r, patch); len(problems) > 0 {
		return nil, true, problems
	}
	if problems := (validator{duplicates: true}).validate(r, members); len(problems) > 0 {
		return nil, true, problems
	}
	if atomic {
		var paths []string
		for _, c := range conflicts(r, members, patch, nil) {
			paths = append(paths, c.String())
		}
		if len(paths) > 0 {
			return nil, true, &ConsentError{Paths: paths}
		}
	}
	merged, _ = merge(r, members, patch)
	return merged, true, nil
}

// contents returns the place of the values of the lists and maps at a place.
func (r ref) contents() ref {
	for r.typ != nil && r.typ.Elem != nil && (r.typ.Kind == shape.List || r.typ.Kind == shape.Map) {
		r = r.descend(r.typ.Elem)
	}
	return r
}

// asGranular returns the place without its atomic merge: the caller has the whole value.
func (r ref) asGranular() ref {
	r.atomic = false
	if r.typ != nil && r.typ.Merge == shape.Atomic {
		t := *r.typ
		t.Merge = shape.Granular
		r.typ = &t
	}
	return r
}
