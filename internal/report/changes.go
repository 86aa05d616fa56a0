package report

import (
	"fmt"
	"strings"

	"github.com/celgate/celgate/internal/rewrite"
	"github.com/celgate/celgate/schema"
)

// longestDiff is the number of lines that are shown of what one policy changed.
const longestDiff = 40

// changeBlocks returns what each mutating policy changed.
func (t *textWriter) changeBlocks(it Item) []block {
	var out []block
	for _, c := range it.Changes {
		b := block{label: "changed by", style: blue, message: origin(c.Policy, c.Binding, c.Param)}
		if c.Second {
			b.message += ", in the second pass"
		}
		var kind *schema.Type
		if t.o.Types != nil {
			apiVersion, _ := c.After["apiVersion"].(string)
			name, _ := c.After["kind"].(string)
			group, version, found := strings.Cut(apiVersion, "/")
			if !found {
				group, version = "", apiVersion
			}
			kind = t.o.Types.Type(schema.GroupVersionKind{Group: group, Version: version, Kind: name})
		}
		for _, h := range rewrite.Diff(c.Before, c.After, kind) {
			if h.Path != "" {
				b.diff = append(b.diff, h.Path)
			}
			b.diff = append(b.diff, h.Lines...)
		}
		if more := len(b.diff) - longestDiff; more > 1 {
			b.diff = append(b.diff[:longestDiff], fmt.Sprintf("  and %d more lines", more))
		}
		out = append(out, b)
	}
	return out
}
