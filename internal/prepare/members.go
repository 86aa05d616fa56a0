package prepare

import (
	"maps"
	"slices"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
)

// members are the members of one object. The original map never changes: it is copied at the first change, so that
// unchanged parts stay shared with the input.
type members struct {
	m     map[string]any
	owned bool
	typ   *shape.Type    // of the object of a rule; else nil
	known map[string]any // an object of which it is known that it does not change, for the object of a rule; see Normal
	spare *members       // unused: for the next inner object
}

// membersOf returns the members of an object within this one, until close.
func (o *members) membersOf(m map[string]any) *members {
	if o == nil || o.spare == nil {
		return &members{m: m}
	}
	inner := o.spare
	o.spare = nil
	*inner = members{m: m, spare: inner.spare}
	return inner
}

// close ends the use of inner, and reports whether it changed.
func (o *members) close(inner *members) bool {
	if o != nil {
		o.spare = inner
	}
	return inner.owned
}

// lacks reports whether a feature is off, and its defaults are not applied.
func (o *members) lacks(f feature) bool { return f.offOf(o.typ) != 0 }

func (o *members) makeOwn() {
	if o.owned {
		return
	}
	o.owned = true
	if o.m = maps.Clone(o.m); o.m == nil {
		o.m = map[string]any{}
	}
}

func (o *members) set(name string, v any) {
	o.makeOwn()
	o.m[name] = v
}

func (o *members) drop(name string) {
	if _, ok := o.m[name]; ok {
		o.makeOwn()
		delete(o.m, name)
	}
}

// text returns the string at name, or "".
func (o *members) text(name string) string {
	s, _ := o.m[name].(string)
	return s
}

// fill sets name unless it is present. A null counts as missing.
func (o *members) fill(name string, v any) {
	if o.m[name] == nil {
		o.set(name, v)
	}
}

// fillText sets name unless it holds a non-empty string.
func (o *members) fillText(name, v string) {
	if o.text(name) == "" {
		o.set(name, v)
	}
}

// fillNumber sets name unless it holds a non-zero integer.
func (o *members) fillNumber(name string, v int64) {
	if n, _ := o.m[name].(int64); n == 0 {
		o.set(name, v)
	}
}

// edit applies f to the object at name, if it exists.
func (o *members) edit(name string, f func(*members)) {
	m, ok := o.m[name].(map[string]any)
	if !ok {
		return
	}
	inner := o.membersOf(m)
	f(inner)
	if o.close(inner) {
		o.set(name, inner.m)
	}
}

// editAlone is edit for an f that depends only on the object at name: f is not called for an object that is known not
// to change.
func (o *members) editAlone(name string, f func(*members)) {
	if m, ok := o.m[name].(map[string]any); ok {
		if known, ok := o.known[name].(map[string]any); ok && tree.IsSame(m, known) {
			return
		}
	}
	o.edit(name, f)
}

// each applies f to every object in the list at name.
func (o *members) each(name string, f func(*members)) {
	list, _ := o.m[name].([]any)
	owned := false
	for i, item := range list {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		inner := o.membersOf(m)
		f(inner)
		if !o.close(inner) {
			continue
		}
		if !owned {
			list, owned = slices.Clone(list), true
		}
		list[i] = inner.m
	}
	if owned {
		o.set(name, list)
	}
}

// filter keeps the wanted objects in the list at name. It drops an empty list.
func (o *members) filter(name string, wanted func(*members) bool) {
	list, _ := o.m[name].([]any)
	var kept []any
	for _, item := range list {
		if m, ok := item.(map[string]any); !ok || wanted(&members{m: m}) {
			kept = append(kept, item)
		}
	}
	switch {
	case len(kept) == len(list):
	case len(kept) == 0:
		o.drop(name)
	default:
		o.set(name, kept)
	}
}

// mapAt returns the object at path, or nil.
func mapAt(m map[string]any, path ...string) map[string]any {
	for _, name := range path {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// size returns the number of members or items of v.
func size(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	}
	return 0
}

// merge adds members to the object at name, unless it has them. It makes the object if necessary.
func (o *members) merge(name string, from map[string]any) {
	have, ok := o.m[name].(map[string]any)
	if len(from) == 0 || !ok && o.m[name] != nil {
		return
	}
	inner := members{m: have}
	for key, v := range from {
		if _, ok := have[key]; !ok {
			inner.set(key, v)
		}
	}
	if inner.owned {
		o.set(name, inner.m)
	}
}

// label sets a label of an object's metadata.
func (o *members) label(key, v string) {
	o.fill("labels", map[string]any{})
	o.edit("labels", func(labels *members) {
		if labels.m[key] != v {
			labels.set(key, v)
		}
	})
}
