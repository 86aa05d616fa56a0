package prepare

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/shape"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxUnknown is the number of unknown fields that the decoder reports (sigs.k8s.io/json kubernetes_patch.go).
const maxUnknown = 100

// problems returns the errors of strictly decoding v, in the server's words: the error that ends decoding, or the
// unknown fields. It runs after a pass has failed; members are visited by name, which is the order in which kubectl
// sends them.
func problems(t *shape.Type, v any) (unknown []string, err error) { return new(finder).problems(t, v) }

func (f *finder) problems(t *shape.Type, v any) (unknown []string, err error) {
	if err := f.value(t, v); err != nil {
		return nil, err
	}
	return f.unknown, f.saved
}

// A finder walks a tree in the way of the decoder of sigs.k8s.io/json. A returned error ends the decoding: a type with
// its own decoding refused a value. A value of the wrong JSON type is only recorded.
type finder struct {
	unknown []string
	saved   error

	path   string   // of the value, in the form for unknown fields: spec.containers[0]
	names  []string // of the value's fields, in the form for type errors: spec, containers
	within string   // the innermost struct

	document bool // the value is decoded by itself, inside a type with its own decoding, whose struct is named

	integral bool // numbers come from a tree, where an integral float is JSON without a fraction

	structs map[uintptr]*shape.Type // maps whose members are decoded in the order of their Go declaration
}

// declare records the structs of an object that the server holds in memory: it writes their members in that order.
func (f *finder) declare(t *shape.Type, v any) {
	for _, alternative := range t.OneOf {
		f.declare(alternative, v)
	}
	switch v := v.(type) {
	case map[string]any:
		if t.Kind == shape.Struct {
			f.structs[reflect.ValueOf(v).Pointer()] = t
		}
		for name, member := range v {
			if field := t.Field(name); field != nil {
				f.declare(field.Type, member)
			} else if t.Kind == shape.Map {
				f.declare(elem(t), member)
			}
		}
	case []any:
		if t.Kind == shape.List {
			for _, item := range v {
				f.declare(elem(t), item)
			}
		}
	}
}

// order returns the names of the members of a map in the order of decoding.
func (f *finder) order(v map[string]any) []string {
	sorted := slices.Sorted(maps.Keys(v))
	t := f.structs[reflect.ValueOf(v).Pointer()]
	if t == nil {
		return sorted
	}
	place := func(name string) int {
		if i := slices.IndexFunc(t.Fields, func(f shape.Field) bool { return f.Name == name }); i >= 0 {
			return i
		}
		return len(t.Fields)
	}
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return sorted
}

func (f *finder) value(t *shape.Type, v any) error {
	switch t.Kind {
	case shape.Any:
		return nil
	case shape.Quantity:
		return f.ownDecoding(new(resource.Quantity), v)
	case shape.Time:
		return f.ownDecoding(new(metav1.Time), v)
	case shape.MicroTime:
		return f.ownDecoding(new(metav1.MicroTime), v)
	case shape.Duration:
		return f.ownDecoding(new(metav1.Duration), v)
	case shape.IntOrString:
		return f.ownDecoding(new(intstr.IntOrString), v)
	case shape.Union:
		return f.decodeUnion(t, v)
	}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		switch t.Kind {
		case shape.Struct:
			return f.object(t, v)
		case shape.Map:
			for _, name := range f.order(v) {
				if err := f.child("."+name, elem(t), v[name]); err != nil {
					return err
				}
			}
			return nil
		}
		f.mismatch("object", t)
	case []any:
		if t.Kind == shape.Bytes {
			for _, item := range v {
				if err := f.value(octet, item); err != nil {
					return err
				}
			}
			return nil
		}
		if t.Kind == shape.List {
			for i, item := range v {
				if err := f.child("["+strconv.Itoa(i)+"]", elem(t), item); err != nil {
					return err
				}
			}
			return nil
		}
		f.mismatch("array", t)
	case string:
		switch t.Kind {
		case shape.String:
		case shape.Bytes:
			if _, err := base64.StdEncoding.DecodeString(v); err != nil {
				f.save(err)
			}
		default:
			f.mismatch("string", t)
		}
	case bool:
		if t.Kind != shape.Boolean {
			f.mismatch("bool", t)
		}
	default:
		n, isInteger := v.(int64)
		switch {
		case t == octet:
			if !isInteger || n < 0 || n > 255 {
				f.mismatch("number "+literal(v), t)
			}
		case t.Kind == shape.Number:
		case t.Kind != shape.Integer:
			f.mismatch("number", t)
		case !isInteger || wrap(t.Bits, n) != n:
			f.mismatch("number "+literal(v), t)
		}
	}
	return nil
}

// octet is the type of an item where bytes are written as a list.
var octet = &shape.Type{Kind: shape.Integer, Bits: 8}

func (f *finder) object(t *shape.Type, v map[string]any) error {
	outer := f.within
	defer func() { f.within = outer }()
	for _, name := range f.order(v) {
		field := t.Field(name)
		if field == nil {
			if path := join(f.path, "."+name); len(f.unknown) < maxUnknown {
				f.unknown = append(f.unknown, path)
			}
			continue
		}
		if v[name] == nil && field.Pointer {
			continue
		}
		depth := len(f.names)
		if embedded := embeddedStruct(t, name); embedded != "" {
			f.names = append(f.names, embedded)
		}
		f.names = append(f.names, name)
		if !f.document {
			f.within = t.Name[strings.LastIndexByte(t.Name, '.')+1:]
		}
		err := f.child("."+name, field.Type, v[name])
		f.names = f.names[:depth]
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) child(step string, t *shape.Type, v any) error {
	outer := f.path
	f.path = join(outer, step)
	err := f.value(t, v)
	f.path = outer
	return err
}

func join(path, step string) string {
	if path == "" {
		return strings.TrimPrefix(step, ".")
	}
	return path + step
}

// ownDecoding decodes a value by the type's own method.
func (f *finder) ownDecoding(into json.Unmarshaler, v any) error {
	b, ok := encode(v)
	if !ok {
		return errors.New("json: unsupported value")
	}
	if n, ok := v.(float64); ok && !f.integral {
		b = []byte(literal(n))
	}
	err := into.UnmarshalJSON(b)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		wrong.Struct, wrong.Field = f.within, strings.Join(f.names, ".")
	}
	return err
}

// decodeUnion decodes the alternative as a document of its own: any error in it ends the decoding, and its unknown
// fields are not reported.
func (f *finder) decodeUnion(t *shape.Type, v any) error {
	for _, alternative := range t.OneOf {
		_, isObject := v.(map[string]any)
		_, isList := v.([]any)
		_, isBool := v.(bool)
		switch {
		case isObject && alternative.Kind == shape.Struct, isList && alternative.Kind == shape.List:
			inner := finder{path: f.path, names: slices.Clone(f.names), within: f.within, document: true,
				structs: f.structs}
			if err := inner.value(alternative, v); err != nil {
				return err
			}
			return inner.saved
		case alternative.Kind == shape.Boolean && !isBool:
			return errors.New("boolean or JSON schema expected")
		}
	}
	return nil
}

func (f *finder) mismatch(what string, t *shape.Type) {
	f.save(fmt.Errorf("json: cannot unmarshal %s into Go struct field %s.%s of type %s", what, f.within,
		strings.Join(f.names, "."), goType(t)))
}

func (f *finder) save(err error) {
	if f.saved == nil {
		f.saved = err
	}
}

// goType returns the name of a Go type as reflection prints it.
func goType(t *shape.Type) string {
	if t.GoName != "" {
		return t.GoName
	}
	return unnamedType(t)
}

// unnamedType returns the Go type of a scalar, list or map without a name of its own.
func unnamedType(t *shape.Type) string {
	if t == octet {
		return "uint8"
	}
	switch t.Kind {
	case shape.Boolean:
		return "bool"
	case shape.Integer:
		return "int" + strconv.Itoa(int(t.Bits))
	case shape.Number:
		return "float64"
	case shape.String:
		return "string"
	case shape.Bytes:
		return "[]uint8"
	case shape.Quantity:
		return "resource.Quantity"
	case shape.Time:
		return "v1.Time"
	case shape.MicroTime:
		return "v1.MicroTime"
	case shape.Duration:
		return "v1.Duration"
	case shape.IntOrString:
		return "intstr.IntOrString"
	case shape.List:
		return "[]" + goType(elem(t))
	case shape.Map:
		return "map[string]" + goType(elem(t))
	case shape.Any:
		return "interface {}"
	}
	return t.Name[strings.LastIndexByte(t.Name, '/')+1:]
}

// embeddedStruct returns the embedded Go struct that declares a member, or "". Type errors name it in their path.
func embeddedStruct(t *shape.Type, member string) string {
	name := t.Name[strings.LastIndexByte(t.Name, '.')+1:]
	if member == "kind" || member == "apiVersion" {
		if len(t.Fields) > 1 && t.Fields[0].Name == "kind" && t.Fields[1].Name == "apiVersion" &&
			name != "BoundObjectReference" {
			return "TypeMeta"
		}
	}
	for _, e := range embeddings {
		if slices.Contains(e.structs, name) && slices.Contains(e.members, member) != e.others {
			return e.path
		}
	}
	return ""
}

// embeddings are the members that Go structs have from an embedded struct: the listed ones, or all others.
var embeddings = []struct {
	path    string
	structs []string
	members []string
	others  bool
}{
	{"VolumeSource", []string{"Volume"}, []string{"name"}, true},
	{"PersistentVolumeSource", []string{"PersistentVolumeSpec"}, []string{"capacity", "accessModes", "claimRef",
		"persistentVolumeReclaimPolicy", "storageClassName", "mountOptions", "volumeMode", "nodeAffinity",
		"volumeAttributesClassName"}, true},
	{"EphemeralContainerCommon", []string{"EphemeralContainer"}, []string{"targetContainerName"}, true},
	{"ProbeHandler", []string{"Probe"}, []string{"exec", "httpGet", "tcpSocket", "grpc"}, false},
	{"LocalObjectReference", []string{"ConfigMapEnvSource", "ConfigMapKeySelector", "ConfigMapProjection",
		"ConfigMapVolumeSource",
		"SecretEnvSource", "SecretKeySelector", "SecretProjection"},
		[]string{"name"},
		false,
	},
	{"IngressRuleValue", []string{"IngressRule"}, []string{"http"}, false},
	{"Rule", []string{"RuleWithOperations"}, []string{"operations"}, true},
	{"RuleWithOperations", []string{"NamedRuleWithOperations"}, []string{"operations"}, false},
	{"RuleWithOperations.Rule", []string{"NamedRuleWithOperations"}, []string{"operations", "resourceNames"}, true},
	{"DeviceConfiguration", []string{"DeviceClaimConfiguration", "DeviceAllocationConfiguration",
		"DeviceClassConfiguration"}, []string{"opaque"}, false},
}
