package report

import "io"

// The pages are compiled, as html/template finds methods by name: with it, the linker keeps every exported method of
// a program, a sixth of celgate.
//go:generate go run github.com/valyala/quicktemplate/qtc -dir=.

// writePage writes a page.
func writePage(w io.Writer, page string) error {
	_, err := io.WriteString(w, page)
	return err
}
