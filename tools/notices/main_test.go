package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestNotices looks for linked modules, and for one that only tests link.
func TestNotices(t *testing.T) {
	text, err := notices("../" + root)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, path := range []string{"github.com/google/cel-go", "k8s.io/api", "github.com/spf13/cobra",
		"the Go standard library"} {
		if !slices.Contains(lines, path) {
			t.Errorf("%s is missing", path)
		}
	}
	if slices.Contains(lines, "github.com/google/go-cmp") {
		t.Error("go-cmp is named, but only tests use it")
	}
	committed, err := os.ReadFile(filepath.Join("..", root, file))
	if err != nil || string(committed) != string(text) {
		t.Errorf("%s is not what make generate writes (%v)", file, err)
	}
}
