package celgate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/effects"
	"github.com/celgate/celgate/internal/sequence"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/policy"
)

// noteCycles notes the policies of the mutating phase that read each other's writes.
func (r *run) noteCycles() {
	var told []*sequence.Problem
	for _, h := range r.known.mutating.hooks {
		p := h.problem
		if p == nil || p.Reason != sequence.Cycle || slices.Contains(told, p) || !r.ranBoth(p) {
			continue
		}
		told = append(told, p)
		r.decision.addNote(Note{Message: "mutating policies that read each other's fields run in the order of their names: " +
			p.Message})
	}
}

// ranBoth reports whether at least two of the policies of a problem took part.
func (r *run) ranBoth(p *sequence.Problem) bool {
	var names []string
	for _, o := range r.decision.Outcomes {
		mutation := o.Kind == policy.Admission && strings.HasPrefix(o.Field(), "spec.mutations")
		if mutation && !slices.Contains(names, o.Policy) {
			names = append(names, o.Policy)
		}
	}
	ran := slices.DeleteFunc(slices.Clone(p.Of), func(of *policy.Policy) bool {
		return !slices.Contains(names, of.Name)
	})
	return len(ran) > 1
}

// fightOver returns the fight about a change that its policy would make once more.
func fightOver(changes []Change, would *Change) Fight {
	path := difference(would.Before, would.After)
	f := Fight{Policies: []policy.Ref{would.Kind.Ref(would.Policy)}, Path: textOfPath(path)}
	var other policy.Ref
	for i := range changes {
		c := &changes[i]
		before, after := valueAt(c.Before, path), valueAt(c.After, path)
		if tree.Equal(before, after) {
			continue
		}
		if f.Values = append(f.Values, textOfValue(after)); c.Policy != would.Policy {
			other = c.Kind.Ref(c.Policy)
		}
	}
	f.Values = append(f.Values, textOfValue(valueAt(would.After, path)))
	if other.Name != "" {
		f.Policies = append(f.Policies, other)
	}
	return f
}

// difference returns the path of the first value that differs between two objects. Items of lists are compared by
// index; lists of different lengths differ as a whole.
func difference(before, after any) []any {
	switch before := before.(type) {
	case map[string]any:
		now, ok := after.(map[string]any)
		if !ok {
			return nil
		}
		names := slices.Collect(maps.Keys(before))
		for name := range now {
			if _, both := before[name]; !both {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if !tree.Equal(before[name], now[name]) {
				return append([]any{name}, difference(before[name], now[name])...)
			}
		}
	case []any:
		now, ok := after.([]any)
		if !ok || len(now) != len(before) {
			return nil
		}
		for i := range before {
			if !tree.Equal(before[i], now[i]) {
				return append([]any{i}, difference(before[i], now[i])...)
			}
		}
	}
	return nil
}

// An itemName is a step to the list item with that name.
type itemName string

// namePath returns a path with names in place of the indices of items that have one in an object: it leads to the same
// item even if others are inserted before it.
func namePath(path []any, object map[string]any) []any {
	out := slices.Clone(path)
	for i, step := range path {
		if _, index := step.(int); !index {
			continue
		}
		item, _ := valueAt(object, path[:i+1]).(map[string]any)
		if name, ok := item["name"].(string); ok {
			out[i] = itemName(name)
		}
	}
	return out
}

func valueAt(v any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case itemName:
			list, _ := v.([]any)
			v = nil
			if i := slices.IndexFunc(list, func(item any) bool {
				members, _ := item.(map[string]any)
				return members["name"] == string(step)
			}); i >= 0 {
				v = list[i]
			}
		case string:
			members, _ := v.(map[string]any)
			v = members[step]
		case int:
			list, _ := v.([]any)
			if v = nil; step < len(list) {
				v = list[step]
			}
		}
	}
	return v
}

// textOfPath returns a path as text.
func textOfPath(path []any) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case itemName:
			fmt.Fprintf(&b, "[name=%s]", step)
		case string:
			switch {
			case !effects.Identifier(step):
				fmt.Fprintf(&b, "[%q]", step)
			case b.Len() > 0:
				b.WriteString("." + step)
			default:
				b.WriteString(step)
			}
		}
	}
	return cmp.Or(b.String(), "the object")
}

// maxFightText bounds the part of a value in a fight.
const maxFightText = 60

func textOfValue(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > maxFightText {
		return strings.ToValidUTF8(string(text[:maxFightText]), "") + "…"
	}
	return string(text)
}
