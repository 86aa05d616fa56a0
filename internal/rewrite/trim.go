package rewrite

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// mostTrials bounds how often an object is prepared to find out what need not be written.
const mostTrials = 200

// trim removes from object what was added to it and what the server fills in itself, so that preparing the object
// still gives want. What comes back when nothing but the shape is left is a default. What depends on other members (a
// pull policy on the image) comes back differently and is tried.
func trim(object, want map[string]any, added []place, prepare func(map[string]any) (map[string]any, error)) {
	paths := pathsOf(object, added)
	added = slices.DeleteFunc(added, func(p place) bool { return paths[key(p)] == nil })
	slices.SortFunc(added, func(a, b place) int { return slices.Compare(paths[key(a)], paths[key(b)]) })
	t := trimmer{object: object, want: want, prepare: prepare}

	var leaves []place
	for _, p := range added {
		if p.isLeaf() {
			leaves = append(leaves, p)
		}
	}
	for _, p := range leaves {
		t.remove(p)
	}
	skeleton, err := prepare(object)
	// A prepared object shares maps with what it was made of, so it must be looked at before anything is put back.
	var back, changed, absent, alike []place
	for _, p := range leaves {
		found, ok := at(skeleton, paths[key(p)])
		was, _ := at(want, paths[key(p)])
		switch {
		case ok && equal(found, was):
			back = append(back, p)
		case ok:
			changed = append(changed, p)
		default:
			absent = append(absent, p)
		}
	}
	t.restore()
	if err != nil {
		return
	}
	for _, p := range absent {
		if slices.ContainsFunc(
			leaves,
			func(q place) bool { // an older name of another, as serviceAccount of serviceAccountName
				return q.key != p.key && strings.HasPrefix(q.key, p.key) &&
					key(place{in: q.in, key: p.key}) == key(p) &&
					equal(q.in[q.key], p.in[p.key])
			},
		) {
			alike = append(alike, p)
		}
	}
	// The innermost of the collections that become empty come first.
	inner := slices.Clone(added)
	slices.SortStableFunc(inner, func(a, b place) int { return len(paths[key(b)]) - len(paths[key(a)]) })
	hollow := func(p place) bool {
		m, ok := p.in[p.key].(map[string]any)
		return ok && len(m) == 0 && !p.pointer
	}

	strip := func(leaves []place) {
		for _, p := range leaves {
			t.remove(p)
		}
		for _, p := range inner {
			if hollow(p) {
				t.remove(p)
			}
		}
	}
	candidates := slices.Concat(back, changed)
	strip(candidates)
	if len(t.gone) > 0 && !t.settle(func(got map[string]any) {
		candidates = slices.DeleteFunc(candidates, func(p place) bool {
			is, _ := at(got, paths[key(p)])
			was, _ := at(want, paths[key(p)])
			return !equal(is, was)
		})
	}) {
		strip(candidates) // all but those that came back differently
	}
	if len(t.gone) > 0 && !t.settle(nil) {
		// One by one, if what was added can be prepared at all.
		if !t.settle(nil) {
			return
		}
		for _, p := range back {
			t.remove(p)
		}
		if !t.settle(nil) {
			changed = append(back, changed...)
		}
		for _, p := range changed[:min(len(changed), mostTrials)] {
			t.remove(p)
			t.settle(nil)
		}
		for _, p := range inner {
			if hollow(p) {
				t.remove(p)
				t.settle(nil)
			}
		}
	}
	for _, p := range alike {
		t.remove(p)
		t.settle(nil)
	}
}

// isLeaf reports a member that holds no members that were added.
func (p place) isLeaf() bool {
	switch v := p.in[p.key].(type) {
	case map[string]any:
		return len(v) == 0 && !p.pointer
	case []any:
		return !slices.ContainsFunc(v, collection)
	}
	return true
}

// A trimmer takes members out on trial.
type trimmer struct {
	object, want map[string]any
	prepare      func(map[string]any) (map[string]any, error)
	gone         []removal
}

type removal struct {
	place
	value any
}

func (t *trimmer) remove(p place) {
	t.gone = append(t.gone, removal{p, p.in[p.key]})
	delete(p.in, p.key)
}

func (t *trimmer) restore() {
	for _, r := range slices.Backward(t.gone) {
		r.in[r.key] = r.value
	}
	t.gone = nil
}

// settle keeps what was removed out if the object still gives what it should, and puts it back otherwise. Before that,
// other is told what the object gives instead, if it is not nil.
func (t *trimmer) settle(other func(got map[string]any)) bool {
	got, err := t.prepare(t.object)
	if err != nil || !equal(got, t.want) {
		if err == nil && other != nil {
			other(got)
		}
		t.restore()
		return false
	}
	t.gone = nil
	return true
}

// A placeKey identifies a place: the map by its address.
type placeKey struct {
	in  uintptr
	key string
}

func key(p place) placeKey { return placeKey{reflect.ValueOf(p.in).Pointer(), p.key} }

// pathsOf returns the paths of places in a tree.
func pathsOf(root map[string]any, places []place) map[placeKey][]string {
	wanted := make(map[placeKey]bool, len(places))
	for _, p := range places {
		wanted[key(p)] = true
	}
	found := make(map[placeKey][]string, len(places))
	var path []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, member := range v {
				path = append(path, k)
				if id := key(place{in: v, key: k}); wanted[id] {
					found[id] = slices.Clone(path)
				}
				walk(member)
				path = path[:len(path)-1]
			}
		case []any:
			for i := range v {
				path = append(path, strconv.Itoa(i))
				walk(v[i])
				path = path[:len(path)-1]
			}
		}
	}
	walk(root)
	return found
}
