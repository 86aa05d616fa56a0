package manifest

import (
	"encoding/json"
	"errors"
	"strings"

	kjson "sigs.k8s.io/json"
)

// decodeJSON decodes text, one JSON value, as the API server's decoder does: integers are int64 if they fit,
// other numbers float64. The error of a duplicate key is errDuplicate, that of a syntax error *json.SyntaxError.
func decodeJSON(text string) (any, error) {
	if depthOf(text) > maxDepth {
		return nil, errDepth
	}
	var v any
	duplicates, err := kjson.UnmarshalStrict([]byte(text), &v, kjson.DisallowDuplicateFields)
	if err != nil {
		if syntax, offset := kjson.SyntaxErrorOffset(err); syntax {
			return nil, &syntaxError{message: err.Error(), offset: int(offset) - 1}
		}
		_, number, _ := strings.Cut(err.Error(), "unmarshal number ")
		number, _, _ = strings.Cut(number, " ")
		return nil, &valueError{"number " + number + " is too large"}
	}
	if len(duplicates) > 0 {
		return nil, errDuplicate
	}
	return v, nil
}

// A syntaxError is an error at a known offset.
type syntaxError struct {
	message string
	offset  int
}

func (e *syntaxError) Error() string { return e.message }

// depthOf returns how deep the brackets of a JSON text are nested.
func depthOf(text string) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++
		case '[', '{':
			if !quoted {
				depth++
				deepest = max(deepest, depth)
			}
		case ']', '}':
			if !quoted {
				depth--
			}
		}
	}
	return deepest
}

// firstJSON returns the size of the JSON value that text starts with, space before it included.
func firstJSON(text string) (int, error) {
	d := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	err := d.Decode(&raw)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		return 0, &syntaxError{message: syntax.Error(), offset: int(syntax.Offset) - 1}
	}
	if err != nil {
		return 0, &syntaxError{message: "unexpected end of JSON", offset: len(strings.TrimRight(text, " \t\r\n"))}
	}
	return int(d.InputOffset()), nil
}

// yamlNumbers changes the numbers of a JSON tree to those that the same text has as YAML: 1.0 is an integer there.
func yamlNumbers(v any) any {
	switch v := v.(type) {
	case float64:
		return number(v)
	case []any:
		for i := range v {
			v[i] = yamlNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = yamlNumbers(v[k])
		}
	}
	return v
}

// jsonPlaces finds the places of the values of a JSON text. It relies on nothing: text that is not JSON ends it early.
type jsonPlaces struct {
	text  string
	pos   int
	depth int
}

func (p *jsonPlaces) value() *value {
	v := &value{start: p.pos}
	if p.depth++; p.depth > maxDepth {
		p.pos = len(p.text)
	}
	defer func() { p.depth-- }()
	switch p.peek() {
	case '{':
		v.style = mappingStyle
		for p.pos++; p.peek() == '"'; {
			e := entry{at: p.pos, name: p.string()}
			if p.peek() == ':' {
				p.pos++
			}
			p.peek()
			e.value = p.value()
			v.entries = append(v.entries, e)
			if p.peek() != ',' {
				break
			}
			p.pos++
		}
		if p.peek() == '}' {
			p.pos++
		}
	case '[':
		v.style = sequenceStyle
		for p.pos++; p.peek() != ']' && p.pos < len(p.text); {
			e := entry{at: p.pos}
			e.value = p.value()
			v.entries = append(v.entries, e)
			if p.peek() != ',' {
				break
			}
			p.pos++
		}
		if p.peek() == ']' {
			p.pos++
		}
	case '"':
		v.style = jsonString
		v.text = p.string()
	default:
		end := strings.IndexAny(p.text[p.pos:], ",]} \t\r\n")
		if end < 0 {
			end = len(p.text) - p.pos
		}
		v.text = p.text[p.pos : p.pos+end]
		p.pos += end
	}
	return v
}

// peek goes behind space and returns the byte there, 0 at the end.
func (p *jsonPlaces) peek() byte {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

// string decodes the string at pos.
func (p *jsonPlaces) string() string {
	start := p.pos
	for p.pos++; p.pos < len(p.text) && p.text[p.pos] != '"'; p.pos++ {
		if p.text[p.pos] == '\\' {
			p.pos++
		}
	}
	p.pos = min(p.pos+1, len(p.text))
	var s string
	if json.Unmarshal([]byte(p.text[start:p.pos]), &s) != nil {
		return ""
	}
	return s
}
