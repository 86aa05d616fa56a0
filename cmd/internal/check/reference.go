package check

import (
	"fmt"
	"io"
	"strings"
)

//go:generate go test -run TestReference -update

// Explain writes the reference of one analyzer.
func (a *Analyzer) Explain(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s (%s)\n\n%s.\n\n%s\n", a.Code, a.Name, a.Severity, capitalize(a.Title), a.Text)
	if a.Before != "" {
		fmt.Fprintf(&b, "\nReported:\n\n%s\n\nInstead:\n\n%s\n", indent(a.Before), indent(a.After))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Reference writes the reference page of all analyzers, in Markdown.
func Reference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`# Checks

<!-- Written by go generate ./cmd/internal/check from the analyzers. -->

The problems that ` + "`celgate check`" + ` reports. Errors and warnings make the exit status 1; notes do not. A line of the
annotation ` + "`" + IgnoreAnnotation + "`" + ` suppresses a check for a policy or binding: the code, a colon and the reason.

| code | severity | what |
|---|---|---|
`)
	for _, a := range Analyzers() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", a.Code, strings.ToLower(a.Code)+"-"+a.Name, a.Severity, a.Title)
	}
	for _, a := range Analyzers() {
		fmt.Fprintf(&b, "\n## %s %s\n\n%s.\n\n%s\n", a.Code, a.Name, capitalize(a.Title), a.Text)
		if a.Before != "" {
			fmt.Fprintf(&b, "\nReported:\n\n```yaml\n%s\n```\n\nInstead:\n\n```yaml\n%s\n```\n", a.Before, a.After)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func capitalize(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
