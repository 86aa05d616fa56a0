package jsonpatch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	upstream "gopkg.in/evanphx/json-patch.v4"

	"github.com/celgate/celgate/internal/patch/jsonpatch"
)

// A generator makes documents and patches out of a stream of choices. They are small and use few names, so that paths
// often lead somewhere.
type generator struct{ choices []byte }

func (g *generator) choose(n int) int {
	if len(g.choices) == 0 {
		return 0
	}
	c := g.choices[0]
	g.choices = g.choices[1:]
	return int(c) % n
}

func pick[T any](g *generator, from ...T) T { return from[g.choose(len(from))] }

func (g *generator) value(depth int) any {
	n := 16
	if depth == 0 {
		n = 10
	}
	switch g.choose(n) {
	case 0:
		return nil
	case 1, 2:
		return pick[any](g, "", "a", "<&>", "\x7f\u2028é", true, false)
	case 3, 4, 5:
		return pick[any](g, int64(0), int64(4), int64(-1), int64(9007199254740993), int64(1e15))
	case 6, 7:
		return pick[any](g, 4.0, 0.5, 1e15, 1e21, 1e-7, 9007199254740992.0)
	case 8:
		return map[string]any{}
	case 9:
		return []any{}
	case 10, 11, 12:
		list := make([]any, g.choose(4))
		for i := range list {
			list[i] = g.value(depth - 1)
		}
		return list
	}
	return g.object(depth)
}

func (g *generator) object(depth int) map[string]any {
	object := map[string]any{}
	for range g.choose(4) {
		object[pick(g, "a", "b", "c", "", "0", "~1")] = g.value(depth - 1)
	}
	return object
}

func (g *generator) path() string {
	path := pick(g, "", "", "", "", "", "", "x")
	for range pick(g, 1, 2, 3, 1, 2, 0) {
		path += "/" + pick(g, "a", "b", "c", "0", "1", "-1", "-", "", "~01", "00", "+1", "-2", "x", "3", "-4",
			"9999999999999999999", "\x7f", "\v", "é\t")
	}
	return path
}

func (g *generator) operations() []jsonpatch.Operation {
	ops := make([]jsonpatch.Operation, 1+g.choose(6))
	for i := range ops {
		op := jsonpatch.Operation{Op: pick(g, "add", "remove", "replace", "move", "copy", "test", "add", "test", "add",
			"replace", "", "x\a"), Path: g.path()}
		if op.Op == "move" || op.Op == "copy" {
			op.From = g.path()
		}
		if g.choose(8) != 0 {
			op.HasValue, op.Value = true, g.value(2)
		}
		ops[i] = op
	}
	return ops
}

// serverApply does the work of json_patch.go of the API server.
func serverApply(doc map[string]any, ops []jsonpatch.Operation) (result string, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = &jsonpatch.PanicError{Reason: fmt.Sprint(reason)}
		}
	}()
	text := func(s string) *json.RawMessage {
		raw := json.RawMessage(strconv.Quote(s))
		return &raw
	}
	var patch upstream.Patch
	for _, op := range ops {
		o := upstream.Operation{"op": text(op.Op), "path": text(op.Path)}
		if op.From != "" {
			o["from"] = text(op.From)
		}
		if op.HasValue {
			raw, err := json.Marshal(op.Value)
			if err != nil {
				return "", err
			}
			o["value"] = (*json.RawMessage)(&raw)
		}
		patch = append(patch, o)
	}
	before, err := json.Marshal(doc)
	if err != nil {
		return "", err
	}
	after, err := patch.Apply(before)
	return string(after), err
}

func compare(t *testing.T, choices []byte) {
	t.Helper()
	g := &generator{choices: choices}
	doc, ops := g.object(3), g.operations()
	before, _ := json.Marshal(doc)
	opsBefore := fmt.Sprint(ops)
	want, wantErr := serverApply(doc, ops)
	got, err := jsonpatch.Apply(doc, ops)

	report := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("document %s\noperations %+v\n"+format, append([]any{before, ops}, args...)...)
	}
	if after, _ := json.Marshal(doc); string(after) != string(before) {
		report("the document became %s", after)
	}
	if after := fmt.Sprint(ops); after != opsBefore {
		report("the operations became %s", after)
	}
	var panics, wantPanics *jsonpatch.PanicError
	gotPanics := errors.As(err, &panics)
	if errors.As(wantErr, &wantPanics) || gotPanics {
		// Which of two failures of one comparison the library meets first depends on the order of its maps.
		if errors.Is(err, jsonpatch.ErrTestFailed) && wantPanics != nil ||
			panics != nil && errors.Is(wantErr, upstream.ErrTestFailed) {
			return
		}
		if panics == nil || wantPanics == nil || panics.Reason != wantPanics.Reason {
			report("got error %v, want %v", err, wantErr)
		}
		return
	}
	if text(err) != text(wantErr) ||
		errors.Is(err, jsonpatch.ErrTestFailed) != errors.Is(wantErr, upstream.ErrTestFailed) {
		report("got error %v\nwant      %v", err, wantErr)
	}
	if err != nil {
		return
	}
	result, err := json.Marshal(got)
	if err != nil {
		report("the result is no JSON tree: %v", err)
	}
	if string(result) != want {
		report("got  %s\nwant %s", result, want)
	}
}

func TestApplyAgainstLibrary(t *testing.T) {
	random := rand.NewChaCha8([32]byte([]byte(strings.Repeat("celgate ", 4))))
	for range 20_000 {
		choices := make([]byte, 120)
		random.Read(choices)
		compare(t, choices)
	}
}

// FuzzJSONPatch compares Apply with gopkg.in/evanphx/json-patch.v4, called as the server calls it: the same document,
// error or panic.
func FuzzJSONPatch(f *testing.F) {
	f.Add([]byte("add, remove, replace, move, copy, test"))
	f.Fuzz(compare)
}

func BenchmarkApply(b *testing.B) {
	doc := tree(b, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","labels":{"a":"b"}},"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	ops := operations(b, `[{"op":"add","path":"/metadata/labels/x","value":"y"},{"op":"add","path":"/spec/template/spec/containers/0/imagePullPolicy","value":"Always"}]`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsonpatch.Apply(doc, ops); err != nil {
			b.Fatal(err)
		}
	}
}
