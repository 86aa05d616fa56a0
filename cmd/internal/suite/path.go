package suite

import (
	"fmt"
	"strconv"
	"strings"
)

// A step leads from a value to a member of a mapping, to an item of a list, or to the first item of a list with a given
// member.
type step struct {
	name  string // of a member, or of the member that identifies an item
	value string // the value that identifies an item
	index int
	kind  stepKind
}

type stepKind int

const (
	member stepKind = iota
	item
	keyed
)

// parsePath parses a path such as spec.containers[name=app].ports[0] or metadata.labels["a.b/c"].
func parsePath(path string) ([]step, error) {
	var steps []step
	for rest := path; rest != ""; {
		if rest[0] == '[' {
			inside, after, err := bracket(rest)
			if err != nil {
				return nil, fmt.Errorf("%w in the path %q", err, path)
			}
			steps, rest = append(steps, inside), after
			rest = strings.TrimPrefix(rest, ".")
			continue
		}
		end := strings.IndexAny(rest, ".[")
		if end == 0 {
			return nil, fmt.Errorf("an empty name in the path %q", path)
		}
		if end < 0 {
			end = len(rest)
		}
		steps = append(steps, step{name: rest[:end]})
		rest = strings.TrimPrefix(rest[end:], ".")
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("an empty path")
	}
	return steps, nil
}

func bracket(s string) (step, string, error) {
	if len(s) > 1 && (s[1] == '"' || s[1] == '\'') {
		end := strings.IndexByte(s[2:], s[1])
		if end < 0 || !strings.HasPrefix(s[2+end+1:], "]") {
			return step{}, "", fmt.Errorf("a quote without its end")
		}
		return step{name: s[2 : 2+end]}, s[2+end+2:], nil
	}
	end := strings.IndexByte(s, ']')
	if end < 0 {
		return step{}, "", fmt.Errorf("a bracket without its end")
	}
	inside, rest := s[1:end], s[end+1:]
	if i, err := strconv.Atoi(inside); err == nil && i >= 0 {
		return step{index: i, kind: item}, rest, nil
	}
	if name, value, ok := strings.Cut(inside, "="); ok {
		return step{name: name, value: value, kind: keyed}, rest, nil
	}
	return step{name: inside}, rest, nil
}

// valueAt returns the value at a path; nil if there is none.
func valueAt(v any, steps []step) any {
	for _, s := range steps {
		switch s.kind {
		case member:
			m, _ := v.(map[string]any)
			v = m[s.name]
		case item:
			list, _ := v.([]any)
			if s.index >= len(list) {
				return nil
			}
			v = list[s.index]
		case keyed:
			list, _ := v.([]any)
			v = nil
			for _, x := range list {
				if m, _ := x.(map[string]any); m != nil && fmt.Sprint(m[s.name]) == s.value {
					v = x
					break
				}
			}
		}
	}
	return v
}
