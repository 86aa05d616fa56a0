package tree

import (
	"math"
	"reflect"
	"testing"
	"time"
)

func TestConvert(t *testing.T) {
	type named string
	shared := map[string]any{"a": int64(1)}
	in := map[string]any{
		"int": 1, "int32": int32(2), "uint8": uint8(3), "float32": float32(1.5), "float64": 2.0, "named": named("x"),
		"texts": []string{"a", "b"}, "labels": map[string]string{"a": "b"}, "null": nil, "shared": shared,
		"list":   []any{1, "x", map[string]any{"deep": int16(4)}},
		"struct": struct{ A []int }{[]int{1}}, "time": time.Unix(0, 0).UTC(), "maps": []map[string]any{{"n": 5}},
	}
	want := map[string]any{
		"int": int64(1), "int32": int64(2), "uint8": int64(3), "float32": 1.5, "float64": 2.0, "named": "x",
		"texts": []any{"a", "b"}, "labels": map[string]any{"a": "b"}, "null": nil, "shared": shared,
		"list":   []any{int64(1), "x", map[string]any{"deep": int64(4)}},
		"struct": map[string]any{"A": []any{int64(1)}}, "time": "1970-01-01T00:00:00Z",
		"maps": []any{map[string]any{"n": int64(5)}},
	}
	got, err := Convert(in)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %#v, %v", got, err)
	}
	if in["int"] != 1 || in["list"].([]any)[0] != 1 {
		t.Error("the argument was changed")
	}
	if !IsSame(got["shared"].(map[string]any), shared) {
		t.Error("an unchanged part is not shared")
	}
	if again, err := Convert(got); err != nil || !IsSame(again, got) {
		t.Errorf("a tree is not returned as it is: %v", err)
	}
	if none, err := Convert(nil); none != nil || err != nil {
		t.Errorf("got %v, %v for nil", none, err)
	}
}

func TestConvertRefuses(t *testing.T) {
	for want, in := range map[string]map[string]any{
		"spec.list[1].x: chan int: json: unsupported type: chan int": {
			"spec": map[string]any{"list": []any{"a", map[string]any{"x": make(chan int)}}}},
		`metadata.labels["a.b/c"]: NaN is not a JSON number`: {
			"metadata": map[string]any{"labels": map[string]any{"a.b/c": math.NaN()}}},
		"x: []float64: json: unsupported value: +Inf": {"x": []float64{math.Inf(1)}},
	} {
		if _, err := Convert(in); err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
