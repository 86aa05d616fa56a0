package inline

import (
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/pattern"
)

// A Type is the type of a parameter or a result: a scalar, or with Of a list of one type or a map of two.
type Type struct {
	Name string // of ScalarTypes, list or map
	Of   []Type
}

// ScalarTypes are the names of types without element types; dyn is any type.
var ScalarTypes = []string{"bool", "int", "uint", "double", "string", "bytes", "duration", "timestamp", "dyn"}

var listOrMap = pattern.New(`^(list|map)\s*\((.*)\)$`)

// ParseType parses the type of a function's parameter or result; the empty text is dyn.
func ParseType(text string) (Type, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Type{Name: "dyn"}, true
	}
	if slices.Contains(ScalarTypes, text) {
		return Type{Name: text}, true
	}
	m := listOrMap().FindStringSubmatch(text)
	if m == nil || len(text) > maxTypeLength {
		return Type{}, false
	}
	of := Type{Name: m[1]}
	for _, part := range splitTypes(m[2]) {
		t, ok := ParseType(part)
		if !ok || strings.TrimSpace(part) == "" {
			return Type{}, false
		}
		of.Of = append(of.Of, t)
	}
	want := 1
	if of.Name == "map" {
		want = 2
	}
	return of, len(of.Of) == want
}

// maxTypeLength bounds the nesting of types.
const maxTypeLength = 200

// splitTypes splits types at the commas between them.
func splitTypes(text string) (all []string) {
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				all, from = append(all, text[from:i]), i+1
			}
		}
	}
	return append(all, text[from:])
}
