package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/tree"
)

// difference lists the differences of two objects, one line for each value: "- path: expected" and "+ path: got".
func difference(want, got any) string {
	var lines []string
	diff("", want, got, &lines)
	const most = 20
	if n := len(lines); n > most {
		lines = append(lines[:most], fmt.Sprintf("… %d more lines", n-most))
	}
	return strings.Join(lines, "\n")
}

func diff(path string, want, got any, lines *[]string) {
	if tree.EqualBut(want, got, tree.Values) {
		return
	}
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			all := map[string]bool{}
			for k := range w {
				all[k] = true
			}
			for k := range g {
				all[k] = true
			}
			for _, k := range slices.Sorted(maps.Keys(all)) {
				next := k
				if strings.ContainsAny(k, `./[]`) {
					next = `["` + k + `"]`
				} else if path != "" {
					next = "." + k
				}
				diff(path+next, w[k], g[k], lines)
			}
			return
		}
	case []any:
		if g, ok := got.([]any); ok && len(w) == len(g) {
			for i := range w {
				diff(fmt.Sprintf("%s[%d]", path, i), w[i], g[i], lines)
			}
			return
		}
	}
	if want != nil {
		*lines = append(*lines, "- "+path+": "+text(want))
	}
	if got != nil {
		*lines = append(*lines, "+ "+path+": "+text(got))
	}
}

// text returns a value in one line, as JSON; strings without quotes where that is clear.
func text(v any) string {
	if v == nil {
		return "(none)"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
