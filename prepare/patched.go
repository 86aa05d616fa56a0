package prepare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/schema"
)

// Patched checks the result of a JSON patch as the server decodes it: strictly for built-in kinds, where apiVersion
// and kind may be missing, and as any object with a kind for custom resources. The error has the server's text
// (as pkg/admission/plugin/policy/mutating/patch/json_patch.go v0.37.2 decodes, without defaults).
func Patched(doc any, types *schema.Registry, kind schema.GroupVersionKind) (map[string]any, error) {
	obj, ok := doc.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: json: cannot unmarshal %s into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }", jsonKind(doc))
	}
	t := types.Type(kind)
	if t == nil {
		return nil, fmt.Errorf("no kind %q is registered for version %q", kind.Kind, kind.GroupVersion())
	}
	if custom(t) {
		for _, member := range []string{"Kind", "apiVersion"} {
			if text, _ := obj[strings.ToLower(member[:1])+member[1:]].(string); text == "" {
				data, err := json.Marshal(obj)
				if err != nil {
					return nil, err
				}
				return nil, fmt.Errorf("Object '%s' is missing in '%s'", member, data)
			}
		}
		return obj, nil
	}
	if err := interpreted(obj, types, kind); err != nil {
		return nil, err
	}
	unknown, err := problems(t, obj)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("strict decoding error: %s", strings.Join(unknownFields(unknown), ", "))
	}
	return setKind(obj, kind), nil
}

// interpreted refuses an object that a patch made one of an unknown kind (as json/json.go and json/meta.go of apimachinery
// v0.37.2 serializers decode into an object that exists).
func interpreted(obj map[string]any, types *schema.Registry, kind schema.GroupVersionKind) error {
	for _, member := range []string{"apiVersion", "kind"} {
		switch v := obj[member].(type) {
		case nil, string:
		default:
			return fmt.Errorf("couldn't get version/kind; json parse error: json: cannot unmarshal %s into Go struct field .%s of type string", jsonKind(v), member)
		}
	}
	apiVersion, _ := obj["apiVersion"].(string)
	version, err := apischema.ParseGroupVersion(apiVersion)
	if err != nil {
		return err
	}
	if version.Empty() {
		version = kind.GroupVersion()
	}
	name, _ := obj["kind"].(string)
	given := version.WithKind(cmp.Or(name, kind.Kind))
	if given != kind && types.Type(given) == nil {
		return fmt.Errorf("no kind %q is registered for version %q in scheme %q", given.Kind, version, "pkg/api/legacyscheme/scheme.go:30")
	}
	return nil
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
