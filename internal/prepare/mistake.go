package prepare

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/celgate/celgate/schema"
)

// mistake returns the error with which runtime.DefaultUnstructuredConverter (apimachinery v0.37.2) refuses v, or
// nil. It visits members in the order of declaration.
func mistake(t *schema.Type, v any) error {
	if v == nil {
		return nil
	}
	switch t.Kind {
	case schema.Any:
		return nil
	case schema.Boolean, schema.Integer, schema.Number, schema.String:
		return scalarMistake(t, v)
	case schema.Struct:
		m, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("cannot restore struct from: %s", goKind(v))
		}
		for i := range t.Fields {
			f := &t.Fields[i]
			if err := mistake(f.Type, m[f.Name]); err != nil {
				return err
			}
		}
		return nil
	case schema.Map:
		m, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("cannot restore map from %s", goKind(v))
		}
		for _, name := range slices.Sorted(maps.Keys(m)) { // the server's order varies
			if err := mistake(elem(t), m[name]); err != nil {
				return err
			}
		}
		return nil
	case schema.List:
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("cannot restore slice from %s", goKind(v))
		}
		for _, item := range list {
			if err := mistake(elem(t), item); err != nil {
				return err
			}
		}
		return nil
	case schema.Bytes:
		if list, ok := v.([]any); ok {
			for _, item := range list {
				if err := mistake(octet, item); err != nil {
					return err
				}
			}
			return nil
		}
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("cannot restore slice from %s", goKind(v))
		}
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("error decoding from json: %w", err)
		}
		return nil
	}
	f := finder{integral: true}
	if err := f.value(t, v); err != nil {
		return err
	}
	if f.saved != nil {
		return f.saved
	}
	return nil
}

func scalarMistake(t *schema.Type, v any) error {
	fits := false
	switch v := v.(type) {
	case bool:
		fits = t.Kind == schema.Boolean
	case string:
		fits = t.Kind == schema.String
	case int64:
		fits = t.Kind == schema.Integer || t.Kind == schema.Number
		if t.Kind == schema.String {
			return fmt.Errorf("cannot convert int64 to %s", goType(t))
		}
	case float64:
		fits = t.Kind == schema.Number || t.Kind == schema.Integer && v == math.Trunc(v)
		if t.Kind == schema.Integer && !fits {
			return fmt.Errorf("cannot convert float64 to %s", goType(t))
		}
	}
	if fits {
		return nil
	}
	return fmt.Errorf("unrecognized type: %s", unnamedType(t))
}

// goKind returns the reflect.Kind of a value of a tree.
func goKind(v any) string {
	switch v.(type) {
	case map[string]any:
		return "map"
	case []any:
		return "slice"
	}
	return fmt.Sprintf("%T", v)
}
