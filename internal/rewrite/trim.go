package rewrite

import (
	"reflect"
	"slices"
	"strconv"
)

// mostTrials bounds how often an object is prepared to find out what need not be written.
const mostTrials = 200

// trim removes from object what was added to it and what the server fills in itself, so that preparing the object
// still gives want. All at once first: what comes back when nothing but the shape is left is a default. What depends
// on other members (a pull policy on the image) is tried one by one.
func trim(object, want map[string]any, added []place, prepare func(map[string]any) (map[string]any, error)) {
	gives := func() (map[string]any, bool) {
		got, err := prepare(object)
		return got, err == nil && reflect.DeepEqual(got, want)
	}
	if _, ok := gives(); !ok {
		return
	}
	paths := pathsOf(object, added)
	added = slices.DeleteFunc(added, func(p place) bool { return paths[key(p)] == nil })
	slices.SortFunc(added, func(a, b place) int { return slices.Compare(paths[key(a)], paths[key(b)]) })
	type removed struct {
		place
		value any
	}
	var gone []removed
	remove := func(p place) { gone = append(gone, removed{p, p.in[p.key]}); delete(p.in, p.key) }
	restore := func() {
		for _, r := range slices.Backward(gone) {
			r.in[r.key] = r.value
		}
		gone = nil
	}

	leaf := func(p place) bool {
		switch v := p.in[p.key].(type) {
		case map[string]any:
			return len(v) == 0 && !p.pointer
		case []any:
			return !slices.ContainsFunc(v, collection)
		}
		return true
	}
	var leaves []place
	for _, p := range added {
		if leaf(p) {
			leaves = append(leaves, p)
		}
	}
	for _, p := range leaves {
		remove(p)
	}
	skeleton, err := prepare(object)
	restore()
	var trials, back []place
	for _, p := range leaves {
		found, ok := any(nil), false
		if err == nil {
			found, ok = at(skeleton, paths[key(p)])
		}
		switch {
		case !ok: // unless it repeats another member, as serviceAccount does
			if slices.ContainsFunc(leaves, func(q place) bool {
				return q.key != p.key && reflect.DeepEqual(q.in[q.key], p.in[p.key]) && key(place{in: q.in, key: p.key}) == key(p)
			}) {
				trials = append(trials, p)
			}
		case reflect.DeepEqual(found, normal(want, paths[key(p)])):
			back = append(back, p)
		default:
			trials = append(trials, p)
		}
	}
	for _, p := range back {
		remove(p)
	}
	if _, ok := gives(); !ok {
		restore()
		trials = append(back, trials...)
	}
	gone = nil
	// Collections that are empty now, the innermost first.
	slices.SortStableFunc(added, func(a, b place) int { return len(paths[key(b)]) - len(paths[key(a)]) })
	for _, p := range added {
		if m, ok := p.in[p.key].(map[string]any); ok && len(m) == 0 && !p.pointer && !slices.ContainsFunc(trials, func(q place) bool { return key(p) == key(q) }) {
			trials = append(trials, p)
		}
	}
	for _, p := range trials[:min(len(trials), mostTrials)] {
		remove(p)
		if _, ok := gives(); !ok {
			restore()
		}
		gone = nil
	}
}

func normal(want map[string]any, path []string) any {
	v, _ := at(want, path)
	return v
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
