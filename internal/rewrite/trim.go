package rewrite

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/tree"
)

// mostTrials bounds the number of preparations for finding superfluous members.
const mostTrials = 200

// trim removes added members from object that the server fills in itself, so that preparing the object still gives
// want. A member that reappears without any others is a default. One that depends on other members (a pull policy on
// the image) reappears with another value, and is tried separately.
func trim(object, want map[string]any, added []place, prepare func(map[string]any) (map[string]any, error)) {
	paths := pathsOf(object, added)
	added = slices.DeleteFunc(added, func(p place) bool { return paths[key(p)] == nil })
	slices.SortFunc(added, func(a, b place) int { return slices.Compare(paths[key(a)], paths[key(b)]) })
	t := trimmer{object: object, want: want, prepare: prepare, paths: paths}
	// The innermost of the emptied collections come first.
	t.inner = slices.Clone(added)
	slices.SortStableFunc(t.inner, func(a, b place) int { return len(paths[key(b)]) - len(paths[key(a)]) })

	f, err := t.compare(slices.DeleteFunc(added, func(p place) bool { return !p.isLeaf() }))
	if err != nil {
		return
	}
	if !t.trimTogether(f) && !t.trimSingly(f) {
		return
	}
	for _, p := range f.alike {
		t.remove(p)
		t.settle(nil)
	}
}

// filled are added members, by the result of preparing the object without all of them.
type filled struct {
	back    []place // reappeared unchanged
	changed []place // reappeared with another value
	alike   []place // missing, but present under another name
}

// compare prepares the object without leaves.
func (t *trimmer) compare(leaves []place) (f filled, err error) {
	for _, p := range leaves {
		t.remove(p)
	}
	skeleton, err := t.prepare(t.object)
	// A prepared object shares maps with its source, so it must be examined before members are put back.
	var absent []place
	for _, p := range leaves {
		found, ok := tree.Find(skeleton, t.paths[key(p)])
		was, _ := tree.Find(t.want, t.paths[key(p)])
		switch {
		case ok && equal(found, was):
			f.back = append(f.back, p)
		case ok:
			f.changed = append(f.changed, p)
		default:
			absent = append(absent, p)
		}
	}
	t.restore()
	for _, p := range absent {
		if slices.ContainsFunc(leaves, p.isOlderNameOf) {
			f.alike = append(f.alike, p)
		}
	}
	return f, err
}

// isOlderNameOf reports whether a member is an older name of another one with the same value, as serviceAccount is of
// serviceAccountName.
func (p place) isOlderNameOf(q place) bool {
	return q.key != p.key && strings.HasPrefix(q.key, p.key) && key(place{in: q.in, key: p.key}) == key(p) &&
		equal(q.in[q.key], p.in[p.key])
}

// trimTogether removes all members that reappear, or returns false without effect if the object needs some of them.
func (t *trimmer) trimTogether(f filled) bool {
	candidates := slices.Concat(f.back, f.changed)
	t.strip(candidates)
	if len(t.gone) > 0 && !t.settle(func(got map[string]any) {
		candidates = slices.DeleteFunc(candidates, func(p place) bool {
			is, _ := tree.Find(got, t.paths[key(p)])
			was, _ := tree.Find(t.want, t.paths[key(p)])
			return !equal(is, was)
		})
	}) {
		t.strip(candidates) // all except those that changed
	}
	return len(t.gone) == 0 || t.settle(nil)
}

// trimSingly removes reappearing members one by one. It returns false if the remaining object cannot be prepared at
// all.
func (t *trimmer) trimSingly(f filled) bool {
	if !t.settle(nil) {
		return false
	}
	for _, p := range f.back {
		t.remove(p)
	}
	changed := f.changed
	if !t.settle(nil) {
		changed = append(f.back, changed...)
	}
	for _, p := range changed[:min(len(changed), mostTrials)] {
		t.remove(p)
		t.settle(nil)
	}
	for _, p := range t.inner {
		if p.isHollow() {
			t.remove(p)
			t.settle(nil)
		}
	}
	return true
}

// strip removes leaves, and the collections that become empty.
func (t *trimmer) strip(leaves []place) {
	for _, p := range leaves {
		t.remove(p)
	}
	for _, p := range t.inner {
		if p.isHollow() {
			t.remove(p)
		}
	}
}

// isHollow reports whether a member is an empty map without a meaning.
func (p place) isHollow() bool {
	m, ok := p.in[p.key].(map[string]any)
	return ok && len(m) == 0 && !p.pointer
}

// isLeaf reports whether a member does not contain added members.
func (p place) isLeaf() bool {
	switch v := p.in[p.key].(type) {
	case map[string]any:
		return len(v) == 0 && !p.pointer
	case []any:
		return !slices.ContainsFunc(v, collection)
	}
	return true
}

// A trimmer removes members on trial.
type trimmer struct {
	object, want map[string]any
	prepare      func(map[string]any) (map[string]any, error)
	gone         []removal
	paths        map[placeKey][]string // of added members
	inner        []place               // added members, the innermost first
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

// settle keeps the removed members out if the object still gives the wanted result, and restores them otherwise. Before
// restoring it calls other, if not nil, with the actual result.
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
