package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/celgate/celgate"
)

// A console is the input and output of a command.
type console struct {
	program        string // the prefix of messages
	stdin          io.Reader
	stdout, stderr io.Writer
	status         int                        // of the command so far; it only rises
	progress       *progress                  // on standard error; nil: none
	heard          func(message, hint string) // receives messages; nil: none
	once           map[string]bool            // messages already printed, to print each once; nil: print all
	releases       map[string]bool            // minors whose gaps were reported
	limits         celgate.Limits             // of evaluation
	static         staticFiles                // for commands that accept them
	unboundToo     bool                       // policies without a binding are also in force
	maxInput       int64                      // bytes; 0: the default
	helpErr        error                      // of writing the help: cobra cannot return it
}

// raise makes the exit status at least status.
func (c *console) raise(status int) { c.status = max(c.status, status) }

// say prints a message about the run, and a hint unless it is empty.
func (c *console) say(message, hint string) {
	if c.once != nil {
		if c.once[message] {
			return
		}
		c.once[message] = true
	}
	c.progress.clear()
	if c.heard != nil {
		c.heard(message, hint)
	}
	fmt.Fprintf(c.stderr, "%s: %s\n", cmp.Or(c.program, "celgate"), toParagraph(message))
	if hint != "" {
		fmt.Fprintf(c.stderr, "hint: %s\n", toParagraph(hint))
	}
}

// sayError prints an error; of joined errors, each.
func (c *console) sayError(err error) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			c.sayError(e)
		}
		return
	}
	c.say(err.Error(), hintOf(err))
}

// toParagraph removes control characters from a message, which may quote a file.
func toParagraph(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, strings.TrimRight(s, "\n"))
}

// usesColor reports whether standard output is coloured: mode is auto, always or never. As no-color.org asks, NO_COLOR
// turns colour off in the mode auto.
func (c *console) usesColor(mode string) (bool, error) {
	switch mode {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		return isTerminal(c.stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", nil
	}
	return false, &usageError{fmt.Errorf("--color is auto, always or never, not %q", mode)}
}

// width returns the number of columns of a line on standard output: the value of COLUMNS, or that of the terminal; 0
// for unlimited.
func (c *console) width() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	f, ok := c.stdout.(*os.File)
	if !ok || !isTerminal(f) {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 80
	}
	return n
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
