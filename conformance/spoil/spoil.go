// Package spoil makes objects of built-in kinds that API servers may refuse: valid ones with one changed field.
package spoil

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/celgate/celgate/internal/shape"
)

var (
	//go:embed valid.yaml
	valid string

	//go:embed more.yaml
	more string
)

// Objects returns valid objects of the kinds whose values celgate validates, the most common in manifests.
func Objects() ([]map[string]any, error) { return read(valid) }

// MoreObjects returns valid objects of further kinds.
func MoreObjects() ([]map[string]any, error) { return read(more) }

func read(documents string) ([]map[string]any, error) {
	var all []map[string]any
	for text := range strings.SplitSeq(documents, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			return nil, err
		}
		all = append(all, ToIntegers(object).(map[string]any))
	}
	return all, nil
}

// ToIntegers makes the numbers of a YAML document those of a JSON tree.
func ToIntegers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = ToIntegers(member)
		}
	case []any:
		for i := range v {
			v[i] = ToIntegers(v[i])
		}
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	}
	return v
}

// A place is a field of an object, which set changes; nil removes it.
type place struct {
	path  string
	typ   *shape.Type
	value any
	set   func(value any)
}

// Spoil returns a copy of an object with one changed field, and the field. Status and metadata fields of the server do
// not change.
func Spoil(r *rand.Rand, object map[string]any, typ *shape.Type) (spoiled map[string]any, what string) {
	for {
		spoiled = runtime.DeepCopyJSON(object)
		present, absent := places(spoiled, typ, "")
		from := present
		if len(present) == 0 || len(absent) > 0 && r.IntN(5) == 0 {
			from = absent
		}
		p := from[r.IntN(len(from))]
		value := newValue(r, p.typ, p.value, 0)
		if fmt.Sprint(value) == fmt.Sprint(p.value) {
			continue
		}
		p.set(value)
		return spoiled, fmt.Sprintf("%s = %v", p.path, value)
	}
}

// untouched are the members that Spoil leaves alone.
var untouched = []string{"apiVersion", "kind", "status", "managedFields", "uid", "creationTimestamp",
	"deletionTimestamp",
	"deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation", "generateName", "namespace",
	"ownerReferences"}

// places returns the fields that an object has, and those that it could have.
func places(v any, t *shape.Type, path string) (present, absent []place) {
	add := func(p, a []place) { present, absent = append(present, p...), append(absent, a...) }
	switch v := v.(type) {
	case map[string]any:
		for i := range t.Fields {
			f := &t.Fields[i]
			if slices.Contains(untouched, f.Name) {
				continue
			}
			at := place{path: path + "." + f.Name, typ: f.Type, value: v[f.Name], set: func(value any) {
				if v[f.Name] = value; value == nil {
					delete(v, f.Name)
				}
			}}
			if at.value == nil {
				absent = append(absent, at)
				continue
			}
			present = append(present, at)
			add(places(at.value, f.Type, at.path))
		}
		if t.Kind == shape.Map {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				at := place{path: path + "[" + key + "]", typ: t.Elem, value: v[key], set: func(value any) {
					if v[key] = value; value == nil {
						delete(v, key)
					}
				}}
				present = append(present, at)
				add(places(at.value, t.Elem, at.path))
			}
		}
	case []any:
		for i := range v {
			if t.Elem == nil { // the field may have any value
				break
			}
			at := place{path: fmt.Sprintf("%s[%d]", path, i), typ: t.Elem, value: v[i],
				set: func(value any) { v[i] = value }}
			if t.Elem.Kind != shape.Struct {
				present = append(present, at)
			}
			add(places(v[i], t.Elem, at.path))
		}
	}
	slices.SortFunc(present, func(a, b place) int { return strings.Compare(a.path, b.path) })
	return present, absent
}

var (
	words = []string{"", "a", "Not_Valid!", "Sometimes", "-a", "a-", "UPPER", "a/b", "../a", "/a", "..", "a b", "a.b",
		"1.2.3.4", "010.0.0.1", "10.0.0.0/8", "http", "*.example.com", "é", "0", "Never", "Always", "None", "Local",
		"Delete",
		"example.com/a", "system:a", "system-a", "linux", "windows", "HTTP2", "IPv6", "SingleStack",
		"* * * * *", "kubernetes.io/tls", strings.Repeat("a", 64), strings.Repeat("a",
			254)}
	numbers    = []int64{-1, 0, 1, 2, 80, 101, 600, 4000, 65535, 65536, 1 << 31, 1<<31 - 1}
	quantities = []string{"-1", "0", "1", "1.5", "100m", "10Gi", "1n"}
)

// newValue returns a replacement value of a type, nil for none. Recursive types end at some depth.
func newValue(r *rand.Rand, t *shape.Type, was any, depth int) any {
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	if was != nil && r.IntN(5) == 0 {
		return nil
	}
	switch t.Kind {
	case shape.Boolean:
		return was != true
	case shape.Integer:
		n := numbers[r.IntN(len(numbers))]
		if t.Bits == 32 && n > 1<<31-1 {
			n = 1<<31 - 1
		}
		return n
	case shape.String:
		if others := respell(was); len(others) > 0 && r.IntN(2) == 0 {
			return pick(others)
		}
		return pick(words)
	case shape.Bytes:
		return base64.StdEncoding.EncodeToString([]byte(pick(words)))
	case shape.Quantity:
		return pick(quantities)
	case shape.IntOrString:
		if r.IntN(2) == 0 {
			return numbers[r.IntN(len(numbers)-2)]
		}
		return pick([]string{"", "http", "0%", "25%", "150%", "-5%", "HTTP", "a_b"})
	case shape.Map:
		m := map[string]any{}
		given, _ := was.(map[string]any)
		for key, value := range given {
			m[key] = value
		}
		if key := pick(words); r.IntN(4) > 0 {
			m[key] = newValue(r, t.Elem, nil, depth+1)
		} else {
			clear(m)
		}
		return m
	case shape.List:
		given, _ := was.([]any)
		switch {
		case len(given) > 0 && r.IntN(3) == 0:
			return append(slices.Clone(given), given[0])
		case r.IntN(3) == 0:
			return []any{}
		}
		return append(slices.Clone(given), newValue(r, t.Elem, nil, depth+1))
	case shape.Struct:
		m := map[string]any{}
		for i := 0; i < len(t.Fields) && depth < 4; i++ {
			if f := &t.Fields[i]; r.IntN(2) == 0 && !slices.Contains(untouched, f.Name) && f.Type.Kind != shape.Struct {
				m[f.Name] = newValue(r, f.Type, nil, depth+1)
			}
		}
		return m
	}
	return nil
}

// respell returns other spellings of an address or a network, which some servers accept, and an address of the other
// family; none for other values.
func respell(v any) []string {
	text, _ := v.(string)
	if addr, err := netip.ParseAddr(text); err == nil && addr.Is4() {
		return []string{"0" + text, "::ffff:" + text, text + " ", "fd00::1"}
	}
	if net, err := netip.ParsePrefix(text); err == nil && net.Addr().Is4() {
		return []string{"0" + text, fmt.Sprintf("::ffff:%s/%d", net.Addr(), 96+net.Bits()),
			netip.PrefixFrom(net.Addr().Next(), net.Bits()).String()}
	}
	return nil
}
