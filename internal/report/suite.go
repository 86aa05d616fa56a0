package report

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/suite"
)

// A SuiteWriter renders the results of test cases.
type SuiteWriter interface {
	// Write renders one result. Results come in the order of the suites.
	Write(suite.Result) error

	// Close renders what belongs at the end.
	Close(SuiteSummary) error
}

// A SuiteSummary is what belongs to no case alone.
type SuiteSummary struct {
	Coverage    *suite.Coverage // nil: not wanted
	Differences []suite.Difference
}

// SuiteOptions say how results are written.
type SuiteOptions struct {
	Color   bool
	Width   int  // of the terminal, in columns; 0: lines are not wrapped
	Verbose bool // a line for passed cases too
}

// SuiteFormats are the names that [NewSuite] takes.
func SuiteFormats() []string { return []string{"text", "json", "junit", "sarif", "github"} }

// NewSuite returns the writer of a format.
func NewSuite(format string, w io.Writer, o SuiteOptions) (SuiteWriter, error) {
	switch format {
	case "text":
		t, err := newText(w, Options{Color: o.Color, Width: o.Width})
		return &suiteText{textWriter: t, verbose: o.Verbose}, err
	case "json":
		return &suiteJSON{w: w}, nil
	case "junit":
		return &suiteJUnit{w: w}, nil
	case "sarif":
		return &suiteSARIF{w: w}, nil
	case "github":
		return &suiteGitHub{w: w}, nil
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

// suiteText writes for people: failed cases with what was expected and what came.
type suiteText struct {
	*textWriter
	verbose  bool
	counts   tally
	updated  []string
	problems map[string]bool // already said; the cases of a suite that cannot run share them
}

func (t *suiteText) Write(r suite.Result) error {
	if t.counts == nil {
		t.counts, t.problems = tally{}, map[string]bool{}
	}
	t.counts[r.Status]++
	if r.Updated != "" && !slices.Contains(t.updated, r.Updated) {
		t.updated = append(t.updated, r.Updated)
	}
	if r.Status == suite.Passed {
		if t.verbose {
			t.head(green, string(r.Status), r.Suite+"/"+r.Name, r.Place)
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
		t.gap()
		t.block(block{label: "error", style: red, message: p.Message, place: p.Position, hint: p.Hint})
	}
	if said > 0 && said == len(r.Problems) {
		t.line(indent + "for the reason above")
	}
	for _, f := range r.Failures {
		t.gap()
		t.failure(r, f)
	}
	if d := r.Decision; d != nil {
		for _, n := range d.Notes {
			t.gap()
			t.block(block{label: "note", style: bold, message: n.Message})
		}
	}
	t.gap()
	return t.flush()
}

func (t *suiteText) failure(r suite.Result, f suite.Failure) {
	t.pair("expected", green, f.Expected)
	t.pair("     got", red, f.Got)
	if f.Place.IsValid() {
		t.line(indent + strings.Repeat(" ", 10) + t.p.paint(blue, "-->") + " " + printable(f.Place.String()))
	}
	if f.Hint != "" {
		t.line(indent + "  " + t.p.paint(bold, "hint: ") + printable(f.Hint))
	}
	for _, c := range f.Causes {
		t.gap()
		t.block(t.causeBlock(r, c))
	}
}

// causeBlock shows an expression that decided, with the values behind it.
func (t *suiteText) causeBlock(r suite.Result, c suite.Cause) block {
	b := block{label: "decided by", style: blue, message: c.Says, expr: c.Expr, footers: []string{origin(c.Policy, c.Binding, "")}}
	if c.Violation != nil {
		b = t.violationBlock(Item{Place: r.Place, Request: r.Request, Decision: r.Decision}, *c.Violation)
	}
	if b.mark = (mark{c.From, c.To}); c.To == 0 {
		b.mark = markOf(c.Expr, policy.Position{}, c.Says)
	}
	var values []string
	for _, v := range c.Values {
		values = append(values, valueLine(v))
	}
	b.footers = append(values, b.footers...)
	return b
}

// valueLine is the value of a part of an expression in one line.
func valueLine(s celgate.Step) string {
	line := s.Text + " = " + s.Value
	if s.Error {
		line = s.Text + ": " + s.Value
	}
	if s.Last {
		line += "   (of the last item)"
	}
	return line
}

// pair writes a label and text below which further lines align.
func (t *suiteText) pair(label string, s style, text string) {
	room := 0
	if t.o.Width > 0 {
		room = max(t.o.Width-len(indent)-len(label)-2, 20)
	}
	for i, l := range wrap(printable(text), room) {
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
		t.line("wrote " + printable(file))
	}
	if len(t.counts) > 0 {
		t.line(t.p.paint(bold, t.counts.String()))
	}
	return t.flush()
}

func percent(p float64) string { return strconv.FormatFloat(p, 'f', 1, 64) + "%" }

// differences writes the answers of versions that do not agree.
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

// plainFailure is a failure without pictures.
func plainFailure(f suite.Failure) string {
	s := "expected: " + f.Expected + "\ngot: " + f.Got
	for _, c := range f.Causes {
		if c.Expr.IsZero() {
			s += "\n" + c.Says
			continue
		}
		s += fmt.Sprintf("\n%s: %s (%s)", c.Says, strings.TrimSpace(c.Expr.Src), c.Expr.Locate(0))
		for _, v := range c.Values {
			s += "\n  " + valueLine(v)
		}
	}
	if f.Hint != "" {
		s += "\nhint: " + f.Hint
	}
	return s
}

// A finding is something about a result that has a place.
type finding struct {
	place   policy.Position
	message string
}

func findings(r suite.Result) []finding {
	var all []finding
	for _, p := range r.Problems {
		message := p.Message
		if p.Hint != "" {
			message += "\nhint: " + p.Hint
		}
		all = append(all, finding{p.Position, message})
	}
	for _, f := range r.Failures {
		all = append(all, finding{f.Place, plainFailure(f)})
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
}

type jsonFailure struct {
	Place    string `json:"place"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
	Hint     string `json:"hint,omitempty"`

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
		failure := jsonFailure{Place: f.Place.String(), Expected: f.Expected, Got: f.Got, Hint: f.Hint}
		for _, c := range f.Causes {
			cause := jsonCause{Policy: c.Policy, Binding: c.Binding, Field: c.Expr.Field, Place: c.Expr.Locate(0).String(), Message: c.Says}
			for _, v := range c.Values {
				cause.Values = append(cause.Values, jsonValue{v.Text, v.Value, v.Error, v.Last})
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
	}{APIVersion, "TestResultList", notNil(j.items), nil, nil}
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

// suiteJUnit writes the XML that test dashboards read: a testsuite for each suite, a testcase for each case.
type suiteJUnit struct {
	w      io.Writer
	suites []*junitSuite
}

type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"`
	Time     string        `xml:"time,attr"`
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`

	elapsed time.Duration
}

type junitCase struct {
	Name      string         `xml:"name,attr"`
	Classname string         `xml:"classname,attr"`
	File      string         `xml:"file,attr,omitempty"`
	Line      int            `xml:"line,attr,omitempty"`
	Time      string         `xml:"time,attr"`
	Failures  []junitMessage `xml:"failure"`
	Errors    []junitMessage `xml:"error"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

func (j *suiteJUnit) Write(r suite.Result) error {
	if n := len(j.suites); n == 0 || j.suites[n-1].Name != r.Suite {
		j.suites = append(j.suites, &junitSuite{Name: r.Suite})
	}
	s := j.suites[len(j.suites)-1]
	c := junitCase{Name: r.Name, Classname: r.Suite, File: r.Place.File, Line: r.Place.Line, Time: seconds(r.Elapsed)}
	for _, f := range findings(r) {
		first, _, _ := strings.Cut(f.message, "\n")
		m := junitMessage{first, f.place.String() + "\n" + f.message}
		if r.Status == suite.NotRun {
			c.Errors = append(c.Errors, m)
		} else {
			c.Failures = append(c.Failures, m)
		}
	}
	s.Tests++
	s.elapsed += r.Elapsed
	switch r.Status {
	case suite.Failed:
		s.Failures++
	case suite.NotRun:
		s.Errors++
	}
	s.Cases = append(s.Cases, c)
	return nil
}

func (j *suiteJUnit) Close(SuiteSummary) error {
	all := junitSuites{Name: "celgate test", Suites: j.suites}
	var elapsed time.Duration
	for _, s := range j.suites {
		s.Time = seconds(s.elapsed)
		elapsed += s.elapsed
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
	}
	all.Time = seconds(elapsed)
	if _, err := io.WriteString(j.w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(j.w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(j.w, "\n")
	return err
}

// suiteSARIF writes a SARIF 2.1.0 log with a result for everything that is not as expected.
type suiteSARIF struct {
	w       io.Writer
	results []sarifResult
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

func (s *suiteSARIF) Write(r suite.Result) error {
	for _, f := range findings(r) {
		out := sarifResult{RuleID: "test-" + strings.ReplaceAll(string(r.Status), " ", "-"), Level: "error", Message: sarifText{r.Suite + "/" + r.Name + "\n" + f.message}}
		var at sarifLocation
		at.Physical.Artifact.URI = f.place.File
		if f.place.IsValid() {
			at.Physical.Region = &sarifRegion{f.place.Line, f.place.Column}
		}
		out.Locations = []sarifLocation{at}
		s.results = append(s.results, out)
	}
	return nil
}

func (s *suiteSARIF) Close(SuiteSummary) error {
	type rule struct {
		ID    string    `json:"id"`
		Short sarifText `json:"shortDescription"`
	}
	enc := json.NewEncoder(s.w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs": []any{map[string]any{
			"tool": map[string]any{"driver": map[string]any{
				"name": "celgate test",
				"rules": []rule{
					{"test-failed", sarifText{"the answer is not as the case expects"}},
					{"test-not-run", sarifText{"the case could not run"}},
				},
			}},
			"results": notNil(s.results),
		}},
	})
}

// suiteGitHub writes the workflow commands that make GitHub annotate files.
type suiteGitHub struct {
	w      io.Writer
	counts tally
}

func (g *suiteGitHub) Write(r suite.Result) error {
	if g.counts == nil {
		g.counts = tally{}
	}
	g.counts[r.Status]++
	for _, f := range findings(r) {
		if err := g.command("error", r.Suite+"/"+r.Name, f); err != nil {
			return err
		}
	}
	return nil
}

// command writes a workflow command.
func (g *suiteGitHub) command(name, title string, f finding) error {
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	place := "file=" + property.Replace(f.place.File)
	if f.place.IsValid() {
		place += fmt.Sprintf(",line=%d,col=%d", f.place.Line, max(f.place.Column, 1))
	}
	_, err := fmt.Fprintf(g.w, "::%s %s,title=%s::%s\n", name, place, property.Replace(title), data.Replace(f.message))
	return err
}

func (g *suiteGitHub) Close(s SuiteSummary) error {
	for _, d := range s.Differences {
		message := "the versions of Kubernetes do not agree"
		for _, a := range d.Answers {
			message += "\n" + a.Version + ": " + a.Text
		}
		if err := g.command("notice", d.Name, finding{d.Place, message}); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(g.w, g.counts)
	return err
}
