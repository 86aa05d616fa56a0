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

// A tree is a value that shows a JSON tree, as plan.Tree.
type tree interface {
	Tree() (any, types.Adapter)
}

// A mark is a value about another one, nil for none, as objects.Mark.
type mark interface{ Content() ref.Val }

// IsDeep reports a list, map or object, in which there may be others.
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

// IsMade reports a list, map or object that an expression has made: only there can one value be in several places, so
// that the whole is larger than what is in memory.
func IsMade(v ref.Val) bool {
	_, given := v.(tree)
	return !given && IsDeep(v)
}

// Weight returns how many values there are in a value, each as often as it can be reached, and how many bytes of text:
// what it takes to write it out. A list, map or object that an expression has made is looked at once, however often it
// is there, and beyond most values nothing is looked at any more.
func Weight(v ref.Val, most int64) (values, text int64) {
	s := scale{left: most}
	w := s.value(v)
	return w.values, w.text
}

// A weight is what a value weighs with all that is in it.
type weight struct{ values, text int64 }

func (w *weight) add(other weight) {
	w.values, w.text = add(w.values, other.values), add(w.text, other.text)
}

type scale struct {
	left  int64 // values that may still be looked at
	known map[ref.Val]weight
}

// fewValues are so few that to look at them again costs less than to remember them.
const fewValues = 16

// tooMuch is the weight of what nobody looks at.
var tooMuch = weight{math.MaxInt64, math.MaxInt64}

func (s *scale) value(v ref.Val) weight {
	if s.left--; s.left < 0 {
		return tooMuch
	}
	switch v := v.(type) {
	case types.String:
		return weight{1, int64(len(v))}
	case types.Bytes:
		return weight{1, int64(len(v))}
	case tree:
		content, _ := v.Tree()
		return s.json(content)
	}
	if !IsDeep(v) {
		return weight{1, 0}
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

// weighContents weighs what is in a list, map or object.
func (s *scale) weighContents(v ref.Val) weight {
	w := weight{values: 1}
	switch v := v.(type) {
	case mark:
		if of := v.Content(); of != nil {
			w.add(s.value(of))
		}
	case *dynamic.ObjectVal:
		for name, field := range Fields(v) {
			w.add(weight{0, int64(len(name))})
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
			break // such as variables, of which nothing may be evaluated here
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
		w.text = int64(len(v))
	case map[string]any:
		for name, member := range v {
			w.add(weight{0, int64(len(name))})
			w.add(s.json(member))
		}
	case []any:
		for _, item := range v {
			w.add(s.json(item))
		}
	case ref.Val:
		return s.value(v)
	}
	return w
}

// Fields returns the fields of an object literal, which has no method for it (dynamic.ObjectVal of k8s.io/apiserver
// v0.37.2): every method converts them all, with everything below.
func Fields(v *dynamic.ObjectVal) map[string]ref.Val {
	field := reflect.ValueOf(v).Elem().FieldByName("fields")
	if !field.IsValid() || field.Type() != reflect.TypeFor[map[string]ref.Val]() {
		return nil // TestObjectFields fails then
	}
	return *(*map[string]ref.Val)(unsafe.Pointer(field.UnsafeAddr()))
}
