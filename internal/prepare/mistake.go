package prepare

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/celgate/celgate/internal/shape"
)

// mistake returns the error with which runtime.DefaultUnstructuredConverter (apimachinery v0.37.2) refuses v, or nil.
// It visits members in the order of declaration.
func mistake(t *shape.Type, v any) error {
	if v == nil {
		return nil
	}
	switch t.Kind {
	case shape.Any:
		return nil
	case shape.Boolean, shape.Integer, shape.Number, shape.String:
		return scalarMistake(t, v)
	case shape.Struct:
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
	case shape.Map:
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
	case shape.List:
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
	case shape.Bytes:
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

func scalarMistake(t *shape.Type, v any) error {
	fits := false
	switch v := v.(type) {
	case bool:
		fits = t.Kind == shape.Boolean
	case string:
		fits = t.Kind == shape.String
	case int64:
		fits = t.Kind == shape.Integer || t.Kind == shape.Number
		if t.Kind == shape.String {
			return fmt.Errorf("cannot convert int64 to %s", goType(t))
		}
	case float64:
		fits = t.Kind == shape.Number || t.Kind == shape.Integer && v == math.Trunc(v)
		if t.Kind == shape.Integer && !fits {
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
