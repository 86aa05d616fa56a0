package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

func TestChanged(t *testing.T) {
	dir := t.TempDir()
	before := snapshot([]string{dir, filepath.Join(dir, "none")})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if waitForChange(ended, []string{dir}, before) {
		t.Error("nothing changed")
	}
	if err := os.WriteFile(filepath.Join(dir, "new.yaml"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if !waitForChange(t.Context(), []string{dir}, before) {
		t.Error("a new file is a change")
	}
}
