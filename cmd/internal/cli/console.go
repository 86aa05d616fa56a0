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

// A console is where a command reads and writes.
type console struct {
	program        string // whose messages these are
	stdin          io.Reader
	stdout, stderr io.Writer
	status         int                        // of the command so far; it only rises
	progress       *progress                  // on standard error; nil: none
	heard          func(message, hint string) // of what is said; nil: nobody
	once           map[string]bool            // what was said, which is said once; nil: as often as it comes
	releases       map[string]bool            // minors of which was said what is not known
	limits         celgate.Limits             // of evaluations
	static         staticFiles                // of commands that take them
	unboundToo     bool                       // policies without a binding are in force, too
	maxInput       int64                      // bytes; 0: the default
	helpErr        error                      // of writing the help, for which cobra has no way
}

// raise makes the exit status at least status.
func (c *console) raise(status int) { c.status = max(c.status, status) }

// say writes a message about the run, and a hint unless it is empty.
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

// sayError says an error; of joined errors, each.
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

// toParagraph takes control characters out of a message, which may quote a file.
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

// usesColor reports whether standard output takes colour: mode is auto, always or never. As no-color.org says, NO_COLOR
// turns it off unless it is asked for.
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

// width returns the columns that a line of standard output may take: what COLUMNS says, or else what the terminal has;
// 0 for as many as there are.
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
