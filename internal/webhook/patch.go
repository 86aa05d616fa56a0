package webhook

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/celgate/celgate/internal/tree"
)

// An operation is one of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"` // nil for remove; null is null
}

var null = json.RawMessage("null")

// diff returns the operations that turn before into after; none if they are equal. They are minimal: members of objects
// are compared by name; lists by index, without the equal items at both ends. Members come in the order of their names.
// Subtrees that both share are skipped.
func diff(before, after map[string]any) []operation {
	var d differ
	d.objects(before, after)
	return d.operations
}

type differ struct {
	path       []byte // the JSON Pointer (RFC 6901) of the compared values
	operations []operation
}

// member descends to a member, and returns the argument for [differ.ascend].
func (d *differ) member(name string) (up int) {
	up = len(d.path)
	d.path = append(append(d.path, '/'), tree.EscapeToken(name)...)
	return up
}

// item descends to an item of a list.
func (d *differ) item(i int) (up int) {
	up = len(d.path)
	d.path = strconv.AppendInt(append(d.path, '/'), int64(i), 10)
	return up
}

func (d *differ) ascend(up int) { d.path = d.path[:up] }

func (d *differ) put(op string, value any) {
	if value == nil {
		value = null
	}
	d.operations = append(d.operations, operation{op, string(d.path), value})
}

func (d *differ) remove() {
	d.operations = append(d.operations, operation{"remove", string(d.path), nil})
}

func (d *differ) values(before, after any) {
	switch a := after.(type) {
	case map[string]any:
		if b, ok := before.(map[string]any); ok && (a == nil) == (b == nil) {
			d.objects(b, a)
			return
		}
	case []any:
		if b, ok := before.([]any); ok && (a == nil) == (b == nil) {
			d.diffLists(b, a)
			return
		}
	default:
		if tree.Equal(before, after) {
			return
		}
	}
	d.put("replace", after)
}

func (d *differ) objects(before, after map[string]any) {
	if tree.IsSame(before, after) {
		return
	}
	var few [8]string
	names := few[:0] // names of members that may differ
	stay := 0
	for name, old := range before {
		next, stays := after[name]
		if stays {
			stay++
		}
		if !stays || !tree.IsShared(old, next) {
			names = append(names, name)
		}
	}
	if stay < len(after) {
		for name := range after {
			if _, was := before[name]; !was {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	if stay < len(before) {
		for _, name := range names {
			if _, stays := after[name]; !stays {
				up := d.member(name)
				d.remove()
				d.ascend(up)
			}
		}
	}
	for _, name := range names {
		next, stays := after[name]
		old, was := before[name]
		up := d.member(name)
		switch {
		case was && stays:
			d.values(old, next)
		case stays:
			d.put("add", next)
		}
		d.ascend(up)
	}
}

func (d *differ) diffLists(before, after []any) {
	if tree.IsShared(before, after) {
		return
	}
	start, end := 0, 0
	if len(before) != len(after) {
		for start < min(len(before), len(after)) && tree.Equal(before[start], after[start]) {
			start++
		}
		for end < min(len(before), len(after))-start && tree.Equal(before[len(before)-1-end], after[len(after)-1-end]) {
			end++
		}
	}
	oldEnd, newEnd := len(before)-end, len(after)-end
	i := start
	for ; i < min(oldEnd, newEnd); i++ {
		up := d.item(i)
		d.values(before[i], after[i])
		d.ascend(up)
	}
	for last := oldEnd - 1; last >= i; last-- {
		up := d.item(last)
		d.remove()
		d.ascend(up)
	}
	for ; i < newEnd; i++ {
		up := d.item(i)
		d.put("add", after[i])
		d.ascend(up)
	}
}
