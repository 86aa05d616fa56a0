package manifest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	yaml "go.yaml.in/yaml/v2"

	"github.com/celgate/celgate/internal/yamlscan"
)

// decodeLibrary decodes the first YAML document of text with the library that kubectl uses. rest: more text follows,
// which kubectl ignores. The error of a duplicate key is errDuplicate, that of too deep nesting errDepth.
func decodeLibrary(text string) (v any, rest bool, err error) {
	v, rest, err = parseLibrary(text, true)
	var duplicates *yaml.TypeError
	if errors.As(err, &duplicates) {
		if _, _, found := layoutOf(text, false).FindDuplicate(); found {
			return nil, false, errDuplicate
		}
		// Strict decoding also rejects members that replace merged ones, the purpose of merging.
		v, rest, err = parseLibrary(text, false)
	}
	if err == nil {
		v, err = convert(v, 0)
	}
	return v, rest, err
}

// parseLibrary returns the first document of text as a value of the library.
func parseLibrary(text string, strict bool) (v any, rest bool, err error) {
	defer func() { // the library panics on its own bugs
		if r := recover(); r != nil {
			v, rest, err = nil, false, fmt.Errorf("yaml: %v", r)
		}
	}()
	d := yaml.NewDecoder(strings.NewReader(text))
	d.SetStrict(strict)
	if err = d.Decode(&v); errors.Is(err, io.EOF) {
		return nil, false, nil
	}
	if err == nil {
		var ignored any
		rest = !errors.Is(d.Decode(&ignored), io.EOF)
	}
	return v, rest, err
}

var (
	errDuplicate = errors.New("duplicate key")
	errDepth     = fmt.Errorf("nested deeper than %d levels", yamlscan.MaxDepth)
)

// A valueError is the error of a value that cannot be expressed in JSON.
type valueError struct{ message string }

func (e *valueError) Error() string { return e.message }

// convert converts a value of the library to a JSON tree, like sigs.k8s.io/yaml v1.6.0 yaml.go: YAMLToJSON followed by
// decoding.
func convert(v any, depth int) (any, error) {
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		return yamlscan.ValidText(v), nil
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case uint64:
		return yamlscan.Number(float64(v)), nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, &valueError{"a number must be finite"}
		}
		return yamlscan.Number(v), nil
	}
	if depth++; depth > yamlscan.MaxDepth {
		return nil, errDepth
	}
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			var err error
			if list[i], err = convert(v[i], depth); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, member := range v {
			key, ok := yamlscan.Key(k)
			if !ok {
				return nil, errKey
			}
			if _, duplicate := m[key]; duplicate {
				return nil, errDuplicate
			}
			var err error
			if m[key], err = convert(member, depth); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return nil, &valueError{fmt.Sprintf("a value of type %T is not possible", v)}
}

var errKey = &valueError{"a key must be text, a number or a boolean"}
