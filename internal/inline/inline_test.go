package inline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/inline"
)

func knownLibraries() inline.Libraries {
	return inline.Libraries{"lib": {
		"images": {Variable: "lib_images"},
		"zero":   {Body: "0"},
		"typed":  {Params: []string{"s", "n"}, Takes: []string{"string", "int"}, Gives: "bool", Body: "s == n"},
		"twice":  {Params: []string{"x"}, Body: "x + x"},
		"any":    {Params: []string{"list", "x"}, Body: "list.exists(c, c == x)"},
		"made":   {Params: []string{"name"}, Body: `Object.spec{name: name, ?other: {name: name}[?name]}`},
		"deep":   {Params: []string{"a"}, Body: "a.x.a || has(a.a) || r'a' == \"a\" || `a` == a"},
	}}
}

func TestExpand(t *testing.T) {
	for src, want := range map[string]string{
		"lib.images.size()":         "variables.lib_images.size()",
		"object.lib.images":         "",
		"object.?lib.images":        "",
		"'lib.images' // lib.zero(": "",
		"lib.zero()+1":              "(0)+1",
		"lib.twice(x)":              "(x + x)",
		"lib.twice(x + x)":          "([x + x].map(x1, x1 + x1)[0])",
		"lib.twice(y)":              "(y + y)",
		"lib.typed(a, 1)":           "bool([string(a)].map(s, s == (1))[0])",
		"lib.typed('', 1u)":         "bool([int(1u)].map(n, ('') == n)[0])",
		"lib.twice(-1)":             "([-1].map(x, x + x)[0])",
		"lib.twice(1)":              "((1) + (1))",
		"lib.twice(lib.twice(y.z))": "([([y.z].map(x, x + x)[0])].map(x, x + x)[0])",
		"lib . twice ( 'a)' )":      "(('a)') + ('a)'))",
		"lib.any(c, x)":             "([c].map(list, list.exists(c, c == x))[0])",
		"lib.any(lib.images, '')":   "([variables.lib_images].map(list, list.exists(c, c == ('')))[0])",
		// A macro that declares the name of a library hides it.
		"y.all(lib, lib.images == 1) && lib.zero() == 0": "y.all(lib, lib.images == 1) && (0) == 0",
		"y.map(lib, [lib.zero], lib.zero)":               "",
		"y.transformList(i, lib, lib.images)":            "",
		"cel.bind(lib, 1, lib.images)":                   "",
		"y.all(lib.images, 1)":                           "y.all(variables.lib_images, 1)",
		"[lib].all(l, lib.images)":                       "[lib].all(l, variables.lib_images)",
		"lib.made(b)":                                    `(Object.spec{name: b, ?other: {b: b}[?b]})`,
		"lib.deep(b.c)":                                  "([b.c].map(a, a.x.a || has(a.a) || r'a' == \"a\" || `a` == a)[0])",
		"lib.deep(b)":                                    "(b.x.a || has(b.a) || r'a' == \"a\" || `a` == b)",
	} {
		got, err := inline.Expand(src, knownLibraries(), "")
		switch {
		case err != nil:
			t.Errorf("%s: %v", src, err)
		case want == "" && got != nil:
			t.Errorf("%s becomes %s", src, got.Code)
		case want != "" && got == nil:
			t.Errorf("%s stays", src)
		case want != "" && got.Code != want:
			t.Errorf("%s becomes\n%s, not\n%s", src, got.Code, want)
		}
	}
}

func TestExpandErrors(t *testing.T) {
	for src, want := range map[string]string{
		"1 + lib.imagez":              "4: undeclared reference to 'lib.imagez' (did you mean lib.images?)",
		"lib.twice":                   "0: lib.twice is a function of one argument: its arguments are missing",
		"lib.twice()":                 "0: lib.twice takes one argument, not 0",
		"lib.any(1)":                  "0: lib.any takes 2 arguments, not 1",
		"lib.any(,1)":                 "8: an argument is missing",
		"lib.images()":                "0: lib.images is a variable, not a function",
		"[lib.twice(lib.elsewhere())": "11: undeclared reference to 'lib.elsewhere'",
		"lib.twice(1":                 "0: the closing ) of lib.twice is missing",
		"é + lib.images + 'é'":        "5: lib.images is a variable, and there are none here",
	} {
		without := ""
		if strings.Contains(want, "none here") {
			without = "there are none here"
		}
		_, err := inline.Expand(src, knownLibraries(), without)
		if err == nil || fmt.Sprintf("%d: %s", err.At, err.Text) != want {
			t.Errorf("%s: %+v, not %s", src, err, want)
		}
	}
}

// TestBounded doubles an argument in each of many functions.
func TestBounded(t *testing.T) {
	for argument, want := range map[string]string{
		"x.y":             "more than 200 macros",  // an argument that is evaluated once, by a macro
		"x":               "more than 65536 bytes", // one that is copied
		"[x.y].all(i, i)": "200 macros to",         // a macro of its own
	} {
		lib := map[string]inline.Member{"f0": {Params: []string{"x"}, Body: "x + x"}}
		all := inline.Libraries{"lib": lib}
		for i := 1; ; i++ {
			before, name := fmt.Sprintf("lib.f%d(%s)", i-1, argument), fmt.Sprintf("f%d", i)
			text, err := inline.Expand(before+" + "+before, all, "")
			if err != nil {
				if !strings.Contains(err.Text, want) {
					t.Errorf("%s: %v", argument, err)
				}
				break
			}
			if i > 25 {
				t.Fatalf("an expression has %d bytes", len(text.Code))
			}
			lib[name] = inline.Member{Params: []string{"x"}, Body: text.Code}
		}
	}
}

// TestWritten finds the place of each byte.
func TestWritten(t *testing.T) {
	src := "  1 == lib.twice(y.z) && true"
	text, _ := inline.Expand(src, knownLibraries(), "")
	for _, trim := range []int{0, 2} {
		x, src := text.Trim(trim), src[trim:]
		for _, of := range []struct {
			code, written string
			verbatim      bool
		}{{"1 ==", "1 ==", true}, {"y.z", "y.z", true}, {"x + x", "lib.twice(y.z)", false}, {"&& true", "&& true", true}} {
			from, to, verbatim := x.Origin(strings.Index(x.Code, of.code))
			if verbatim {
				to = from + len(of.code)
			}
			if got := src[from:to]; got != of.written || verbatim != of.verbatim {
				t.Errorf("%s of %s is %q", of.code, x.Code, got)
			}
		}
	}
}

func TestNamedAndBody(t *testing.T) {
	if got := inline.NamesOf("lib.a + x.lib.b + lib.a(lib.c) + 'lib.d'", "lib"); len(got) != 2 || got["a"] != 0 || got["c"] != 24 {
		t.Error(got)
	}
	if got := inline.Body("  a // it's\n + 'b // c' /* \n"); got != "a + 'b // c' /*" {
		t.Errorf("%q", got)
	}
}

// FuzzExpand tests that offsets stay within the text for any input, without panics.
func FuzzExpand(f *testing.F) {
	f.Add("lib.twice(lib.any([1], 'x')) + lib.images")
	f.Add("lib.deep('''a''') // \n é lib.made(b'\\'')")
	f.Fuzz(func(t *testing.T, src string) {
		text, err := inline.Expand(src, knownLibraries(), "")
		if err != nil && (err.At < 0 || err.At > len(src)) {
			t.Errorf("%+v", err)
		}
		if text == nil {
			return
		}
		for _, x := range []*inline.Text{text, text.Trim(len(src) - len(strings.TrimLeft(src, " \t\n")))} {
			for i := range x.Code {
				if from, to, _ := x.Origin(i); from < 0 || from > to || to > len(src) {
					t.Errorf("%d of %q is %d to %d", i, x.Code, from, to)
				}
			}
		}
	})
}
