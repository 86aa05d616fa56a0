package prepare

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/celgate/celgate/internal/shape"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// integer returns v as a Go integer of the given width holds it. Strict decoding only accepts integers in range;
// lenient decoding also accepts integral floats, and drops upper bits that do not fit, as
// runtime.DefaultUnstructuredConverter does with reflect.Value.Convert.
func (p *pass) integer(bits uint8, v any) (any, bool) {
	switch n := v.(type) {
	case int64:
		if w := wrap(bits, n); w == n {
			return v, true
		} else if p.lenient {
			p.truncated = true
			return w, false
		}
	case float64:
		if p.lenient && n == math.Trunc(n) {
			w := wrap(bits, truncate(n))
			p.truncated = p.truncated || float64(w) != n
			return w, false
		}
	}
	p.failed = true
	return int64(0), false
}

func wrap(bits uint8, n int64) int64 {
	switch bits {
	case 8:
		return int64(int8(n))
	case 16:
		return int64(int16(n))
	case 32:
		return int64(int32(n))
	}
	return n
}

// truncate converts a float like the server's processors do, where Go does not define the result.
func truncate(f float64) int64 {
	if f >= math.MinInt64 && f < -math.MinInt64 {
		return int64(f)
	}
	return math.MinInt64
}

// number returns v as a Go float64. Types with their own encoding write JSON, where an integral float is an integer.
func (p *pass) number(v any) (any, bool) {
	switch n := v.(type) {
	case float64:
		if p.nested > 0 && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n), false
		}
		return v, true
	case int64:
		if p.nested > 0 && int64(float64(n)) == n {
			return v, true
		}
		return float64(n), false
	}
	p.failed = true
	return float64(0), false
}

// encode returns v as JSON text, the input of types with their own decoding.
func encode(v any) ([]byte, bool) {
	b, err := json.Marshal(v)
	return b, err == nil
}

// convertSpecial decodes a value of a type with its own JSON form and encodes it again. The second result is false if
// the type refuses the value. The type also decides about a null, which may stay null.
func (p *pass) convertSpecial(kind shape.Kind, v any) (any, bool) {
	switch kind {
	case shape.Quantity:
		return quantity(v)
	case shape.Time, shape.MicroTime:
		return convertTime(kind, v)
	case shape.Duration:
		if s, ok := v.(string); ok {
			d, err := time.ParseDuration(s)
			return d.String(), err == nil
		}
	case shape.IntOrString:
		switch n := v.(type) {
		case string:
			return v, true
		case int64:
			return v, wrap(32, n) == n
		case float64:
			// An integral float of the tree is JSON without a fraction.
			return truncate(n), p.lenient && n == math.Trunc(n) && math.Abs(n) <= math.MaxInt32
		case nil:
			return int64(0), true
		}
	}
	return nil, false
}

func quantity(v any) (any, bool) {
	if s, ok := v.(string); ok && canonicalQuantity(s) {
		return v, true
	}
	var q resource.Quantity
	if !unmarshal(&q, v) {
		return nil, false
	}
	return q.String(), true
}

// roundUp returns a canonical quantity in whole thousandths, the form of resource lists.
func roundUp(v, old any) (any, bool) {
	text, ok := v.(string)
	if !ok || canonicalQuantity(text) {
		return v, v == old
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return v, v == old
	}
	q.RoundUp(resource.Milli)
	rounded := q.String()
	return rounded, old == rounded
}

// canonicalQuantity reports whether s is canonical without parsing it: at most three digits without a leading zero, and
// a suffix that such a number keeps.
func canonicalQuantity(s string) bool {
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	if digits == 0 || digits > 3 {
		return false
	}
	if s[0] == '0' {
		return s == "0"
	}
	switch s[digits:] {
	case "", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti":
		return true
	}
	return false
}

func convertTime(kind shape.Kind, v any) (any, bool) {
	layout := time.RFC3339
	if kind == shape.MicroTime {
		layout = metav1.RFC3339Micro
	}
	switch s := v.(type) {
	case nil:
		return nil, true
	case string:
		t, err := time.Parse(layout, s)
		if err != nil {
			return nil, false
		}
		if t.IsZero() {
			return nil, true
		}
		if kind == shape.Time && len(s) == len("2006-01-02T15:04:05Z") {
			return v, true
		}
		return t.UTC().Format(layout), true
	}
	return nil, false
}

// unmarshal decodes v into a value with its own JSON form.
func unmarshal(into json.Unmarshaler, v any) bool {
	b, ok := encode(v)
	return ok && into.UnmarshalJSON(b) == nil
}

// octets returns the canonical base64 text of v. Bytes may also be written as a list of numbers.
func (p *pass) octets(v any) (any, bool) {
	var b []byte
	switch v := v.(type) {
	case string:
		var err error
		b, err = base64.StdEncoding.DecodeString(v)
		p.failed = p.failed || err != nil
	case []any:
		for _, item := range v {
			n := int64(0)
			if item != nil {
				number, _ := p.integer(64, item)
				n = number.(int64)
			}
			p.failed = p.failed || !p.lenient && n != int64(byte(n))
			b = append(b, byte(n))
		}
	default:
		p.failed = true
	}
	canonical := base64.StdEncoding.EncodeToString(b)
	return canonical, canonical == v
}

// literal returns a number as JSON text; the text of the request itself is no longer known.
func literal(v any) string {
	switch n := v.(type) {
	case int64:
		return strconv.FormatInt(n, 10)
	case float64:
		b, _ := encode(n)
		if s := string(b); strings.ContainsAny(s, ".e") {
			return s
		}
		return string(b) + ".0"
	}
	return ""
}
