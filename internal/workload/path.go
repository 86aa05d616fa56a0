package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/scope"
	"github.com/celgate/celgate/internal/tree"
)

// A Path leads from the objects of a kind to their Pod templates, such as spec.template or spec.workers[*].template.
type Path struct {
	text  string
	steps scope.Steps
}

// ParsePath reads a path, which may begin with a dot.
func ParsePath(text string) (Path, error) {
	text = strings.TrimPrefix(text, ".")
	steps, err := scope.ParseSteps(text)
	return Path{text, steps}, err
}

// String returns the path as it was written.
func (p Path) String() string { return p.text }

// MarshalText implements encoding.TextMarshaler.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// PodsOf returns the Pods of an object of a custom kind, from the templates at a path: in the order of lists and of the
// keys of maps. The user who creates them is not known.
func PodsOf(stored map[string]any, path Path) []Child {
	w := tree.Object(stored)
	var all []Child
	visit(stored, path.steps, "", func(value any, at string) {
		template, _ := value.(map[string]any)
		if _, ok := template["spec"].(map[string]any); ok {
			all = append(all, Child{Object: podFrom(template, w, w.Name()), Template: at, Path: path})
		}
	})
	return all
}

// visit calls a function for each value at the given steps, with its path in the object.
func visit(value any, steps scope.Steps, at string, found func(value any, at string)) {
	if len(steps) == 0 {
		found(value, at)
		return
	}
	step, rest := steps[0], steps[1:]
	into := func(inner any, suffix string) {
		if members, _ := inner.(map[string]any); step.Key == "" || members[step.Key] == step.Value {
			visit(inner, rest, strings.TrimPrefix(at+suffix, "."), found)
		}
	}
	switch value := value.(type) {
	case map[string]any:
		if step.Member != "" {
			if inner, has := value[step.Member]; has {
				into(inner, "."+step.Member)
			}
			return
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			into(value[key], "."+key)
		}
	case []any:
		if step.Member != "" {
			return
		}
		for i, item := range value {
			into(item, fmt.Sprintf("[%d]", i))
		}
	}
}
