package merge

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A key identifies an item of an associative list. Items with equal keys are the same item.
type key struct {
	kind   byte // of the rest; zero for values that are not JSON, which are all equal
	number uint64
	text   string
}

// key returns the key of a list item, or the error of typed/helpers.go v6.4.2 for an item without one.
func (r ref) key(item any) (key, error) {
	names := r.keyNames()
	if len(names) == 0 {
		switch item.(type) {
		case map[string]any:
			return key{}, errors.New("associative list without keys has an element that's a map type")
		case []any:
			return key{}, errors.New("not supported: associative list with lists as elements")
		case nil:
			return key{}, errors.New("associative list without keys has an element that's an explicit null")
		}
		return keyOf(item), nil
	}
	if item == nil {
		return key{}, errors.New("associative list with keys may not have a null element")
	}
	members, ok := item.(map[string]any)
	if !ok {
		return key{}, errors.New("associative list with keys may not have non-map elements")
	}
	if len(names) == 1 {
		value, ok, err := r.keyMember(members, names[0])
		if err == nil && !ok {
			err = missingKeys(names)
		}
		return keyOf(value), err
	}
	var composite []byte
	for i, name := range names {
		value, ok, err := r.keyMember(members, name)
		if err != nil {
			return key{}, err
		}
		if ok {
			composite = strconv.AppendInt(composite, int64(i), 10)
			composite = appendKey(composite, keyOf(value))
		}
	}
	if len(composite) == 0 {
		return key{}, missingKeys(names)
	}
	return key{kind: '*', text: string(composite)}, nil
}

func missingKeys(names []string) error {
	return fmt.Errorf("associative list with keys has an element that omits all key fields %q (and doesn't have default values for any key fields)", names)
}

// lackedKey returns the error of typed/helpers.go v4.6.0 for an item that lacks one of its keys, even if it has others.
func (r ref) lackedKey(item any) error {
	members, ok := item.(map[string]any)
	if !ok {
		return nil
	}
	for _, name := range r.keyNames() {
		if _, has, err := r.keyMember(members, name); err == nil && !has {
			return fmt.Errorf("associative list with keys has an element that omits key field %q (and doesn't have default value)",
				name)
		}
	}
	return nil
}

// keyMember returns a key member of an item, or its default.
func (r ref) keyMember(members map[string]any, name string) (value any, ok bool, err error) {
	if value, ok = members[name]; ok {
		return value, true, nil
	}
	elem := r.item()
	if !elem.isMap() {
		return nil, false, fmt.Errorf("couldn't find default value for %v: associative list may not have non-map types",
			name)
	}
	if elem.typ == nil {
		return nil, false, nil
	}
	if field := elem.typ.Field(name); field != nil && field.Default != nil {
		return field.Default, true, nil
	}
	return nil, false, nil
}

// keyOf returns the key of one value. Equal integers and floating-point numbers have the same key.
func keyOf(value any) key {
	switch value := value.(type) {
	case string:
		return key{kind: 's', text: value}
	case bool:
		k := key{kind: 'b'}
		if value {
			k.number = 1
		}
		return k
	case int64:
		return key{kind: 'n', number: uint64(value)}
	case float64:
		if i := int64(value); float64(i) == value && value >= math.MinInt64 && value < math.MaxInt64 {
			return key{kind: 'n', number: uint64(i)}
		}
		return key{kind: 'f', number: math.Float64bits(value)}
	case nil:
		return key{kind: '0'}
	case map[string]any, []any:
		return key{kind: '*', text: string(appendIdentity(nil, value))}
	}
	return key{}
}

// appendIdentity appends a text that only equal values share; literals do not suffice for that.
func appendIdentity(b []byte, value any) []byte {
	switch value := value.(type) {
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(value)) {
			b = appendIdentity(strconv.AppendQuote(b, name), value[name])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for _, item := range value {
			b = appendIdentity(b, item)
		}
		return append(b, ']')
	}
	return appendKey(b, keyOf(value))
}

func appendKey(b []byte, k key) []byte {
	b = append(b, k.kind)
	b = strconv.AppendUint(b, k.number, 10)
	b = strconv.AppendQuote(b, k.text)
	return b
}

// keys appends the keys of all items, each of which must have one.
func (r ref) keys(keys []key, items []any) []key {
	for _, item := range items {
		k, _ := r.key(item)
		keys = append(keys, k)
	}
	return keys
}

const (
	none       = -1
	duplicated = -2 // more than once
)

// maxScan is the length up to which scanning a list is as fast as a map.
const maxScan = 8

// locate appends the index of each key in another list.
func locate(places []int, keys, in []key) []int {
	if len(keys) <= maxScan || len(in) <= maxScan {
		for _, k := range keys {
			places = append(places, place(k, in))
		}
		return places
	}
	index := make(map[key]int, len(in))
	for i, k := range in {
		if _, found := index[k]; found {
			i = duplicated
		}
		index[k] = i
	}
	for _, k := range keys {
		at, found := index[k]
		if !found {
			at = none
		}
		places = append(places, at)
	}
	return places
}

func place(k key, in []key) int {
	at := none
	for i := range in {
		if in[i] == k {
			if at != none {
				return duplicated
			}
			at = i
		}
	}
	return at
}

// keyText returns the path element of an item with a key (as PathElement.String of fieldpath/element.go v6.4.2).
func (r ref) keyText(item any) string {
	names := r.keyNames()
	if len(names) == 0 {
		return "[=" + literal(item) + "]"
	}
	members, _ := item.(map[string]any)
	var parts []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		if value, ok, err := r.keyMember(members, name); ok && err == nil {
			parts = append(parts, name+"="+literal(value))
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// literal prints a value like value.ToString of v6.4.2, with members in order.
func literal(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(value)
	case bool, int64, float64:
		return fmt.Sprint(value)
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			items[i] = literal(item)
		}
		return "[" + strings.Join(items, ",") + "]"
	case map[string]any:
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(value)) {
			b.WriteString(name + "=" + literal(value[name]))
		}
		return b.String()
	}
	return "{{undefined}}"
}
