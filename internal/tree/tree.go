// Package tree makes, reads and compares JSON trees: map[string]any, []any, string, int64, float64, bool and nil. Trees
// never change, and a mutated tree shares its unchanged parts with the original, so that most comparisons end where two
// trees are one.
package tree

import (
	"math"
	"reflect"
	"strconv"
	"unsafe"
)

// IsSame reports whether two maps are the same in memory.
func IsSame(a, b map[string]any) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b)) // a map is a pointer
}

// Find returns the value at a path of member names and decimal indexes.
func Find(v any, path []string) (any, bool) {
	for _, step := range path {
		switch at := v.(type) {
		case map[string]any:
			member, ok := at[step]
			if !ok {
				return nil, false
			}
			v = member
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// IsShared reports whether two values are the same: equal scalars, including their type and the sign of a zero, or the
// same map or list in memory.
func IsShared(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case int64:
		b, ok := b.(int64)
		return ok && a == b
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && IsSame(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) > 0 && &a[0] == &b[0] || len(a) == 0 && (a == nil) == (b == nil))
	}
	return false
}

// A Likeness is a set of differences between trees that do not count.
type Likeness uint8

// Differences that may be ignored.
const (
	Numbers    Likeness = 1 << iota // an integer and a float of the same value
	EmptyLists                      // an empty list and a nil one
	EmptyMaps                       // an empty map and a nil one
	NullLists                       // an empty list and null

	Values = Numbers | EmptyLists | EmptyMaps // trees with the same meaning in JSON
)

// Equal is reflect.DeepEqual, skipping shared parts.
func Equal(a, b any) bool { return compare(a, b, 0, reflect.DeepEqual) }

// EqualBut reports whether two trees are equal except for the differences in like.
func EqualBut(a, b any, like Likeness) bool { return compare(a, b, like, reflect.DeepEqual) }

// Semantic compares trees of objects as apiequality.Semantic compares the Go values: a null equals an empty list. other
// compares numbers of different types, and values that are not JSON.
func Semantic(a, b any, other func(a, b any) bool) bool {
	return compare(a, b, EmptyLists|EmptyMaps|NullLists, other)
}

func compare(a, b any, like Likeness, other func(a, b any) bool) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) && like&EmptyMaps == 0 {
			return false
		}
		if IsSame(a, b) {
			return true
		}
		for name, member := range a {
			counterpart, found := b[name]
			if !found || !compare(member, counterpart, like, other) {
				return false
			}
		}
		return true
	case []any:
		list, ok := b.([]any)
		if !ok {
			return len(a) == 0 && b == nil && like&NullLists != 0
		}
		if len(a) != len(list) || (a == nil) != (list == nil) && like&EmptyLists == 0 {
			return false
		}
		if len(a) > 0 && &a[0] == &list[0] {
			return true
		}
		for i := range a {
			if !compare(a[i], list[i], like, other) {
				return false
			}
		}
		return true
	case nil:
		list, ok := b.([]any)
		return b == nil || ok && len(list) == 0 && like&NullLists != 0
	case string, bool:
		return a == b
	case int64:
		switch b := b.(type) {
		case int64:
			return a == b
		case float64:
			if like&Numbers != 0 {
				return float64(a) == b
			}
		}
	case float64:
		switch b := b.(type) {
		case float64:
			return a == b
		case int64:
			if like&Numbers != 0 {
				return a == float64(b)
			}
		}
	}
	return other(a, b)
}

// DropNoTime removes the null creationTimestamp from all metadata in a tree. Servers up to 1.33 write it into every
// object and template that has not been created yet; later ones omit it. Policies must see one form, and a mutation
// must not seem to have removed it.
func DropNoTime(in any) {
	switch in := in.(type) {
	case map[string]any:
		for name, member := range in {
			if metadata, ok := member.(map[string]any); ok && name == "metadata" {
				if time, given := metadata["creationTimestamp"]; given && time == nil {
					delete(metadata, "creationTimestamp")
				}
			}
			DropNoTime(member)
		}
	case []any:
		for _, item := range in {
			DropNoTime(item)
		}
	}
}
