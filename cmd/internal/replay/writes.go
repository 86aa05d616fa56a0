package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
)

// A write is one difference between two objects.
type write struct {
	steps   []step
	value   any  // the new value, or the removed one
	removed bool // the value was removed
	item    bool // of a list without keys, at the end of the steps
	count   int  // the number of equal items in the list
}

// A step leads to a member, or to the item with the given keys.
type step struct {
	name string
	keys map[string]any
}

func (w *write) path() string {
	var b strings.Builder
	for _, s := range w.steps {
		if s.keys == nil {
			if b.Len() > 0 && !strings.ContainsAny(s.name, "./") {
				b.WriteByte('.')
			}
			if strings.ContainsAny(s.name, "./") {
				fmt.Fprintf(&b, "[%q]", s.name)
				continue
			}
			b.WriteString(s.name)
			continue
		}
		for i, key := range slices.Sorted(maps.Keys(s.keys)) {
			b.WriteString([]string{"[", ","}[min(i, 1)])
			fmt.Fprintf(&b, "%s=%v", key, s.keys[key])
		}
		b.WriteByte(']')
	}
	return b.String()
}

// holds reports whether an object has the written value.
func (w *write) holds(object map[string]any) bool {
	var at any = object
	for _, s := range w.steps {
		next, ok := s.follow(at)
		if !ok {
			return w.removed
		}
		at = next
	}
	if w.item {
		list, _ := at.([]any)
		count := counts(list)[text(w.value)]
		return w.removed && count <= w.count || !w.removed && count >= w.count
	}
	return !w.removed && tree.Equal(at, w.value)
}

func (s *step) follow(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		next, ok := v[s.name]
		return next, ok && s.keys == nil
	case []any:
		for _, item := range v {
			if s.keys != nil && has(item, s.keys) {
				return item, true
			}
		}
	}
	return nil, false
}

func has(item any, keys map[string]any) bool {
	object, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range keys {
		if found := object[key]; !tree.Equal(found, value) && text(found) != text(value) { // 80 and 80.0 are one key
			return false
		}
	}
	return true
}

// writesOf returns the differences between two objects of a type, which may be nil, leaf by leaf.
func writesOf(before, after map[string]any, t *shape.Type) []write {
	var w writes
	w.members(nil, before, after, t)
	return w.all
}

type writes struct{ all []write }

func (w *writes) add(steps []step, v any, removed bool) {
	w.all = append(w.all, write{steps: steps, value: v, removed: removed})
}

func (w *writes) members(steps []step, before, after map[string]any, t *shape.Type) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		at := append(slices.Clone(steps), step{name: name})
		old, was := before[name]
		if was && tree.Equal(old, after[name]) {
			continue
		}
		w.value(at, old, after[name], memberType(t, name))
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, is := after[name]; !is {
			w.add(append(slices.Clone(steps), step{name: name}), before[name], true)
		}
	}
}

func (w *writes) value(steps []step, before, after any, t *shape.Type) {
	switch after := after.(type) {
	case map[string]any:
		if old, _ := before.(map[string]any); len(after) > 0 {
			w.members(steps, old, after, t)
			return
		}
	case []any:
		if old, _ := before.([]any); len(after) > 0 {
			w.items(steps, old, after, t)
			return
		}
	}
	w.add(steps, after, false)
}

func (w *writes) items(steps []step, before, after []any, t *shape.Type) {
	if isKeyed(before, after, t) {
		old, is := map[string]any{}, map[string]bool{}
		for _, item := range before {
			old[text(keysOf(item, t))] = item
		}
		for _, item := range after {
			keys := keysOf(item, t)
			is[text(keys)] = true
			if was := old[text(keys)]; was == nil || !tree.Equal(was, item) {
				w.value(append(slices.Clone(steps), step{keys: keys}), was, item, t.Elem)
			}
		}
		for _, item := range before {
			if keys := keysOf(item, t); !is[text(keys)] {
				w.add(append(slices.Clone(steps), step{keys: keys}), item, true)
			}
		}
		return
	}
	was, is := counts(before), counts(after)
	for _, item := range slices.Concat(after, before) {
		key := text(item)
		if was[key] != is[key] {
			w.all = append(w.all,
				write{steps: steps, value: item, item: true, removed: is[key] < was[key], count: is[key]})
		}
		was[key] = is[key] // each once
	}
}

// counts counts equal items.
func counts(list []any) map[string]int {
	all := make(map[string]int, len(list))
	for _, item := range list {
		all[text(item)]++
	}
	return all
}

// text writes a value as JSON.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // values decoded from JSON always encode
		return fmt.Sprint(v)
	}
	return string(b)
}

// isKeyed reports lists whose items all have distinct keys.
func isKeyed(before, after []any, t *shape.Type) bool {
	if t == nil || t.Kind != shape.List || t.Merge != shape.Keyed || len(t.Keys) == 0 {
		return false
	}
	for _, list := range [][]any{before, after} {
		seen := map[string]bool{}
		for _, item := range list {
			if _, ok := item.(map[string]any); !ok {
				return false
			}
			key := text(keysOf(item, t))
			if seen[key] {
				return false
			}
			seen[key] = true
		}
	}
	return true
}

// keysOf returns the keys of an item; an absent key is nil.
func keysOf(item any, t *shape.Type) map[string]any {
	object, _ := item.(map[string]any)
	keys := map[string]any{}
	for _, key := range t.Keys {
		keys[key] = object[key]
	}
	return keys
}

func memberType(t *shape.Type, name string) *shape.Type {
	switch {
	case t == nil:
		return nil
	case t.Kind == shape.Map:
		return t.Elem
	}
	if f := t.Field(name); f != nil {
		return f.Type
	}
	return nil
}
