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

// A table counts, for each policy and namespace, the objects that the policy denied, warned about, changed and so on.
type table map[tableRow]map[string]int

// A tableRow is a policy, or one namespace of it.
type tableRow struct {
	policy.Ref
	namespace string
	whole     bool // the policy
}

// add counts an object once for each policy that had a say, by the strongest word for what the policy did.
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

// rank orders the words for what became of an object.
func rank(word string) int {
	return slices.IndexFunc(words, func(w struct {
		word  string
		style style
	}) bool {
		return w.word == word
	})
}

// lines writes the table, the policies with most denials first. Names come last: they may be long.
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

// briefText is what there is to say about an object in one line.
func briefText(it Item, blocks []block) string {
	var said []string
	for _, b := range blocks {
		switch b.label {
		case "note", "changed by":
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

// A story identifies what is said about an object.
type story [sha256.Size]byte

func storyIn(word string, blocks []block) story {
	h := sha256.New()
	for _, b := range blocks {
		if b.label == "note" {
			continue // which is said once, about whatever comes first
		}
		fmt.Fprintf(h, "%q %q %q %v %q %q %q %q\n", word, b.label, b.message, b.place, b.expr.Field, b.footers, b.hint,
			b.diff)
	}
	return story(h.Sum(nil))
}

// notesIn are the notes among blocks.
func notesIn(blocks []block) []block {
	return slices.DeleteFunc(slices.Clone(blocks), func(b block) bool { return b.label != "note" })
}

// Notes about objects that may be stored as far as policies go.
const (
	// NotValidated is about an object that policies changed.
	NotValidated = "mutated object not validated"

	// ObjectNotValidated is about any other. Text leaves it out: it is true of all manifests.
	ObjectNotValidated = "object not validated"
)

var notValidated = map[string]string{
	NotValidated:       "the API server validates the object after mutation, and celgate only its metadata: it may still be refused as invalid",
	ObjectNotValidated: "the API server validates the object itself, and celgate only its metadata: it may still be refused as invalid",
}

// NotValidatedNote returns the note of one of these topics.
func NotValidatedNote(topic string) celgate.Note {
	return celgate.Note{Message: notValidated[topic], Topic: topic}
}

// IsValidation reports a note that says what is not validated.
func IsValidation(n celgate.Note) bool { return notValidated[n.Topic] != "" }

// isMerelyMutated reports that there is nothing to say about an object but what was changed.
func isMerelyMutated(d *celgate.Decision, blocks []block) bool {
	return d != nil && d.Allowed &&
		!slices.ContainsFunc(blocks, func(b block) bool {
			return b.label != "changed by" && notValidated[b.topic] == ""
		})
}
