// Command scoreboard writes docs/conformance.md: the comparisons of celgate with Kubernetes, and their results. Every
// figure is counted from the corpus, or is the recorded total of a run that anyone can repeat.
//
//	go -C conformance run ./cmd/scoreboard [-check]
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/differ"
	"github.com/celgate/celgate/conformance/spoil"
	"github.com/celgate/celgate/internal/conformance"
	"github.com/celgate/celgate/internal/quirks"
)

//go:embed scoreboard.md.tmpl
var text string

func main() {
	root := flag.String("root", "..", "the `folder` of the root module")
	check := flag.Bool("check", false, "fail if the document is not up to date")
	flag.Parse()
	if err := write(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "scoreboard:", err)
		os.Exit(1)
	}
}

// A board is the content of the document.
type board struct {
	Areas  []area
	Cases  int
	Newest string
	Older  []older
	Totals differ.Recorded
	Rules  []string
	Quirks []quirks.Quirk
	Stored spoil.Record // the refusals of the registry
}

// An older minor with its results.
type older struct {
	conformance.Tally
	Generated *differ.LiveTotals // of the last recorded run; nil without one
}

type area struct {
	Name                              string
	Cases, Allowed, Denied, Rejection int
}

func write(root string, check bool) error {
	b, err := newBoard(root)
	if err != nil {
		return err
	}
	parsed, err := template.New("").Parse(text)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, b); err != nil {
		return err
	}
	name := filepath.Join(root, "docs", "conformance.md")
	if check {
		if old, err := os.ReadFile(name); err != nil || !bytes.Equal(old, out.Bytes()) {
			return errors.Join(fmt.Errorf("%s is not up to date: run make scoreboard", name), err)
		}
		return nil
	}
	return os.WriteFile(name, out.Bytes(), 0o666)
}

func newBoard(root string) (*board, error) {
	corpus := os.DirFS(filepath.Join(root, "internal", "conformance", "testdata"))
	cases, err := conformance.Load(corpus)
	if err != nil {
		return nil, err
	}
	known, err := conformance.KnownDifferences(corpus)
	if err != nil {
		return nil, err
	}
	b := &board{Cases: len(cases), Newest: celgate.Newest, Rules: differ.Accepted, Quirks: quirks.All}
	for _, c := range cases {
		if len(b.Areas) == 0 || b.Areas[len(b.Areas)-1].Name != c.Area() {
			b.Areas = append(b.Areas, area{Name: c.Area()})
		}
		a := &b.Areas[len(b.Areas)-1]
		a.Cases++
		switch want := c.Want; {
		case want == nil:
			return nil, fmt.Errorf("%s is not recorded", c.Name)
		case want.Allowed == nil:
			a.Rejection++
		case *want.Allowed:
			a.Allowed++
		default:
			a.Denied++
		}
	}
	recorded, err := os.ReadFile(filepath.Join(root, "conformance", "differ", "totals.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(recorded, &b.Totals); err != nil {
		return nil, err
	}
	for _, tally := range conformance.Tallies(cases, known) {
		b.Older = append(b.Older, older{tally, b.Totals.Minors[tally.Minor]})
	}
	if b.Stored, err = spoil.ReadRecord(); err != nil {
		return nil, err
	}
	if b.Totals.Live == nil {
		return nil, errors.New("the recorded totals are without a live server: run make diff-fuzz TIME=10m RECORD=1")
	}
	return b, nil
}
