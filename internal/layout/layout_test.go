package layout_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate/internal/layout"
)

// extents returns the paths of all values with their texts.
func extents(text string, n *layout.Node) map[string]string {
	all := map[string]string{}
	var walk func(n *layout.Node, path string)
	walk = func(n *layout.Node, path string) {
		all[path] = text[n.From:n.End]
		for i, e := range n.Entries {
			step := e.Name
			if n.Form == layout.Sequence {
				step = string(rune('0' + i))
			}
			walk(e.Value, strings.TrimPrefix(path+"."+step, "."))
		}
	}
	walk(n, "")
	delete(all, "")
	return all
}

func TestYAML(t *testing.T) {
	const text = "a: &x 1 # c\nb:\n- - two\n    words\n- *x\nc: {d: 'it''s', e: [\"\\\"\", f]}\n" +
		"on: |\n  one\n\n  two\n\ng: >-\n  folded\nh:\ni: !t\n  k: v\n"
	root, err := layout.YAML(text)
	if err != nil {
		t.Fatal(err)
	}
	got := extents(text, root)
	for path, want := range map[string]string{
		"a": "&x 1", "b": "- - two\n    words\n- *x", "b.0": "- two\n    words", "b.0.0": "two\n    words", "b.1": "*x",
		"c": "{d: 'it''s', e: [\"\\\"\", f]}", "c.d": "'it''s'", "c.e": "[\"\\\"\", f]", "c.e.0": `"\""`, "c.e.1": "f",
		"true": "|\n  one\n\n  two", "g": ">-\n  folded", "h": "", "i": "!t\n  k: v", "i.k": "v",
	} {
		if got[path] != want {
			t.Errorf("%s is %q, want %q", path, got[path], want)
		}
		delete(got, path)
	}
	if len(got) > 0 {
		t.Errorf("also %q", got)
	}
	if at, value := root.Find("b[1]"); text[at] != '*' || value.Text != "1" || !root.HasAlias() {
		t.Errorf("the alias is at %d and stands for %q", at, value.Text)
	}
}

// TestUnusual expects the positions of values even if a text cannot be changed in place.
func TestUnusual(t *testing.T) {
	for _, test := range []struct{ text, path, want string }{
		{"? a\n: b\nc: d\n", "c", "c: d"},
		{"- [a: b, c]\n- d\n", "[0][1]", "c]"},
		{"- [a: b, c]\n- d\n", "[1]", "d"},
		{"? [k]\n: v\nlast:\n  x: y\n", "last.x", "x: y"},
		{"k: |2\n   x\n? q\n: |\n  text\nz: 1\n", "z", "z: 1"},
	} {
		root, err := layout.YAML(test.text)
		if err == nil {
			t.Errorf("%q is a usual layout", test.text)
		}
		if at, _ := root.Find(test.path); !strings.HasPrefix(test.text[at:], test.want) {
			t.Errorf("%s of %q is %q, want %q", test.path, test.text, test.text[at:], test.want)
		}
	}
}

func TestJSON(t *testing.T) {
	const text = ` {"a": [1, {"b": "x\n"}], "c": null} `
	root, err := layout.JSON(text)
	if err != nil {
		t.Fatal(err)
	}
	got := extents(text, root)
	for path, want := range map[string]string{"a": `[1, {"b": "x\n"}]`, "a.0": "1", "a.1": `{"b": "x\n"}`,
		"a.1.b": `"x\n"`, "c": "null"} {
		if got[path] != want {
			t.Errorf("%s is %q, want %q", path, got[path], want)
		}
	}
	for _, broken := range []string{"", "{", `{"a"`, `{"a":`, `{"a":1,}`, "[1,]", "[1 2]", `{"a" 1}`, `"\x"`, "1 2",
		strings.Repeat("[", 2000)} {
		if _, err := layout.JSON(broken); err == nil {
			t.Errorf("%.20q is JSON", broken)
		}
	}
}

func TestDuplicate(t *testing.T) {
	const text = "a: 1\nb:\n- c: 2\n  \"c\": 3\n"
	root, _ := layout.YAML(text)
	second, first, found := root.FindDuplicate()
	if !found || !strings.HasPrefix(text[first:], "c: 2") || !strings.HasPrefix(text[second.Start:], `"c": 3`) {
		t.Errorf("found %v: %d and %+v", found, first, second)
	}
}

// FuzzLayout compares extents: values are inside the values around them, in the order of the text, and contain every
// byte of their decoded scalars.
func FuzzLayout(f *testing.F) {
	f.Add("a: &x 1 # c\nb:\n- - two\n    words\n- *x\nc: {d: 'it''s', e: [\"\\\"\", f]}\n")
	f.Add("on: |\n  one\n\n  two\n\ng: >-\n  folded\nh:\ni: !t\n  k: v\n")
	f.Add("? a\n: [b: c, {d}]\n\r\n- \u0085x")
	f.Add(`{"a": [1, {"b": "x\n"}], "c": null}`)
	f.Fuzz(func(t *testing.T, text string) {
		for name, lay := range map[string]func(string) (*layout.Node, error){"YAML": layout.YAML, "JSON": layout.JSON} {
			root, err := lay(text)
			if root.From < 0 || root.End > len(text) {
				t.Fatalf("%s: %d to %d of %q", name, root.From, root.End, text)
			}
			if err == nil {
				checkExtents(t, text, root)
			}
		}
	})
}

func checkExtents(t *testing.T, text string, n *layout.Node) {
	t.Helper()
	if n.From > n.Start || n.Start > n.End {
		t.Fatalf("%d, %d, %d of %q", n.From, n.Start, n.End, text)
	}
	spans := n.Spans(text)
	for i := range n.Text {
		if len(spans) == 0 {
			break
		}
		if at := spans.Offset(i); at < n.Start || at > n.End {
			t.Fatalf("byte %d of %q is at %d, outside of %q of %q", i, n.Text, at, text[n.Start:n.End], text)
		}
	}
	last := n.Start
	for _, e := range n.Entries {
		if e.Start < last || e.Colon < e.Start || e.End() > n.End {
			t.Fatalf("entry %d, %d, %d outside of %d to %d of %q", e.Start, e.Colon, e.End(), last, n.End, text)
		}
		checkExtents(t, text, e.Value)
		last = e.End()
	}
}
