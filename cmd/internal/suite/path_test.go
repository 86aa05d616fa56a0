package suite

import (
	"testing"

	"github.com/celgate/celgate/internal/tree"
)

func TestPath(t *testing.T) {
	object := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a.b/c": "x"}},
		"spec": map[string]any{"list": []any{map[string]any{"name": "one"},
			map[string]any{"name": "two", "port": int64(2)}}},
	}
	for path, want := range map[string]any{
		`metadata.labels["a.b/c"]`:  "x",
		`metadata.labels['a.b/c']`:  "x",
		`metadata.labels[a.b/c]`:    "x",
		`spec.list[0].name`:         "one",
		`spec.list[name=two].port`:  int64(2),
		`spec.list[2]`:              nil,
		`spec.list[name=three]`:     nil,
		`spec.none.of[0].these.are`: nil,
		`metadata.labels.none`:      nil,
	} {
		steps, err := parsePath(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if got := valueAt(object, steps); !tree.EqualBut(got, want, tree.Values) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	for _, path := range []string{"", ".", "a..b", "a[", `a["x]`, `a["x"`} {
		if steps, err := parsePath(path); err == nil {
			t.Errorf("%q: %v, want an error", path, steps)
		}
	}
}
