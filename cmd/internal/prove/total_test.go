package prove

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/celgate/celgate"
	"github.com/google/cel-go/common/operators"
)

// TestTotals evaluates each function that is said to be total with arguments of its kinds. Each expression must compile
// and have a value.
func TestTotals(t *testing.T) {
	r := room(t)
	arguments := map[rune][]string{
		't': {"'%s'", "object.data['a']"},
		'l': {"['%s', 'b']", "[]", "object.data.map(k, k)"},
		's': {"['%s', 'b']", "'%s'.split('')", "dyn([])"},
		'm': {"{'%s': 1}", "object.data"},
	}
	for _, function := range slices.Sorted(maps.Keys(totals)) {
		for _, pattern := range totals[function] {
			for _, word := range []string{"", "ä€", "a-b/c", "10.0.0.1"} {
				for variant := range 4 {
					var args []string
					for i, kind := range pattern {
						form := arguments[kind][(variant+i)%len(arguments[kind])]
						args = append(args, "dyn("+strings.ReplaceAll(form, "%s", word)+")")
					}
					text := applied(function, args)
					side := sideOf(t, r, one("", "v1", "configmaps", "type("+text+") != type(optional.none())"))
					object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
						"metadata": map[string]any{"name": "a", "namespace": "default"},
						"data":     map[string]any{"a": word, "b": "c"}}
					prepared, err := side.engine.RequestFor(context.Background(), object, celgate.As{})
					if err != nil {
						t.Fatal(err)
					}
					d, err := side.engine.Admit(context.Background(), prepared)
					if err != nil || len(d.Outcomes) != 1 {
						t.Fatalf("%s: %v %d", text, err, len(d.Outcomes))
					}
					if d.Outcomes[0].Verdict != celgate.Admit {
						t.Errorf("%s: %s %s", text, d.Outcomes[0].Verdict, d.Outcomes[0].Message)
					}
				}
			}
		}
	}
}

// applied writes a call.
func applied(function string, args []string) string {
	switch function {
	case "in": // the list first
		return args[1] + " in " + args[0]
	case "==":
		return args[0] + " == " + args[1]
	case "isIP", "isCIDR", "isURL", "sets.contains", "sets.intersects", "sets.equivalent":
		return function + "(" + strings.Join(args, ", ") + ")"
	}
	if symbol, ok := operators.FindReverse(function); ok && symbol != "" {
		return fmt.Sprintf("(%s %s %s)", args[0], symbol, args[1])
	}
	return fmt.Sprintf("%s.%s(%s)", args[0], function, strings.Join(args[1:], ", "))
}
