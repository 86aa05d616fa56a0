package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/policy"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DiagnosticFormats are the formats of [Diagnostics].
func DiagnosticFormats() []string { return []string{"text", "json", "junit", "sarif", "github"} }

// Diagnostics writes the diagnostics of a check in the given order. Text leaves out those that annotations ignore and,
// with o.Quiet, notes, which it counts; JSON has all. o.Set are the checked policies and bindings.
func Diagnostics(format string, w io.Writer, found []check.Diagnostic, o Options) error {
	switch format {
	case "text":
		return diagnosticText(w, found, o)
	case "json":
		return diagnosticJSON(w, found)
	case "junit":
		return diagnosticJUnit(w, found, o.Set)
	case "sarif":
		return writeSARIF(w, "check", checkRules(), diagnosticFindings(found))
	case "github":
		return writeGitHub(w, diagnosticFindings(slices.DeleteFunc(slices.Clone(found), func(d check.Diagnostic) bool {
			return d.Severity == check.Note && o.Quiet
		}))...)
	}
	return fmt.Errorf("unknown output format %q: one of %s", format, strings.Join(DiagnosticFormats(), ", "))
}

var checkSeverities = []struct {
	severity  check.Severity
	style     style
	one, many string
}{
	{check.Error, red, "error", "errors"},
	{check.Warning, yellow, "warning", "warnings"},
	{check.Note, cyan, "note", "notes"},
}

func diagnosticText(w io.Writer, found []check.Diagnostic, o Options) error {
	t := &textWriter{w: w, o: o, p: palette(o.Color), spaced: true}
	counts := map[check.Severity]int{}
	suppressed := 0
	for _, d := range found {
		if d.Ignored != "" {
			suppressed++
			continue
		}
		counts[d.Severity]++
		if d.Severity == check.Note && o.Quiet {
			continue
		}
		b := block{label: string(d.Severity), message: d.Message, expr: d.Expr, mark: mark{d.From, d.To},
			place: d.Position, hint: d.Suggestion}
		for _, s := range checkSeverities {
			if s.severity == d.Severity {
				b.style = s.style
			}
		}
		if d.Field != "" {
			b.footers = append(b.footers, d.Field+" of "+d.Ref.String())
		} else {
			b.footers = append(b.footers, d.Ref.String())
		}
		b.footers = append(b.footers, d.Code)
		if d.Server != nil {
			b.footers[len(b.footers)-1] += ", also in the policy's status.typeChecking"
		}
		b.diff = d.Example
		t.writeGap()
		t.block(b)
		t.writeGap()
	}
	var summary []string
	if counts[check.Error]+counts[check.Warning] == 0 && (o.Quiet || counts[check.Note] == 0) {
		summary = append(summary, "nothing found")
	}
	for _, s := range checkSeverities {
		if n := counts[s.severity]; n > 0 {
			text := plural(n, s.one, s.many)
			if s.severity == check.Note && o.Quiet {
				text += " (shown with --notes)"
			}
			summary = append(summary, text)
		}
	}
	if suppressed > 0 {
		summary = append(summary, fmt.Sprintf("%d ignored by annotation", suppressed))
	}
	t.line(checkedText(o.Set) + strings.Join(summary, ", "))
	return t.flush()
}

// checkedText returns the number of checked policies and bindings in words.
func checkedText(set *policy.Set) string {
	if set == nil {
		return ""
	}
	text := plural(len(set.Policies), "policy", "policies") + ", " + plural(len(set.Bindings), "binding", "bindings")
	if n := len(set.Libraries); n > 0 {
		text += ", " + plural(n, "library", "libraries")
	}
	return text + ": "
}

// diagnosticJUnit writes a testsuite for each file and a testcase for each policy and binding. Errors and warnings fail
// it; notes are its output.
func diagnosticJUnit(w io.Writer, found []check.Diagnostic, set *policy.Set) error {
	j := &junit{Name: "celgate check"}
	written := map[string]bool{}
	write := func(ref policy.Ref, place policy.Position) {
		c := junitCase{Name: ref.String()}
		if written[c.Name] {
			return
		}
		written[c.Name] = true
		for _, d := range found {
			if d.Ref != ref || d.Ignored != "" {
				continue
			}
			f := finding{place: d.Position, message: d.Code + ": " + sentence(d)}
			if d.Severity == check.Note {
				c.Output += f.place.String() + ": " + f.message + "\n"
			} else {
				c.Failures = append(c.Failures, f.junit())
			}
		}
		j.add(place.File, place, 0, c)
	}
	if set != nil {
		for _, p := range set.Policies {
			write(p.Ref(), p.Locate(&field.Error{Field: "metadata.name"}))
		}
		for _, b := range set.Bindings {
			write(b.Ref(), b.Locate(&field.Error{Field: "metadata.name"}))
		}
	}
	for _, d := range found { // of documents that could not be decoded
		write(d.Ref, d.Position)
	}
	return j.write(w)
}

type jsonDiagnostic struct {
	Code          string         `json:"code"`
	Severity      check.Severity `json:"severity"`
	Message       string         `json:"message"`
	Suggestion    string         `json:"suggestion,omitempty"`
	File          string         `json:"file,omitempty"`
	Line          int            `json:"line,omitempty"`
	Column        int            `json:"column,omitempty"`
	Kind          string         `json:"kind"`
	Name          string         `json:"name"`
	Field         string         `json:"field,omitempty"`
	ServerWarning string         `json:"serverWarning,omitempty"`
	Ignored       string         `json:"ignored,omitempty"`
	Example       []string       `json:"example,omitempty"`
	Fixable       bool           `json:"fixable,omitempty"`
}

func diagnosticJSON(w io.Writer, found []check.Diagnostic) error {
	items := make([]jsonDiagnostic, len(found))
	warned := map[[3]string]bool{} // the server's long warning about an expression is shown with its first diagnostic
	for i, d := range found {
		server := ""
		if id := [3]string{d.Kind, d.Name, d.Field}; d.Server != nil && !warned[id] {
			server, warned[id] = d.Server(), true
		}
		items[i] = jsonDiagnostic{
			d.Code, d.Severity, d.Message, d.Suggestion, d.Position.File, d.Position.Line, d.Position.Column,
			d.Kind, d.Name, d.Field, server, d.Ignored, d.Example, d.Fix != nil,
		}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"apiVersion": "celgate.dev/v1alpha1", "kind": "DiagnosticList", "items": items})
}

// diagnosticFindings returns diagnostics as findings.
func diagnosticFindings(found []check.Diagnostic) []finding {
	all := make([]finding, len(found))
	for i, d := range found {
		all[i] = finding{level: d.Severity, rule: d.Code, title: d.Code, place: d.Position, message: sentence(d),
			ignored: d.Ignored}
	}
	return all
}

// sentence returns a diagnostic as one text.
func sentence(d check.Diagnostic) string {
	text := d.Ref.String() + ": " + d.Message
	if d.Suggestion != "" {
		text += " (" + d.Suggestion + ")"
	}
	if len(d.Example) > 0 {
		text += "\n" + strings.Join(d.Example, "\n")
	}
	return text
}

// checkRules returns the checks as rules of SARIF.
func checkRules() []sarifRule {
	var rules []sarifRule
	for _, a := range check.Analyzers() {
		rules = append(rules, sarifRule{
			ID: a.Code, Name: a.Name, Short: sarifText{a.Title}, Full: &sarifText{a.Text},
			Default: &sarifLevel{string(a.Severity)},
		})
	}
	return rules
}

// Measurements writes the costs of policies against their budgets, and the oldest minor on which each works.
func Measurements(w io.Writer, all []check.Measurement) error {
	var b strings.Builder
	for i, m := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		oldest := "Kubernetes " + m.Oldest + " and newer"
		switch {
		case m.Newest != "" && m.Oldest != "":
			oldest = "Kubernetes " + m.Oldest + " to " + m.Newest + ", where that version of the kind ends"
		case m.Oldest == "":
			oldest = "does not compile"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", m.Kind, m.Name, oldest)
		if m.Oldest != "" && m.Why != "" {
			why := m.Why
			if found := wording.Problems(why); len(found) > 0 {
				why = found[0].Message
			}
			fmt.Fprintf(&b, "  before that: %s\n", strings.TrimPrefix(m.Field+": "+why, ": "))
		}
		if len(m.Costs) > 0 {
			fmt.Fprintf(&b, "  %-18s %12s %12s %12s\n", "costs", "estimated", "observed", "budget")
		}
		for _, c := range m.Costs {
			fmt.Fprintf(&b, "  %-18s %12s %12s %12s\n", c.Of, thousands(c.Estimated), thousands(c.Observed),
				thousands(c.Limit))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
