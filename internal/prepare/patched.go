package prepare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/schema"
)

// CheckPatched checks the result of a JSON patch of before, which may be the object of n, as the server decodes it:
// strictly for built-in kinds, where apiVersion and kind may be missing, and as any object with a kind for custom
// resources. The error has the server's text (pkg/admission/plugin/policy/mutating/patch/json_patch.go v0.37.2 decodes
// without defaults). Maps of before that occur in the result were not changed by the patch.
func (n Normal) CheckPatched(doc any, before map[string]any, types *schema.Registry,
	kind schema.GroupVersionKind) (map[string]any, error) {
	obj, ok := doc.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: json: cannot unmarshal %s into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }", jsonKind(doc))
	}
	t := types.Type(kind)
	if t == nil {
		return nil, fmt.Errorf("no kind %q is registered for version %q", kind.Kind, kind.GroupVersion())
	}
	version, err := groupVersion(obj)
	if err != nil {
		return nil, err
	}
	if custom(t) {
		if name, _ := obj["kind"].(string); name == "" {
			data, err := json.Marshal(obj)
			if err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("Object 'Kind' is missing in '%s'", data)
		}
		return Reread(obj), nil
	}
	if version.Empty() {
		version = kind.GroupVersion()
	}
	given, err := interpretKind(obj, version, types, kind)
	if err != nil {
		return nil, err
	}
	var known map[string]any
	if given == kind && n.is(t, kind) {
		known = n.Object // a normal object decodes strictly
	}
	p := pass{check: true}
	if p.object(types.Type(given), obj, known); p.failed || p.unknown {
		f := finder{structs: map[uintptr]*shape.Type{}}
		f.declare(t, before)
		unknown, err := f.problems(types.Type(given), obj)
		if err != nil {
			return nil, err
		}
		if len(unknown) > 0 {
			return nil, fmt.Errorf("strict decoding error: %s", strings.Join(unknownFields(unknown), ", "))
		}
	}
	if given != kind {
		// The server continues with an object of the other kind and cannot write it back.
		group, _, _ := strings.Cut(cmp.Or(kind.Group, "core"), ".")
		return nil, fmt.Errorf("failed to convert object: converting (%s.%s) to (%s.%s): unknown conversion",
			given.Version, given.Kind, group, kind.Kind)
	}
	return setKind(obj, kind), nil
}

// Reread returns an object as it is decoded again after being written as JSON. Unchanged parts are shared.
func Reread(obj map[string]any) map[string]any {
	again, _ := reread(obj)
	written, _ := again.(map[string]any)
	return written
}

// reread returns a tree after a round trip through JSON, where a float without a fraction becomes an integer, and
// whether it changed.
func reread(v any) (any, bool) {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return int64(v), true
		}
	case map[string]any:
		if v == nil {
			return nil, true
		}
		o := members{m: v}
		for name, member := range v {
			if again, ok := reread(member); ok {
				o.set(name, again)
			}
		}
		return o.m, o.owned
	case []any:
		if v == nil { // a merge leaves an empty list like this
			return nil, true
		}
		out := v
		for i, item := range v {
			again, ok := reread(item)
			if !ok {
				continue
			}
			if &out[0] == &v[0] {
				out = slices.Clone(v)
			}
			out[i] = again
		}
		return out, len(v) > 0 && &out[0] != &v[0]
	}
	return v, false
}

// groupVersion returns the apiVersion of a patched object (as json/meta.go of apimachinery v0.37.2 serializers, which
// requires strings as apiVersion and kind).
func groupVersion(obj map[string]any) (schema.GroupVersion, error) {
	for _, member := range []string{"apiVersion", "kind"} {
		switch v := obj[member].(type) {
		case nil, string:
		default:
			return schema.GroupVersion{}, fmt.Errorf(
				"couldn't get version/kind; json parse error: json: cannot unmarshal %s into Go struct field .%s of type string", jsonKind(v), member)
		}
	}
	apiVersion, _ := obj["apiVersion"].(string)
	return apischema.ParseGroupVersion(apiVersion)
}

// interpretKind returns the kind that a patch gave to an object of a built-in kind, or an error if it is unknown (as
// json/json.go of apimachinery v0.37.2 serializers decodes into an existing object).
func interpretKind(obj map[string]any, version schema.GroupVersion, types *schema.Registry,
	kind schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	name, _ := obj["kind"].(string)
	given := version.WithKind(cmp.Or(name, kind.Kind))
	if t := types.Type(given); given != kind && (t == nil || custom(t)) {
		return kind, fmt.Errorf("no kind %q is registered for version %q in scheme %q", given.Kind, version,
			"pkg/api/legacyscheme/scheme.go:30")
	}
	return given, nil
}

func jsonKind(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "bool"
	}
	return "number"
}
