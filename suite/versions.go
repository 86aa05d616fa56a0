package suite

import (
	"fmt"
	"strings"
)

// A Comparison finds the cases whose answers differ between versions of Kubernetes.
type Comparison struct {
	names   []string // in the order in which they were first seen
	answers map[string][]versionAnswer
}

type versionAnswer struct{ version, answer string }

// Add takes the result of one case in one version.
func (c *Comparison) Add(version string, r Result) {
	name := r.Suite + "/" + r.Name
	if c.answers == nil {
		c.answers = map[string][]versionAnswer{}
	}
	if c.answers[name] == nil {
		c.names = append(c.names, name)
	}
	c.answers[name] = append(c.answers[name], versionAnswer{version, answerOf(r)})
}

// answerOf is what a version answered, in one line.
func answerOf(r Result) string {
	d := r.Decision
	var s string
	switch {
	case r.Status == NotRun || d == nil:
		return "could not run"
	case d.Allowed:
		s = "allowed"
	default:
		s = "denied"
		if d.Status != nil {
			s = fmt.Sprintf("denied: %s", d.Status.Message)
		}
	}
	if d.Mutated {
		s += ", mutated"
	}
	if n := len(d.Warnings); n > 0 {
		s += fmt.Sprintf(", %d warnings", n)
	}
	if r.Status == Failed {
		s += " (failed)"
	}
	return s
}

// Differences returns a line for each case whose answers are not all the same.
func (c *Comparison) Differences() []string {
	var lines []string
	for _, name := range c.names {
		answers := c.answers[name]
		same := true
		var parts []string
		for _, a := range answers {
			same = same && a.answer == answers[0].answer
			parts = append(parts, a.version+" "+a.answer)
		}
		if !same {
			lines = append(lines, name+" differs: "+strings.Join(parts, "; "))
		}
	}
	return lines
}
