package eval

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/celgate/celgate/internal/plan"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
)

// A Form is one of the two ways in which the API server presents an object to CEL. They differ in error texts and in
// the values that a JSON patch can hold; docs/semantics.md lists the differences, as forms (a) and (b).
type Form uint8

const (
	// Plain is the form of custom resources: a tree of maps and lists.
	Plain Form = iota
	// Reflected is the form of built-in kinds: the Go value read by reflection, as
	// k8s.io/apiserver/pkg/cel/common/valuesschemalesstyped.go v0.37.2 presents it.
	Reflected
)

var _ = [...]plan.Tree{&plainMap{}, &plainList{}, &reflectedMap{}, &reflectedList{}}

// Value presents a JSON tree to CEL. Maps iterate in the order of their keys, so that results are deterministic. A nil
// map is null, and so is a nil list of the form Reflected.
func Value(tree any, form Form) ref.Val { return adapter{form}.NativeToValue(tree) }

// ToTyped presents an object of a built-in kind to CEL in the form Reflected. Values whose Go type has a JSON form of
// its own, such as a RawExtension, are plain, as valuesschemalesstyped.go makes them by json.Marshaler.
func ToTyped(tree map[string]any, t *shape.Type) ref.Val {
	if t == nil || !t.Mixed {
		return Value(tree, Reflected)
	}
	return Value(mix(tree, t), Reflected)
}

// mix returns a tree in which values of another form are CEL values. Unchanged parts are shared.
func mix(v any, t *shape.Type) any {
	if t == nil || !t.Mixed {
		return v
	}
	if t.Kind == shape.Any || t.Kind == shape.Union {
		switch v.(type) {
		case map[string]any, []any:
			return Value(v, Plain)
		}
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, member := range v {
			inner := t.Elem
			if f := t.Field(name); f != nil {
				inner = f.Type
			}
			if inner != nil && inner.Mixed {
				out[name] = mix(member, inner)
			}
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, item := range v {
			out[i] = mix(item, t.Elem)
		}
		return out
	}
	return v
}

// An adapter is the types.Adapter of one form.
type adapter struct{ form Form }

func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case nil:
		return types.NullValue
	case string:
		return types.String(v)
	case bool:
		return types.Bool(v)
	case int64:
		return types.Int(v)
	case int:
		return types.Int(v)
	case float64:
		return types.Double(v)
	case map[string]any:
		switch {
		case v == nil:
			return types.NullValue
		case a.form == Reflected:
			return &reflectedMap{v}
		}
		return &plainMap{v}
	case []any:
		switch {
		case a.form == Plain: // including an empty one: until it is written as JSON, a nil slice is a list
			return &plainList{v}
		case v == nil:
			return types.NullValue
		}
		return &reflectedList{v}
	case []byte:
		return types.String(base64.StdEncoding.EncodeToString(v))
	case uint64:
		if v > math.MaxInt64 {
			return types.NewErr("unsigned value %d does not fit into int64 (overflow)", v)
		}
		return types.Int(v)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

// A plainMap is a map like cel-go's own, in a stable order. It delegates rare operations to that.
type plainMap struct{ members map[string]any }

func (m *plainMap) mapper() traits.Mapper {
	return types.NewStringInterfaceMap(adapter{Plain}, m.members)
}

func (m *plainMap) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return m.mapper().Find(key)
	}
	member, found := m.members[string(name)]
	if !found {
		return nil, false
	}
	return adapter{Plain}.NativeToValue(member), true
}

func (m *plainMap) Get(key ref.Val) ref.Val {
	if v, found := m.Find(key); found {
		return v
	}
	return m.mapper().Get(key)
}

func (m *plainMap) Contains(key ref.Val) ref.Val {
	if name, ok := key.(types.String); ok {
		_, found := m.members[string(name)]
		return types.Bool(found)
	}
	return m.mapper().Contains(key)
}

func (m *plainMap) Tree() (any, types.Adapter) { return m.members, adapter{Plain} }

func (m *plainMap) Iterator() traits.Iterator { return newKeys(m.members) }

func (m *plainMap) IsZeroValue() bool { return len(m.members) == 0 }

func (m *plainMap) Size() ref.Val { return types.Int(len(m.members)) }

func (m *plainMap) Type() ref.Type { return types.MapType }

func (m *plainMap) Value() any { return m.members }

func (m *plainMap) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*plainMap); ok {
		return m.mapper().Equal(o.mapper())
	}
	return m.mapper().Equal(other)
}

func (m *plainMap) ConvertToNative(t reflect.Type) (any, error) { return m.mapper().ConvertToNative(t) }

func (m *plainMap) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return m
	}
	return m.mapper().ConvertToType(t)
}

// A plainList is a list like cel-go's own, without reflection.
type plainList struct{ items []any }

func (l *plainList) lister() traits.Lister {
	return types.NewDynamicList(adapter{Plain}, l.items)
}

func (l *plainList) Tree() (any, types.Adapter) { return l.items, adapter{Plain} }

func (l *plainList) Get(index ref.Val) ref.Val {
	if i, ok := index.(types.Int); ok && i >= 0 && int(i) < len(l.items) {
		return adapter{Plain}.NativeToValue(l.items[i])
	}
	return l.lister().Get(index)
}

func (l *plainList) Size() ref.Val { return types.Int(len(l.items)) }

func (l *plainList) Type() ref.Type { return types.ListType }

func (l *plainList) Value() any { return l.items }

func (l *plainList) IsZeroValue() bool { return len(l.items) == 0 }

func (l *plainList) Iterator() traits.Iterator { return &items{list: l.items, form: Plain} }

func (l *plainList) Contains(v ref.Val) ref.Val { return l.lister().Contains(v) }

func (l *plainList) Add(other ref.Val) ref.Val { return l.lister().Add(other) }

func (l *plainList) Equal(other ref.Val) ref.Val { return l.lister().Equal(other) }

func (l *plainList) ConvertToNative(t reflect.Type) (any, error) {
	return l.lister().ConvertToNative(t)
}

func (l *plainList) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.lister().ConvertToType(t)
}

func newKeys(members map[string]any) traits.Iterator {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return &keys{names: names}
}

// keys iterates over the names of a map.
type keys struct {
	ref.Val // iterators are not used as values
	names   []string
	next    int
}

func (k *keys) HasNext() ref.Val { return types.Bool(k.next < len(k.names)) }

func (k *keys) Next() ref.Val {
	if k.next >= len(k.names) {
		return types.NewErr("no more elements")
	}
	k.next++
	return types.String(k.names[k.next-1])
}

// A reflectedMap is a struct or map of a built-in kind. As on the server it is not a traits.Zeroer, so that
// optional.ofNonZeroValue treats an empty one as a value.
type reflectedMap struct{ members map[string]any }

func (m *reflectedMap) ConvertToNative(t reflect.Type) (any, error) {
	if reflect.TypeFor[map[string]any]().AssignableTo(t) {
		return m.members, nil
	}
	return nil, &ReflectedError{m.members, t}
}

// A ReflectedError is the error of converting a struct or map of a built-in kind to another form, such as JSON.
type ReflectedError struct {
	Members map[string]any // the same map as in the result of TreeOf
	To      reflect.Type
}

func (e *ReflectedError) Error() string {
	return fmt.Sprintf("type conversion error from '%s' to '%s'", types.MapType, e.To)
}

// TreeOf returns the tree behind a map of the form Reflected; nil for any other value.
func TreeOf(v ref.Val) any {
	if m, ok := v.(*reflectedMap); ok {
		return m.members
	}
	return nil
}

func (m *reflectedMap) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return m
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", m.Type(), t.TypeName())
}

// Equal compares as apiequality.Semantic compares the Go values of two structs: a missing list equals an empty one
// (apiserver/pkg/cel/common/valuesschemalesstyped.go v0.37.2; case evaluation/empty-list-stored).
func (m *reflectedMap) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*reflectedMap); ok {
		return types.Bool(tree.Semantic(m.members, o.members, func(a, b any) bool {
			return Value(a, Reflected).Equal(Value(b, Reflected)) == types.True
		}))
	}
	o, ok := other.(traits.Mapper)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if m.Size() != o.Size() {
		return types.False
	}
	for name, member := range m.members {
		v, found := o.Find(types.String(name))
		if !found || Value(member, Reflected).Equal(v) != types.True {
			return types.False
		}
	}
	return types.True
}

func (m *reflectedMap) Type() ref.Type { return types.MapType }

// Value returns the result of a conversion to an arbitrary type: a Go value that is not yet JSON, as on the server.
func (m *reflectedMap) Value() any { return goValue{m.members} }

func (m *reflectedMap) Tree() (any, types.Adapter) { return m.members, adapter{Reflected} }

// A goValue stands for a struct, map or slice of a built-in kind. A patch cannot hold it.
type goValue struct{ tree any }

// Tree returns the tree behind the value.
func (v goValue) Tree() any { return v.tree }

func (m *reflectedMap) Size() ref.Val { return types.Int(len(m.members)) }

func (m *reflectedMap) Iterator() traits.Iterator { return newKeys(m.members) }

func (m *reflectedMap) Contains(key ref.Val) ref.Val {
	v, found := m.Find(key)
	if v != nil && types.IsError(v) {
		return v
	}
	return types.Bool(found)
}

func (m *reflectedMap) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.ValOrErr(key, "unsupported map key type: %T", key), true
	}
	member, found := m.members[string(name)]
	if !found {
		return nil, false
	}
	return Value(member, Reflected), true
}

func (m *reflectedMap) Get(key ref.Val) ref.Val {
	v, found := m.Find(key)
	if !found {
		return types.ValOrErr(key, "no such key: %v", key)
	}
	return v
}

// A reflectedList is a slice of a built-in kind.
type reflectedList struct{ items []any }

func (l *reflectedList) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.Slice {
		return l.items, nil
	}
	return nil, fmt.Errorf("type conversion error from '%s' to '%s'", l.Type(), t)
}

func (l *reflectedList) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.ListType:
		return l
	case types.TypeType:
		return types.ListType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", l.Type(), t.TypeName())
}

func (l *reflectedList) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if l.Size() != o.Size() {
		return types.False
	}
	for i, item := range l.items {
		if Value(item, Reflected).Equal(o.Get(types.Int(i))) != types.True {
			return types.False
		}
	}
	return types.True
}

func (l *reflectedList) Type() ref.Type { return types.ListType }

// Value is like that of a reflectedMap.
func (l *reflectedList) Value() any { return goValue{l.items} }

func (l *reflectedList) Tree() (any, types.Adapter) { return l.items, adapter{Reflected} }

func (l *reflectedList) Size() ref.Val { return types.Int(len(l.items)) }

func (l *reflectedList) Contains(v ref.Val) ref.Val {
	for _, item := range l.items {
		if Value(item, Reflected).Equal(v) == types.True {
			return types.True
		}
	}
	return types.False
}

func (l *reflectedList) Add(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	sum := make([]ref.Val, 0, len(l.items))
	for _, item := range l.items {
		sum = append(sum, Value(item, Reflected))
	}
	for it := o.Iterator(); it.HasNext() == types.True; {
		sum = append(sum, it.Next())
	}
	return types.NewRefValList(types.DefaultTypeAdapter, sum)
}

func (l *reflectedList) Get(index ref.Val) ref.Val {
	i, ok := index.(types.Int)
	if !ok {
		return types.ValOrErr(index, "unsupported index type: %T", index)
	}
	if i < 0 || int64(i) >= int64(len(l.items)) {
		return types.NewErr("index out of bounds: %d", i)
	}
	return Value(l.items[i], Reflected)
}

func (l *reflectedList) Iterator() traits.Iterator { return &items{list: l.items, form: Reflected} }

type items struct {
	ref.Val // iterators are not used as values
	list    []any
	form    Form
	next    int
}

func (it *items) HasNext() ref.Val { return types.Bool(it.next < len(it.list)) }

func (it *items) Next() ref.Val {
	if it.next >= len(it.list) {
		return types.NewErr("no more elements")
	}
	it.next++
	return Value(it.list[it.next-1], it.form)
}
