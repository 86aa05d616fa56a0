package prepare

import (
	"maps"
	"slices"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
)

// members are the members of one object. The map they came from is never written: it is copied at the first
// change, so that what does not change stays shared with the input.
type members struct {
	m     map[string]any
	owned bool
	typ   *shape.Type    // of the object a rule is for; else nil
	known map[string]any // what is known to stay as it is, of the object a rule is for; see Normal
	spare *members       // not in use: for the next object that is looked into
}

// membersOf returns the members of an object within this one. They are its own until they are given to close.
func (o *members) membersOf(m map[string]any) *members {
	if o == nil || o.spare == nil {
		return &members{m: m}
	}
	inner := o.spare
	o.spare = nil
	*inner = members{m: m, spare: inner.spare}
	return inner
}

// close takes back what inside returned, and reports whether it changed.
func (o *members) close(inner *members) bool {
	if o != nil {
		o.spare = inner
	}
	return inner.owned
}

// lacks reports that a feature is off, and its defaults are not applied.
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

// fill sets name unless it is there. A null counts as absent.
func (o *members) fill(name string, v any) {
	if o.m[name] == nil {
		o.set(name, v)
	}
}

// fillText sets name unless it holds a text that is not empty.
func (o *members) fillText(name, v string) {
	if o.text(name) == "" {
		o.set(name, v)
	}
}

// fillNumber sets name unless it holds an integer that is not zero.
func (o *members) fillNumber(name string, v int64) {
	if n, _ := o.m[name].(int64); n == 0 {
		o.set(name, v)
	}
}

// edit applies f to the object at name, if there is one.
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

// editAlone is within for what depends on nothing but the object at name: if that is known to stay as it is, it does.
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

// merge adds what the object at name has not. It makes the object if there is something to add.
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
