package webhook

import (
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/tree"
)

// An operation is one of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value *any   `json:"value,omitempty"` // nil for remove; what it points to may be null
}

// diff returns the operations that make after of before, none if they are equal. They touch no more than what
// differs: members of objects by name; items of lists by their place, with what is equal at both ends of a list left
// alone. Members come in the order of their names.
func diff(before, after map[string]any) []operation {
	var d differ
	d.objects("", before, after)
	return d.operations
}

type differ struct{ operations []operation }

func (d *differ) add(op, path string, value any) {
	d.operations = append(d.operations, operation{op, path, &value})
}

func (d *differ) remove(path string) {
	d.operations = append(d.operations, operation{Op: "remove", Path: path})
}

func (d *differ) values(path string, before, after any) {
	switch a := after.(type) {
	case map[string]any:
		if b, ok := before.(map[string]any); ok && (a == nil) == (b == nil) {
			d.objects(path, b, a)
			return
		}
	case []any:
		if b, ok := before.([]any); ok && (a == nil) == (b == nil) {
			d.lists(path, b, a)
			return
		}
	default:
		if tree.Equal(before, after) {
			return
		}
	}
	d.add("replace", path, after)
}

func (d *differ) objects(path string, before, after map[string]any) {
	if tree.Same(before, after) {
		return
	}
	var names []string // of members that may differ, in order
	for name, old := range before {
		if next, stays := after[name]; !stays || !tree.Shared(old, next) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if _, stays := after[name]; !stays {
			d.remove(path + "/" + escape(name))
		}
	}
	for name := range after {
		if _, was := before[name]; !was {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		next, stays := after[name]
		old, was := before[name]
		switch {
		case was && stays:
			d.values(path+"/"+escape(name), old, next)
		case stays:
			d.add("add", path+"/"+escape(name), next)
		}
	}
}

func (d *differ) lists(path string, before, after []any) {
	if tree.Shared(before, after) {
		return
	}
	start := 0
	for start < min(len(before), len(after)) && tree.Equal(before[start], after[start]) {
		start++
	}
	end := 0
	for end < min(len(before), len(after))-start && tree.Equal(before[len(before)-1-end], after[len(after)-1-end]) {
		end++
	}
	at := func(i int) string { return path + "/" + strconv.Itoa(i) }
	oldEnd, newEnd := len(before)-end, len(after)-end
	i := start
	for ; i < min(oldEnd, newEnd); i++ {
		d.values(at(i), before[i], after[i])
	}
	for last := oldEnd - 1; last >= i; last-- {
		d.remove(at(last))
	}
	for ; i < newEnd; i++ {
		d.add("add", at(i), after[i])
	}
}

// escape writes a member's name as part of a JSON Pointer.
func escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
