package bound

import (
	"math"
	"reflect"
	"unsafe"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

// A tree is a value backed by a JSON tree, like plan.Tree.
type tree interface {
	Tree() (any, types.Adapter)
}

// A mark is a value that wraps another one, or nil, like objects.Mark.
type mark interface{ Content() ref.Val }

// IsDeep reports whether a value is a list, map or object.
func IsDeep(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Int, types.Bool, types.Double, types.Uint, types.Null, types.Bytes:
		return false
	case traits.Lister, traits.Mapper, *dynamic.ObjectVal, *mutation.JSONPatchVal, *types.Optional:
		return true
	}
	_, deep := v.(mark)
	return deep
}

// IsMade reports whether an expression has made a list, map or object: only there can one value occur in several
// places, so that the whole is larger than its memory.
func IsMade(v ref.Val) bool {
	_, given := v.(tree)
	return !given && IsDeep(v)
}

// Weight returns the number of values in a value, each counted for every path to it, and their bytes of text: the size
// of writing it out. A list, map or object made by an expression is traversed once, and traversal ends after most
// values.
func Weight(v ref.Val, most int64) (values, text int64) {
	s := scale{left: most}
	w := s.value(v)
	return w.values, w.text
}

// A weight is the weight of a value with all of its parts.
type weight struct{ values, text int64 }

func (w *weight) add(other weight) {
	w.values, w.text = add(w.values, other.values), add(w.text, other.text)
}

type scale struct {
	left   int64 // values that may still be visited
	writes bool  // text is the length of the values as format writes them, in each place
	known  map[ref.Val]weight
}

// TextWeight returns the number of values in a value, like Weight, and an upper bound of the bytes that the function
// format writes for them: it quotes strings in lists and maps (cel-go/ext/formatting.go v0.29.2).
func TextWeight(v ref.Val, most int64) (values, text int64) {
	s := scale{left: most, writes: true}
	w := s.value(v)
	return w.values, add(w.text, mul(w.values, betweenBytes))
}

// Upper bounds for the output of format.
const (
	betweenBytes = 4  // brackets of a list or map, and separators between values
	numberBytes  = 24 // a number without a fraction
	scalarBytes  = 48 // any other scalar: a timestamp with its name is the longest
)

// text returns the weight of a string.
func (s *scale) text(t string) int64 {
	n := int64(len(t))
	if !s.writes {
		return n
	}
	for i := range len(t) {
		switch c := t[i]; {
		case c < ' ' || c > '~':
			n += 3 // \x00; other characters take less for each of their bytes
		case c == '"' || c == '\\':
			n++
		}
	}
	return n + int64(len(`b""`))
}

// scalar returns the weight of a number, or of another value without text.
func (s *scale) scalar(v any) int64 {
	if !s.writes {
		return 0
	}
	switch v := v.(type) {
	case types.Int, types.Uint, types.Bool, types.Null, int64, bool, nil:
		return numberBytes
	case types.Double:
		return fractionBytes(float64(v))
	case float64:
		return fractionBytes(v)
	}
	return scalarBytes
}

// fractionBytes returns the longest form of a number without an exponent, with commas between its thousands.
func fractionBytes(f float64) int64 {
	if f == 0 || math.IsNaN(f) || math.IsInf(f, 0) {
		return numberBytes
	}
	return numberBytes + 4*int64(math.Abs(math.Log10(math.Abs(f))))/3
}

// fewValues is the number of values that are visited again rather than remembered.
const fewValues = 16

// tooMuch is the weight of values that are not visited.
var tooMuch = weight{math.MaxInt64, math.MaxInt64}

func (s *scale) value(v ref.Val) weight {
	if s.left--; s.left < 0 {
		return tooMuch
	}
	switch v := v.(type) {
	case types.String:
		return weight{1, s.text(string(v))}
	case types.Bytes:
		return weight{1, s.text(string(v))}
	case tree:
		content, _ := v.Tree()
		return s.json(content)
	}
	if !IsDeep(v) {
		return weight{1, s.scalar(v)}
	}
	if reflect.TypeOf(v).Kind() != reflect.Pointer {
		return s.weighContents(v)
	}
	if w, ok := s.known[v]; ok {
		return w
	}
	w := s.weighContents(v)
	if w.values < fewValues {
		return w
	}
	if s.known == nil {
		s.known = map[ref.Val]weight{}
	}
	s.known[v] = w
	return w
}

// weighContents returns the weight of the contents of a list, map or object.
func (s *scale) weighContents(v ref.Val) weight {
	w := weight{values: 1}
	switch v := v.(type) {
	case mark:
		if of := v.Content(); of != nil {
			w.add(s.value(of))
		}
	case *dynamic.ObjectVal:
		for name, field := range Fields(v) {
			w.add(weight{0, s.text(name)})
			w.add(s.value(field))
		}
	case *mutation.JSONPatchVal:
		w.text = int64(len(v.Path) + len(v.From) + len(v.Op))
		if v.Val != nil {
			w.add(s.value(v.Val))
		}
	case *types.Optional:
		if v.HasValue() {
			w.add(s.value(v.GetValue()))
		}
	case traits.Lister:
		if count(v) > s.left {
			return tooMuch
		}
		for it := v.Iterator(); it.HasNext() == types.True; {
			w.add(s.value(it.Next()))
		}
	case traits.Mapper:
		if v.Type() != types.MapType {
			break // such as variables, which must not be evaluated here
		}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			w.add(s.value(key))
			w.add(s.value(v.Get(key)))
		}
	}
	return w
}

func (s *scale) json(v any) weight {
	if s.left--; s.left < 0 {
		return tooMuch
	}
	w := weight{values: 1}
	switch v := v.(type) {
	case string:
		w.text = s.text(v)
	case map[string]any:
		for name, member := range v {
			w.add(weight{0, s.text(name)})
			w.add(s.json(member))
		}
	case []any:
		for _, item := range v {
			w.add(s.json(item))
		}
	case ref.Val:
		return s.value(v)
	default:
		w.text = s.scalar(v)
	}
	return w
}

// Fields returns the fields of an object literal, which does not have a method for that (dynamic.ObjectVal of
// k8s.io/apiserver v0.37.2): its methods convert all fields, with everything below.
func Fields(v *dynamic.ObjectVal) map[string]ref.Val {
	field := reflect.ValueOf(v).Elem().FieldByName("fields")
	if !field.IsValid() || field.Type() != reflect.TypeFor[map[string]ref.Val]() {
		return nil // TestObjectFields detects that
	}
	return *(*map[string]ref.Val)(unsafe.Pointer(field.UnsafeAddr()))
}
