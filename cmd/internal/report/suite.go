package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/suite"
)

// A SuiteWriter renders the results of test cases.
type SuiteWriter interface {
	// Write renders one result. Results come in the order of the suites.
	Write(suite.Result) error

	// Close renders the end of the report.
	Close(SuiteSummary) error
}

// A SuiteSummary holds the results of a whole run.
type SuiteSummary struct {
	Coverage    *suite.Coverage // nil: not requested
	Differences []suite.Difference
}

// SuiteOptions configure the output of results.
type SuiteOptions struct {
	Color   bool
	Width   int  // of the terminal, in columns; 0: lines are not wrapped
	Verbose bool // a line for passed cases too
}

// SuiteFormats are the formats of [NewSuite].
func SuiteFormats() []string { return []string{"text", "json", "junit", "sarif", "github", "html"} }

// NewSuite returns a writer of a format.
func NewSuite(format string, w io.Writer, o SuiteOptions) (SuiteWriter, error) {
	switch format {
	case "text":
		t, err := newText(w, Options{Color: o.Color, Width: o.Width})
		return &suiteText{textWriter: t, verbose: o.Verbose}, err
	case "json":
		return &suiteJSON{w: w}, nil
	case "junit":
		return &suiteJUnit{w, junit{Name: "celgate test"}}, nil
	case "sarif":
		return &suiteSARIF{w: w}, nil
	case "github":
		return &suiteGitHub{w: w}, nil
	case "html":
		return &suiteHTML{w: w}, nil
	}
	return nil, fmt.Errorf("unknown output format %q: one of %s", format, strings.Join(SuiteFormats(), ", "))
}

// A tally counts cases by their status.
type tally map[suite.Status]int

func (t tally) String() string {
	var parts []string
	total := 0
	for _, s := range []suite.Status{suite.Passed, suite.Failed, suite.NotRun} {
		if t[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t[s], s))
			total += t[s]
		}
	}
	return strings.TrimSuffix(plural(total, "case", "cases")+": "+strings.Join(parts, ", "), ": ")
}

// suiteText writes for people: failed cases with expected and actual results.
type suiteText struct {
	*textWriter
	verbose  bool
	counts   tally
	updated  []string
	problems map[string]bool // already shown; the cases of a suite that cannot run share them

	unchecked uncheckedCases
}

// uncheckedCases counts the cases with parts of the server that were not simulated.
type uncheckedCases struct {
	names []string // of the parts
	cases int
}

// add counts a case, and returns its parts.
func (u *uncheckedCases) add(r *suite.Result) []string {
	parts := r.UncheckedParts()
	if len(parts) > 0 {
		u.cases++
	}
	for _, part := range parts {
		if name := partName(part); !slices.Contains(u.names, name) {
			u.names = append(u.names, name)
		}
	}
	return parts
}

// String lists the parts in one line; empty: there are none.
func (u *uncheckedCases) String() string {
	if u.cases == 0 {
		return ""
	}
	return unchecked + " in " + plural(u.cases, "case", "cases") + ": " + strings.Join(u.names, ", ")
}

// findings returns the parts as a note of a report.
func (u *uncheckedCases) findings() []finding {
	if u.cases == 0 {
		return nil
	}
	return []finding{{level: check.Note, rule: "unchecked", title: unchecked, message: u.String()}}
}

func (t *suiteText) Write(r suite.Result) error {
	if t.counts == nil {
		t.counts, t.problems = tally{}, map[string]bool{}
	}
	t.counts[r.Status]++
	if r.Updated != "" && !slices.Contains(t.updated, r.Updated) {
		t.updated = append(t.updated, r.Updated)
	}
	parts := t.unchecked.add(&r)
	if r.Status == suite.Passed {
		fresh := slices.DeleteFunc(slices.Clone(r.Notes), func(n string) bool { return t.notes[n] })
		if t.verbose || len(fresh) > 0 {
			t.head(green, string(r.Status), r.Suite+"/"+r.Name, r.Place)
		}
		for _, n := range fresh {
			t.notes[n] = true
			t.block(block{label: "note", style: bold, message: n})
		}
		if t.verbose {
			t.leave(parts)
		}
		return t.flush()
	}
	t.head(red, string(r.Status), r.Suite+"/"+r.Name, r.Place)
	said := 0
	for _, p := range r.Problems {
		if t.problems[p.Error()] {
			said++
			continue
		}
		t.problems[p.Error()] = true
		t.writeGap()
		t.block(block{label: "error", style: red, message: p.Message, place: p.Position, hint: p.Hint})
	}
	if said > 0 && said == len(r.Problems) {
		t.line(indent + "for the reason above")
	}
	for _, f := range r.Failures {
		t.writeGap()
		t.failure(r, f)
	}
	if d := r.Decision; d != nil {
		for _, n := range d.Notes {
			if t.notes[n.Message] && slices.Contains(r.Notes, n.Message) {
				continue
			}
			t.notes[n.Message] = true
			t.writeGap()
			t.block(block{label: "note", style: bold, message: n.Message})
		}
	}
	t.leave(parts)
	t.writeGap()
	return t.flush()
}

// leave writes the parts of the server that were not simulated for a case.
func (t *suiteText) leave(parts []string) {
	if len(parts) > 0 {
		t.block(block{label: unchecked, style: bold, message: strings.Join(parts, ", ")})
	}
}

func (t *suiteText) failure(r suite.Result, f suite.Failure) {
	t.pair("expected", green, f.Expected)
	t.pair("     got", red, f.Got)
	if f.Place.IsValid() {
		t.line(indent + strings.Repeat(" ", 10) + t.p.paint(blue, "-->") + " " + escapeControls(f.Place.String()))
	}
	if f.Hint != "" {
		t.line(indent + "  " + t.p.paint(bold, "hint: ") + escapeControls(f.Hint))
	}
	for _, n := range f.Notes {
		t.block(block{label: "note", style: bold, message: n})
	}
	for _, c := range f.Causes {
		t.writeGap()
		t.block(t.causeBlock(r, c))
	}
}

// causeBlock returns an expression that decided, with the values behind it.
func (t *suiteText) causeBlock(r suite.Result, c suite.Cause) block {
	b := block{label: "decided by", style: blue, message: c.Says, expr: c.Expr,
		footers: []string{origin(c.Policy, c.Binding, "")}}
	if c.Violation != nil {
		b = t.violationBlock(Item{Place: r.Place, Request: r.Request, Decision: r.Decision}, *c.Violation)
	}
	return b.addReason(blame.Reason{Expr: c.Expr, Variable: c.Variable, From: c.From, To: c.To, Values: c.Values}, nil)
}

// pair writes a label and text, with further lines below the text.
func (t *suiteText) pair(label string, s style, text string) {
	room := 0
	if t.o.Width > 0 {
		room = max(t.o.Width-len(indent)-len(label)-2, 20)
	}
	for i, l := range Wrap(escapeControls(text), room) {
		if i == 0 {
			t.line(indent + t.p.paint(s, label+":") + " " + l)
		} else {
			t.line(indent + strings.Repeat(" ", len(label)+2) + l)
		}
	}
}

func (t *suiteText) Close(s SuiteSummary) error {
	if t.blocks && !t.spaced {
		t.line("")
	}
	if s.Coverage != nil {
		t.coverage(s.Coverage)
	}
	t.differences(s.Differences)
	for _, file := range t.updated {
		t.line("wrote " + escapeControls(file))
	}
	if note := t.unchecked.String(); note != "" {
		t.line(escapeControls(note))
	}
	if len(t.counts) > 0 {
		t.line(t.p.paint(bold, t.counts.String()))
	}
	return t.flush()
}

func percent(p float64) string { return strconv.FormatFloat(p, 'f', 1, 64) + "%" }

// differences writes the different answers of versions.
func (t *suiteText) differences(all []suite.Difference) {
	for _, d := range all {
		t.head(yellow, "differs", d.Name, d.Place)
		width := 0
		for _, a := range d.Answers {
			width = max(width, len(a.Version))
		}
		for _, a := range d.Answers {
			t.pair(strings.Repeat(" ", width-len(a.Version))+a.Version, bold, a.Text)
		}
	}
	if len(all) > 0 {
		t.line("")
	}
}

// plainFailure returns a failure without excerpts.
func plainFailure(f suite.Failure) string {
	s := "expected: " + f.Expected + "\ngot: " + f.Got
	for _, c := range f.Causes {
		if c.Expr.IsZero() {
			s += "\n" + c.Says
			continue
		}
		s += fmt.Sprintf("\n%s: %s (%s)", c.Says, strings.TrimSpace(c.Expr.Src), c.Expr.Locate(0))
		for _, line := range valueLines(c.Values, nil) {
			s += "\n  " + line
		}
	}
	for _, n := range f.Notes {
		s += "\nnote: " + n
	}
	if f.Hint != "" {
		s += "\nhint: " + f.Hint
	}
	return s
}

func findings(r suite.Result) []finding {
	base := finding{level: check.Error, rule: "test-" + strings.ReplaceAll(string(r.Status), " ", "-"),
		title: r.Suite + "/" + r.Name}
	var all []finding
	for _, p := range r.Problems {
		f := base
		f.place, f.message = p.Position, p.Message
		if p.Hint != "" {
			f.message += "\nhint: " + p.Hint
		}
		all = append(all, f)
	}
	for _, failure := range r.Failures {
		f := base
		f.place, f.message = failure.Place, plainFailure(failure)
		all = append(all, f)
	}
	return all
}

// suiteJSON writes a TestResultList.
type suiteJSON struct {
	w     io.Writer
	items []jsonResult
}

type jsonResult struct {
	Suite    string        `json:"suite"`
	Name     string        `json:"name"`
	Place    string        `json:"place"`
	Status   suite.Status  `json:"status"`
	Seconds  float64       `json:"seconds"`
	Failures []jsonFailure `json:"failures"`
	Errors   []jsonError   `json:"errors"`
	Updated  string        `json:"updated,omitempty"`
	Decision *jsonItem     `json:"decision,omitempty"`
	Created  []jsonItem    `json:"created,omitempty"` // by controllers
}

type jsonFailure struct {
	Place    string `json:"place"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
	Hint     string `json:"hint,omitempty"`

	Notes  []string    `json:"notes,omitempty"`
	Causes []jsonCause `json:"causes,omitempty"`
}

type jsonCause struct {
	Policy  string      `json:"policy,omitempty"`
	Binding string      `json:"binding,omitempty"`
	Field   string      `json:"field,omitempty"`
	Place   string      `json:"place,omitempty"`
	Message string      `json:"message"`
	Values  []jsonValue `json:"values,omitempty"`
}

func (j *suiteJSON) Write(r suite.Result) error {
	out := jsonResult{
		Suite: r.Suite, Name: r.Name, Place: r.Place.String(), Status: r.Status, Seconds: r.Elapsed.Seconds(),
		Failures: []jsonFailure{}, Errors: []jsonError{}, Updated: r.Updated,
	}
	for _, f := range r.Failures {
		failure := jsonFailure{Place: f.Place.String(), Expected: f.Expected, Got: f.Got, Hint: f.Hint, Notes: f.Notes}
		for _, c := range f.Causes {
			cause := jsonCause{Policy: c.Policy, Binding: c.Binding, Field: c.Expr.Field,
				Place: c.Expr.Locate(0).String(), Message: c.Says}
			for _, v := range c.Values {
				cause.Values = append(cause.Values, jsonValueOf(v))
			}
			failure.Causes = append(failure.Causes, cause)
		}
		out.Failures = append(out.Failures, failure)
	}
	for _, p := range r.Problems {
		out.Errors = append(out.Errors, jsonError{Place: p.Position.String(), Message: p.Message, Hint: p.Hint})
	}
	if r.Decision != nil && r.Request != nil {
		item := itemOf(r.Request, r.Decision)
		out.Decision = &item
		for _, made := range r.Created {
			item := itemOf(made.Request, made.Decision)
			item.CreatedBy = &jsonCreator{r.Request.Kind.Kind, NameOf(r.Request)}
			out.Created = append(out.Created, item)
		}
	}
	j.items = append(j.items, out)
	return nil
}

type jsonCoverage struct {
	Percent  float64              `json:"percent"`
	Policies []jsonPolicyCoverage `json:"policies"`
}

type jsonPolicyCoverage struct {
	Policy  string              `json:"policy"`
	Entries []jsonCoverageEntry `json:"entries"`
}

type jsonCoverageEntry struct {
	Name   string         `json:"name"`
	Branch bool           `json:"branch"`
	Place  string         `json:"place"`
	Counts map[string]int `json:"counts"`
}

type jsonDifference struct {
	Case    string            `json:"case"`
	Place   string            `json:"place"`
	Answers map[string]string `json:"answers"`
}

func (j *suiteJSON) Close(s SuiteSummary) error {
	list := struct {
		APIVersion  string           `json:"apiVersion"`
		Kind        string           `json:"kind"`
		Items       []jsonResult     `json:"items"`
		Coverage    *jsonCoverage    `json:"coverage,omitempty"`
		Differences []jsonDifference `json:"differences,omitempty"`
	}{APIVersion, "TestResultList", toNonNil(j.items), nil, nil}
	for _, d := range s.Differences {
		answers := map[string]string{}
		for _, a := range d.Answers {
			answers[a.Version] = a.Text
		}
		list.Differences = append(list.Differences, jsonDifference{d.Name, d.Place.String(), answers})
	}
	if c := s.Coverage; c != nil {
		list.Coverage = &jsonCoverage{Percent: c.Percent(), Policies: []jsonPolicyCoverage{}}
		for _, p := range c.Policies {
			of := jsonPolicyCoverage{Policy: p.Name, Entries: []jsonCoverageEntry{}}
			for _, e := range p.Entries {
				counts := map[string]int{}
				for _, o := range e.Outcomes {
					counts[o.Name] = o.Count
				}
				of.Entries = append(of.Entries, jsonCoverageEntry{e.Name, e.Branch, e.Place.String(), counts})
			}
			list.Coverage.Policies = append(list.Coverage.Policies, of)
		}
	}
	enc := json.NewEncoder(j.w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(list)
}

// suiteJUnit writes a testsuite for each suite, a testcase for each case.
type suiteJUnit struct {
	w io.Writer
	junit
}

func (j *suiteJUnit) Write(r suite.Result) error {
	c := junitCase{Name: r.Name}
	if parts := r.UncheckedParts(); len(parts) > 0 {
		c.Output = unchecked + ": " + strings.Join(parts, ", ")
	}
	for _, f := range findings(r) {
		if r.Status == suite.NotRun {
			c.Errors = append(c.Errors, f.junit())
		} else {
			c.Failures = append(c.Failures, f.junit())
		}
	}
	j.add(r.Suite, r.Place, r.Elapsed, c)
	return nil
}

func (j *suiteJUnit) Close(SuiteSummary) error { return j.write(j.w) }

// suiteSARIF writes a result for each unexpected result, and one for the parts of the server that were not simulated.
type suiteSARIF struct {
	w         io.Writer
	all       []finding
	unchecked uncheckedCases
}

func (s *suiteSARIF) Write(r suite.Result) error {
	s.unchecked.add(&r)
	for _, f := range findings(r) {
		f.message = f.title + "\n" + f.message
		s.all = append(s.all, f)
	}
	return nil
}

func (s *suiteSARIF) Close(SuiteSummary) error {
	return writeSARIF(s.w, "test", []sarifRule{
		{ID: "test-failed", Short: sarifText{"the answer is not as the case expects"}},
		{ID: "test-not-run", Short: sarifText{"the case could not run"}},
		uncheckedRule,
	}, append(s.all, s.unchecked.findings()...))
}

// suiteGitHub annotates unexpected results, and counts.
type suiteGitHub struct {
	w         io.Writer
	counts    tally
	unchecked uncheckedCases
}

func (g *suiteGitHub) Write(r suite.Result) error {
	if g.counts == nil {
		g.counts = tally{}
	}
	g.counts[r.Status]++
	g.unchecked.add(&r)
	return writeGitHub(g.w, findings(r)...)
}

func (g *suiteGitHub) Close(s SuiteSummary) error {
	for _, d := range s.Differences {
		message := "the versions of Kubernetes do not agree"
		for _, a := range d.Answers {
			message += "\n" + a.Version + ": " + a.Text
		}
		if err := writeGitHub(g.w, finding{level: check.Note, title: d.Name, place: d.Place,
			message: message}); err != nil {
			return err
		}
	}
	if err := writeGitHub(g.w, g.unchecked.findings()...); err != nil {
		return err
	}
	_, err := fmt.Fprintln(g.w, g.counts)
	return err
}
