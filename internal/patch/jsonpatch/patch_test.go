package jsonpatch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/celgate/celgate/internal/patch/jsonpatch"
)

// operation is jsonpatch.Operation as JSON, in which a missing value and null differ.
type operation struct {
	Op, Path, From string
	Value          json.RawMessage
}

func operations(t testing.TB, text string) []jsonpatch.Operation {
	t.Helper()
	var raw []operation
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatalf("operations %s: %v", text, err)
	}
	ops := make([]jsonpatch.Operation, len(raw))
	for i, op := range raw {
		ops[i] = jsonpatch.Operation{Op: op.Op, Path: op.Path, From: op.From}
		if op.Value != nil {
			ops[i].HasValue = true
			ops[i].Value = tree(t, string(op.Value))
		}
	}
	return ops
}

// tree decodes JSON with integers as int64.
func tree(t testing.TB, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return numbers(v)
}

func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// TestApply runs testdata/cases.json: the cases name the observation of a real server or library that they repeat.
func TestApply(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name       string
		Doc, Patch json.RawMessage
		Want       json.RawMessage
		Err        string
		Dropped    bool
		Panics     bool
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			doc := tree(t, string(c.Doc))
			got, err := jsonpatch.Apply(doc, operations(t, string(c.Patch)))
			var panics *jsonpatch.PanicError
			switch {
			case errors.Is(err, jsonpatch.ErrTestFailed) != c.Dropped, errors.As(err, &panics) != c.Panics:
				t.Fatalf("error %v; want dropped %v, panics %v", err, c.Dropped, c.Panics)
			case c.Dropped || c.Panics:
				return
			case c.Err != "":
				if err == nil || err.Error() != c.Err {
					t.Fatalf("got error\n%v\nwant\n%v", err, c.Err)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			if diff := cmp.Diff(tree(t, string(c.Want)), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tree(t, string(c.Doc)), doc); diff != "" {
				t.Errorf("the document was modified:\n%s", diff)
			}
		})
	}
}

// Values that JSON text cannot represent.
func TestEscapes(t *testing.T) {
	doc := map[string]any{"metadata": map[string]any{"labels": map[string]any{}}}
	const prefix = "/metadata/labels/"
	for name, c := range map[string]struct {
		op  jsonpatch.Operation
		err string
	}{
		"DEL": {jsonpatch.Operation{Op: "add", Path: prefix + "\x7f"},
			"add operation failed to decode path: missing value"},
		"not printing": {jsonpatch.Operation{Op: "remove", Path: prefix + "\U000e0001"},
			"remove operation failed to decode path: missing value"},
		"bell": {jsonpatch.Operation{Op: "replace", Path: prefix + "\a"},
			"replace operation failed to decode path: invalid character 'a' in string escape code"},
		"from": {jsonpatch.Operation{Op: "copy", Path: prefix + "x", From: "/\v"},
			"copy operation failed to decode from: invalid character 'v' in string escape code"},
		"op":  {jsonpatch.Operation{Op: "add\x00", Path: prefix + "x"}, "Unexpected kind: unknown"},
		"tab": {jsonpatch.Operation{Op: "add", Path: prefix + "\t\u2028é😀"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := jsonpatch.Apply(doc, []jsonpatch.Operation{c.op})
			if got := text(err); got != c.err {
				t.Errorf("got %q, want %q", got, c.err)
			}
		})
	}
}

// TestV412 tests the differences of v4.12.0.
func TestV412(t *testing.T) {
	doc := tree(t, `{"a":{"b":1}}`)
	for patch, want := range map[string]struct{ before, now string }{
		`[{"op":"replace","path":"","value":"x"}]`: {"", "replace operation value must be object or array: %!w(<nil>)"},
		`[{"op":"test","path":"/a/c"}]`: {
			"kube-apiserver panics: runtime error: invalid memory address or nil pointer dereference", ""},
		`[{"op":"test","path":"/a/b"}]`: {"testing value /a/b failed: test failed", "testing value /a/b failed: test failed"},
	} {
		got, err := jsonpatch.Patcher{V412: true}.Apply(doc, operations(t, patch))
		if text(err) != want.before || !reflect.DeepEqual(got, doc) {
			t.Errorf("%s: %v, %v, want %q", patch, got, err, want.before)
		}
		if _, err := jsonpatch.Apply(doc, operations(t, patch)); text(err) != want.now {
			t.Errorf("%s: %v, want %q", patch, err, want.now)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A patch copies only the containers on its paths.
func TestApplySharesWhatItDoesNotTouch(t *testing.T) {
	doc := tree(t, `{"spec":{"a":{"b":1}},"status":{"c":{}}}`).(map[string]any)
	got, err := jsonpatch.Apply(doc, operations(t, `[{"op":"add","path":"/spec/x","value":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	status := got.(map[string]any)["status"].(map[string]any)
	status["mark"] = true
	if doc["status"].(map[string]any)["mark"] != true {
		t.Error("the untouched member is a copy")
	}
	if _, ok := doc["spec"].(map[string]any)["x"]; ok {
		t.Error("the document was modified")
	}
}

// Copies of copies double the document; the server's limit ends it.
func TestCopyIsLimited(t *testing.T) {
	ops := []jsonpatch.Operation{{Op: "add", Path: "/a", Value: map[string]any{}, HasValue: true}}
	for range 64 {
		ops = append(ops, jsonpatch.Operation{Op: "copy", From: "/a", Path: "/b"},
			jsonpatch.Operation{Op: "move", From: "/b", Path: "/a/b"},
			jsonpatch.Operation{Op: "copy", From: "/a/b", Path: "/a/c"})
	}
	_, err := jsonpatch.Apply(map[string]any{}, ops)
	const want = "Unable to complete the copy, the accumulated size increase of copy is "
	if !strings.HasPrefix(text(err), want) {
		t.Errorf("got %v, want %s…", err, want)
	}
	var failed *jsonpatch.OperationError
	if !errors.As(err, &failed) || failed.Index == 0 || failed.Index >= len(ops) {
		t.Errorf("the error does not tell its operation: %#v", failed)
	}
}

func TestDepthIsLimited(t *testing.T) {
	var deep any = map[string]any{}
	for range 100_000 {
		deep = []any{deep}
	}
	doc := map[string]any{"a": deep}
	for _, op := range []jsonpatch.Operation{
		{Op: "copy", From: "/a", Path: "/b"},
		{Op: "test", Path: "/a", Value: deep, HasValue: true},
		{Op: "test", Path: "/a/0", Value: deep, HasValue: true},
		{Op: "add", Path: "/a" + strings.Repeat("/0", 90_000) + "/-"},
	} {
		if _, err := jsonpatch.Apply(doc, []jsonpatch.Operation{op}); !strings.HasSuffix(text(err),
			"exceeded max depth") {
			t.Errorf("%s: got %v", op.Op, err)
		}
	}
}
