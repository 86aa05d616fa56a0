package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/celgate/celgate/cmd/internal/cli"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata/script and in the documentation")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"celgate": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"celgate-webhook": func() {
			os.Exit(
				cli.Webhook(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, nil),
			) // the programs of these scripts do not hold elections
		},
	})
}

func TestScripts(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("REPO", root)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "columns": columns},
	})
}

// status runs a command and checks its exit status: status 2 celgate apply …
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status NUMBER COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if exit, ok := err.(interface{ ExitCode() int }); ok {
		got = string(rune('0' + exit.ExitCode()))
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// columns checks the maximum length of the lines of a file: columns 100 stdout.
func columns(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: columns NUMBER FILE")
	}
	most, err := strconv.Atoi(args[0])
	ts.Check(err)
	number := 0
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		number++
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > most {
			ts.Fatalf("%s:%d: %d columns:\n%s", args[1], number, n, line)
		}
	}
}
