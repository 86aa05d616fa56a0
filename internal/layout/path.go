package layout

import (
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/yamlscan"
)

// Find returns the value at a field path and the offset of its entry, or those of its nearest existing parent. It
// follows aliases and merge keys.
func (n *Node) Find(path string) (at int, value *Node) {
	at, value = n.Start, n.Resolve()
	for path != "" {
		e, rest, ok := value.step(path, 0)
		if !ok {
			break
		}
		at, value, path = e.Offset(), e.Value.Resolve(), rest
	}
	return at, value
}

// step removes the first member from path. In a mapping, the member is the longest key at the start of path, because
// paths do not always mark the end of a key: metadata.labels.app.kubernetes.io/name.
func (n *Node) step(path string, depth int) (e *Entry, rest string, ok bool) {
	if n.Form == Sequence {
		digits, rest, found := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i := Index(digits); found && i >= 0 && i < len(n.Entries) {
			return n.Entries[i], strings.TrimPrefix(rest, "."), true
		}
		return nil, "", false
	}
	if n.Form != Mapping || depth > yamlscan.MaxDepth {
		return nil, "", false
	}
	longest := -1
	take := func(candidate *Entry, after string, size int) {
		if size > longest {
			e, rest, ok, longest = candidate, strings.TrimPrefix(after, "."), true, size
		}
	}
	for i := len(n.Entries) - 1; i >= 0; i-- { // the last definition takes effect
		member := n.Entries[i]
		if !member.Merge {
			if after, found := cutKey(path, member.Name); found {
				take(member, after, len(path)-len(after))
			}
			continue
		}
		for _, merged := range member.sources() {
			if inner, after, found := merged.step(path, depth+1); found {
				take(inner, after, len(path)-len(after))
			}
		}
	}
	return e, rest, ok
}

// sources returns the values of a merge key.
func (e *Entry) sources() []*Node {
	value := e.Value.Resolve()
	if value.Form != Sequence {
		return []*Node{value}
	}
	var all []*Node
	for _, item := range value.Entries {
		all = append(all, item.Value.Resolve())
	}
	return all
}

// cutKey returns the path behind a leading key, written as name, [name] or ["name"].
func cutKey(path, name string) (after string, ok bool) {
	if inner, bracket := strings.CutPrefix(path, "["); bracket {
		if after, ok = strings.CutPrefix(inner, name+"]"); ok {
			return after, true
		}
		return strings.CutPrefix(inner, strconv.Quote(name)+"]")
	}
	after, ok = strings.CutPrefix(path, name)
	return after, ok && (after == "" || after[0] == '.' || after[0] == '[')
}

// Index converts s to an index; -1 if it is not an index.
func Index(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
