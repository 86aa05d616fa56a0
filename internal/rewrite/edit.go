package rewrite

import (
	"cmp"
	"slices"
	"strings"

	"github.com/celgate/celgate/internal/shape"
)

// An editor collects changes to a text.
type editor struct {
	text    string
	style   style
	aliases bool // there are aliases, so that every value must be looked at
	splices []splice
	gone    map[*entry]bool
	became  map[*node]any // what values with an anchor are now; those that are gone are not in it
	was     map[*node]any
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

// result returns the text with all changes. Of those at one place insertions come first, in the order in which they
// were made.
func (e *editor) result() (string, error) {
	slices.SortStableFunc(e.splices, func(a, b splice) int {
		return cmp.Or(a.from-b.from, min(a.to-a.from, 1)-min(b.to-b.from, 1))
	})
	var b strings.Builder
	pos := 0
	for _, s := range e.splices {
		if s.from < pos {
			return "", errLayout
		}
		b.WriteString(e.text[pos:s.from])
		b.WriteString(s.text)
		pos = s.to
	}
	b.WriteString(e.text[pos:])
	return b.String(), nil
}

// update makes the value of a node, which is old, new.
func (e *editor) update(n *node, old, new any, t *shape.Type) {
	unchanged := equal(old, new)
	if unchanged && !e.aliases {
		return
	}
	if n.anchor {
		e.was[n], e.became[n] = old, new
	}
	if n.form == alias {
		if now, there := e.became[n.target]; !there || !equal(now, new) {
			e.replace(n, new, t)
		}
		return
	}
	edited := unchanged
	switch now := new.(type) {
	case map[string]any:
		if was, ok := old.(map[string]any); ok && n.form == mapping {
			edited = e.mapping(n, was, now, t)
		}
	case []any:
		if was, ok := old.([]any); ok && n.form == sequence {
			edited = e.sequence(n, was, now, t)
		}
	}
	if !edited {
		e.replace(n, new, t)
	}
}

// mapping edits a mapping in place, or reports false having done nothing.
func (e *editor) mapping(n *node, old, new map[string]any, t *shape.Type) bool {
	if len(n.entries) == 0 {
		return len(new) == 0
	}
	merged, mark := map[string]bool{}, len(e.splices)
	last := map[string]*entry{}
	for _, m := range n.entries {
		if !m.merge {
			last[m.name] = m
			continue
		}
		sources, ok := e.mergeSources(m.value)
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
	var stay, gone []*entry
	for _, m := range n.entries {
		now, stays := new[m.name]
		switch was, known := old[m.name]; {
		case m.merge:
			stay = append(stay, m)
		case last[m.name] != m || !known:
			return e.undo(mark)
		case !stays:
			gone = append(gone, m)
		default:
			stay = append(stay, m)
			e.update(m.value, was, now, memberType(t, m.name))
		}
	}
	if len(stay) == 0 {
		return e.undo(mark)
	}
	after := map[*entry][]string{}
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
			if n.flow {
				pieces = append(pieces, e.style.key(key, keyQuote, true)+e.style.colon+e.styleIn(n).inline(new[key],
					member, quote, e.indentOf(m)))
			} else {
				p := e.style.value(new[key], member, n.column, quote)
				pieces = append(pieces, strings.Join(e.style.member(key, p, n.column, keyQuote), e.style.newline))
			}
		}
		e.insert(n, m, pieces)
	}
	return true
}

// undo forgets the changes since a mark.
func (e *editor) undo(mark int) bool {
	e.splices = e.splices[:mark]
	return false
}

// mergeSources returns the anchored mappings that a merge key brings in.
func (e *editor) mergeSources(v *node) ([]*node, bool) {
	switch {
	case v.form == alias:
		return []*node{v.target}, true
	case v.form == sequence:
		var all []*node
		for _, item := range v.entries {
			if item.value.form != alias {
				return nil, false
			}
			all = append(all, item.value.target)
		}
		return all, true
	}
	return nil, false
}

// neighbour returns the member behind which a new one is written: the last that comes before it in the declaration
// of a built-in type, else the last one.
func (e *editor) neighbour(stay []*entry, key string, t *shape.Type, atEnd bool) *entry {
	end := stay[len(stay)-1]
	if t == nil || t.Name == "" || t.Kind != shape.Struct || atEnd {
		return end
	}
	rank := fieldIndex(t, key)
	for _, m := range slices.Backward(stay) {
		if fieldIndex(t, m.name) < rank {
			return m
		}
	}
	return end
}

// quotes returns how the text values and the keys of a mapping are quoted, if all are quoted alike.
func (e *editor) quotes(members []*entry) (value, key form) {
	value, key = alias, alias
	alike := func(have *form, f form) {
		switch {
		case *have == alias:
			*have = f
		case *have != f:
			*have = plain
		}
	}
	for _, m := range members {
		alike(&key, m.quote)
		if f := m.value.form; f == single || f == double || f == plain && e.isText(m.value) {
			alike(&value, f)
		}
	}
	if value == alias {
		value = plain
	}
	if key == alias {
		key = plain
	}
	return value, key
}

// isText reports a plain scalar that is text and not a number or the like.
func (e *editor) isText(n *node) bool {
	return n.form == plain && n.end > n.start && isPlain(e.text[n.start:n.end], false)
}

// sequence edits a sequence in place, or reports false having done nothing.
func (e *editor) sequence(n *node, old, new []any, t *shape.Type) bool {
	if len(n.entries) != len(old) || len(old) == 0 {
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
	var gone []*entry
	j := 0
	var before []any // new items in front of the first that stays
	after := map[int][]any{}
	for ; from[j] < 0; j++ {
		before = append(before, new[j])
	}
	if len(before) > 0 && !n.flow && !e.startsLine(n.entries[from[j]].start) {
		return false
	}
	for i, item := range n.entries {
		if !stays[i] {
			gone = append(gone, item)
			continue
		}
		e.update(item.value, old[i], new[j], elem)
		for j++; j < len(new) && from[j] < 0; j++ {
			after[i] = append(after[i], new[j])
		}
	}
	quote, _ := e.quotes(n.entries)
	render := func(items []any, at *entry) (pieces []string) {
		for _, item := range items {
			if n.flow {
				pieces = append(pieces, e.styleIn(n).inline(item, elem, quote, e.indentOf(at)))
			} else {
				pieces = append(pieces, strings.Join(e.style.entry(e.style.item(item, elem, n.column, quote), n.column),
					e.style.newline))
			}
		}
		return pieces
	}
	first := n.entries[from[len(before)]]
	e.prepend(n, first, render(before, first))
	e.remove(n, gone)
	for i, item := range n.entries {
		e.insert(n, item, render(after[i], item))
	}
	return true
}

// insert writes new entries behind an entry.
func (e *editor) insert(n *node, m *entry, pieces []string) {
	if len(pieces) == 0 {
		return
	}
	if !n.flow {
		at := e.behind(n, m)
		e.splice(at, at, e.style.newline+strings.Join(pieces, e.style.newline))
		return
	}
	comma := m.end()
	for comma < len(e.text) && strings.IndexByte(" \t", e.text[comma]) >= 0 {
		comma++
	}
	i := slices.Index(n.entries, m) + 1
	final := i < len(n.entries) &&
		!slices.ContainsFunc(n.entries[i:], func(m *entry) bool { return !e.gone[m] }) // all behind m leave
	has := comma < len(e.text) && e.text[comma] == ',' && !final
	switch between := e.between(m); {
	case strings.Contains(between, "\n"): // each entry on its own line
		at := lineEnd(e.text, m.end())
		if e.style.json || final || !strings.HasPrefix(strings.TrimLeft(e.text[m.end():at], " \t,"), "#") {
			at = m.end()
			if has {
				at = comma + 1
			}
		}
		switch {
		case has:
			e.splice(at, at, between+strings.Join(pieces, ","+between)+",")
		case at == m.end():
			e.splice(at, at, ","+between+strings.Join(pieces, ","+between))
		default:
			e.splice(m.end(), m.end(), ",")
			e.splice(at, at, between+strings.Join(pieces, ","+between))
		}
	default:
		e.splice(m.end(), m.end(), e.style.comma+strings.Join(pieces, e.style.comma))
	}
}

// behind returns the end of the lines of an entry in a block collection: of comments below it, those that are indented
// deeper than the entries of the collection belong to it.
func (e *editor) behind(n *node, m *entry) int {
	at := lineEnd(e.text, m.end())
	for next := at; ; {
		start := nextLine(e.text, next)
		if start < 0 {
			return at
		}
		next = lineEnd(e.text, start)
		line := strings.TrimLeft(e.text[start:next], " ")
		switch column := next - start - len(line); {
		case line == "":
		case line[0] == '#' && column > n.column:
			at = next
		default:
			return at
		}
	}
}

// prepend writes new entries in front of one.
func (e *editor) prepend(n *node, m *entry, pieces []string) {
	switch {
	case len(pieces) == 0:
	case n.flow:
		between := e.between(m)
		if !strings.Contains(between, "\n") {
			between = strings.TrimPrefix(e.style.comma, ",")
		}
		e.splice(m.start, m.start, strings.Join(pieces, ","+between)+","+between)
	default:
		at := e.comments(m.start)
		e.splice(at, at, strings.Join(pieces, e.style.newline)+e.style.newline)
	}
}

// between returns the line break and indentation in front of an entry that stands first on its line, else "".
func (e *editor) between(m *entry) string {
	if !e.startsLine(m.start) || lineStart(e.text, m.start) == 0 {
		return ""
	}
	return e.style.newline + e.indentOf(m)
}

// indentOf returns the blanks in front of the line on which an entry starts.
func (e *editor) indentOf(m *entry) string {
	line := e.text[lineStart(e.text, m.start):m.start]
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

func (e *editor) startsLine(at int) bool {
	return strings.Trim(e.text[lineStart(e.text, at):at], " \t") == ""
}

// end returns the offset behind an entry.
func (m *entry) end() int { return max(m.colon, m.value.end) }

// remove takes entries out of a collection that keeps some.
func (e *editor) remove(n *node, gone []*entry) {
	for _, m := range gone {
		e.gone[m] = true
	}
	for i := 0; i < len(n.entries); i++ {
		if !e.gone[n.entries[i]] {
			continue
		}
		j := i // the end of a run of entries that leave
		for j+1 < len(n.entries) && e.gone[n.entries[j+1]] {
			j++
		}
		switch first, last := n.entries[i], n.entries[j]; {
		case n.flow && j+1 == len(n.entries):
			e.splice(n.entries[i-1].end(), last.end(), "")
		case n.flow, !e.startsLine(first.start):
			e.splice(first.start, n.entries[j+1].start, "")
		default:
			for _, m := range n.entries[i : j+1] {
				// With the line break in front, so that something can be inserted behind the line.
				from, to := e.comments(m.start), lineEnd(e.text, m.end())
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
func (e *editor) replace(n *node, v any, t *shape.Type) {
	e.forget(n)
	quote := plain
	if n.form == single || n.form == double {
		quote = n.form
	}
	parent := n.parent
	if parent != nil && parent.flow || e.style.json {
		indent, style := "", &e.style
		if parent != nil {
			style = e.styleIn(parent)
			for _, m := range parent.entries {
				if m.value == n {
					indent = e.indentOf(m)
				}
			}
		}
		text := style.inline(v, t, quote, indent)
		if n.from == n.end && n.from > 0 && strings.IndexByte(" {[\t\n", e.text[n.from-1]) < 0 {
			text = " " + text
		}
		e.splice(e.behindAnchor(n), n.end, text)
		return
	}
	if parent == nil {
		p := e.style.value(v, t, -e.style.step, quote)
		lines := p.tail
		if p.head != "" {
			lines = append([]string{p.head}, lines...)
		}
		e.splice(n.from, n.end, strings.Join(lines, e.style.newline))
		return
	}
	var m *entry
	for _, candidate := range parent.entries {
		if candidate.value == n {
			m = candidate
		}
	}
	var p piece
	if parent.form == mapping {
		p = e.style.value(v, t, parent.column, quote)
	} else {
		p = e.style.item(v, t, parent.column, quote)
	}
	from := e.behindAnchor(n)
	if n.form != alias && n.from == n.start && (n.form == mapping || n.form == sequence) && !n.flow &&
		strings.Contains(e.text[m.colon:n.start], "\n") {
		from = lineEnd(e.text, m.colon) // what follows the colon is a comment
		if p.head != "" {
			e.splice(m.colon, m.colon, " "+p.head)
		}
		e.splice(from, n.end, "")
	} else {
		head := p.head
		switch {
		case head == "":
			for from > m.colon && strings.IndexByte(" \t", e.text[from-1]) >= 0 {
				from--
			}
		case from == 0 || strings.IndexByte(" \t", e.text[from-1]) < 0:
			head = " " + head
		}
		e.splice(from, n.end, head)
	}
	if len(p.tail) > 0 {
		end := lineEnd(e.text, n.end)
		e.splice(end, end, e.style.newline+strings.Join(p.tail, e.style.newline))
	}
}

// forget says that the anchors inside a value are gone.
func (e *editor) forget(n *node) {
	for _, m := range n.entries {
		delete(e.became, m.value)
		e.forget(m.value)
	}
}

// styleIn returns the style of a flow collection: what is on one line stays on it.
func (e *editor) styleIn(n *node) *style {
	if e.style.unit == "" || strings.Contains(e.text[n.start:n.end], "\n") {
		return &e.style
	}
	s := e.style
	s.unit = ""
	return &s
}

// behindAnchor returns where a new value begins: behind an anchor, but not behind a tag, which would change it.
func (e *editor) behindAnchor(n *node) int {
	if n.anchor && !n.tag {
		return n.start
	}
	return n.from
}
