package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate/explain"
)

// Turns writes the order in which mutating policies run, as text in lines of at most width columns (0: unlimited) or as
// json.
func Turns(format string, w io.Writer, turns []explain.Turn, problems []explain.OrderProblem, width int) error {
	if format == "json" {
		return writeTurnsJSON(w, turns, problems)
	}
	t := turnsWriter{width: width}
	if len(turns) == 0 {
		t.line("no mutating policies are in force", "", "")
	}
	for i, turn := range turns {
		t.line(fmt.Sprintf("%d. %s %s", i+1, turn.Kind, turn.Name), "", "")
		t.line(fieldsText(turn.Reads), "   reads   ", "           ")
		t.line(fieldsText(turn.Writes), "   writes  ", "           ")
		for _, why := range turn.Why {
			t.line(why, "   ", "     ")
		}
	}
	for i := range problems {
		word := "warning: "
		if problems[i].IsError {
			word = "error: "
		}
		if i == 0 {
			t.line("", "", "")
		}
		t.line(problems[i].Error(), word, "  ")
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// fieldsText lists fields in words.
func fieldsText(fields []string) string {
	switch {
	case len(fields) == 0:
		return "nothing"
	case len(fields) == 1 && fields[0] == "*":
		return "something that its text does not show: it may be anything"
	}
	return strings.Join(fields, ", ")
}

// turnsWriter writes paragraphs.
type turnsWriter struct {
	strings.Builder
	width int
}

// line writes a text behind first, and its further lines behind rest.
func (t *turnsWriter) line(text, first, rest string) {
	room := 0
	if t.width > 0 {
		room = max(t.width-max(len(first), len(rest)), 1)
	}
	for i, line := range Wrap(escapeControls(text), room) {
		if i > 0 {
			first = rest
		}
		t.WriteString(strings.TrimRight(first+line, " ") + "\n")
	}
}

type jsonTurn struct {
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Reads  []string `json:"reads"`
	Writes []string `json:"writes"`
	Why    []string `json:"why,omitempty"`
}

type jsonOrderProblem struct {
	Reason   string   `json:"reason"`
	Severity string   `json:"severity"`
	Message  string   `json:"message"`
	Policies []string `json:"policies"`
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Field    string   `json:"field,omitempty"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
}

func writeTurnsJSON(w io.Writer, turns []explain.Turn, problems []explain.OrderProblem) error {
	items := make([]jsonTurn, len(turns))
	for i, t := range turns {
		items[i] = jsonTurn{t.Kind, t.Name, t.Reads, t.Writes, t.Why}
	}
	found := make([]jsonOrderProblem, len(problems))
	for i, p := range problems {
		severity := "warning"
		if p.IsError {
			severity = "error"
		}
		found[i] = jsonOrderProblem{p.Reason, severity, p.Message, p.Of, p.Kind, p.Name, p.Field, p.Position.File,
			p.Position.Line, p.Position.Column}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"apiVersion": "celgate.dev/v1alpha1", "kind": "PolicyOrder", "items": items,
		"problems": found})
}
