package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpWidth measures the help of every command.
func TestHelpWidth(t *testing.T) {
	c := &console{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	var measure func(cmd *cobra.Command)
	seen := 0
	measure = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			measure(sub)
		}
		var b bytes.Buffer
		if err := writeHelp(&b, cmd); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > helpWidth {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
			if strings.TrimRight(line, " ") != line {
				t.Errorf("%s: blanks at the end: %q", cmd.CommandPath(), line)
			}
		}
		seen++
	}
	for _, root := range []*cobra.Command{newRoot(c), newWebhook(c, nil)} {
		c.equip(root)
		measure(root)
	}
	if seen < 13 {
		t.Errorf("%d commands were measured", seen)
	}
}

func TestWrappedExample(t *testing.T) {
	got := wrappedExample("  kustomize build overlays/prod | celgate apply -p policies/ -o yaml - | kubectl apply -f -")
	want := "  kustomize build overlays/prod | celgate apply -p policies/ -o yaml - \\\n      | kubectl apply -f -\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
