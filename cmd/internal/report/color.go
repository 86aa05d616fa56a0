package report

import (
	"unicode/utf8"

	"github.com/celgate/celgate/internal/pattern"
)

// A style is the parameter of an ANSI "select graphic rendition" sequence.
type style string

// Styles. Colour never carries information of its own.
const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "1;31"
	green  style = "32"
	yellow style = "1;33"
	blue   style = "1;34"
	cyan   style = "1;36"
)

// A palette paints text if it is true.
type palette bool

func (p palette) paint(s style, text string) string {
	if !p || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

var painted = pattern.New("\x1b\\[[0-9;]*m")

// visibleWidth returns the width of painted text in columns.
func visibleWidth(text string) int {
	return utf8.RuneCountInString(painted().ReplaceAllString(text, ""))
}
