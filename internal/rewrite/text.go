package rewrite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/layout"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
)

// An Edit is the change of one object of a text.
type Edit struct {
	Item string         // of [manifest.Document]: "items[3]"; empty: the text is one object
	Old  map[string]any // as read from the text
	New  map[string]any
	Type *shape.Type // of the object; nil: unknown
}

// Text returns the text of a document with edits made; all other bytes stay. Reading the result gives exactly the
// objects New. The error means that the text is not the one of Old, or that an item of a List is no object and would be
// lost.
func Text(text string, edits []Edit) (string, error) {
	changed := false
	for _, ed := range edits {
		changed = changed || !equal(ed.Old, ed.New)
	}
	if !changed {
		return text, nil
	}
	edits = complete(text, edits)
	for _, way := range []way{{}, {quoted: true}, {quoted: true, fresh: true}} {
		out, err := attempt(text, edits, way)
		if err != nil {
			continue
		}
		if err = verify(out, edits); err == nil {
			return out, nil
		}
	}
	return rewriteWhole(text, edits)
}

// complete adds the other, unchanged items of a List, and sorts all by their order in the text.
func complete(text string, edits []Edit) []Edit {
	if edits[0].Item == "" {
		return edits
	}
	given := map[string]Edit{}
	for _, ed := range edits {
		given[ed.Item] = ed
	}
	var all []Edit
	docs, _ := manifest.Read(strings.NewReader(text), "")
	for _, d := range docs {
		ed, ok := given[d.Item]
		if !ok {
			ed = Edit{Item: d.Item, Old: d.Object, New: d.Object}
		}
		delete(given, d.Item)
		all = append(all, ed)
	}
	for _, ed := range edits {
		if _, left := given[ed.Item]; left {
			all = append(all, ed)
		}
	}
	return all
}

// A way is one of several ways to edit a text, tried in turn.
type way struct {
	quoted bool // several lines in quotes: a deeper comment after a literal block would become part of it
	fresh  bool // each changed object is written anew
}

// attempt edits the text in place.
func attempt(text string, edits []Edit, way way) (string, error) {
	e := editor{text: text, was: map[*layout.Node]any{}, became: map[*layout.Node]any{}, gone: map[*layout.Entry]bool{}}
	var root *layout.Node
	var err error
	isJSON := strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{")
	if isJSON {
		root, err = layout.JSON(text)
	}
	if !isJSON || err != nil {
		isJSON = false
		root, err = layout.YAML(text)
	}
	if err != nil {
		return "", err
	}
	e.aliases = root.HasAlias()
	e.style = styleOf(text, root, isJSON)
	e.style.quoted = way.quoted
	for _, ed := range edits {
		n, err := find(root, ed.Item)
		if err != nil {
			return "", err
		}
		if way.fresh {
			if !equal(ed.Old, ed.New) {
				e.replace(n, ed.New, ed.Type)
			}
			continue
		}
		e.update(n, ed.Old, ed.New, ed.Type)
	}
	return e.result()
}

// find returns the node of an item such as "items[3]" or "items[0].items[2]".
func find(n *layout.Node, item string) (*layout.Node, error) {
	for item != "" {
		name, rest, _ := strings.Cut(item, "[")
		digits, rest, _ := strings.Cut(rest, "]")
		i, err := strconv.Atoi(digits)
		list := member(n, name)
		if err != nil || list == nil || list.Form != layout.Sequence || i < 0 || i >= len(list.Entries) {
			return nil, layout.ErrUnusual
		}
		n, item = list.Entries[i].Value, strings.TrimPrefix(rest, ".")
	}
	return n, nil
}

func member(n *layout.Node, name string) *layout.Node {
	if n.Form == layout.Mapping {
		for _, m := range n.Entries {
			if m.Name == name && !m.Merge {
				return m.Value
			}
		}
	}
	return nil
}

// verify reads a text again.
func verify(text string, edits []Edit) error {
	docs, problems := manifest.Read(strings.NewReader(text), "")
	for _, p := range problems {
		if !p.Warning {
			return &p
		}
	}
	byItem := map[string]map[string]any{}
	for _, d := range docs {
		byItem[d.Item] = d.Object
	}
	for _, ed := range edits {
		if !tree.EqualBut(byItem[ed.Item], ed.New, tree.Values) {
			return fmt.Errorf("%q is different after the edit", ed.Item)
		}
	}
	return nil
}

// equal compares JSON trees.
func equal(a, b any) bool { return tree.EqualBut(a, b, tree.EmptyLists) }

// rewriteWhole writes a whole text anew, as separate documents: the last resort for a form that cannot be edited in
// place.
func rewriteWhole(text string, edits []Edit) (string, error) {
	docs, problems := manifest.Read(strings.NewReader(text), "")
	for _, p := range problems {
		if !p.Warning {
			return "", fmt.Errorf("the text cannot be written anew: %s", p.Message)
		}
	}
	s := style{newline: "\n", step: 2, quote: layout.Double}
	if strings.Contains(text, "\r\n") {
		s.newline = "\r\n"
	}
	var parts []string
	known := map[string]Edit{}
	for _, ed := range edits {
		known[ed.Item] = ed
	}
	for _, d := range docs {
		object, typ := d.Object, (*shape.Type)(nil)
		if ed, ok := known[d.Item]; ok {
			object, typ = ed.New, ed.Type
			delete(known, d.Item)
		}
		parts = append(parts, strings.Join(s.mapping(object, typ, 0), s.newline)+s.newline)
	}
	if len(known) > 0 {
		return "", fmt.Errorf("the text does not contain the object %s", edits[0].Item)
	}
	return strings.Join(parts, "---"+s.newline), nil
}

// styleOf determines the style of a text.
func styleOf(text string, root *layout.Node, isJSON bool) style {
	s := style{json: isJSON, newline: "\n", step: 2, quote: layout.Double, colon: ": ", comma: ", "}
	if strings.Contains(text, "\r\n") {
		s.newline = "\r\n"
	}
	singles, doubles := 0, 0
	steps, dashes := map[int]int{}, map[int]int{}
	flows := 0
	var walk func(n *layout.Node)
	walk = func(n *layout.Node) {
		switch n.Form {
		case layout.Single:
			singles++
		case layout.Double:
			doubles++
		}
		if n.Flow && n.Form == layout.Mapping && len(n.Entries) > 0 {
			if flows++; flows == 1 {
				m := n.Entries[0]
				if n.Entries[0].Value.From > m.Colon-1 {
					s.colon = ":" + blanksAt(text, m.Colon)
				}
				if strings.HasPrefix(text[n.Start:], "{ ") {
					s.pad = " "
				}
			}
		}
		if n.Flow && (n.Form == layout.Mapping || n.Form == layout.Sequence) && len(n.Entries) > 1 && isJSON {
			if between := text[n.Entries[0].End():n.Entries[1].Start]; !strings.Contains(between, "\n") {
				s.comma = strings.TrimLeft(between, " \t")
			}
		}
		for _, m := range n.Entries {
			if c := m.Value; !n.Flow && !c.Flow && n.Form == layout.Mapping && c.From < c.End {
				switch c.Form {
				case layout.Mapping:
					steps[c.Column-n.Column]++
				case layout.Sequence:
					dashes[c.Column-n.Column]++
				}
			}
			walk(m.Value)
		}
	}
	walk(root)
	if singles > doubles {
		s.quote = layout.Single
	}
	s.step = mostFrequent(steps, 2)
	s.dash = mostFrequent(dashes, 0)
	if s.step < 1 {
		s.step = 2
	}
	if isJSON && len(root.Entries) > 0 {
		first := root.Entries[0]
		if line := lineStart(text, first.Start); line > root.Start {
			outer := text[lineStart(text, root.Start):root.Start]
			s.unit = strings.TrimPrefix(text[line:first.Start], outer)
		} else if !strings.Contains(s.comma, " ") && len(root.Entries) > 1 {
			s.comma = ","
		}
	}
	return s
}

// blanksAt returns the spaces at an offset, at most one.
func blanksAt(text string, i int) string {
	if i < len(text) && text[i] == ' ' {
		return " "
	}
	return ""
}

// mostFrequent returns the key with the highest count, the smaller one of two.
func mostFrequent(counts map[int]int, none int) int {
	best, n := none, 0
	for k, c := range counts {
		if c > n || c == n && k < best {
			best, n = k, c
		}
	}
	return best
}

// YAML renders an object in block style, its members in the order of its type.
func YAML(object map[string]any, t *shape.Type) string {
	s := style{newline: "\n", step: 2, quote: layout.Double, colon: ": ", comma: ", "}
	return strings.Join(s.mapping(object, t, 0), "\n") + "\n"
}
