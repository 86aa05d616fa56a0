package manifest

import (
	"encoding/json"
	"errors"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/celgate/celgate/internal/yamlscan"
)

// decodeJSON decodes text, one JSON value, as the API server's decoder does: integers are int64 if they fit,
// other numbers float64. The error of a duplicate key is errDuplicate, that of a syntax error *json.SyntaxError.
func decodeJSON(text string) (any, error) {
	if depthOf(text) > yamlscan.MaxDepth {
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

// depthOf returns the nesting depth of the brackets in a JSON text.
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

// jsonSize returns the size of the JSON value at the start of text, including leading space.
func jsonSize(text string) (int, error) {
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

// yamlNumbers converts the numbers of a JSON tree to those of the same text as YAML: 1.0 is an integer there.
func yamlNumbers(v any) any {
	switch v := v.(type) {
	case float64:
		return yamlscan.Number(v)
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
