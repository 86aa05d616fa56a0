package jsonpatch

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// equal compares a non-nil node of the document with a non-nil node of a test value, like lazyNode.equal of patch.go
// v4.13.0.
//
// Two peculiarities are visible: the null of a whole value equals an empty object or array, because it decodes into
// one; and comparing arrays that contain null dereferences it. If an object differs in one member and panics in
// another, the library's answer depends on the order of its maps; here the difference counts.
func equal(node, value any, depth int) (bool, error) {
	if depth == 0 {
		return false, errTooDeep
	}
	if members, ok := asObject(node); ok {
		others, ok := asObject(value)
		if !ok {
			return false, nil
		}
		return equalMembers(members, others, depth-1)
	}
	if items, ok := asList(node); ok {
		others, ok := asList(value)
		if _, isNull := value.(null); !ok && !isNull {
			return false, nil
		}
		return equalItems(items, others, depth-1)
	}
	return equalScalar(node, value), nil
}

// asObject returns the members of a node that decodes into an object.
func asObject(node any) (members map[string]any, ok bool) {
	switch node := node.(type) {
	case map[string]any:
		return node, true
	case *object:
		return node.members, true
	case null:
		return nil, true
	}
	return nil, false
}

func asList(node any) (items []any, ok bool) {
	switch node := node.(type) {
	case []any:
		return node, true
	case *array:
		return node.items, true
	}
	return nil, false
}

func equalMembers(members, others map[string]any, depth int) (bool, error) {
	if len(members) != len(others) {
		return false, nil
	}
	var failed error
	for key, member := range members {
		other, ok := others[key]
		if !ok || (member == nil) != (other == nil) {
			return false, nil
		}
		if member == nil {
			continue
		}
		same, err := equal(member, other, depth)
		if err != nil {
			failed = err
		} else if !same {
			return false, nil
		}
	}
	return failed == nil, failed
}

func equalItems(items, others []any, depth int) (bool, error) {
	if len(items) != len(others) {
		return false, nil
	}
	for i, item := range items {
		if item == nil || others[i] == nil {
			return false, &PanicError{Reason: nilPointer}
		}
		if same, err := equal(item, others[i], depth); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// equalScalar compares the JSON texts of two values, the first of which is a scalar.
func equalScalar(a, b any) bool {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case int64:
		switch b := b.(type) {
		case int64:
			return a == b
		case float64:
			return sameText(a, b)
		}
	case float64:
		switch b := b.(type) {
		case float64:
			return math.Float64bits(a) == math.Float64bits(b)
		case int64:
			return sameText(b, a)
		}
	}
	if isContainer(b) {
		return false
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// sameText reports whether an integer and a floating-point number have the same JSON text, as 4 and 4.0 do, and 2^53+1
// and the nearest float do not.
func sameText(i int64, f float64) bool {
	return strconv.FormatInt(i, 10) == strconv.FormatFloat(f, 'f', -1, 64)
}
