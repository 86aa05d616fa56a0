package eval

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/celgate/celgate/internal/locals"
	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/internal/shape"
)

// Limits of scopes.
const (
	MaxScopeValues  = 10_000 // values for which one validation or mutation is evaluated
	maxScopeFailing = 64     // failures reported by one validation
)

// A Path leads from an object to a value: names of members and keys of maps (string), indices (int).
type Path []any

// String returns the path as a field path of the API server.
func (p Path) String() string {
	var b strings.Builder
	for _, step := range p {
		switch step := step.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(step) + "]")
		case member:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(string(step))
		case string:
			b.WriteString("[" + step + "]")
		}
	}
	return b.String()
}

// A member is a step of a Path that is written with a dot.
type member string

// name returns the name of a step; ok is false for an index.
func name(step any) (string, bool) {
	switch step := step.(type) {
	case member:
		return string(step), true
	case string:
		return step, true
	}
	return "", false
}

// place returns the position of the path in objects of a type.
func (p Path) place(t *shape.Type) merge.Place {
	at := merge.RootOf(t)
	for _, step := range p {
		if key, ok := name(step); ok {
			at = at.Member(key)
		} else {
			at = at.Item()
		}
	}
	return at
}

// A ScopeError means that an object does not have the shape that a scope needs.
type ScopeError struct{ text string }

func (e *ScopeError) Error() string { return e.text }

// A Scoped is one value of a scope, to which names refer while expressions are evaluated for it.
type Scoped struct {
	Path    Path
	Content any // the value as a tree
	shows   types.Adapter
	value   ref.Val // of Content, made on first use
	scope   *scope.Scope
	named   []ref.Val // keys and indices, in the order of their names in the path
	names   []string  // of named
	old     *oldValues
	text    string // of Field, made on first use
	place   string // of the object inside the requested one; empty: it is the requested one
}

// Field returns the path of the value.
func (s *Scoped) Field() string {
	if s.text == "" {
		s.text = joinPlace(s.place, s.Path.String())
	}
	return s.text
}

// joinPlace joins the place of an object and a path in it.
func joinPlace(place, path string) string {
	if place == "" {
		return path
	}
	return place + "." + path
}

// tree returns the value and the adapter of its parts; nil for a scalar.
func (s *Scoped) tree() (any, types.Adapter) {
	switch s.Content.(type) {
	case map[string]any, []any:
		return s.Content, s.shows
	}
	return nil, nil
}

// key returns the last key or index of the path, for mutations.
func (s *Scoped) key() ref.Val {
	for i := len(s.Path) - 1; i >= 0; i-- {
		switch step := s.Path[i].(type) {
		case int:
			return types.Int(step)
		case string:
			return types.String(step)
		}
	}
	return types.NullValue
}

// resolve returns the value of a name of the scope.
func (s *Scoped) resolve(name string) (any, bool) {
	switch name {
	case locals.Scope, locals.Item:
		if s.value == nil {
			s.value = s.shows.NativeToValue(s.Content)
		}
		return s.value, true
	case locals.Key:
		return s.key(), true
	case locals.OldScope:
		return s.old.oldOf(s.Path), true
	case locals.Path(locals.Whole):
		return types.String(s.Field()), true
	}
	for i, known := range s.names {
		if locals.Path(known) == name {
			return s.named[i], true
		}
	}
	return nil, false
}

// keep returns a copy: a walk reuses its memory.
func (s *Scoped) keep() *Scoped {
	kept := *s
	kept.Path, kept.named = slices.Clone(s.Path), slices.Clone(s.named)
	return &kept
}

// Walk visits the values of a scope in an object, which may be null, in the order of lists and of the keys of maps,
// until visit returns an error. A value is valid until the next one is visited.
func Walk(within *scope.Scope, object, oldObject ref.Val, t *shape.Type, visit func(*Scoped) error) error {
	content, shows := shownTree(object)
	if content == nil {
		return nil
	}
	w := &walk{visit: visit}
	w.at.scope = within
	w.at.old = &oldValues{object: content, typ: t}
	w.at.old.oldObject, w.at.old.shows = shownTree(oldObject)
	for _, path := range within.Paths {
		w.at.names = w.at.names[:0]
		for _, step := range path {
			if step.Name != "" {
				w.at.names = append(w.at.names, step.Name)
			}
		}
		if err := w.follow(path, content, shows); err != nil {
			return err
		}
	}
	return nil
}

// shownTree returns the tree behind a value; nil if there is none.
func shownTree(v ref.Val) (any, types.Adapter) {
	if t, ok := v.(plan.Tree); ok {
		return t.Tree()
	}
	return nil, nil
}

type walk struct {
	at    Scoped
	count int
	visit func(*Scoped) error
}

// follow follows the rest of a path from the value at w.at.
func (w *walk) follow(path scope.Steps, content any, shows types.Adapter) error {
	if len(path) == 0 {
		return w.visitValue(content, shows)
	}
	content, shows = inner(content, shows)
	step, rest := path[0], path[1:]
	if step.Member != "" {
		members, _ := content.(map[string]any)
		inner, found := members[step.Member]
		if !found || step.With != "" && !has(inner, step.With) {
			return nil
		}
		var at any = member(step.Member)
		if strings.ContainsAny(step.Member, "./[]") {
			at = step.Member
		}
		return w.descend(at, rest, inner, shows)
	}
	switch content := content.(type) {
	case nil:
	case []any:
		if len(rest) == 0 && step.Key == "" && step.Name == "" {
			return w.visitItems(content, shows)
		}
		for i, item := range content {
			if step.Key != "" && !isText(item, step.Key, step.Value) {
				continue
			}
			if err := w.followNamed(step, types.Int(i), i, rest, item, shows); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(content)) {
			if step.Key != "" && !isText(content[key], step.Key, step.Value) {
				continue
			}
			if err := w.followNamed(step, types.String(key), key, rest, content[key], shows); err != nil {
				return err
			}
		}
	default:
		return &ScopeError{fmt.Sprintf("%s is neither a list nor a map, %s needs one", w.at.Path, w.at.scope.Text)}
	}
	return nil
}

// visitValue visits a value at the end of a path.
func (w *walk) visitValue(content any, shows types.Adapter) error {
	if w.count++; w.count > MaxScopeValues {
		return &ScopeError{fmt.Sprintf("%s has more than %d values", w.at.scope.Text, MaxScopeValues)}
	}
	w.at.Content, w.at.shows = inner(content, shows)
	w.at.value, w.at.text = nil, ""
	return w.visit(&w.at)
}

// visitItems visits the items of a list at the end of a path, the usual case.
func (w *walk) visitItems(list []any, shows types.Adapter) error {
	end := len(w.at.Path)
	w.at.Path = append(w.at.Path, nil)
	for i, item := range list {
		w.at.Path[end] = i
		if err := w.visitValue(item, shows); err != nil {
			return err
		}
	}
	w.at.Path = w.at.Path[:end]
	return nil
}

// followNamed follows a path into an item, binding the name that the path has for its key or index.
func (w *walk) followNamed(step scope.Step, key ref.Val, at any, rest scope.Steps, item any,
	shows types.Adapter) error {
	if step.Name == "" {
		return w.descend(at, rest, item, shows)
	}
	w.at.named = append(w.at.named, key)
	err := w.descend(at, rest, item, shows)
	w.at.named = w.at.named[:len(w.at.named)-1]
	return err
}

func (w *walk) descend(at any, rest scope.Steps, content any, shows types.Adapter) error {
	w.at.Path = append(w.at.Path, at)
	err := w.follow(rest, content, shows)
	w.at.Path = w.at.Path[:len(w.at.Path)-1]
	return err
}

func has(v any, member string) bool {
	members, ok := v.(map[string]any)
	if !ok {
		return false
	}
	_, found := members[member]
	return found
}

func isText(v any, member, text string) bool {
	members, _ := v.(map[string]any)
	found, ok := members[member].(string)
	return ok && found == text
}

// oldValues finds the old values of values: in lists with keys the item with the same keys, in sets the equal one, in
// other lists the one with the same index.
type oldValues struct {
	object, oldObject any
	shows             types.Adapter
	typ               *shape.Type // nil: lists with keys are not known
	indexes           []listIndex // the most recent ones, by the number of steps to the list
}

// A listIndex maps keys to the positions of items in an old list.
type listIndex struct {
	items []any
	at    map[string]int
}

// oldOf returns the old value of the one at a path; null if there is none.
func (o *oldValues) oldOf(path Path) ref.Val {
	current, old, typ, shows := o.object, o.oldObject, o.typ, o.shows
	for depth, step := range path {
		old, shows = inner(old, shows)
		current, _ = inner(current, nil)
		if key, ok := name(step); ok {
			members, _ := old.(map[string]any)
			value, found := members[key]
			if !found {
				return types.NullValue
			}
			now, _ := current.(map[string]any)
			current, old, typ = now[key], value, memberType(typ, key)
			continue
		}
		items, _ := old.([]any)
		list, _ := current.([]any)
		index := step.(int)
		current = list[index]
		if typ != nil && typ.Kind == shape.List && (typ.Merge == shape.Keyed || typ.Merge == shape.Set) {
			index = o.index(depth, items, typ)[identity(current, typ)] - 1
		}
		if index < 0 || index >= len(items) {
			return types.NullValue
		}
		if old = items[index]; typ != nil {
			typ = typ.Elem
		}
	}
	if v, ok := old.(ref.Val); ok {
		return v
	}
	if shows == nil {
		return types.NullValue
	}
	return shows.NativeToValue(old)
}

// inner returns the tree behind a value in a tree of another form.
func inner(content any, shows types.Adapter) (any, types.Adapter) {
	if v, ok := content.(plan.Tree); ok {
		return v.Tree()
	}
	return content, shows
}

func memberType(t *shape.Type, name string) *shape.Type {
	if t == nil {
		return nil
	}
	if f := t.Field(name); f != nil {
		return f.Type
	}
	return t.Elem
}

// index returns the positions of the items of an old list by their keys, counted from 1.
func (o *oldValues) index(depth int, items []any, t *shape.Type) map[string]int {
	for len(o.indexes) <= depth {
		o.indexes = append(o.indexes, listIndex{})
	}
	known := &o.indexes[depth]
	if known.at != nil && len(known.items) == len(items) && (len(items) == 0 || &known.items[0] == &items[0]) {
		return known.at
	}
	*known = listIndex{items, make(map[string]int, len(items))}
	for i := len(items) - 1; i >= 0; i-- { // of several items with the same key the first wins
		known.at[identity(items[i], t)] = i + 1
	}
	return known.at
}

// identity returns the text that identifies an item of a list.
func identity(item any, t *shape.Type) string {
	if t.Merge == shape.Set {
		return fmt.Sprintf("%#v", item)
	}
	members, _ := item.(map[string]any)
	var b strings.Builder
	for _, key := range t.Keys {
		fmt.Fprintf(&b, "%#v\x00", members[key])
	}
	return b.String()
}
