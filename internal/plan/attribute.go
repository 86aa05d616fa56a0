package plan

import (
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A Tree is a value backed by a JSON tree. A plan follows paths in the tree itself, and makes values only where an
// operation needs one.
type Tree interface {
	ref.Val
	// Tree returns a map[string]any or a []any, and the adapter that makes values of its parts.
	Tree() (any, types.Adapter)
}

// A Record is an object whose members are made on demand.
type Record interface {
	Member(name string) (any, bool)
}

// Records are Variables, some of which hold records or trees. A plan asks for the value of such a variable only if it
// needs the whole.
type Records interface {
	// Record returns a [Record], a map[string]any or a []any, and the adapter of its parts; nil if the variable holds
	// neither.
	Record(variable string) (any, types.Adapter)
}

// A part is the result of a path: a part of a JSON tree if shows is set, else a value. One without content gives up.
type part struct {
	content any // a ref.Val if shows is nil
	shows   types.Adapter
}

// partOf evaluates a node without making a value of a part of a tree.
func partOf(n node, m *machine) part {
	if a, ok := n.(*attribute); ok {
		return a.part(m)
	}
	return part{content: n.eval(m)}
}

func (p part) hasGivenUp() bool { return p.content == nil && p.shows == nil }

// val returns the part as a value.
func (p part) val() ref.Val {
	if p.shows == nil {
		v, _ := p.content.(ref.Val)
		return v
	}
	return value(p.shows.NativeToValue(p.content))
}

// text returns the part if it is a string.
func (p part) text() (string, bool) {
	switch v := p.content.(type) {
	case string:
		return v, true
	case types.String:
		return string(v), true
	}
	return "", false
}

// list returns the part if it is a list in a tree. A nil list may be null, and is not ok.
func (p part) list() (items []any, ok bool) {
	items, ok = p.content.([]any)
	return items, ok && items != nil
}

// names returns the keys of a map in a tree, in the order of its value. A nil map may be null, and is not ok.
func (p part) names() (sorted []string, ok bool) {
	members, ok := p.content.(map[string]any)
	if !ok || members == nil {
		return nil, false
	}
	sorted = make([]string, 0, len(members))
	for name := range members {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted, true
}

// size returns the result of size() for a part of a tree.
func (p part) size() (n types.Int, ok bool) {
	switch v := p.content.(type) {
	case []any:
		return types.Int(len(v)), v != nil
	case map[string]any:
		return types.Int(len(v)), v != nil
	}
	return 0, false
}

// capacityHint estimates the length of a list made of this one.
func (p part) capacityHint() int {
	n, ok := p.size()
	if !ok {
		if sized, isSized := p.content.(traits.Sizer); isSized {
			n, _ = sized.Size().(types.Int)
		}
	}
	return int(min(max(n, 1), 64))
}

// lookUp finds a member in the tree; ok is false if only the value can tell.
func (p part) lookUp(name string) (member any, found, ok bool) {
	switch members := p.content.(type) {
	case map[string]any:
		if members == nil {
			return nil, false, false
		}
		member, found = members[name]
	case Record:
		member, found = members.Member(name)
	default:
		return nil, false, false
	}
	_, unsigned := member.(uint64) // its value may be an error
	return member, found, !unsigned
}

// An attribute is a value and the path selected in it.
type attribute struct {
	root     node
	path     []qualifier
	cost     uint64
	optional bool // some step of path is optional
}

func (a *attribute) isRelative() bool {
	switch a.root.(type) {
	case global, record, iterator, accumulator:
		return false
	}
	return true
}

type qualifier struct {
	key      ref.Val
	name     string // the key, if it is a constant string
	named    bool
	dynamic  node // computes the key if it is not constant
	optional bool
}

func constantQualifier(key ref.Val, optional bool) qualifier {
	name, named := key.(types.String)
	return qualifier{key: key, name: string(name), named: named, optional: optional}
}

// keyOf evaluates the key; it gives up for a value that cannot be a key.
func (q *qualifier) keyOf(m *machine) part {
	if q.dynamic == nil {
		return part{content: q.key}
	}
	p := partOf(q.dynamic, m)
	if _, isText := p.text(); isText {
		return p
	}
	key := p.val()
	if key == nil || !isKey(key) {
		return part{}
	}
	return part{content: key}
}

func (a *attribute) eval(m *machine) ref.Val { return a.part(m).val() }

func (a *attribute) part(m *machine) part {
	p := start(a.root, m, len(a.path) > 0 && !a.optional)
	if p.hasGivenUp() {
		return p
	}
	if opt, ok := p.content.(*types.Optional); ok || a.optional {
		p = part{content: a.followOptional(m, p.val(), opt)}
	} else {
		p = p.follow(m, a.path)
	}
	m.cost += a.cost
	return p
}

// start evaluates the root of a path; selects: a path follows.
func start(root node, m *machine, selects bool) part {
	switch root := root.(type) {
	case iterator:
		if p := m.locals[root]; p.shows != nil {
			return p
		}
	case record:
		if selects {
			if p := root.members(m); !p.hasGivenUp() {
				return p
			}
		}
	}
	v := root.eval(m)
	if !selects {
		return part{content: v}
	}
	return treePart(v)
}

// treePart returns a value as the tree behind it, if there is one.
func treePart(v ref.Val) part {
	if t, ok := v.(Tree); ok {
		content, shows := t.Tree()
		return part{content, shows}
	}
	return part{content: v}
}

// follow follows a path without optional steps.
func (p part) follow(m *machine, path []qualifier) part {
	for i := range path {
		q := &path[i]
		if members, ok := p.content.(map[string]any); ok && q.named {
			if p.content, ok = members[q.name]; !ok {
				return part{}
			}
			m.cost++
			continue
		}
		key := q.keyOf(m)
		if key.hasGivenUp() {
			return part{}
		}
		if p = p.member(key); p.hasGivenUp() {
			return part{}
		}
		m.cost++
	}
	return p
}

// member selects one member or element; it gives up if that is missing.
func (p part) member(key part) part {
	if name, isText := key.text(); isText {
		if found, present, ok := p.lookUp(name); ok {
			if !present {
				return part{}
			}
			return part{found, p.shows}
		}
	} else if items, ok := p.list(); ok {
		if i, ok := key.content.(types.Int); ok && i >= 0 && int64(i) < int64(len(items)) {
			return part{items[i], p.shows}
		}
	}
	v := p.val()
	if v == nil {
		return part{}
	}
	return part{content: member(v, key.val())}
}

// followOptional follows a path with optional steps.
func (a *attribute) followOptional(m *machine, v ref.Val, opt *types.Optional) ref.Val {
	isOptional := opt != nil
	if isOptional {
		if !opt.HasValue() || len(a.path) == 0 {
			return opt
		}
		v = opt.GetValue()
	}
	for i := range a.path {
		q := &a.path[i]
		isOptional = isOptional || q.optional
		key := q.keyOf(m).val()
		if key == nil {
			return nil
		}
		if !isOptional {
			if v = member(v, key); v == nil {
				return nil
			}
			m.cost++
			continue
		}
		next, present, ok := find(v, key)
		if !ok {
			return nil
		}
		if !present {
			return types.OptionalNone
		}
		v = next
		m.cost++
	}
	return types.OptionalOf(v)
}

// isKey reports whether a value can be a key.
func isKey(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Int, types.Uint, types.Bool, types.Double:
		return true
	}
	return false
}

// member selects one member or element; nil if it is missing.
func member(v, key ref.Val) ref.Val {
	switch v := v.(type) {
	case traits.Mapper:
		found, ok := v.Find(key)
		if !ok || found == nil {
			return nil
		}
		return value(found)
	case traits.Lister:
		i, err := types.IndexOrError(key)
		if err != nil || i < 0 || types.Int(i) >= v.Size().(types.Int) {
			return nil
		}
		return value(v.Get(key))
	case traits.Indexer:
		return value(v.Get(key))
	}
	return nil
}

// find selects one member or element that may be missing. It is not ok for unknown types.
func find(v, key ref.Val) (found ref.Val, present, ok bool) {
	switch v := v.(type) {
	case traits.Mapper:
		found, present = v.Find(key)
		if found != nil && value(found) == nil {
			return nil, false, false
		}
		return found, present, true
	case traits.Lister:
		i, err := types.IndexOrError(key)
		if err != nil {
			return nil, false, false
		}
		if i < 0 || types.Int(i) >= v.Size().(types.Int) {
			return nil, false, true
		}
		found = value(v.Get(key))
		return found, true, found != nil
	case traits.Indexer, *types.Optional:
		return nil, false, false
	}
	return nil, false, true
}

// presence is has().
type presence struct {
	root node
	path []qualifier
	name types.String
}

func (p *presence) eval(m *machine) ref.Val {
	in := start(p.root, m, true)
	if _, ok := in.content.(*types.Optional); ok {
		return nil
	}
	if in = in.follow(m, p.path); in.hasGivenUp() {
		return nil
	}
	if in.shows == nil {
		in = treePart(in.val())
	}
	_, present, ok := in.lookUp(string(p.name))
	if !ok {
		v := in.val()
		if v == nil {
			return nil
		}
		if _, isOptional := v.(*types.Optional); isOptional {
			return nil
		}
		if _, present, ok = find(v, p.name); !ok {
			return nil
		}
	}
	m.cost++
	return types.Bool(present)
}
