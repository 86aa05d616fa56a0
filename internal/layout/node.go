package layout

import (
	"errors"
	"strings"
)

// A Form is the notation of a value.
type Form uint8

// The forms of scalars, of an alias and of collections.
const (
	Plain Form = iota
	Single
	Double
	Literal // a block with "|"
	Folded  // a block with ">"
	Alias
	Mapping
	Sequence
)

// IsCollection reports a mapping or a sequence.
func (f Form) IsCollection() bool { return f >= Mapping }

// A Node is a value of a text and its extent.
type Node struct {
	Form   Form
	Flow   bool   // a collection in brackets
	From   int    // offset of the first byte, anchor and tag included
	Start  int    // offset of the first byte of the value itself; of a block collection its first key or dash
	End    int    // offset behind the last byte
	Column int    // of a block collection's keys or dashes
	Text   string // of a scalar: the decoded text
	Anchor bool
	Tag    bool
	Target *Node // of an alias
	Parent *Node

	Entries []*Entry
}

// An Entry is a member of a mapping or an item of a sequence.
type Entry struct {
	Name  string // of a member, as in JSON
	Quote Form   // of the key
	Start int    // offset of the key, or of the item: its dash in block sequences
	Colon int    // offset behind the colon or the dash
	Merge bool   // the key is "<<"
	Bad   bool   // the key is a collection or null
	Value *Node

	member bool
}

// Offset returns the offset of the key, or of the value of an item.
func (e *Entry) Offset() int {
	if e.member {
		return e.Start
	}
	return e.Value.From
}

// End returns the offset behind an entry.
func (e *Entry) End() int { return max(e.Colon, e.Value.End) }

// Resolve returns the target of an alias, and any other value itself.
func (n *Node) Resolve() *Node {
	if n.Form == Alias {
		return n.Target
	}
	return n
}

// HasAlias reports whether an alias is part of the value.
func (n *Node) HasAlias() bool {
	for _, e := range n.Entries {
		if e.Value.HasAlias() {
			return true
		}
	}
	return n.Form == Alias
}

// FindDuplicate returns the second entry with the same key in one mapping, and the offset of the first.
func (n *Node) FindDuplicate() (second *Entry, first int, found bool) {
	if n.Form == Mapping {
		seen := make(map[string]int, len(n.Entries))
		for _, e := range n.Entries {
			if at, duplicate := seen[e.Name]; duplicate && !e.Merge {
				return e, at, true
			}
			seen[e.Name] = e.Start
		}
	}
	for _, e := range n.Entries {
		if second, first, found = e.Value.FindDuplicate(); found {
			return second, first, true
		}
	}
	return nil, 0, false
}

// ErrUnusual reports a text whose notation prevents changes in place.
var ErrUnusual = errors.New("unusual layout")

// LineStarts returns the offsets of the lines according to YAML 1.1.
func LineStarts(text string) []int {
	starts := []int{0}
	for i := 0; i < len(text); i++ {
		if n := breakAt(text, i); n > 0 {
			starts = append(starts, i+n)
			i += n - 1
		}
	}
	return starts
}

// breakAt returns the size of the line break at i, 0 if there is none.
func breakAt(text string, i int) int {
	switch text[i] {
	case '\n':
		return 1
	case '\r':
		if i+1 < len(text) && text[i+1] == '\n' {
			return 2
		}
		return 1
	case 0xc2:
		if strings.HasPrefix(text[i:], "\u0085") {
			return 2
		}
	case 0xe2:
		if strings.HasPrefix(text[i:], "\u2028") || strings.HasPrefix(text[i:], "\u2029") {
			return 3
		}
	}
	return 0
}

// lineEnd returns the offset of the line break that ends the line at i, or of the end.
func lineEnd(text string, i int) int {
	for i < len(text) && breakAt(text, i) == 0 {
		i++
	}
	return i
}
