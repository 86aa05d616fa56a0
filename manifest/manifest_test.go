package manifest_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/celgate/celgate/manifest"
)

var update = flag.Bool("update", false, "rewrite the wanted results in testdata")

// summary returns one line for each document and problem, in the order of the text.
func summary(text []byte, file string) string {
	var b strings.Builder
	for d, problem := range manifest.Documents(bytes.NewReader(text), file) {
		switch {
		case problem == nil:
			metadata, _ := d.Object["metadata"].(map[string]any)
			fmt.Fprintf(&b, "%v: %v %v %s\n", d.Position(), d.Object["kind"], metadata["name"], d.Item)
		case problem.Warning:
			fmt.Fprintf(&b, "warning: %v\n", problem)
		default:
			fmt.Fprintf(&b, "%v\n", problem)
		}
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

func TestProblems(t *testing.T) {
	archives, err := filepath.Glob("testdata/problems/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, file := range archive.Files {
				if file.Name != "want" {
					got.WriteString(summary(file.Data, file.Name))
				}
			}
			want := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				archive.Files[want].Data = []byte(got.String())
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[want].Data), got.String()); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// TestBytes is TestProblems for texts that are not visible in a file.
func TestBytes(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%[3]c,*%[3]c,*%[3]c,*%[3]c,*%[3]c,*%[3]c,*%[3]c,*%[3]c,*%[3]c]\n", c, c, c-1)
	}
	for name, test := range map[string]struct{ text, want string }{
		"byte order mark": {"\ufeff" + object + "---\n\ufeff" + object, "f:1:1: ConfigMap a\nf:5:1: ConfigMap a\n"},
		"json with mark":  {"\ufeff{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\"}", "f:1:1: ConfigMap <nil>\n"},
		"carriage returns": {
			strings.ReplaceAll(object+"---\n"+object+"a: b: c\n", "\n", "\r\n"),
			"f:1:1: ConfigMap a\nf:8:5: unexpected \": \"; put text that holds it in quotes, or check the indentation\n",
		},
		"only returns":     {strings.ReplaceAll(object, "\n", "\r"), "f:1:1: ConfigMap a\n"},
		"no line break":    {"---\n" + strings.TrimSuffix(object, "\n"), "f:2:1: ConfigMap a\n"},
		"separator at end": {object + "---", "f:1:1: ConfigMap a\n"},
		"invalid UTF-8": {object + "data: {a: caf\xe9}\n---\n" + object,
			"f:4:14: invalid UTF-8\nf:6:1: ConfigMap a\n"},
		"UTF-16": {"\xff\xfea\x00", "f:1:1: UTF-16 text; save the file as UTF-8\n"},
		"binary": {"\x7fELF\x02\n\x01\x00\x00\n---\n",
			"f:2:2: a NUL byte: this is a binary file, neither YAML nor JSON\n"},
		"control character": {object + "a: b\x1b[0m", "f:4:5: control character U+001B is not allowed\n"},
		"late NUL": {object + strings.Repeat("#\n", 5000) + "a: \x00",
			"f:5004:4: control character U+0000 is not allowed\n"},
		"line separator": {"apiVersion: v1\u2028kind: ConfigMap\nmetadata: {name: a}\n", "f:1:1: ConfigMap a\n"},
		"deep flow": {object + "data: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
			"f:4:1006: nested deeper than 1000 levels\n"},
		"deeper flow": {object + "data: " + strings.Repeat("[", 20000), "f:4:1: exceeded max depth of 10000\n"},
		"deep block": {object + "data:\n  " + strings.Repeat("- ", 1500) + "a\n",
			"f:5:2001: nested deeper than 1000 levels\n"},
		"deep json": {`{"a": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}",
			"f:1:1006: nested deeper than 1000 levels\n"},
		"alias bomb": {bomb, "f:2:8: too many values come from aliases\n"},
		"tabs in a stream": {object + "---\n\ta: b\n---\n" + object,
			"f:1:1: ConfigMap a\nf:5:1: a tab cannot indent; use spaces\nf:7:1: ConfigMap a\n"},
		"empty":  {"", "f: the file does not contain a document\n"},
		"spaces": {" \n\t\n", "f: the file does not contain a document\n"},
		"large": {object + "data:\n  a: |\n" + strings.Repeat("    "+strings.Repeat("x", 95)+"\n", 30<<10),
			"f:1:1: ConfigMap a\n"},
		"too large": {object + "---\na: |\n" + strings.Repeat("  "+strings.Repeat("x", 1021)+"\n",
			65<<10) + "---\n" + object, "f:1:1: ConfigMap a\nf:5:1: the document is larger than 64 MiB\nf:66567:1: ConfigMap a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, summary([]byte(test.text), "f")); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// TestLoad reads testdata/tree.
func TestLoad(t *testing.T) {
	stdin := func() io.Reader { return strings.NewReader("apiVersion: v1\nkind: FromStdin\n") }
	for _, test := range []struct {
		paths []string
		want  string
	}{
		{[]string{"tree"}, `
tree/a.yaml:1:1 A
tree/sub/b.yml:1:1 B
tree/sub/c.json:1:1 C
tree/z.YAML:1:1 Z
warning: tree/empty.yaml: the file does not contain a document
tree/sub/typo.yaml:1:1: not a Kubernetes object: apiVersion is missing
warning: tree/sub/values.yaml:1:1: not a Kubernetes object: apiVersion and kind are missing
`},
		{[]string{"tree/sub/values.yaml", "-", "tree/notes.txt", "tree/.hidden.yaml", "tree/empty.yaml"}, `
stdin:1:1 FromStdin
tree/.hidden.yaml:1:1 Hidden
tree/sub/values.yaml:1:1: not a Kubernetes object: apiVersion and kind are missing
tree/notes.txt:1:1: not a Kubernetes object: text instead of a mapping
tree/empty.yaml: the file does not contain a document
`},
		{[]string{"absent.yaml", "tree/none", "tree/a.yaml"}, `
tree/a.yaml:1:1 A
absent.yaml: no such file or directory
tree/none: the directory does not contain *.yaml, *.yml or *.json files
`},
	} {
		t.Run(strings.Join(test.paths, " "), func(t *testing.T) {
			t.Chdir("testdata")
			documents, problems := manifest.Loader{Stdin: stdin()}.Load(test.paths...)
			got := "\n"
			for _, d := range documents {
				got += fmt.Sprintf("%v %v\n", d.Position(), d.Object["kind"])
			}
			for _, p := range problems {
				if p.Warning {
					got += "warning: "
				}
				got += p.Error() + "\n"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// endless is a stream of Deployments without an end.
type endless struct {
	text []byte
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

func TestDocumentsStream(t *testing.T) {
	n := 0
	for d, problem := range manifest.Documents(&endless{text: deployments(100)}, "f") {
		if problem != nil {
			t.Fatal(problem)
		}
		if want := fmt.Sprintf("f:%d:1", n*31+2); d.Position().String() != want {
			t.Fatalf("document %d is at %v, want %s", n, d.Position(), want)
		}
		if n++; n == 5000 {
			break
		}
	}
}

// failing is a reader that fails behind its text.
type failing struct{ io.Reader }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("connection lost")
	}
	return n, err
}

func TestReadError(t *testing.T) {
	documents, problems := manifest.Read(failing{
		strings.NewReader("apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n")}, "f")
	if len(documents) != 2 || len(problems) != 1 || problems[0].Error() != "f: connection lost" {
		t.Errorf("%d documents, problems %v", len(documents), problems)
	}
}
