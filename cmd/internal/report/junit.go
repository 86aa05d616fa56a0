package report

import (
	"encoding/xml"
	"io"
	"strconv"
	"time"

	"github.com/celgate/celgate/policy"
)

// A junit is the XML that test dashboards read: suites of cases.
type junit struct {
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

// A junitCase has failed if it has failures, and did not run if it has errors.
type junitCase struct {
	Name      string         `xml:"name,attr"`
	Classname string         `xml:"classname,attr"`
	File      string         `xml:"file,attr,omitempty"`
	Line      int            `xml:"line,attr,omitempty"`
	Time      string         `xml:"time,attr"`
	Failures  []junitMessage `xml:"failure"`
	Errors    []junitMessage `xml:"error"`
	Skipped   *junitMessage  `xml:"skipped"`
	Output    string         `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"` // the rule
	Text    string `xml:",chardata"`
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// add adds a case to the last suite if it has that name, or else to a new one.
func (j *junit) add(suite string, place policy.Position, elapsed time.Duration, c junitCase) {
	if n := len(j.Suites); n == 0 || j.Suites[n-1].Name != suite {
		j.Suites = append(j.Suites, &junitSuite{Name: suite})
	}
	c.Classname, c.File, c.Line, c.Time = suite, place.File, place.Line, seconds(elapsed)
	s := j.Suites[len(j.Suites)-1]
	s.Tests++
	s.elapsed += elapsed
	switch {
	case len(c.Errors) > 0:
		s.Errors++
	case len(c.Failures) > 0:
		s.Failures++
	}
	s.Cases = append(s.Cases, c)
}

func (j *junit) write(w io.Writer) error {
	var elapsed time.Duration
	for _, s := range j.Suites {
		s.Time = seconds(s.elapsed)
		elapsed += s.elapsed
		j.Tests, j.Failures, j.Errors = j.Tests+s.Tests, j.Failures+s.Failures, j.Errors+s.Errors
	}
	j.Time = seconds(elapsed)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(j); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
