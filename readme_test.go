package celgate_test

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadme runs the program of README.md and compares its output with the block behind it.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("links a program")
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)\n```go\n(.*?)```\n.*?\n```text\n(.*?)```\n").FindSubmatch(text)
	if found == nil {
		t.Fatal("no program with what it prints")
	}
	program, want := found[1], string(found[2])
	if n := strings.Count(string(program), "\n"); n > 15 {
		t.Errorf("the program has %d lines, at most 15", n)
	}
	if formatted, err := format.Source(program); err != nil || string(formatted) != string(program) {
		t.Errorf("the program is not formatted (%v):\n%s", err, formatted)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, program, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command("go", "run", file).CombinedOutput()
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}
