package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/celgate/celgate/check"
)

// sarifSuppression says that the author of a policy does not want to be told.
type sarifSuppression struct {
	Kind          string `json:"kind"`
	Justification string `json:"justification"`
}

type sarifDiagnostic struct {
	sarifResult
	Suppressions []sarifSuppression `json:"suppressions,omitempty"`
}

// diagnosticSARIF writes a SARIF 2.1.0 log with the checks as its rules.
func diagnosticSARIF(w io.Writer, found []check.Diagnostic) error {
	type rule struct {
		ID    string            `json:"id"`
		Name  string            `json:"name"`
		Short sarifText         `json:"shortDescription"`
		Full  sarifText         `json:"fullDescription"`
		Level map[string]string `json:"defaultConfiguration"`
	}
	var rules []rule
	for _, a := range check.Analyzers() {
		rules = append(rules, rule{a.Code, a.Name, sarifText{a.Title}, sarifText{a.Text}, map[string]string{"level": string(a.Severity)}})
	}
	results := make([]sarifDiagnostic, len(found))
	for i, d := range found {
		out := sarifDiagnostic{sarifResult: sarifResult{RuleID: d.Code, Level: string(d.Severity), Message: sarifText{sentence(d)}}}
		var at sarifLocation
		at.Physical.Artifact.URI = d.Position.File
		if d.Position.IsValid() {
			at.Physical.Region = &sarifRegion{d.Position.Line, d.Position.Column}
		}
		out.Locations = []sarifLocation{at}
		if d.Ignored != "" {
			out.Suppressions = []sarifSuppression{{"inSource", d.Ignored}}
		}
		results[i] = out
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json",
		"version": "2.1.0",
		"runs":    []any{map[string]any{"tool": map[string]any{"driver": map[string]any{"name": "celgate check", "rules": rules}}, "results": results}},
	})
}

// sentence is a diagnostic in one text.
func sentence(d check.Diagnostic) string {
	text := d.Kind + " " + d.Name + ": " + d.Message
	if d.Suggestion != "" {
		text += " (" + d.Suggestion + ")"
	}
	if len(d.Example) > 0 {
		text += "\n" + strings.Join(d.Example, "\n")
	}
	return text
}

// diagnosticGitHub writes the workflow commands that make GitHub annotate files. What annotations ignore is left out.
func diagnosticGitHub(w io.Writer, found []check.Diagnostic, o Options) error {
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	for _, d := range found {
		if d.Ignored != "" || d.Severity == check.Note && o.Quiet {
			continue
		}
		command := string(d.Severity)
		if d.Severity == check.Note {
			command = "notice"
		}
		place := "file=" + property.Replace(d.Position.File)
		if d.Position.IsValid() {
			place += fmt.Sprintf(",line=%d,col=%d", d.Position.Line, max(d.Position.Column, 1))
		}
		if _, err := fmt.Fprintf(w, "::%s %s,title=%s::%s\n", command, place, property.Replace(d.Code), data.Replace(sentence(d))); err != nil {
			return err
		}
	}
	return nil
}

// Measurements writes what policies cost against their budgets, and the oldest minor on which each works.
func Measurements(w io.Writer, all []check.Measurement) error {
	var b strings.Builder
	for i, m := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		oldest := "Kubernetes " + m.Oldest + " and newer"
		if m.Oldest == "" {
			oldest = "does not compile"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", m.Kind, m.Name, oldest)
		if m.Oldest != "" && m.Why != "" {
			why := m.Why
			if _, problem, ok := strings.Cut(why, "ERROR: <input>:"); ok {
				why, _, _ = strings.Cut(problem, "\n")
				_, why, _ = strings.Cut(why, ": ")
				why = strings.TrimSuffix(why, " (in container '')")
			}
			fmt.Fprintf(&b, "  before that: %s\n", strings.TrimPrefix(m.Field+": "+why, ": "))
		}
		if len(m.Costs) > 0 {
			fmt.Fprintf(&b, "  %-18s %12s %12s %12s\n", "costs", "estimated", "observed", "budget")
		}
		for _, c := range m.Costs {
			fmt.Fprintf(&b, "  %-18s %12s %12s %12s\n", c.Of, thousands(c.Estimated), thousands(c.Observed), thousands(c.Limit))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
