package packed

import (
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestWrite writes random tables of several minors, one minor after the other, and reads them again.
func TestWrite(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	folder := filepath.Join(t.TempDir(), "tables")
	want := map[string]map[string][]byte{}
	for _, minor := range []string{"1.10", "1.9", "1.12", "1.11", "1.9"} {
		files := map[string][]byte{}
		for n := range 1 + random.Intn(4) {
			var text strings.Builder
			for range random.Intn(9) {
				fmt.Fprintf(&text, "\tmember%d\n", random.Intn(6))
			}
			files[fmt.Sprintf("file%d", n)] = []byte(text.String() + "end\n")
		}
		want[minor] = files
		if err := Write(folder, map[string]map[string][]byte{minor: files}); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(os.DirFS(folder))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("after %s:\n%s\nwant\n%s", minor, got, want)
		}
	}
	if got := fmt.Sprint(Minors(os.DirFS(folder))); got != "[1.9 1.10 1.11 1.12]" {
		t.Error(got)
	}
}

func TestOpen(t *testing.T) {
	folder := t.TempDir()
	if err := Write(folder, map[string]map[string][]byte{
		"1.2": {"a": []byte("x\ny\n"), "new": []byte("n\n")}, "1.1": {"a": []byte("x\nz\n")},
	}); err != nil {
		t.Fatal(err)
	}
	files, err := Open(os.DirFS(folder), "1.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "x\nz\n", "new": "file does not exist"} {
		content, err := fs.ReadFile(files, name)
		if got := string(content); got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := Open(os.DirFS(folder), "1.3"); err == nil {
		t.Error("a minor that is not there")
	}
	if err := os.WriteFile(filepath.Join(folder, "1.1.delta"), []byte("file a\n@7 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err = Open(os.DirFS(folder), "1.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(files, "a"); err == nil || !strings.Contains(err.Error(), "line 7 of 3") {
		t.Error(err)
	}
}
