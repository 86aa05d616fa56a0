package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/tree"
)

// Marks are values in patches of the dialect that JSON cannot express.
type (
	// Unset removes the value at its place.
	Unset struct{}

	// Remove is an item of a list: it removes the item with the same keys, of a set the equal one.
	Remove struct{ Item any }

	// Replace replaces the value at its place.
	Replace struct{ Value any }
)

// IsMark reports whether a value is a mark.
func IsMark(v any) bool {
	switch v.(type) {
	case Unset, Remove, Replace:
		return true
	}
	return false
}

// hasMark reports whether a value contains a mark.
func hasMark(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if hasMark(member) {
				return true
			}
		}
		return false
	case []any:
		return slices.ContainsFunc(v, hasMark)
	}
	return IsMark(v)
}

// unmark applies the marks of a patch: the first result is live without removed and replaced values, the second the
// patch without marks, to be merged into it. A whole object must keep its apiVersion, kind and name.
func unmark(r ref, live, patch map[string]any, whole bool) (map[string]any, map[string]any, Problems) {
	u := unmarker{whole: whole}
	l, _, p, _ := u.value(r, live, true, patch)
	if len(u.problems) > 0 {
		return nil, nil, u.problems
	}
	left, _ := p.(map[string]any)
	return l.(map[string]any), left, nil
}

// An unmarker applies the marks of a patch.
type unmarker struct {
	whole    bool // the path begins at the object
	path     []string
	problems Problems
}

func (u *unmarker) problem(format string, args ...any) {
	u.problems = append(u.problems, problem(format, args...).addPrefix(strings.Join(u.path, ""))...)
}

func (u *unmarker) descend(element string, do func()) {
	u.path = append(u.path, element)
	do()
	u.path = u.path[:len(u.path)-1]
}

// value applies the marks of the patch p to the live value l, if there is one. A result is not merged, or is removed,
// if the respective flag is false.
func (u *unmarker) value(r ref, l any, has bool, p any) (left any, stays bool, patch any, merges bool) {
	switch p := p.(type) {
	case Unset:
		switch place := strings.Join(u.path, ""); place {
		case ".apiVersion", ".kind", ".metadata":
			if u.whole {
				u.problem("objects.unset() would leave an object without it")
			}
		}
		return nil, false, nil, false
	case Remove:
		u.problem("objects.remove(…) is for items of lists: write objects.unset()")
		return l, has, nil, false
	case Replace:
		if hasMark(p.Value) {
			u.problem("objects.replace(…) sets the whole value: it cannot contain objects.unset() and similar functions")
		}
		if has && l != nil && tree.Equal(l, p.Value) {
			return l, true, nil, false
		}
		return nil, false, p.Value, true
	case map[string]any:
		if r.isMap() && hasMark(p) {
			return u.members(r, l, has, p)
		}
	case []any:
		if r.isList() && hasMark(p) {
			return u.items(r, l, has, p)
		}
	}
	return l, has, p, true
}

func (u *unmarker) members(r ref, l any, has bool, p map[string]any) (left any, stays bool, patch any, merges bool) {
	if r.atomicMap() {
		u.problem("it is atomic: write objects.replace(…) with the whole value")
		return l, has, nil, false
	}
	live, _ := l.(map[string]any)
	out, copied := live, false
	rest := make(map[string]any, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		child, ok := r.member(name)
		if !ok {
			u.problems = append(u.problems, undeclaredProblem(name).addPrefix(strings.Join(u.path, ""))...)
			continue
		}
		old, had := live[name]
		u.descend("."+name, func() {
			now, stays, value, merges := u.value(child, old, had, p[name])
			if merges {
				rest[name] = value
			}
			if stays && tree.IsShared(old, now) || !stays && !had {
				return
			}
			if !copied {
				out, copied = maps.Clone(live), true
			}
			if out[name] = now; !stays {
				delete(out, name)
			}
		})
	}
	if copied {
		l = out
	}
	return l, has, rest, len(rest) > 0 // empty only without its marks
}

func (u *unmarker) items(r ref, l any, has bool, p []any) (left any, stays bool, patch any, merges bool) {
	if r.atomicList() {
		u.problem("it is atomic and does not have keys: write objects.replace(…) with the whole list, as in " +
			"objects.replace(list.filter(…))")
		return l, has, nil, false
	}
	live, _ := l.([]any)
	list := listUnmarker{unmarker: u, list: r, live: live, out: live}
	for i, item := range p {
		list.item(fmt.Sprintf("[%d]", i), item)
	}
	list.takeAway()
	if list.copied {
		l = list.out
	}
	return l, has, list.rest, len(list.rest) > 0
}

// A listUnmarker applies the marks of the patch of one keyed list.
type listUnmarker struct {
	*unmarker
	list    ref
	live    []any // never changed
	out     []any // the remaining items
	copied  bool  // out is not live
	rest    []any // of the patch, without marks
	seen    keySet
	removed []key
}

// item applies the marks of one item of the patch.
func (u *listUnmarker) item(at string, item any) {
	mark, removes := item.(Remove)
	whole, replaces := item.(Replace)
	switch {
	case removes:
		item = mark.Item
	case replaces:
		item = whole.Value
	}
	if removes && hasMark(item) {
		u.descend(at, func() { u.problem("objects.remove(…) removes an item: its fields cannot be set") })
		return
	}
	if lacks := u.list.lacks(item); removes && lacks != "" {
		u.descend(at, func() { u.problem("objects.remove(…) needs %s", lacks) })
		return
	}
	if name := u.list.markedKey(item); name != "" {
		u.descend(at, func() { u.problem("%s is the key of the item: it cannot be changed", name) })
		return
	}
	k, err := u.list.key(item)
	if err != nil {
		if removes || IsMark(item) {
			u.descend(at, func() { u.problem("%v", err) })
		}
		u.rest = append(u.rest, item) // other errors are those of every patch
		return
	}
	if !u.seen.add(k) {
		u.problem("duplicate entries for key %s", u.list.keyText(item))
	}
	if removes {
		u.removed = append(u.removed, k)
		return
	}
	place := place(k, u.list.keys(nil, u.live))
	u.descend(u.list.keyText(item), func() {
		switch {
		case replaces:
			u.replace(place, item)
		case hasMark(item):
			u.change(place, item)
		default:
			u.rest = append(u.rest, item)
		}
	})
}

// replace replaces the live item by a whole one; place is -1 for a new one.
func (u *listUnmarker) replace(place int, item any) {
	if hasMark(item) {
		u.problem("objects.replace(…) sets the whole value: it cannot contain objects.unset() and similar functions")
	}
	if place >= 0 && tree.Equal(u.live[place], item) {
		return
	}
	u.rest = append(u.rest, item)
	if place >= 0 {
		u.set(place, u.list.trimToKeys(u.live[place]))
	}
}

// change applies the marks inside an item; place is its live index, or -1.
func (u *listUnmarker) change(place int, item any) {
	var old any
	if place >= 0 {
		old = u.live[place]
	}
	now, _, value, merges := u.value(u.list.item(), old, place >= 0, item)
	if place < 0 && u.list.namesOnly(value) {
		return // a missing item has nothing to remove
	}
	if merges {
		u.rest = append(u.rest, value)
	}
	if place >= 0 && !tree.IsShared(old, now) {
		u.set(place, now)
	}
}

func (u *listUnmarker) set(place int, item any) {
	if !u.copied {
		u.out, u.copied = slices.Clone(u.live), true
	}
	u.out[place] = item
}

// takeAway removes the removed items from out.
func (u *listUnmarker) takeAway() {
	if len(u.removed) == 0 {
		return
	}
	keys := u.list.keys(nil, u.live)
	kept := make([]any, 0, len(u.out))
	for i, item := range u.out {
		if !slices.Contains(u.removed, keys[i]) {
			kept = append(kept, item)
		}
	}
	if len(kept) < len(u.out) {
		u.out, u.copied = kept, true
	}
}

// lacks names the keys that an item lacks; "" if it has all.
func (r ref) lacks(item any) string {
	var missing []string
	members, _ := item.(map[string]any)
	for _, name := range r.keyNames() {
		value, ok, err := r.keyMember(members, name)
		if _, given := members[name]; err != nil || !ok || !given && value == "" { // the default of names in OpenAPI
			missing = append(missing, name)
		}
	}
	return strings.Join(missing, " and ")
}

// markedKey names a key of an item whose value is a mark; "" for none.
func (r ref) markedKey(item any) string {
	members, _ := item.(map[string]any)
	for _, name := range r.keyNames() {
		if hasMark(members[name]) {
			return name
		}
	}
	return ""
}

// trimToKeys returns an item with only its keys.
func (r ref) trimToKeys(item any) any {
	members, ok := item.(map[string]any)
	if !ok {
		return item
	}
	out := map[string]any{}
	for _, name := range r.keyNames() {
		if value, ok := members[name]; ok {
			out[name] = value
		}
	}
	return out
}

// namesOnly reports whether an item has only its keys.
func (r ref) namesOnly(item any) bool {
	members, ok := item.(map[string]any)
	if !ok || len(r.keyNames()) == 0 {
		return false
	}
	for name := range members {
		if !slices.Contains(r.keyNames(), name) {
			return false
		}
	}
	return true
}
