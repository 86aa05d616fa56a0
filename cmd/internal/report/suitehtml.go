package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/celgate/celgate/cmd/internal/suite"
)

// suiteHTML writes one self-contained page: the cases, and their coverage of the policies.
type suiteHTML struct {
	w      io.Writer
	counts tally
	page   suitePage
}

type suitePage struct {
	Summary     string
	Tiles       []suiteTile
	Cases       []htmlCase // unexpected results
	Passed      []htmlCase
	Differences []suite.Difference
	Policies    []htmlCoverage
	Notes       []string
}

type suiteTile struct{ Name, Class, Count string }

type htmlCase struct {
	Status             suite.Status
	Class, Name, Place string
	Problems           []htmlProblem
	Failures           []htmlFailure
}

type htmlProblem struct{ Message, Place, Hint string }

type htmlFailure struct {
	Expected, Got, Place, Hint string
	Notes                      []string
	Causes                     []htmlCause
}

// An htmlCause is an expression that decided.
type htmlCause struct {
	Says, Who, Place, Source string
	Values                   []string
}

type htmlCoverage struct {
	ID, Kind, Name, Percent, Class string
	Seen, Of, Width                int
	Missed                         bool
	Entries                        []htmlEntry
}

type htmlEntry struct {
	Name, Counts, Class, Place string
	Source                     []marked
	Branches                   []htmlEntry
}

func (h *suiteHTML) Write(r suite.Result) error {
	if h.counts == nil {
		h.counts = tally{}
	}
	h.counts[r.Status]++
	c := htmlCase{Status: r.Status, Name: r.Suite + "/" + r.Name, Place: r.Place.String(), Class: "good"}
	for _, n := range r.Notes {
		if !slices.Contains(h.page.Notes, n) {
			h.page.Notes = append(h.page.Notes, n)
		}
	}
	if r.Status == suite.Passed {
		h.page.Passed = append(h.page.Passed, c)
		return nil
	}
	for _, p := range r.Problems {
		c.Problems = append(c.Problems, htmlProblem{p.Message, p.Position.String(), p.Hint})
	}
	for _, f := range r.Failures {
		failure := htmlFailure{f.Expected, f.Got, f.Place.String(), f.Hint, f.Notes, nil}
		for _, cause := range f.Causes {
			failure.Causes = append(failure.Causes, htmlCause{cause.Says, origin(cause.Policy, cause.Binding, ""),
				cause.Expr.Locate(0).String(), strings.TrimSpace(cause.Expr.Src), valueLines(cause.Values, nil)})
		}
		c.Failures = append(c.Failures, failure)
	}
	h.page.Cases = append(h.page.Cases, c)
	return nil
}

func (h *suiteHTML) Close(s SuiteSummary) error {
	p := &h.page
	p.Summary = h.counts.String()
	add := func(name, class, count string) { p.Tiles = append(p.Tiles, suiteTile{name, class, count}) }
	for _, status := range []suite.Status{suite.Passed, suite.Failed, suite.NotRun} {
		class := "good"
		if status != suite.Passed {
			class = ""
			if h.counts[status] > 0 {
				class = "denied"
			}
		}
		add(string(status), class, fmt.Sprint(h.counts[status]))
	}
	p.Differences = s.Differences
	if c := s.Coverage; c != nil {
		seen, of := c.Count()
		add("coverage", coverageClass(seen, of), percent(c.Percent()))
		for i, policy := range c.Policies {
			p.Policies = append(p.Policies, htmlCoverageOf(fmt.Sprintf("policy-%d", i), policy))
		}
	}
	return writePage(h.w, suiteHTMLPage(p))
}

func coverageClass(seen, of int) string {
	if seen < of {
		return "warned"
	}
	return "good"
}

func htmlCoverageOf(id string, p *suite.PolicyCoverage) htmlCoverage {
	seen, of := p.Count()
	part := partOf(seen, of)
	out := htmlCoverage{ID: id, Kind: string(p.Kind), Name: p.Name, Percent: percent(part), Seen: seen, Of: of,
		Width: int(part), Missed: seen < of, Class: coverageClass(seen, of)}
	for entries := range groupByExpression(p.Entries) {
		e, branches := entries[0], entries[1:]
		entry := htmlEntryOf(e)
		if e.Expr.IsZero() {
			entry.Place = e.Place.String()
		} else {
			entry.Source = highlight(e.Expr.Src, branches)
			entry.Place = e.Expr.Locate(0).String()
		}
		for _, b := range branches {
			entry.Branches = append(entry.Branches, htmlEntryOf(b))
		}
		out.Entries = append(out.Entries, entry)
	}
	return out
}

func htmlEntryOf(e *suite.Entry) htmlEntry {
	return htmlEntry{Name: strings.Join(strings.Fields(e.Name), " "), Counts: counts(e),
		Class: coverageClass(len(e.Outcomes)-len(e.MissingOutcomes()), len(e.Outcomes))}
}

// A marked text is a part of an expression, in which a span may begin, and after which others end.
type marked struct {
	Class, Title, Text string // Class: of the span; "": none begins
	Ends               int
}

// highlight returns an expression with marked branches and their counts. Branches are nested or disjoint.
func highlight(src string, branches []*suite.Entry) []marked {
	src = strings.TrimRight(src, "\n")
	branches = slices.SortedFunc(slices.Values(branches), func(x, y *suite.Entry) int {
		if x.From != y.From {
			return x.From - y.From
		}
		return y.To - x.To
	})
	parts := []marked{{}}
	var open []*suite.Entry
	at := 0
	write := func(to int) {
		parts[len(parts)-1].Text += src[at:to]
		at = to
	}
	closeTo := func(from int) {
		for len(open) > 0 && open[len(open)-1].To <= from {
			write(open[len(open)-1].To)
			parts[len(parts)-1].Ends++
			parts = append(parts, marked{})
			open = open[:len(open)-1]
		}
	}
	for _, e := range branches {
		closeTo(e.From)
		if e.From < at || e.To > len(src) || e.From >= e.To || len(open) > 0 && e.To > open[len(open)-1].To {
			continue
		}
		write(e.From)
		class := "seen"
		if len(e.MissingOutcomes()) > 0 {
			class = "missed"
		}
		parts = append(parts, marked{Class: class, Title: counts(e)})
		open = append(open, e)
	}
	closeTo(len(src))
	write(len(src))
	return parts
}
