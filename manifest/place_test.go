package manifest_test

import (
	"strings"
	"testing"

	"github.com/celgate/celgate/manifest"
)

// TestPlace finds the text behind each path, and part of it, in testdata/places.yaml. The expected position is followed
// by its text.
func TestPlace(t *testing.T) {
	documents, problems := manifest.Load("testdata/places.yaml")
	if len(documents) != 3 || len(problems) != 0 {
		t.Fatalf("%d documents, problems %v", len(documents), problems)
	}
	for _, test := range []struct {
		document   int
		path, part string // part of the decoded text; empty for its start
		want       string
	}{
		{0, "", "", "4:1 apiVersion"},
		{0, "kind", "", "5:7 Validating"},
		{0, "spec", "", "8:1 spec:"},
		{0, "spec.validations[0]", "", "12:5 expression: >-"},
		{0, "spec.validations[0].expression", "", "13:7 object.spec"},
		{0, "spec.validations[0].expression", "replicas <", "13:19 replicas <"},
		{0, "spec.validations[0].expression", " && x", "13:32 "},
		{0, "spec.validations[0].expression", "&& x", "14:7 && x"},
		{0, "spec.validations[0].expression", "&& more", "16:7 && more"},
		{0, "spec.validations[0].expression", "deeper", "17:9 deeper"},
		{0, "spec.validations[0].message", "quoted", "18:23 quoted"},
		{0, "spec.validations[0].message", "b", "18:19 b"},
		{0, "spec.validations[1].expression", " first", "20:7  first"},
		{0, "spec.validations[1].expression", "second", "21:9 second"},
		{0, "spec.validations[1].expression", "\n", "20:13 "},
		{0, "spec.validations[1].messageExpression", "plain", "23:29 plain"},
		{0, "spec.validations[1].messageExpression", "goes", "24:7 goes"},
		{0, "spec.validations[2].expression", "c'd", "25:22 c''d"},
		{0, "spec.validations[3].expression", "x", "26:19 x"},
		{0, "spec.validations[4].expression", "é", "27:22 \\u00e9"},
		{0, "spec.validations[4].expression", "two", "28:7 two"},
		{0, "spec.validations[9].expression", "", "9:3 validations:"},
		{0, "spec.paramKind.kind", "", "8:1 spec:"},
		{0, "metadata.annotations[\"a.b/c\"]", "lue", "7:44 lue"},
		{0, "metadata.annotations[a.b/c]", "", "7:42 value"},
		{0, "metadata.annotations.a.b/c", "", "7:42 value"},
		{0, "metadata.name", "", "7:12 cafe"},
		{0, "metadata.name.x", "", "7:12 cafe"},
		{0, "spec.empty", "", "29:3 empty:"},
		{0, "spec.none", "", "30:10 \""},
		{0, "spec.number", "", "31:11 12"},
		{1, "", "", "36:3 &base"},
		{1, "data.own", "", "40:10 own"},
		{1, "spec", "", "36:3 &base"},
		{2, "", "", "42:3 apiVersion"},
		{2, "data.own", "", "46:10 other"},
		{2, "data.shared", "", "41:13 base"},
		{2, "data.x", "", "44:3 data:"},
	} {
		d := documents[test.document]
		offset := 0
		if test.part != "" {
			offset = strings.Index(value(d.Object, test.path), test.part)
			if offset < 0 {
				t.Fatalf("no %q in %s: %q", test.part, test.path, value(d.Object, test.path))
			}
		}
		p := d.Place(test.path).Locate(offset)
		place := strings.TrimPrefix(p.String(), "testdata/places.yaml:")
		want, there, _ := strings.Cut(test.want, " ")
		line := strings.Split(d.Source.Text, "\n")[p.Line-d.Source.Line]
		if place != want || !strings.HasPrefix(line[p.Column-1:], there) {
			t.Errorf("%s %q: at %s, %q; want %s", test.path, test.part, place, line[p.Column-1:], test.want)
		}
	}
}

// value returns the text at a path of fields and indexes.
func value(v any, path string) string {
	path = strings.ReplaceAll(strings.ReplaceAll(path, "[\"a.b/c\"]", ".a\x00b/c"), "]", "")
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' || r == '[' }) {
		switch c := v.(type) {
		case map[string]any:
			v = c[strings.ReplaceAll(name, "\x00", ".")]
		case []any:
			v = c[name[0]-'0']
		}
	}
	s, _ := v.(string)
	return s
}

func TestPlaceBeyond(t *testing.T) {
	d, _ := manifest.Read(strings.NewReader("apiVersion: v1\nkind: 'A' # c\n"), "f")
	place := d[0].Place("kind")
	for offset, want := range map[int]string{-1: "f:2:8", 0: "f:2:8", 1: "f:2:9", 99: "f:2:9"} {
		if got := place.Locate(offset).String(); got != want {
			t.Errorf("Locate(%d) = %s, want %s", offset, got, want)
		}
	}
	var none manifest.Document
	if none.Position().IsValid() || none.Place("a").Locate(0).IsValid() {
		t.Error("a document without source has a position")
	}
}

// TestSource reassembles a file from the texts of its documents.
func TestSource(t *testing.T) {
	const text = "# Copyright\n---\n# a comment\napiVersion: v1\nkind: A\r\n--- # next\n# only a comment\n---\n" +
		"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: B}\n- {apiVersion: v1, kind: C}\n---\napiVersion: v1\nkind: D"
	documents, problems := manifest.Read(strings.NewReader(text), "f")
	if len(documents) != 4 || len(problems) != 0 {
		t.Fatalf("%d documents, problems %v", len(documents), problems)
	}
	if documents[1].Source != documents[2].Source || documents[1].Item != "items[0]" ||
		documents[2].Item != "items[1]" {
		t.Error("the items of a List must share their Source")
	}
	if got := joinTexts(documents); got != text {
		t.Errorf("got  %q\nwant %q", got, text)
	}
}

// TestSourceTail does the same for files that go on behind their last document.
func TestSourceTail(t *testing.T) {
	for _, start := range []string{"apiVersion: v1\nkind: A\n# its own\n", `{"apiVersion": "v1", "kind": "A"}`,
		`{"apiVersion": "v1", "kind": "A"} {"apiVersion": "v1", "kind": "B"}`} {
		for _, end := range []string{"", "\n", "\n---", "\n--- # the end", "\n---\n# the end",
			"\n---\r\n# the\n---\n---\n\n# end\n", strings.Repeat("\n---\n# page", 20_000)} {
			documents, problems := manifest.Read(strings.NewReader(start+end), "f")
			if len(problems) != 0 {
				t.Fatalf("%.60q: %v", start+end, problems)
			}
			if got := joinTexts(documents); got != start+end {
				t.Errorf("got  %.200q\nwant %.200q", got, start+end)
			}
		}
	}
}

func joinTexts(documents []*manifest.Document) (text string) {
	for i, d := range documents {
		if i == 0 || d.Source != documents[i-1].Source {
			text += d.Source.Lead + d.Source.Text
		}
		if i+1 == len(documents) {
			text += d.Source.Tail
		}
	}
	return text
}
