package bound

import (
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

// Deep reports a list, map or object, in which there may be others.
func Deep(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Int, types.Bool, types.Double, types.Uint, types.Null, types.Bytes:
		return false
	case traits.Lister, traits.Mapper, *dynamic.ObjectVal, *mutation.JSONPatchVal:
		return true
	}
	return false
}

// Made reports a list, map or object that an expression has made: only there can one value be in several places, so that the
// whole is larger than what is in memory.
func Made(v ref.Val) bool {
	_, given := v.(tree)
	return !given && Deep(v)
}

// Weight returns how many values there are in a value, each as often as it can be reached, and how many bytes of text: what it
// takes to write it out. It stops at most.
func Weight(v ref.Val, most int64) (values, text int64) {
	w := weighing{left: most}
	w.value(v)
	return most - w.left, w.text
}

type weighing struct {
	left, text int64
}

func (w *weighing) one(text int) bool {
	w.left--
	w.text = add(w.text, int64(text))
	return w.left > 0
}

func (w *weighing) value(v ref.Val) bool {
	switch v := v.(type) {
	case types.String:
		return w.one(len(v))
	case types.Bytes:
		return w.one(len(v))
	case tree:
		content, _ := v.Tree()
		return w.json(content)
	case *dynamic.ObjectVal:
		if !w.one(0) {
			return false
		}
		for name, field := range fieldsOf(v) {
			w.text = add(w.text, int64(len(name)))
			if !w.value(field) {
				return false
			}
		}
	case *mutation.JSONPatchVal:
		if !w.one(len(v.Path) + len(v.From) + len(v.Op)) {
			return false
		}
		return v.Val == nil || w.value(v.Val)
	case *types.Optional:
		if !v.HasValue() {
			return w.one(0)
		}
		return w.value(v.GetValue())
	case traits.Lister:
		if !w.one(0) {
			return false
		}
		for it := v.Iterator(); it.HasNext() == types.True; {
			if !w.value(it.Next()) {
				return false
			}
		}
	case traits.Mapper:
		if !w.one(0) {
			return false
		}
		if !v.Type().HasTrait(traits.IterableType) || v.Type() != types.MapType {
			return true // such as variables, of which nothing may be evaluated here
		}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			if !w.value(key) || !w.value(v.Get(key)) {
				return false
			}
		}
	default:
		return w.one(0)
	}
	return w.left > 0
}

func (w *weighing) json(v any) bool {
	switch v := v.(type) {
	case string:
		return w.one(len(v))
	case map[string]any:
		if !w.one(0) {
			return false
		}
		for name, member := range v {
			w.text = add(w.text, int64(len(name)))
			if !w.json(member) {
				return false
			}
		}
	case []any:
		if !w.one(0) {
			return false
		}
		for _, item := range v {
			if !w.json(item) {
				return false
			}
		}
	case ref.Val:
		return w.value(v)
	default:
		return w.one(0)
	}
	return w.left > 0
}

// fieldsOf returns the fields of an object literal, which has no method for it (dynamic.ObjectVal of k8s.io/apiserver
// v0.37.2): every method converts them all, with everything below.
func fieldsOf(v *dynamic.ObjectVal) map[string]ref.Val {
	field := reflect.ValueOf(v).Elem().FieldByName("fields")
	if !field.IsValid() || field.Type() != reflect.TypeFor[map[string]ref.Val]() {
		return nil // TestObjectFields fails then
	}
	return *(*map[string]ref.Val)(unsafe.Pointer(field.UnsafeAddr()))
}
