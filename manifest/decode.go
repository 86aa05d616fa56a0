package manifest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/celgate/celgate/internal/layout"
	"github.com/celgate/celgate/internal/yamlscan"
)

// A decoder turns chunks into documents and problems. It is used by one goroutine.
type decoder struct {
	named   bool // the file was named by the user, not found in a directory
	scanner yamlscan.Scanner
	values  int // documents that are not null, objects or not
	out     []result
}

// A result is a document or a problem.
type result struct {
	document *Document
	problem  *Problem
}

func (d *decoder) problem(p Problem) { d.out = append(d.out, result{problem: &p}) }

// chunk decodes the text between two separators: one YAML document or any number of JSON values.
func (d *decoder) chunk(c chunk) {
	if c.problem != nil {
		d.out = append(d.out, result{problem: c.problem})
		return
	}
	src := &Source{File: c.file, Line: c.line, Lead: c.lead, Text: c.text, Tail: c.tail}
	if bom, ok := strings.CutPrefix(src.Text, "\ufeff"); ok {
		src.Text, c.first = bom, false // with a byte order mark kubectl does not treat it as JSON
	}
	seen := yamlscan.Look(src.Text)
	if seen.Invalid >= 0 {
		d.problem(Problem{Position: src.positionAt(seen.Invalid), Message: "invalid UTF-8"})
		return
	}
	if strings.HasPrefix(strings.TrimLeft(src.Text, " \t\r\n"), "{") && d.jsonChunk(src, c.first) {
		return
	}
	d.yamlChunk(src, seen)
}

// jsonChunk decodes JSON values. It returns false, without effect, if the text does not start with one and may be YAML.
func (d *decoder) jsonChunk(src *Source, first bool) bool {
	v, err := decodeJSON(src.Text)
	if syntax := (*syntaxError)(nil); !errors.As(err, &syntax) {
		src.json = true
		d.takeValue(src, v, err, !first)
		return true
	}
	size, err := jsonSize(src.Text)
	if err != nil {
		// {"a": begins JSON; {a: and {{ .Values }} do not. Valid YAML is not a problem.
		inner := strings.TrimLeft(strings.TrimLeft(src.Text, " \t\r\n")[1:], " \t\r\n")
		if !strings.HasPrefix(inner, `"`) {
			return false
		}
		if _, _, yamlErr := decodeLibrary(src.Text); yamlErr == nil {
			return false
		}
		src.json = true
		d.takeValue(src, nil, err, !first)
		return true
	}
	// Several values.
	resumed := 0
	for rest := src; ; {
		value := rest.part(0, size)
		value.json = true
		v, err := decodeJSON(value.Text)
		d.takeValue(value, v, err, !first)
		rest = rest.part(size, len(rest.Text))
		rest.Lead, rest.Tail = "", src.Tail
		if yamlscan.Content(rest.Text) < 0 {
			value.Tail = rest.Text + src.Tail
			return true
		}
		if size, err = jsonSize(rest.Text); err == nil {
			continue
		}
		if !strings.HasPrefix(strings.TrimLeft(rest.Text, " \t\r\n"), "{") {
			d.yamlChunk(rest, yamlscan.Look(rest.Text))
			return true
		}
		bad := rest.part(0, len(rest.Text))
		bad.json = true
		d.takeValue(bad, nil, err, !first)
		// Continue at the next line that starts an object.
		next := strings.Index(rest.Text[1:], "\n{")
		if resumed++; next < 0 || resumed > maxResumptions {
			return true
		}
		rest = rest.part(next+2, len(rest.Text))
		if size, err = jsonSize(rest.Text); err != nil {
			size = len(rest.Text)
		}
	}
}

// part returns the part of s between two offsets.
func (s *Source) part(from, to int) *Source {
	before := s.Text[:from]
	p := &Source{File: s.File, Line: s.Line + strings.Count(before, "\n"), Lead: s.Lead, Text: s.Text[from:to]}
	if i := strings.LastIndexByte(before, '\n'); i >= 0 {
		p.ahead = from - i - 1
	} else {
		p.ahead = s.ahead + from
	}
	return p
}

// yamlChunk decodes one YAML document.
func (d *decoder) yamlChunk(src *Source, seen yamlscan.Survey) {
	if seen.Control >= 0 {
		d.problem(Problem{
			Position: src.positionAt(seen.Control),
			Message:  fmt.Sprintf("control character %U is not allowed", []rune(src.Text[seen.Control:])[0]),
		})
		return
	}
	text := src.Text
	if seen.Returns {
		// Like kubectl's line reader (apimachinery v0.37.2 pkg/util/yaml/decoder.go: LineReader).
		text = strings.ReplaceAll(text, "\r\n", "\n")
		seen.Returns = strings.IndexByte(text, '\r') >= 0
	}
	if !seen.Returns && !seen.Breaks {
		if v, ok := d.scanner.Decode(text, seen.Tabs); ok {
			src.items = positions(text, d.scanner.Items())
			d.takeValue(src, v, nil, false)
			return
		}
	}
	v, rest, err := decodeLibrary(text)
	d.takeValue(src, v, err, false)
	if rest && err == nil {
		d.problem(Problem{
			Position: src.positionAt(documentEnd(src.Text)),
			Message:  "ignored, as kubectl does: the document ends before this",
			Warning:  true,
		})
	}
}

// positions converts ascending offsets in text to positions.
func positions(text string, offsets []int) []position {
	if len(offsets) == 0 {
		return nil
	}
	list := make([]position, len(offsets))
	line, start, from := 0, 0, 0
	for i, at := range offsets {
		between := text[from:at]
		line += strings.Count(between, "\n")
		if j := strings.LastIndexByte(between, '\n'); j >= 0 {
			start = from + j + 1
		}
		from = at
		at++ // the dash
		for at < len(text) && text[at] == ' ' {
			at++
		}
		if at == len(text) || text[at] == '\n' || text[at] == '#' {
			at = from
		}
		list[i] = position{line, at - start}
	}
	return list
}

// documentEnd returns the offset of the text after the first document: behind a marker "...", or with less indentation
// than its start. If there is neither, which is possible only for a document on one line, it is the last line.
func documentEnd(text string) int {
	t := lines{text: text, starts: layout.LineStarts(text)}
	indent, last, ended := -1, 0, false
	for n := range len(t.starts) {
		line, start := t.line(n + 1)
		at := yamlscan.Content(line)
		switch {
		case at < 0:
			continue
		case strings.TrimRight(line, " \t") == "...":
			ended = true
			continue
		case ended || at < indent:
			return start + at
		}
		if indent < 0 {
			indent = at
		}
		last = start + at
	}
	return last
}

// takeValue adds the value of a source, or the error of decoding it.
func (d *decoder) takeValue(src *Source, v any, err error, numbers bool) {
	if err != nil {
		offset, message := src.explain(err)
		d.problem(Problem{Position: src.positionAt(offset), Message: message})
		return
	}
	if v == nil {
		return
	}
	d.values++
	if numbers {
		v = yamlNumbers(v)
	}
	d.object(&Document{Source: src}, v, identity{})
}

// identity is the apiVersion and kind that a <Kind>List implies for items without them.
type identity struct{ apiVersion, kind string }

// object adds a value that should be an API object: doc becomes its document, or those of its items if it is a List.
func (d *decoder) object(doc *Document, v any, list identity) {
	m, ok := v.(map[string]any)
	if !ok {
		d.problem(
			Problem{
				Position: doc.Position(),
				Message:  ErrNoObject.Error() + ": " + describe(v) + " instead of a mapping",
				Err:      ErrNoObject,
			},
		)
		return
	}
	if list.kind != "" && !set(m["apiVersion"]) && !set(m["kind"]) {
		m["apiVersion"], m["kind"] = list.apiVersion, list.kind
	}
	apiVersion, _ := m["apiVersion"].(string)
	kind, _ := m["kind"].(string)
	if apiVersion == "" || kind == "" {
		d.problem(d.notObjectProblem(doc, m))
		return
	}
	if items, ok := listItems(m, apiVersion, kind); ok {
		of := identity{apiVersion, strings.TrimSuffix(kind, "List")}
		for i, item := range items {
			path := joinPath(doc.Item, fmt.Sprintf("items[%d]", i))
			d.object(&Document{Source: doc.Source, Item: path}, item, of)
		}
		return
	}
	doc.Object = m
	d.out = append(d.out, result{document: doc})
}

// set reports whether a member has a value, possibly of the wrong type.
func set(v any) bool { return v != nil && v != "" }

// listItems returns the items of a List. Unlike kubectl, which treats every object with a member "items" as a list, it
// requires a kind that ends in List.
func listItems(m map[string]any, apiVersion, kind string) ([]any, bool) {
	if !strings.HasSuffix(kind, "List") {
		return nil, false
	}
	items, ok := m["items"].([]any)
	return items, ok || apiVersion == "v1" && kind == "List" && m["items"] == nil
}

// notObjectProblem names the members that a mapping lacks to be an API object.
func (d *decoder) notObjectProblem(doc *Document, m map[string]any) Problem {
	var lacking []string
	for _, name := range []string{"apiVersion", "kind"} {
		switch v, ok := m[name]; {
		case !ok || v == nil || v == "":
			lacking = append(lacking, name)
		default:
			if _, text := v.(string); !text {
				return Problem{
					Position: doc.Place(name).Locate(0),
					Message:  fmt.Sprintf("%s must be text, not %s", name, describe(v)),
				}
			}
		}
	}
	p := Problem{Position: doc.Position(), Err: ErrNoObject}
	if len(lacking) == 2 {
		p.Message = ErrNoObject.Error() + ": apiVersion and kind are missing"
		p.Warning = !d.named && doc.Item == ""
	} else {
		p.Message = ErrNoObject.Error() + ": " + lacking[0] + " is missing"
	}
	return p
}

// describe names the type of a value.
func describe(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64, float64:
		return "a number"
	case string:
		return "text"
	case []any:
		return "a list"
	}
	return "a mapping"
}
