package manifest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/celgate/celgate/manifest"
)

// TestMisread finds words that are booleans for YAML, and no others.
func TestMisread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: n, labels: {'a.b/c': \"yes\", d: Off}}\n" +
		"spec:\n  hostNetwork: true\n  containers:\n  - name: a\n    image: y\n  - name: \"on\"\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	docs, problems := manifest.Load(file)
	if len(docs) != 1 || len(problems) > 0 {
		t.Fatal(docs, problems)
	}
	want := []struct {
		path, text   string
		line, column int
	}{
		{"metadata.labels.d", "YAML reads Off as false: quote it", 3, 49},
		{"metadata.name", "YAML reads n as false: quote it", 3, 18},
		{"spec.containers.image", "YAML reads y as true: quote it", 8, 12},
	}
	got := docs[0].Misreadings()
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i, w := range want {
		if g := got[i]; g.Field != w.path || g.Message != w.text || g.Position.Line != w.line ||
			g.Position.Column != w.column {
			t.Errorf("got %v, want %v", g, w)
		}
	}
	if m, ok := docs[0].Misreading("spec.containers[0].image"); !ok || m.Message != want[2].text {
		t.Errorf("got %v, %t", m, ok)
	}
}
