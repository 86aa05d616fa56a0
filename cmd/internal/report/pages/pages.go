// Package pages has the HTML of reports. It stands apart because html/template finds methods by name: the linker
// keeps every exported method of a program that uses it, a fifth of the program.
package pages

import (
	"embed"
	"html/template"
	"io"
)

//go:embed *.html
var files embed.FS

// templates share their style and their script.
var templates = template.Must(template.ParseFS(files, "*.html"))

// Write writes the page of a name, as "audit.html", about data. It is a [report.PageWriter].
func Write(w io.Writer, name string, data any) error { return templates.ExecuteTemplate(w, name, data) }
