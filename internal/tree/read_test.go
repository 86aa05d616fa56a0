package tree

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
)

// texts are JSON that a Reader reads.
var texts = []string{
	`null`, ` true `, "\t\r\n false", `{}`, `[]`, `{"a":{}, "b" : [ ] ,"c":[1,[2,{"d":[]}],3]}`, `{"":null}`,
	`{"a":1,"a":{"b":2},"a":{"c":3}}`,
	`0`, `-0`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `1.0`,
	`-0.0`, `1e3`, `1E+3`, `12.5e-1`, `1e-400`,
	`""`, `"ä€😀"`, `"\"\\\/\b\f\n\r\t"`, `"a\nb"`, `"\u0041\u00e4\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\u0041\n"`,
	"\"\u2028\x7f\"", `{"\n\"k\"":"\t"}`,
	strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
	`{"a":[1,` + strings.Repeat("{},", longList) + `[2,` + strings.Repeat("3,",
		longList) + `4]],"b":[5,6],"c":{"d":7}}`,
}

// others are texts that it gives up on.
var others = []string{
	``, ` `, `{`, `[`, `"`, `"\`, `"\"`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a" 1}`, `{1:2}`, `{,}`,
	`[1`, `[1,`, `[1,]`, `[,]`, `[1 2]`, `[}`, `{]`,
	`tru`, `nulL`, `truefalse`, `{}{}`, `{} x`, `1 2`, `-`, `+1`, `01`, `-01`, `1.`, `.1`, `1e`, `1e+`, `0x1`, `1_0`,
	`1e400`, `NaN`, `Infinity`,
	`"\x"`, `"\u12"`, `"\u12g4"`, "\"\n\"", "\"\x00\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\"\\n\xff\"", "\ufeff{}",
	"{}\x00",
	strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), strings.Repeat(`{"a":`, 100000),
}

func TestReader(t *testing.T) {
	for _, text := range texts {
		if !agree(t, text) {
			t.Errorf("%.40q is not read", text)
		}
	}
	for _, text := range others {
		if agree(t, text) {
			t.Errorf("%.40q is read", text)
		}
	}
}

// FuzzReader compares the result of a Reader with the decoder of the API server.
func FuzzReader(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	for _, text := range others {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { agree(t, text) })
}

// agree reports whether a text is read, and fails the test if it is read as something else.
func agree(t *testing.T, text string) bool {
	t.Helper()
	r := NewReader(text)
	have := r.Value()
	if !r.Done() {
		return false
	}
	var want any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &want); err != nil {
		t.Errorf("%q: read, but %v", text, err)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%q\nhave %#v\nwant %#v", text, have, want)
	}
	if a, ok := have.(float64); ok && math.Signbit(a) != math.Signbit(want.(float64)) {
		t.Errorf("%q: the sign of zero", text)
	}
	return true
}

func TestMembers(t *testing.T) {
	read := func(text string) (names []string, done bool) {
		r := NewReader(text)
		for name := range r.Members() {
			names = append(names, name)
			r.Value()
		}
		return names, r.Done()
	}
	if names, done := read(` { "a" : 1 , "b":{"a":2,"a":3} } `); !done ||
		!reflect.DeepEqual(names, []string{"a", "b"}) {
		t.Errorf("%q, done: %v", names, done)
	}
	if names, done := read(`{}`); !done || len(names) > 0 {
		t.Errorf("%q, done: %v", names, done)
	}
	many := "{"
	for i := range maxMembers {
		many += fmt.Sprintf(`"%d":1,`, i)
	}
	if names, done := read(strings.TrimSuffix(many, ",") + "}"); !done || len(names) != maxMembers {
		t.Errorf("%d members, done: %v", len(names), done)
	}
	for _, text := range []string{``, `null`, `[]`, `{"a":1,"a":1}`, `{"a":1,"\u0061":1}`, `{"a":1`, `{"a":1,}`,
		`{"a"}`, `{"a":}`, `{} {}`, many + `"one more":1}`} {
		if names, done := read(text); done {
			t.Errorf("%s: %q", text, names)
		}
	}
}

func TestReaderTypes(t *testing.T) {
	texts := []string{`null`, `true`, `1`, `"a"`, `{"a":1}`, `["a"]`, `["a",1]`, `[]`}
	for name, one := range map[string]struct {
		read func(r *Reader) any
		want map[string]any // by the texts that it reads
	}{
		"Object": {func(r *Reader) any { return r.Object() },
			map[string]any{`null`: map[string]any(nil), `{"a":1}`: map[string]any{"a": int64(1)}}},
		"Bool":   {func(r *Reader) any { return r.Bool() }, map[string]any{`true`: true}},
		"String": {func(r *Reader) any { return r.String() }, map[string]any{`"a"`: "a"}},
		"Strings": {func(r *Reader) any { return r.Strings() },
			map[string]any{`["a"]`: []string{"a"}, `[]`: []string{}}},
	} {
		for _, text := range texts {
			r := NewReader(text)
			have := one.read(r)
			want, reads := one.want[text]
			if done := r.Done(); done != reads || done && !reflect.DeepEqual(have, want) {
				t.Errorf("%s of %s: %#v, done: %v", name, text, have, done)
			}
		}
	}
}
