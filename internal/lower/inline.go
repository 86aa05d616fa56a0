package lower

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/pattern"
	"github.com/celgate/celgate/policy"
)

// inlineLibraries inlines the libraries that a policy's expressions use: library variables come before its own, and
// bodies replace calls of functions. A validation without a message gets the default one, with its expression as
// written.
func inlineLibraries(spec map[string]any, p *policy.Policy) {
	var theirs []any
	for _, v := range p.Variables {
		if v.Library != "" {
			theirs = append(theirs, map[string]any{"name": v.Name, "expression": v.Expr.Code()})
		}
	}
	for x := range p.Expressions() {
		if x.InlinedText() != nil && strings.HasPrefix(x.Field, "spec.") {
			replace(spec, strings.TrimPrefix(x.Field, "spec."), x.Code())
		}
	}
	for _, x := range p.Validations {
		if text := strings.TrimSpace(x.Expr.Src); x.Expr.InlinedText() != nil && x.Message == "" && !strings.ContainsAny(text, "\r\n") {
			replace(spec, strings.TrimSuffix(strings.TrimPrefix(x.Expr.Field, "spec."), "expression")+"message",
				"failed expression: "+text)
		}
	}
	if len(theirs) > 0 {
		own, _ := spec["variables"].([]any)
		spec["variables"] = append(theirs, own...)
	}
}

var steps = pattern.New(`\w+`)

// replace sets the text at a path of names and indices, in copies of the containers on the path.
func replace(members map[string]any, path, text string) {
	var set func(value any, path []string) any
	set = func(value any, path []string) any {
		if len(path) == 0 {
			return text
		}
		switch of := value.(type) {
		case map[string]any:
			of = maps.Clone(of)
			of[path[0]] = set(of[path[0]], path[1:])
			return of
		case []any:
			of = slices.Clone(of)
			if i, err := strconv.Atoi(path[0]); err == nil && i < len(of) {
				of[i] = set(of[i], path[1:])
			}
			return of
		}
		return value
	}
	names := steps().FindAllString(path, -1)
	members[names[0]] = set(members[names[0]], names[1:])
}
