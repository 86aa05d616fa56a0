package rewrite

import (
	"cmp"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/layout"
	"github.com/celgate/celgate/internal/shape"
)

// An editor collects changes to a text.
type editor struct {
	text    string
	style   style
	aliases bool // the text has aliases, so that every value must be visited
	splices []splice
	gone    map[*layout.Entry]bool
	became  map[*layout.Node]any // the new values of those with an anchor; removed ones are missing
	was     map[*layout.Node]any
}

// A splice replaces a part of the text.
type splice struct {
	from, to int
	text     string
}

func (e *editor) splice(from, to int, text string) {
	if from < to || text != "" {
		e.splices = append(e.splices, splice{from, to, text})
	}
}

// result returns the text with all changes. At one place, insertions come first, in the order in which they were made.
func (e *editor) result() (string, error) {
	slices.SortStableFunc(e.splices, func(a, b splice) int {
		return cmp.Or(a.from-b.from, min(a.to-a.from, 1)-min(b.to-b.from, 1))
	})
	var b strings.Builder
	pos := 0
	for _, s := range e.splices {
		if s.from < pos {
			return "", layout.ErrUnusual
		}
		b.WriteString(e.text[pos:s.from])
		b.WriteString(s.text)
		pos = s.to
	}
	b.WriteString(e.text[pos:])
	return b.String(), nil
}

// update changes the value of a node from old to new.
func (e *editor) update(n *layout.Node, old, new any, t *shape.Type) {
	unchanged := equal(old, new)
	if unchanged && !e.aliases {
		return
	}
	if n.Anchor {
		e.was[n], e.became[n] = old, new
	}
	if n.Form == layout.Alias {
		if now, there := e.became[n.Target]; !there || !equal(now, new) {
			e.replace(n, new, t)
		}
		return
	}
	edited := unchanged
	switch now := new.(type) {
	case map[string]any:
		if was, ok := old.(map[string]any); ok && n.Form == layout.Mapping {
			edited = e.mapping(n, was, now, t)
		}
	case []any:
		if was, ok := old.([]any); ok && n.Form == layout.Sequence {
			edited = e.sequence(n, was, now, t)
		}
	}
	if !edited {
		e.replace(n, new, t)
	}
}

// mapping edits a mapping in place, or returns false without effect.
func (e *editor) mapping(n *layout.Node, old, new map[string]any, t *shape.Type) bool {
	if len(n.Entries) == 0 {
		return len(new) == 0
	}
	merged, mark := map[string]bool{}, len(e.splices)
	last := map[string]*layout.Entry{}
	for _, m := range n.Entries {
		if !m.Merge {
			last[m.Name] = m
			continue
		}
		sources, ok := e.mergeSources(m.Value)
		if !ok {
			return e.undo(mark)
		}
		for _, source := range sources {
			if now, there := e.became[source]; !there || !equal(now, e.was[source]) {
				return e.undo(mark)
			}
			values, _ := e.was[source].(map[string]any)
			for key := range values {
				merged[key] = true
			}
		}
	}
	for key := range merged {
		if _, stays := new[key]; !stays || last[key] != nil {
			return e.undo(mark)
		}
	}
	var stay, gone []*layout.Entry
	for _, m := range n.Entries {
		now, stays := new[m.Name]
		switch was, known := old[m.Name]; {
		case m.Merge:
			stay = append(stay, m)
		case last[m.Name] != m || !known:
			return e.undo(mark)
		case !stays:
			gone = append(gone, m)
		default:
			stay = append(stay, m)
			e.update(m.Value, was, now, memberType(t, m.Name))
		}
	}
	if len(stay) == 0 {
		return e.undo(mark)
	}
	after := map[*layout.Entry][]string{}
	for _, key := range membersOf(new, t) {
		was, had := old[key]
		if had && (last[key] != nil || equal(was, new[key])) {
			continue
		}
		place := e.neighbour(stay, key, t, len(merged) > 0)
		after[place] = append(after[place], key)
	}
	e.remove(n, gone)
	quote, keyQuote := e.quotes(stay)
	for _, m := range stay {
		var pieces []string
		for _, key := range after[m] {
			member := memberType(t, key)
			if n.Flow {
				pieces = append(pieces, e.style.key(key, keyQuote, true)+e.style.colon+e.styleIn(n).inline(new[key],
					member, quote, e.indentOf(m)))
			} else {
				p := e.style.value(new[key], member, n.Column, quote)
				pieces = append(pieces, strings.Join(e.style.member(key, p, n.Column, keyQuote), e.style.newline))
			}
		}
		e.insert(n, m, pieces)
	}
	return true
}

// undo discards the changes since a mark, and returns false.
func (e *editor) undo(mark int) bool {
	e.splices = e.splices[:mark]
	return false
}

// mergeSources returns the anchored mappings that a merge key brings in.
func (e *editor) mergeSources(v *layout.Node) ([]*layout.Node, bool) {
	switch {
	case v.Form == layout.Alias:
		return []*layout.Node{v.Target}, true
	case v.Form == layout.Sequence:
		var all []*layout.Node
		for _, item := range v.Entries {
			if item.Value.Form != layout.Alias {
				return nil, false
			}
			all = append(all, item.Value.Target)
		}
		return all, true
	}
	return nil, false
}

// neighbour returns the member after which a new one is written: the last one that precedes it in the declaration of a
// built-in type, else the last one.
func (e *editor) neighbour(stay []*layout.Entry, key string, t *shape.Type, atEnd bool) *layout.Entry {
	end := stay[len(stay)-1]
	if t == nil || t.Name == "" || t.Kind != shape.Struct || atEnd {
		return end
	}
	rank := fieldIndex(t, key)
	for _, m := range slices.Backward(stay) {
		if fieldIndex(t, m.Name) < rank {
			return m
		}
	}
	return end
}

// quotes returns the quotes of the text values and of the keys of a mapping, if they are uniform.
func (e *editor) quotes(members []*layout.Entry) (value, key layout.Form) {
	value, key = layout.Alias, layout.Alias
	alike := func(have *layout.Form, f layout.Form) {
		switch {
		case *have == layout.Alias:
			*have = f
		case *have != f:
			*have = layout.Plain
		}
	}
	for _, m := range members {
		alike(&key, m.Quote)
		if f := m.Value.Form; f == layout.Single || f == layout.Double || f == layout.Plain && e.isText(m.Value) {
			alike(&value, f)
		}
	}
	if value == layout.Alias {
		value = layout.Plain
	}
	if key == layout.Alias {
		key = layout.Plain
	}
	return value, key
}

// isText reports whether a plain scalar is text, not a number or the like.
func (e *editor) isText(n *layout.Node) bool {
	return n.Form == layout.Plain && n.End > n.Start && isPlain(e.text[n.Start:n.End], false)
}

// sequence edits a sequence in place, or returns false without effect.
func (e *editor) sequence(n *layout.Node, old, new []any, t *shape.Type) bool {
	if len(n.Entries) != len(old) || len(old) == 0 {
		return len(old) == 0 && len(new) == 0
	}
	from := align(old, new, t)
	stays := map[int]bool{}
	for _, i := range from {
		if i >= 0 {
			stays[i] = true
		}
	}
	if len(stays) == 0 {
		return false
	}
	elem := elemType(t)
	var gone []*layout.Entry
	j := 0
	var before []any // new items before the first remaining one
	after := map[int][]any{}
	for ; from[j] < 0; j++ {
		before = append(before, new[j])
	}
	if len(before) > 0 && !n.Flow && !e.startsLine(n.Entries[from[j]].Start) {
		return false
	}
	for i, item := range n.Entries {
		if !stays[i] {
			gone = append(gone, item)
			continue
		}
		e.update(item.Value, old[i], new[j], elem)
		for j++; j < len(new) && from[j] < 0; j++ {
			after[i] = append(after[i], new[j])
		}
	}
	quote, _ := e.quotes(n.Entries)
	render := func(items []any, at *layout.Entry) (pieces []string) {
		for _, item := range items {
			if n.Flow {
				pieces = append(pieces, e.styleIn(n).inline(item, elem, quote, e.indentOf(at)))
			} else {
				pieces = append(pieces, strings.Join(e.style.entry(e.style.item(item, elem, n.Column, quote), n.Column),
					e.style.newline))
			}
		}
		return pieces
	}
	first := n.Entries[from[len(before)]]
	e.prepend(n, first, render(before, first))
	e.remove(n, gone)
	for i, item := range n.Entries {
		e.insert(n, item, render(after[i], item))
	}
	return true
}

// insert writes new entries after an entry.
func (e *editor) insert(n *layout.Node, m *layout.Entry, pieces []string) {
	if len(pieces) == 0 {
		return
	}
	if !n.Flow {
		at := e.entryEnd(n, m)
		e.splice(at, at, e.style.newline+strings.Join(pieces, e.style.newline))
		return
	}
	comma := m.End()
	for comma < len(e.text) && strings.IndexByte(" \t", e.text[comma]) >= 0 {
		comma++
	}
	i := slices.Index(n.Entries, m) + 1
	final := i < len(n.Entries) &&
		!slices.ContainsFunc(n.Entries[i:], func(m *layout.Entry) bool { return !e.gone[m] }) // none after m stays
	has := comma < len(e.text) && e.text[comma] == ',' && !final
	switch between := e.leadIn(m); {
	case strings.Contains(between, "\n"): // each entry on its own line
		at := lineEnd(e.text, m.End())
		if e.style.json || final || !strings.HasPrefix(strings.TrimLeft(e.text[m.End():at], " \t,"), "#") {
			at = m.End()
			if has {
				at = comma + 1
			}
		}
		switch {
		case has:
			e.splice(at, at, between+strings.Join(pieces, ","+between)+",")
		case at == m.End():
			e.splice(at, at, ","+between+strings.Join(pieces, ","+between))
		default:
			e.splice(m.End(), m.End(), ",")
			e.splice(at, at, between+strings.Join(pieces, ","+between))
		}
	default:
		e.splice(m.End(), m.End(), e.style.comma+strings.Join(pieces, e.style.comma))
	}
}

// entryEnd returns the end of the lines of an entry in a block collection, including comments below it that are
// indented deeper than the entries of the collection.
func (e *editor) entryEnd(n *layout.Node, m *layout.Entry) int {
	at := lineEnd(e.text, m.End())
	for next := at; ; {
		start := nextLine(e.text, next)
		if start < 0 {
			return at
		}
		next = lineEnd(e.text, start)
		line := strings.TrimLeft(e.text[start:next], " ")
		switch column := next - start - len(line); {
		case line == "":
		case line[0] == '#' && column > n.Column:
			at = next
		default:
			return at
		}
	}
}

// prepend writes new entries before one.
func (e *editor) prepend(n *layout.Node, m *layout.Entry, pieces []string) {
	switch {
	case len(pieces) == 0:
	case n.Flow:
		between := e.leadIn(m)
		if !strings.Contains(between, "\n") {
			between = strings.TrimPrefix(e.style.comma, ",")
		}
		e.splice(m.Start, m.Start, strings.Join(pieces, ","+between)+","+between)
	default:
		at := e.comments(m.Start)
		e.splice(at, at, strings.Join(pieces, e.style.newline)+e.style.newline)
	}
}

// leadIn returns the line break and indentation before an entry that is the first on its line, else "".
func (e *editor) leadIn(m *layout.Entry) string {
	if !e.startsLine(m.Start) || lineStart(e.text, m.Start) == 0 {
		return ""
	}
	return e.style.newline + e.indentOf(m)
}

// indentOf returns the indentation of the line on which an entry starts.
func (e *editor) indentOf(m *layout.Entry) string {
	line := e.text[lineStart(e.text, m.Start):m.Start]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

func (e *editor) startsLine(at int) bool {
	return strings.Trim(e.text[lineStart(e.text, at):at], " \t") == ""
}

// remove removes entries from a collection that keeps some.
func (e *editor) remove(n *layout.Node, gone []*layout.Entry) {
	for _, m := range gone {
		e.gone[m] = true
	}
	for i := 0; i < len(n.Entries); i++ {
		if !e.gone[n.Entries[i]] {
			continue
		}
		j := i // the end of a run of removed entries
		for j+1 < len(n.Entries) && e.gone[n.Entries[j+1]] {
			j++
		}
		switch first, last := n.Entries[i], n.Entries[j]; {
		case n.Flow && j+1 == len(n.Entries):
			e.splice(n.Entries[i-1].End(), last.End(), "")
		case n.Flow, !e.startsLine(first.Start) && j+1 < len(n.Entries):
			e.splice(first.Start, n.Entries[j+1].Start, "")
		default:
			for _, m := range n.Entries[i : j+1] {
				// With the preceding line break, so that text can be inserted after the line.
				from, to := e.comments(m.Start), lineEnd(e.text, m.End())
				if from > 0 {
					from = lineEnd(e.text, lineStart(e.text, from-1))
				} else if next := nextLine(e.text, to); next >= 0 {
					to = next
				}
				e.splice(from, to, "")
			}
		}
		i = j
	}
}

// comments returns the start of the line at an offset, or of the comment lines directly above it that are indented
// alike.
func (e *editor) comments(at int) int {
	start := lineStart(e.text, at)
	indent := e.text[start:at]
	for start > 0 {
		above := lineStart(e.text, start-1)
		if rest, ok := strings.CutPrefix(e.text[above:start], indent); !ok || !strings.HasPrefix(rest, "#") {
			break
		}
		start = above
	}
	return start
}

// replace writes the value of a node anew.
func (e *editor) replace(n *layout.Node, v any, t *shape.Type) {
	e.forget(n)
	quote := layout.Plain
	if n.Form == layout.Single || n.Form == layout.Double {
		quote = n.Form
	}
	parent := n.Parent
	if parent != nil && parent.Flow || e.style.json {
		indent, style := "", &e.style
		if parent != nil {
			style = e.styleIn(parent)
			for _, m := range parent.Entries {
				if m.Value == n {
					indent = e.indentOf(m)
				}
			}
		}
		text := style.inline(v, t, quote, indent)
		if n.From == n.End && n.From > 0 && strings.IndexByte(" {[\t\n", e.text[n.From-1]) < 0 {
			text = " " + text
		}
		e.splice(e.valueStart(n), n.End, text)
		return
	}
	if parent == nil {
		p := e.style.value(v, t, -e.style.step, quote)
		lines := p.tail
		if p.head != "" {
			lines = append([]string{p.head}, lines...)
		}
		e.splice(n.From, n.End, strings.Join(lines, e.style.newline))
		return
	}
	var m *layout.Entry
	for _, candidate := range parent.Entries {
		if candidate.Value == n {
			m = candidate
		}
	}
	var p piece
	if parent.Form == layout.Mapping {
		p = e.style.value(v, t, parent.Column, quote)
	} else {
		p = e.style.item(v, t, parent.Column, quote)
	}
	from := e.valueStart(n)
	if n.Form.IsCollection() && !n.Flow && n.From == n.Start &&
		strings.Contains(e.text[m.Colon:n.Start], "\n") {
		from = lineEnd(e.text, m.Colon) // a comment follows the colon
		if p.head != "" {
			e.splice(m.Colon, m.Colon, " "+p.head)
		}
		e.splice(from, n.End, "")
	} else {
		head := p.head
		switch {
		case head == "":
			for from > m.Colon && strings.IndexByte(" \t", e.text[from-1]) >= 0 {
				from--
			}
		case from == 0 || strings.IndexByte(" \t", e.text[from-1]) < 0:
			head = " " + head
		}
		e.splice(from, n.End, head)
	}
	if len(p.tail) > 0 {
		end := lineEnd(e.text, n.End)
		e.splice(end, end, e.style.newline+strings.Join(p.tail, e.style.newline))
	}
}

// forget records that the anchors inside a value are gone.
func (e *editor) forget(n *layout.Node) {
	for _, m := range n.Entries {
		delete(e.became, m.Value)
		e.forget(m.Value)
	}
}

// styleIn returns the style of a flow collection: one on a single line stays on it.
func (e *editor) styleIn(n *layout.Node) *style {
	if e.style.unit == "" || strings.Contains(e.text[n.Start:n.End], "\n") {
		return &e.style
	}
	s := e.style
	s.unit = ""
	return &s
}

// valueStart returns the start of a new value: after an anchor, but not after a tag, which would change it.
func (e *editor) valueStart(n *layout.Node) int {
	if n.Anchor && !n.Tag {
		return n.Start
	}
	return n.From
}
