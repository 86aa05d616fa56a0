package report

import (
	"fmt"

	"github.com/celgate/celgate/internal/rewrite"
)

// longestDiff is the number of lines of a diff that are shown for the changes of one policy.
const longestDiff = 40

// changeBlocks returns the changes of each mutating policy.
func (t *textWriter) changeBlocks(it Item) []block {
	var out []block
	for _, c := range it.Changes {
		b := block{label: "changed by", style: blue, message: origin(c.Policy, c.Binding, c.Param)}
		if c.Second {
			b.message += ", in the second pass"
		}
		for _, h := range rewrite.Diff(c.Before, c.After, t.o.typeOf(c.After)) {
			if h.Path != "" {
				b.diff = append(b.diff, "@ "+h.Path)
			}
			b.diff = append(b.diff, h.Lines...)
		}
		if more := len(b.diff) - longestDiff; more > 1 {
			b.diff = append(b.diff[:longestDiff], fmt.Sprintf("  and %d more lines", more))
		}
		b.hint = overwriteHint(t.o.Set, c)
		out = append(out, b)
	}
	return out
}
