package smtlib

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// find returns a solver that is a shell script.
func find(t *testing.T, script string, timeout time.Duration) *Solver {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a program of the test is a shell script")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "z3"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	s, err := Find("z3", timeout)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, want := range map[string]string{"z4": `unknown solver "z4": one of z3, cvc5`,
		"cvc5": "the solver cvc5 is not installed: "} {
		if _, err := Find(name, time.Second); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAsk(t *testing.T) {
	for _, test := range []struct{ script, output, failure string }{
		{script: "cat; exit 1", output: "(check-sat)"},
		{script: "echo out of memory >&2; exit 1", failure: "out of memory"},
		{script: "exit 7", failure: "exit status 7"},
		{script: "true", failure: "no output"},
		{script: "echo sat; exec sleep 60", failure: "no answer in 500ms"},
	} {
		s := find(t, test.script, 500*time.Millisecond)
		got, err := s.Ask(context.Background(), "(check-sat)")
		if got != test.output || (err == nil) != (test.failure == "") || err != nil && err.Error() != test.failure {
			t.Errorf("%s: %q, %v", test.script, got, err)
		}
	}
}

func TestAskEndsWithTheContext(t *testing.T) {
	s := find(t, "exec sleep 60", time.Minute)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	from := time.Now()
	if _, err := s.Ask(ctx, ""); !errors.Is(err, context.Canceled) || time.Since(from) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(from))
	}
}

func TestAskBoundsMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory of other programs than z3 is bounded on Linux only")
	}
	s := find(t, "sleep 0.5; ulimit -v", time.Minute)
	if got, err := s.Ask(context.Background(), ""); err != nil || got != "4194304\n" {
		t.Errorf("%q, %v", got, err)
	}
}
