package merge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/tree"
)

// Marks are values in the patches of the dialect that say what no JSON value can.
type (
	// Unset takes away what is at its place.
	Unset struct{}

	// Remove is an item of a list: it takes away the item with the same keys, of a set the equal one.
	Remove struct{ Item any }

	// Replace takes the place of what is there, whatever that is.
	Replace struct{ Value any }
)

// IsMark reports a mark.
func IsMark(v any) bool {
	switch v.(type) {
	case Unset, Remove, Replace:
		return true
	}
	return false
}

// hasMark reports a mark in a value.
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

// unmark does what the marks in a patch say: the first result is live without what they take away or replace, the
// second the patch without them, which merges into that.
func unmark(r ref, live, patch map[string]any) (map[string]any, map[string]any, Problems) {
	var u unmarker
	l, _, p, _ := u.value(r, live, true, patch)
	if len(u.problems) > 0 {
		return nil, nil, u.problems
	}
	left, _ := p.(map[string]any)
	return l.(map[string]any), left, nil
}

// An unmarker resolves the marks of a patch. What is at the path is said by the texts in it.
type unmarker struct {
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

// value resolves the marks of the patch p of the live value l, if there is one. What is not there in a result is not
// merged, or taken away.
func (u *unmarker) value(r ref, l any, has bool, p any) (left any, stays bool, patch any, merges bool) {
	switch p := p.(type) {
	case Unset:
		switch place := strings.Join(u.path, ""); place {
		case "", ".apiVersion", ".kind", ".metadata":
			u.problem("objects.unset() would leave an object without it")
		}
		return nil, false, nil, false
	case Remove:
		u.problem("objects.remove(…) is for items of lists: write objects.unset()")
		return l, has, nil, false
	case Replace:
		if hasMark(p.Value) {
			u.problem("objects.replace(…) gives the whole value: objects.unset() and others have no place in it")
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
	return l, has, rest, len(rest) > 0 // and not what is empty without its marks
}

func (u *unmarker) items(r ref, l any, has bool, p []any) (left any, stays bool, patch any, merges bool) {
	if r.atomicList() {
		u.problem("it is atomic and has no keys: write objects.replace(…) with the whole list, as in " +
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

// A listUnmarker resolves the marks of the patch of one list with keys.
type listUnmarker struct {
	*unmarker
	list    ref
	live    []any // never changed
	out     []any // what is left of it
	copied  bool  // out is not live
	rest    []any // of the patch, without marks
	seen    keySet
	removed []key
}

// item resolves the marks of one item of the patch.
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
		u.descend(at, func() { u.problem("objects.remove(…) names an item: nothing is changed in it") })
		return
	}
	if lacks := u.list.lacks(item); removes && lacks != "" {
		u.descend(at, func() { u.problem("objects.remove(…) needs %s", lacks) })
		return
	}
	if name := u.list.markedKey(item); name != "" {
		u.descend(at, func() { u.problem("%s says which item is meant: it cannot be changed", name) })
		return
	}
	k, err := u.list.key(item)
	if err != nil {
		if removes || IsMark(item) {
			u.descend(at, func() { u.problem("%v", err) })
		}
		u.rest = append(u.rest, item) // the texts of others are those of every patch
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

// replace puts a whole item in the place of the live one, if place is not -1.
func (u *listUnmarker) replace(place int, item any) {
	if hasMark(item) {
		u.problem("objects.replace(…) gives the whole value: objects.unset() and others have no place in it")
	}
	if place >= 0 && tree.Equal(u.live[place], item) {
		return
	}
	u.rest = append(u.rest, item)
	if place >= 0 {
		u.set(place, u.list.trimToKeys(u.live[place]))
	}
}

// change resolves the marks inside of an item that is live at place, or -1.
func (u *listUnmarker) change(place int, item any) {
	var old any
	if place >= 0 {
		old = u.live[place]
	}
	now, _, value, merges := u.value(u.list.item(), old, place >= 0, item)
	if place < 0 && u.list.namesOnly(value) {
		return // an item that is not there has nothing to take away
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

// takeAway takes the removed items out of what is left.
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

// lacks names the keys that an item does not have; "" if it has all.
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

// markedKey names a key of an item that has a mark in its place; "" for none.
func (r ref) markedKey(item any) string {
	members, _ := item.(map[string]any)
	for _, name := range r.keyNames() {
		if hasMark(members[name]) {
			return name
		}
	}
	return ""
}

// trimToKeys returns an item without anything but its keys.
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

// namesOnly reports an item that says no more than which it is.
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
