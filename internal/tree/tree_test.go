package tree

import (
	"math"
	"testing"
)

func TestComparisons(t *testing.T) {
	m, list := map[string]any{"a": int64(1)}, []any{"a"}
	none := func(any, any) bool { return false }
	for name, c := range map[string]struct {
		a, b                            any
		shared, equal, semantic, values bool
	}{
		"one map":             {m, m, true, true, true, true},
		"two maps":            {m, map[string]any{"a": int64(1)}, false, true, true, true},
		"other member":        {m, map[string]any{"b": int64(1)}, false, false, false, false},
		"one list":            {list, list, true, true, true, true},
		"two lists":           {list, []any{"a"}, false, true, true, true},
		"longer list":         {list, []any{"a", "b"}, false, false, false, false},
		"empty lists":         {[]any{}, []any{}, true, true, true, true},
		"nil and empty list":  {[]any(nil), []any{}, false, false, true, true},
		"null and empty list": {nil, []any{}, false, false, true, false},
		"empty list and null": {[]any{}, nil, false, false, true, false},
		"null and list":       {nil, list, false, false, false, false},
		"null in a member":    {map[string]any{"a": nil}, map[string]any{"a": []any{}}, false, false, true, false},
		"absent member":       {map[string]any{}, map[string]any{"a": []any{}}, false, false, false, false},
		"nil and empty map":   {map[string]any(nil), map[string]any{}, false, false, true, true},
		"nulls":               {nil, nil, true, true, true, true},
		"texts":               {"a", "a", true, true, true, true},
		"numbers":             {int64(1), float64(1), false, false, false, true},
		"zeros":               {0.0, math.Copysign(0, -1), false, true, true, true},
		"map and text":        {m, "a", false, false, false, false},
		"empty list and text": {[]any{}, "a", false, false, false, false},
		"numbers in a list":   {[]any{int64(1)}, []any{float64(1)}, false, false, false, true},
	} {
		if got := IsShared(c.a, c.b); got != c.shared {
			t.Errorf("%s: shared %v", name, got)
		}
		if got := Equal(c.a, c.b); got != c.equal {
			t.Errorf("%s: equal %v", name, got)
		}
		if got := Semantic(c.a, c.b, none); got != c.semantic {
			t.Errorf("%s: semantic %v", name, got)
		}
		if got := EqualBut(c.a, c.b, Values); got != c.values {
			t.Errorf("%s: of one value %v", name, got)
		}
	}
	if !Semantic(int64(1), 1.0, func(any, any) bool { return true }) {
		t.Error("numbers of two types are compared by other")
	}
}
