package schema

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/celgate/celgate/internal/shape"
	"k8s.io/apimachinery/pkg/api/resource"
)

// conform returns v as Go would write it after decoding it leniently into the Go type that t describes: without
// undeclared members, with those that are always written, and with null as the zero value; quantities, times, durations
// and bytes have their canonical form. The error has the path of an invalid value.
func conform(v any, t *shape.Type) (any, error) {
	switch t.Kind {
	case shape.Struct:
		m, ok := v.(map[string]any)
		if v != nil && !ok {
			return nil, mismatch("an object", v)
		}
		return conformStruct(m, t)
	case shape.Map:
		m, ok := v.(map[string]any)
		if v == nil {
			return nil, nil
		} else if !ok {
			return nil, mismatch("an object", v)
		}
		out := make(map[string]any, len(m))
		for k, member := range m {
			c, err := conform(member, t.Elem)
			if err != nil {
				return nil, prefixStep("["+k+"]", err)
			}
			out[k] = c
		}
		return out, nil
	case shape.List:
		items, ok := v.([]any)
		if v == nil {
			return nil, nil
		} else if !ok {
			return nil, mismatch("a list", v)
		}
		out := make([]any, len(items))
		for i, item := range items {
			c, err := conform(item, t.Elem)
			if err != nil {
				return nil, prefixStep(fmt.Sprintf("[%d]", i), err)
			}
			out[i] = c
		}
		return out, nil
	}
	return conformScalar(v, t)
}

func conformStruct(m map[string]any, t *shape.Type) (any, error) {
	out := make(map[string]any, len(t.Fields))
	for i := range t.Fields {
		f := &t.Fields[i]
		v := m[f.Name]
		if v == nil && f.Pointer {
			if !f.OmitEmpty && !f.OmitZero {
				out[f.Name] = nil
			}
			continue
		}
		c, err := conform(v, f.Type)
		if err != nil {
			return nil, prefixStep("."+f.Name, err)
		}
		if f.Pointer || !omits(f, c) {
			out[f.Name] = c
		}
	}
	return out, nil
}

// omits reports whether encoding/json omits a member with this value that is not a pointer. Go structs are never empty,
// and neither are types with a JSON form of their own.
func omits(f *shape.Field, v any) bool {
	if f.OmitZero {
		if zero, err := conform(nil, f.Type); err == nil && reflect.DeepEqual(v, zero) {
			return true
		}
	}
	if !f.OmitEmpty {
		return false
	}
	switch f.Type.Kind {
	case shape.Boolean:
		return v == false
	case shape.Integer, shape.Number:
		return v == int64(0) || v == 0.0
	case shape.String:
		return v == ""
	case shape.Bytes:
		return v == nil || v == ""
	case shape.List:
		items, _ := v.([]any)
		return len(items) == 0
	case shape.Map:
		members, _ := v.(map[string]any)
		return len(members) == 0
	}
	return false
}

// conformScalar checks one value; nil becomes the zero value.
func conformScalar(v any, t *shape.Type) (any, error) {
	switch t.Kind {
	case shape.Boolean:
		if v == nil {
			return false, nil
		}
		if _, ok := v.(bool); !ok {
			return nil, mismatch("true or false", v)
		}
	case shape.Integer:
		return conformInteger(v, t.Bits)
	case shape.Number:
		switch n := v.(type) {
		case nil:
			return int64(0), nil
		case int64, float64:
			return n, nil
		}
		return nil, mismatch("a number", v)
	case shape.String:
		if v == nil {
			return "", nil
		}
		if _, ok := v.(string); !ok {
			return nil, mismatch("a string", v)
		}
	case shape.Bytes, shape.Time, shape.MicroTime, shape.Duration:
		return conformText(v, t.Kind)
	case shape.Quantity:
		return conformQuantity(v)
	case shape.IntOrString:
		switch v.(type) {
		case nil:
			return int64(0), nil
		case string:
			return v, nil
		}
		return conformInteger(v, 32)
	case shape.Union:
		for _, alternative := range t.OneOf {
			if c, err := conform(v, alternative); v != nil && err == nil {
				return c, nil
			}
		}
		if v != nil {
			return nil, fmt.Errorf("no form of %s", t.Name)
		}
	}
	return v, nil
}

func conformInteger(v any, bits uint8) (any, error) {
	var n int64
	switch v := v.(type) {
	case nil:
	case int64:
		n = v
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return nil, mismatch("an integer", v)
		}
		n = int64(v)
	default:
		return nil, mismatch("an integer", v)
	}
	if limit := int64(1) << (bits - 1); bits < 64 && (n < -limit || n >= limit) {
		return nil, fmt.Errorf("%d does not fit into %d bits", n, bits)
	}
	return n, nil
}

const (
	secondsUTC = "2006-01-02T15:04:05Z"
	microTime  = "2006-01-02T15:04:05.000000Z07:00"
)

// conformText returns the canonical form of a text with its own syntax (as apimachinery pkg/apis/meta/v1 time.go,
// micro_time.go and duration.go v0.37.2, and encoding/json for bytes).
func conformText(v any, kind shape.Kind) (any, error) {
	text, ok := v.(string)
	switch {
	case v == nil && kind == shape.Duration:
		return "0s", nil
	case v == nil:
		return nil, nil
	case !ok:
		return nil, mismatch("a string", v)
	}
	layout := time.RFC3339
	switch kind {
	case shape.Duration:
		d, err := time.ParseDuration(text)
		return d.String(), err
	case shape.Bytes:
		raw, err := base64.StdEncoding.DecodeString(text)
		return base64.StdEncoding.EncodeToString(raw), err
	case shape.MicroTime:
		layout = microTime
	}
	moment, err := time.Parse(layout, text)
	switch {
	case err != nil:
		return nil, err
	case moment.IsZero():
		return nil, nil
	case kind == shape.MicroTime:
		return moment.UTC().Format(microTime), nil
	}
	return moment.UTC().Format(secondsUTC), nil
}

func conformQuantity(v any) (any, error) {
	text := ""
	switch v := v.(type) {
	case nil:
		return "0", nil
	case string:
		text = v
	case int64, float64:
		text = fmt.Sprint(v)
	default:
		return nil, mismatch("a quantity", v)
	}
	if text == "" {
		return nil, resource.ErrFormatWrong
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return nil, err
	}
	return q.String(), nil
}

func mismatch(want string, v any) error {
	got := "an object"
	switch v.(type) {
	case nil:
		got = "null"
	case bool:
		got = "a boolean"
	case string:
		got = "a string"
	case int64, float64:
		got = "a number"
	case []any:
		got = "a list"
	}
	return fmt.Errorf("must be %s, not %s", want, got)
}

// A pathError is an error at a place in an object.
type pathError struct {
	path string
	err  error
}

func (e *pathError) Error() string { return strings.TrimPrefix(e.path, ".") + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

func prefixStep(step string, err error) error {
	if inner := (*pathError)(nil); errors.As(err, &inner) {
		return &pathError{path: step + inner.path, err: inner.err}
	}
	return &pathError{path: step, err: err}
}
