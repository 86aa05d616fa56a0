package celgate

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of the warnings in one answer, in runes (as pkg/endpoints/filters/warning.go v0.37.2).
const (
	maxWarningRunes    = 4 * 1024 // of all of them; beyond it each is truncated
	maxCutWarningRunes = 256
)

// sendableWarnings returns the warnings that reach the client: those without control characters, because they are sent
// in headers, and truncated if together they are too long.
func sendableWarnings(warnings []Warning) []Warning {
	var sent []Warning
	written, cutting := 0, false
	send := func(w Warning) {
		if cutting {
			w.Text = cut(w.Text)
		}
		if canBeSent(w.Text) {
			sent = append(sent, w)
			written += utf8.RuneCountInString(w.Text)
		}
	}
	for i, w := range warnings {
		switch text := w.Text; {
		case cutting && written >= maxWarningRunes:
			return sent
		case !cutting && canBeSent(text) && written+utf8.RuneCountInString(text) > maxWarningRunes:
			sent, written, cutting = nil, 0, true
			for _, again := range warnings[:i+1] {
				send(again)
			}
		default:
			send(w)
		}
	}
	return sent
}

func canBeSent(text string) bool {
	return text != "" && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

func cut(text string) string {
	if utf8.RuneCountInString(text) <= maxCutWarningRunes {
		return text
	}
	return string([]rune(text)[:maxCutWarningRunes])
}
