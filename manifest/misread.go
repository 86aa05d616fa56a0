package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/policy"
)

// misreadable are the words, besides true and false, that YAML 1.1 reads as booleans.
var misreadable = pattern.New(`(?i)^(y|n|yes|no|on|off)\b`)

// Misreadings returns the words of the document that YAML 1.1 reads as true or false, such as n, yes and off, and that
// may have been meant as text, sorted by field. Fields are paths without the indices of lists, such as
// spec.containers.image.
func (d *Document) Misreadings() []policy.Problem {
	var all []policy.Problem
	var walk func(v any, at, path string)
	walk = func(v any, at, path string) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				step := name
				if strings.ContainsAny(name, ".[]/") {
					step = "[" + fmt.Sprintf("%q", name) + "]"
				}
				walk(member, joinPath(at, step), joinPath(path, name))
			}
		case []any:
			for i, item := range v {
				walk(item, fmt.Sprintf("%s[%d]", at, i), path)
			}
		case bool:
			place := d.Place(at).Locate(0)
			if word := misreadable().FindString(d.Source.restOfLine(place)); word != "" {
				all = append(all, policy.Problem{Field: path, Position: place,
					Message: fmt.Sprintf("YAML reads %s as %t: quote it", word, v)})
			}
		}
	}
	walk(d.Object, "", "")
	slices.SortFunc(all, func(a, b policy.Problem) int { return strings.Compare(a.Field, b.Field) })
	return all
}

// Misreading returns the first word read as a boolean at a path, with or without indices.
func (d *Document) Misreading(path string) (policy.Problem, bool) {
	path = indexes().ReplaceAllString(path, "")
	for _, m := range d.Misreadings() {
		if m.Field == path {
			return m, true
		}
	}
	return policy.Problem{}, false
}

var indexes = pattern.New(`\[\d+\]`)

// restOfLine returns the text from a position to the end of its line.
func (s *Source) restOfLine(at policy.Position) string {
	lines := strings.Split(s.Text, "\n")
	i, column := at.Line-s.Line, at.Column-1
	if i == 0 {
		column -= s.ahead
	}
	if i >= 0 && i < len(lines) && column >= 0 && column < len(lines[i]) {
		return lines[i][column:]
	}
	return ""
}
