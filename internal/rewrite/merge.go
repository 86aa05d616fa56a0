package rewrite

import (
	"maps"
	"slices"

	"github.com/celgate/celgate/internal/shape"
)

// A Mutation is the mutation of one object.
type Mutation struct {
	Author map[string]any // as written by its author
	Before map[string]any // before the first mutation: decoded, defaulted, canonical
	After  map[string]any // after the last mutation
	Type   *shape.Type    // of Before and After; nil: unknown

	// Prepare prepares an author's object for the first mutation. It serves to leave out members that the server fills
	// in itself; nil: everything new is written.
	Prepare func(object map[string]any) (map[string]any, error)
}

// Object returns the author's object with the mutation applied. Where Before and After are equal it keeps the author's
// form, and members that the server fills in itself are not added. The result shares unchanged parts with Author;
// inputs are not changed.
func Object(m Mutation) map[string]any {
	var t threeWay
	object, _ := t.value(m.Author, m.Before, m.After, m.Type).(map[string]any)
	if m.Type != nil && m.Type.Name == secretType {
		object = withoutStringData(object, m.Before, m.After)
	}
	if m.Prepare != nil && len(t.added) > 0 {
		trim(object, m.After, t.added, m.Prepare)
	}
	return object
}

const secretType = "k8s.io/api/core/v1.Secret"

// withoutStringData removes members of stringData that the server would put over changed members of data.
func withoutStringData(object, before, after map[string]any) map[string]any {
	text, _ := object["stringData"].(map[string]any)
	was, _ := before["data"].(map[string]any)
	is, _ := after["data"].(map[string]any)
	kept := maps.Clone(text)
	maps.DeleteFunc(kept, func(key string, _ any) bool { return !equal(was[key], is[key]) })
	if len(kept) == len(text) {
		return object
	}
	object = maps.Clone(object)
	if object["stringData"] = kept; len(kept) == 0 {
		delete(object, "stringData")
	}
	return object
}

// A threeWay applies a difference to a third tree.
type threeWay struct {
	added []place
}

// A place is a member of a map of the result that is not the author's.
type place struct {
	in      map[string]any
	key     string
	pointer bool // even {} has a meaning there, as in emptyDir: {}
}

// value returns the author's form of after, given that of before.
func (t *threeWay) value(author, before, after any, typ *shape.Type) any {
	if equal(before, after) {
		return author
	}
	switch after := after.(type) {
	case map[string]any:
		a, aok := author.(map[string]any)
		if b, ok := before.(map[string]any); ok && (aok || author == nil) {
			return t.object(a, b, after, typ)
		}
	case []any:
		a, aok := author.([]any)
		if b, ok := before.([]any); ok && (aok || author == nil) && isHead(a, b, typ) {
			return t.list(a, b, after, typ)
		}
	}
	return t.copyFresh(after, typ)
}

func (t *threeWay) object(author, before, after map[string]any, typ *shape.Type) map[string]any {
	out := make(map[string]any, len(author)+1)
	maps.Copy(out, author)
	for key := range before {
		if _, stays := after[key]; !stays {
			delete(out, key)
		}
	}
	for key, c := range after {
		b, was := before[key]
		if was && equal(b, c) {
			continue
		}
		a, written := author[key]
		member := memberType(typ, key)
		if !was {
			if _, isMap := c.(map[string]any); isMap && !emptyMap(c) {
				b = map[string]any{}
			}
		}
		if out[key] = t.value(a, b, c, member); !written || a == nil {
			t.added = append(t.added, place{out, key, isPointer(typ, key)})
		}
	}
	return out
}

func isPointer(t *shape.Type, key string) bool {
	f := (*shape.Field)(nil)
	if t != nil {
		f = t.Field(key)
	}
	return f != nil && f.Pointer
}

func emptyMap(v any) bool {
	m, ok := v.(map[string]any)
	return ok && len(m) == 0
}

// isHead reports whether a list is what its author wrote, with nothing or more items at its end.
func isHead(author, before []any, typ *shape.Type) bool {
	if len(author) == len(before) {
		return true
	}
	if len(author) > len(before) {
		return false
	}
	keys := keysOf(author, before, typ)
	for i := range author {
		a, _ := author[i].(map[string]any)
		b, _ := before[i].(map[string]any)
		differ := func(key string) bool { return !equal(a[key], b[key]) }
		if keys != nil && slices.ContainsFunc(keys, differ) || keys == nil && !holds(before[i], author[i]) {
			return false
		}
	}
	return true
}

// holds reports whether a value has all that a part of it has.
func holds(whole, part any) bool {
	p, isMap := part.(map[string]any)
	w, both := whole.(map[string]any)
	if !isMap || !both {
		return equal(whole, part)
	}
	for key, member := range p {
		if !holds(w[key], member) {
			return false
		}
	}
	return true
}

// list leaves out the items that the server has put at the end of what the author wrote, as long as they do not change.
func (t *threeWay) list(author, before, after []any, typ *shape.Type) []any {
	elem := elemType(typ)
	out := make([]any, 0, len(after))
	for j, i := range align(before, after, typ) {
		switch {
		case i < 0 || i >= len(author) && !equal(before[i], after[j]):
			out = append(out, t.copyFresh(after[j], elem))
		case i < len(author):
			out = append(out, t.value(author[i], before[i], after[j], elem))
		}
	}
	return out
}

// copyFresh returns a copy of a value that is entirely new, and records its members.
func (t *threeWay) copyFresh(v any, typ *shape.Type) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[key] = t.copyFresh(member, memberType(typ, key))
			t.added = append(t.added, place{out, key, isPointer(typ, key)})
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = t.copyFresh(v[i], elemType(typ))
		}
		return out
	}
	return v
}

// memberType returns the type of a member of a struct or map; nil if unknown.
func memberType(t *shape.Type, key string) *shape.Type {
	if t == nil {
		return nil
	}
	if f := t.Field(key); f != nil {
		return f.Type
	}
	if t.Kind == shape.Map {
		return t.Elem
	}
	return nil
}

// align returns for each item of after the index of the corresponding item of before; -1 for a new one. Indices ascend.
// Items are matched by the keys of the list if it has any, by a member "name" if all items have one, else by their
// value; items between matches are paired in order as far as they have the same kind.
func align(before, after []any, t *shape.Type) []int {
	out := make([]int, len(after))
	for j := range out {
		out[j] = -1
	}
	keys := keysOf(before, after, t)
	same := func(i, j int) bool {
		if keys != nil {
			b, _ := before[i].(map[string]any)
			a, _ := after[j].(map[string]any)
			return !slices.ContainsFunc(keys, func(k string) bool { return !equal(b[k], a[k]) })
		}
		return equal(before[i], after[j])
	}
	i0, j0 := 0, 0
	match := func(i, j int) {
		if keys == nil { // items between two matches
			for gi, gj := i0, j0; gi < i && gj < j; gi, gj = gi+1, gj+1 {
				if collection(before[gi]) && collection(after[gj]) {
					out[gj] = gi
				}
			}
		}
		if i < len(before) {
			out[j] = i
		}
		i0, j0 = i+1, j+1
	}
	for _, pair := range common(len(before), len(after), same) {
		match(pair[0], pair[1])
	}
	match(len(before), len(after))
	return out
}

func collection(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// keysOf returns the members that identify items of a list.
func keysOf(before, after []any, t *shape.Type) []string {
	all := func(key string) bool {
		for _, items := range [][]any{before, after} {
			for _, item := range items {
				m, _ := item.(map[string]any)
				if _, ok := m[key].(string); !ok {
					return false
				}
			}
		}
		return true
	}
	switch {
	case t != nil && t.Merge == shape.Keyed:
		return t.Keys
	case all("name"):
		return []string{"name"}
	}
	return nil
}

// common returns a longest common subsequence of two lists as ascending pairs of indices. For very long lists it is the
// common part of their ends.
func common(n, m int, same func(i, j int) bool) (pairs [][2]int) {
	const most = 1 << 20
	head := 0
	for head < n && head < m && same(head, head) {
		pairs = append(pairs, [2]int{head, head})
		head++
	}
	tail := 0
	for tail < n-head && tail < m-head && same(n-1-tail, m-1-tail) {
		tail++
	}
	rows, columns := n-head-tail, m-head-tail
	if rows > 0 && columns > 0 && rows*columns <= most {
		longest := make([][]int32, rows+1)
		for i := range longest {
			longest[i] = make([]int32, columns+1)
		}
		equal := make([]bool, rows*columns)
		for i := rows - 1; i >= 0; i-- {
			for j := columns - 1; j >= 0; j-- {
				if equal[i*columns+j] = same(head+i, head+j); equal[i*columns+j] {
					longest[i][j] = longest[i+1][j+1] + 1
				} else {
					longest[i][j] = max(longest[i+1][j], longest[i][j+1])
				}
			}
		}
		for i, j := 0, 0; i < rows && j < columns; {
			switch {
			case equal[i*columns+j]:
				pairs = append(pairs, [2]int{head + i, head + j})
				i, j = i+1, j+1
			case longest[i+1][j] >= longest[i][j+1]:
				i++
			default:
				j++
			}
		}
	}
	for k := tail; k > 0; k-- {
		pairs = append(pairs, [2]int{n - k, m - k})
	}
	return pairs
}
