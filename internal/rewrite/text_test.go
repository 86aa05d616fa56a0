package rewrite_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
)

var update = flag.Bool("update", false, "rewrite the results in testdata")

// TestText tests each file of testdata/text: "from" is edited to mean "to", and the result is "want". Line breaks of
// "from" are CR LF if the comment says crlf, and the last one is missing if it says unterminated.
func TestText(t *testing.T) {
	files, err := filepath.Glob("testdata/text/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			comment := string(archive.Comment)
			from, to := string(archive.Files[0].Data), string(archive.Files[1].Data)
			plain := func(s string) string { return s }
			if strings.Contains(comment, "crlf") {
				from = strings.ReplaceAll(from, "\n", "\r\n")
				plain = func(s string) string {
					if strings.Count(s, "\n") != strings.Count(s, "\r\n") {
						t.Errorf("mixed line breaks in %q", s)
					}
					return strings.ReplaceAll(s, "\r\n", "\n")
				}
			}
			if strings.Contains(comment, "unterminated") {
				from = strings.TrimRight(from, "\r\n")
			}
			source, edits := editsOf(t, from, to)
			got, err := rewrite.Text(source, edits)
			if err != nil {
				t.Fatal(err)
			}
			got = plain(got)
			if strings.Contains(comment, "unterminated") {
				got += "\n"
			}
			if *update {
				archive.Files = append(archive.Files[:2], txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[2].Data), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// editsOf pairs the objects of two texts.
func editsOf(t *testing.T, from, to string) (string, []rewrite.Edit) {
	t.Helper()
	old, problems := manifest.Read(strings.NewReader(from), "from")
	now, more := manifest.Read(strings.NewReader(to), "to")
	if len(problems)+len(more) > 0 || len(old) != len(now) || len(old) == 0 {
		t.Fatalf("%d objects become %d: %v %v", len(old), len(now), problems, more)
	}
	types := registry(t)
	var edits []rewrite.Edit
	for i := range old {
		edits = append(edits, rewrite.Edit{Item: old[i].Item, Old: old[i].Object, New: now[i].Object,
			Type: types.Type(kindOf(old[i].Object))})
	}
	return old[0].Source.Text, edits
}

func registry(t testing.TB) *schema.Registry {
	t.Helper()
	types, err := builtin.Registry(builtin.Minors()[0])
	if err != nil {
		t.Fatal(err)
	}
	return types
}

func kindOf(object map[string]any) schema.GroupVersionKind {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	group, version, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group, version = "", apiVersion
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

func TestUnchanged(t *testing.T) {
	text := "{  a:  1,\n apiVersion:  v1, 'kind': \"ConfigMap\"}  # odd"
	source, edits := editsOf(t, text, text)
	got, err := rewrite.Text(source, edits)
	if err != nil || got != text {
		t.Errorf("got %q, %v", got, err)
	}
	if !reflect.DeepEqual(edits[0].Old, edits[0].New) {
		t.Error("edits changed")
	}
}

// TestOtherItems edits one item of a List alone.
func TestOtherItems(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/text/list-aliases.txtar")
	if err != nil {
		t.Fatal(err)
	}
	source, edits := editsOf(t, string(archive.Files[0].Data), string(archive.Files[1].Data))
	got, err := rewrite.Text(source, edits[:1])
	if diff := cmp.Diff(string(archive.Files[2].Data), got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}
