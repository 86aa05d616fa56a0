package rewrite

import (
	"strconv"

	"github.com/celgate/celgate/internal/layout"
	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/internal/shape"
)

// A Hunk is the differences in one map or list.
type Hunk struct {
	Path  string   // of the map or list; empty for the object itself
	Lines []string // YAML, with "- " before old lines and "+ " before new ones
}

// Diff returns the differences between two objects of a type, which may be nil.
func Diff(before, after map[string]any, t *shape.Type) []Hunk {
	d := differ{style: style{newline: "\n", step: 2, quote: layout.Double, colon: ": ", comma: ", "}}
	d.maps("", before, after, t)
	return d.hunks
}

type differ struct {
	style style
	hunks []Hunk
}

func (d *differ) add(path, sign string, lines []string) {
	if n := len(d.hunks); n == 0 || d.hunks[n-1].Path != path {
		d.hunks = append(d.hunks, Hunk{Path: path})
	}
	h := &d.hunks[len(d.hunks)-1]
	for _, l := range lines {
		h.Lines = append(h.Lines, sign+l)
	}
}

// maps lists the differences in the map itself, then those below it.
func (d *differ) maps(path string, before, after map[string]any, t *shape.Type) {
	all := make(map[string]any, len(before)+len(after))
	for key := range before {
		all[key] = nil
	}
	for key := range after {
		all[key] = nil
	}
	keys := membersOf(all, t)
	below := func(b, a any) bool {
		_, maps := b.(map[string]any)
		_, list := b.([]any)
		_, toMap := a.(map[string]any)
		_, toList := a.([]any)
		return maps && toMap || list && toList
	}
	for _, key := range keys {
		b, was := before[key]
		a, is := after[key]
		if was && is && (equal(b, a) || below(b, a)) {
			continue
		}
		if was {
			d.add(path, "- ", d.member(key, b, t))
		}
		if is {
			d.add(path, "+ ", d.member(key, a, t))
		}
	}
	for _, key := range keys {
		b, a := before[key], after[key]
		if below(b, a) && !equal(b, a) {
			d.value(join(path, key), b, a, memberType(t, key))
		}
	}
}

func (d *differ) member(key string, v any, t *shape.Type) []string {
	return d.style.member(key, d.style.value(v, memberType(t, key), 0, layout.Plain), 0, layout.Plain)
}

func (d *differ) value(path string, before, after any, t *shape.Type) {
	if b, ok := before.(map[string]any); ok {
		d.maps(path, b, after.(map[string]any), t)
		return
	}
	d.diffLists(path, before.([]any), after.([]any), t)
}

func (d *differ) diffLists(path string, before, after []any, t *shape.Type) {
	item := func(v any) []string { return d.style.entry(d.style.item(v, elemType(t), 0, layout.Plain), 0) }
	from := align(before, after, t)
	next := 0
	for j, i := range from {
		for ; i >= 0 && next < i; next++ {
			d.add(path, "- ", item(before[next]))
		}
		if i < 0 {
			d.add(path, "+ ", item(after[j]))
			continue
		}
		next = i + 1
	}
	for ; next < len(before); next++ {
		d.add(path, "- ", item(before[next]))
	}
	for j, i := range from {
		if i >= 0 && !equal(before[i], after[j]) {
			d.value(path+"["+strconv.Itoa(j)+"]", before[i], after[j], elemType(t))
		}
	}
}

var name = pattern.New(`^[A-Za-z_$][A-Za-z0-9_$-]*$`)

func join(path, key string) string {
	switch {
	case !name().MatchString(key):
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}
