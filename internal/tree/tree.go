// Package tree reads and compares JSON trees: map[string]any, []any, string, int64, float64, bool and nil. Trees are
// never changed, and what a mutation leaves alone is shared with the tree before it, so that most comparisons end where
// two trees are one.
package tree

import (
	"math"
	"reflect"
	"unsafe"
)

// Same reports that two maps are one in memory.
func Same(a, b map[string]any) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b)) // a map is a pointer
}

// Shared reports that two values are one: the same scalar, its type and the sign of a zero included, or the same map or
// list in memory.
func Shared(a, b any) bool {
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
		return ok && Same(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && (len(a) > 0 && &a[0] == &b[0] || len(a) == 0 && (a == nil) == (b == nil))
	}
	return false
}

// Equal is reflect.DeepEqual, without a look at what both trees share.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		if Same(a, b) {
			return true
		}
		for name, member := range a {
			other, found := b[name]
			if !found || !Equal(member, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		if len(a) > 0 && &a[0] == &b[0] {
			return true
		}
		for i := range a {
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case string, bool, int64, float64, nil:
		return a == b
	}
	return reflect.DeepEqual(a, b)
}

// Semantic compares trees of objects as apiequality.Semantic compares the Go values: a null is an empty list. Numbers
// of two types, and what is no part of a JSON tree, are compared by other.
func Semantic(a, b any, other func(a, b any) bool) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, member := range a {
			counterpart, found := b[name]
			if !found || !Semantic(member, counterpart, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok {
			return len(a) == 0 && b == nil
		}
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if !Semantic(a[i], b[i], other) {
				return false
			}
		}
		return true
	case nil:
		list, ok := b.([]any)
		return b == nil || ok && len(list) == 0
	case string, bool:
		return a == b
	case int64:
		if b, ok := b.(int64); ok {
			return a == b
		}
	case float64:
		if b, ok := b.(float64); ok {
			return a == b
		}
	}
	return other(a, b)
}

// DropNoTime removes the creationTimestamp null from all metadata in a tree. Servers up to 1.33 write it into every
// object and template that has not been created yet; later ones leave it out. Policies must see one form, and no
// mutation must seem to have removed it.
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
