package suite

import (
	"fmt"

	"github.com/celgate/celgate/policy"
)

// A Comparison finds the cases whose answers differ between versions of Kubernetes. The zero value is ready for use.
type Comparison struct {
	all    []*Difference // of every case, in the order in which they were first seen
	byName map[string]*Difference
}

// A Difference is a case with the answer of each version, in the order in which they were added.
type Difference struct {
	Name    string // suite/case
	Place   policy.Position
	Answers []Answer
}

// An Answer is the answer of a version, in one line.
type Answer struct{ Version, Text string }

// Add takes the result of one case in one version.
func (c *Comparison) Add(version string, r Result) {
	name := r.Suite + "/" + r.Name
	key := name + "\n" + r.Place.String() // suites may share a name
	d := c.byName[key]
	if d == nil {
		if c.byName == nil {
			c.byName = map[string]*Difference{}
		}
		d = &Difference{Name: name, Place: r.Place}
		c.byName[key] = d
		c.all = append(c.all, d)
	}
	d.Answers = append(d.Answers, Answer{version, answerOf(r)})
}

// answerOf returns the answer of a version, in one line.
func answerOf(r Result) string {
	d := r.Decision
	var s string
	switch {
	case r.Status == NotRun || d == nil:
		s = "could not run"
		if len(r.Problems) > 0 {
			s += ": " + r.Problems[0].Message
		}
		return s
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
	switch n := len(d.Warnings); {
	case n == 1:
		s += ", with the warning: " + d.Warnings[0].Text
	case n > 1:
		s += fmt.Sprintf(", with %d warnings", n)
	}
	for _, f := range r.Failures {
		return s + " (failed: expected " + f.Expected + ")"
	}
	return s
}

// Differences returns the cases whose answers are not all the same.
func (c *Comparison) Differences() []Difference {
	var all []Difference
	for _, d := range c.all {
		for _, a := range d.Answers {
			if a.Text != d.Answers[0].Text {
				all = append(all, *d)
				break
			}
		}
	}
	return all
}
