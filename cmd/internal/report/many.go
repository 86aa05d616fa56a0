package report

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/policy"
)

// A table counts, for each policy and namespace, the objects by the policy's effect: denied, warned, mutated and so on.
type table map[tableRow]map[string]int

// A tableRow is a policy, or one namespace of it.
type tableRow struct {
	policy.Ref
	namespace string
	whole     bool // the policy
}

// add counts an object once for each policy with an effect on it, by the policy's strongest effect.
func (t table) add(it Item) {
	d := it.Decision
	if d == nil {
		return
	}
	by := map[policy.Ref]string{}
	say := func(kind policy.Kind, name, word string) {
		s := kind.Ref(name)
		if rank(word) >= rank(by[s]) {
			by[s] = word
		}
	}
	for _, v := range d.Violations {
		say(v.Kind, v.Policy, map[policy.Action]string{policy.Deny: wordDenied, policy.Warn: wordWarned,
			policy.Audit: wordAudited}[severityOf(v)])
	}
	for _, o := range d.Outcomes {
		if refuses(d, o) {
			say(o.Kind, o.Policy, wordDenied)
		}
	}
	for _, c := range it.Changes {
		say(c.Kind, c.Policy, wordMutated)
	}
	namespace := "(cluster)"
	if it.Request != nil && it.Request.Namespace != "" {
		namespace = it.Request.Namespace
	}
	for s, word := range by {
		for _, row := range []tableRow{{s, "", true}, {s, namespace, false}} {
			if t[row] == nil {
				t[row] = map[string]int{}
			}
			t[row][word]++
		}
	}
}

// rank orders the words for effects.
func rank(word string) int {
	return slices.IndexFunc(words, func(w struct {
		word  string
		style style
	}) bool {
		return w.word == word
	})
}

// lines returns the table, the policies with most denials first. Names are the last column: they may be long.
func (t table) lines(p palette) []string {
	var columns []string
	for _, w := range slices.Backward(words) {
		for _, counts := range t {
			if counts[w.word] > 0 {
				columns = append(columns, w.word)
				break
			}
		}
	}
	if len(columns) == 0 {
		return nil
	}
	policies := slices.SortedFunc(func(yield func(tableRow) bool) {
		for row := range t {
			if row.whole && !yield(row) {
				return
			}
		}
	}, func(a, b tableRow) int {
		for _, c := range columns {
			if d := t[b][c] - t[a][c]; d != 0 {
				return d
			}
		}
		return strings.Compare(a.Name, b.Name)
	})
	head := ""
	for _, c := range columns {
		head += fmt.Sprintf("%8s", strings.ToUpper(c))
	}
	lines := []string{p.paint(bold, head+"  POLICY / NAMESPACE")}
	row := func(r tableRow, name string) {
		line := ""
		for _, c := range columns {
			n := "-"
			if t[r][c] > 0 {
				n = strconv.Itoa(t[r][c])
			}
			cell := fmt.Sprintf("%8s", n)
			if r.whole && t[r][c] > 0 {
				cell = p.paint(words[rank(c)].style, cell)
			}
			line += cell
		}
		lines = append(lines, line+"  "+escapeControls(name))
	}
	for _, of := range policies {
		row(of, of.Name)
		var namespaces []string
		for r := range maps.Keys(t) {
			if !r.whole && r.Ref == of.Ref {
				namespaces = append(namespaces, r.namespace)
			}
		}
		slices.Sort(namespaces)
		for _, n := range namespaces {
			row(tableRow{of.Ref, n, false}, "  "+n)
		}
	}
	return lines
}

// briefText summarises blocks about an object in one line.
func briefText(it Item, blocks []block) string {
	var said []string
	for _, b := range blocks {
		switch b.label {
		case "note", "changed by", unchecked:
			continue
		}
		line, _, _ := strings.Cut(b.message, "\n")
		if line == falseExpression {
			line = "false: " + strings.Join(strings.Fields(b.expr.Src), " ")
		}
		var by []string
		if b.policy != "" {
			by = append(by, "policy "+b.policy)
		}
		if b.item != "" {
			by = append(by, b.item)
		}
		if len(by) > 0 {
			line += " (" + strings.Join(by, ", ") + ")"
		}
		said = append(said, line)
	}
	if len(said) > 1 {
		return said[0] + fmt.Sprintf(", and %d more", len(said)-1)
	}
	if len(said) == 1 {
		return said[0]
	}
	var changed []string
	for _, c := range it.Changes {
		if !slices.Contains(changed, c.Policy) {
			changed = append(changed, c.Policy)
		}
	}
	if len(changed) > 0 {
		return "by " + strings.Join(changed, ", ")
	}
	return ""
}

// A story identifies the text about an object.
type story [sha256.Size]byte

func storyIn(word string, blocks []block) story {
	h := sha256.New()
	for _, b := range blocks {
		if b.label == "note" {
			continue // shown once, with the first object
		}
		fmt.Fprintf(h, "%q %q %q %v %q %q %q %q\n", word, b.label, b.message, b.place, b.expr.Field, b.footers, b.hint,
			b.diff)
	}
	return story(h.Sum(nil))
}

// notesIn returns the notes among blocks.
func notesIn(blocks []block) []block {
	return slices.DeleteFunc(slices.Clone(blocks), func(b block) bool { return b.label != "note" })
}

// unchecked is the label of parts of the server that were not simulated for an object.
const unchecked = "not checked here"

// UncheckedText lists, in one line, the parts of the server that were not simulated and may refuse or change an object;
// empty: none.
func UncheckedText(d *celgate.Decision) string {
	if parts := uncheckedOf(d); len(parts) > 0 {
		return unchecked + ": " + strings.Join(parts, ", ")
	}
	return ""
}

// uncheckedOf returns the parts that UncheckedText lists.
func uncheckedOf(d *celgate.Decision) []string {
	if !d.Allowed {
		return nil
	}
	return d.UncheckedParts()
}

// partName returns the name of a part of the server, without what it would do.
func partName(part string) string {
	name, _, _ := strings.Cut(part, " (")
	return name
}

// isMerelyMutated reports whether changes are the only result for an object.
func isMerelyMutated(d *celgate.Decision, blocks []block) bool {
	return d != nil && d.Allowed &&
		!slices.ContainsFunc(blocks, func(b block) bool {
			return b.label != "changed by" && b.label != unchecked
		})
}
