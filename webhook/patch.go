package webhook

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
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
		if equal(before, after) {
			return
		}
	}
	d.add("replace", path, after)
}

func (d *differ) objects(path string, before, after map[string]any) {
	if same(before, after) {
		return
	}
	var names []string // of members that may differ, in order
	for name, old := range before {
		if next, stays := after[name]; !stays || !identical(old, next) {
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
	if identical(before, after) {
		return
	}
	start := 0
	for start < min(len(before), len(after)) && equal(before[start], after[start]) {
		start++
	}
	end := 0
	for end < min(len(before), len(after))-start && equal(before[len(before)-1-end], after[len(after)-1-end]) {
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

// same reports that two objects are one: a mutation shares what it leaves alone.
func same(a, b map[string]any) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// identical reports that two values are one, as far as can be seen without looking into them.
func identical(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && a != nil && same(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && len(a) > 0 && len(a) == len(b) && &a[0] == &b[0]
	}
	return scalar(a) && scalar(b) && a == b
}

// scalar reports that == can compare a value.
func scalar(v any) bool {
	switch v.(type) {
	case nil, string, int64, float64, bool:
		return true
	}
	return false
}

// equal is reflect.DeepEqual for JSON trees, faster where they share parts.
func equal(a, b any) bool {
	if identical(a, b) {
		return true
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for name, old := range a {
			if next, ok := b[name]; !ok || !equal(old, next) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return !(scalar(a) && scalar(b)) && reflect.DeepEqual(a, b)
}

// escape writes a member's name as part of a JSON Pointer.
func escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
