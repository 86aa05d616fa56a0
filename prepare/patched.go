package prepare

import (
	"encoding/json"
	"fmt"
	"strings"

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
	unknown, err := problems(t, obj)
	if err != nil {
		return nil, err
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("strict decoding error: %s", strings.Join(unknownFields(unknown), ", "))
	}
	return setKind(obj, kind), nil
}

func jsonKind(v any) string {
	switch v.(type) {
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "bool"
	}
	return "number"
}
