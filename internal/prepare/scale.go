package prepare

import (
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/celgate/celgate/schema"
)

// Scale returns the Scale of a stored object, as the scale subresource of its resource presents it: replicas and
// selector come from the members that the built-in kinds or the CustomResourceDefinition use. The error means that a
// member has the wrong type (as scaleFromDeployment and the like in pkg/registry/apps v1.37.2, and
// scaleFromCustomResource in apiextensions-apiserver pkg/registry/customresource v0.37.2).
func Scale(parent map[string]any, resource *schema.Resource) (map[string]any, error) {
	paths := scalePaths{spec: ".spec.replicas", status: ".status.replicas"}
	if resource.Definition != nil {
		paths = scalePathsOf(resource)
	}
	metadata := map[string]any{}
	for _, member := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"} {
		if value, ok := mapAt(parent, "metadata")[member]; ok {
			metadata[member] = value
		}
	}
	spec, status := map[string]any{}, map[string]any{"replicas": int64(0)}
	replicas, found, err := integerAt(parent, paths.spec)
	if err != nil {
		return nil, err
	}
	if found && replicas != 0 {
		spec["replicas"] = replicas
	}
	if status["replicas"], _, err = integerAt(parent, paths.status); err != nil {
		return nil, err
	}
	var selector string
	switch {
	case paths.selector != "":
		selector, _ = walk(parent, paths.selector).(string)
	case resource.Definition != nil:
	case resource.Resource == "replicationcontrollers":
		set := labels.Set{}
		for name, value := range mapAt(parent, "spec", "selector") {
			set[name], _ = value.(string)
		}
		selector = labels.SelectorFromSet(set).String()
	default:
		var given metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(mapAt(parent, "spec", "selector"),
			&given); err != nil {
			return nil, fmt.Errorf("spec.selector: %w", err)
		}
		parsed, err := metav1.LabelSelectorAsSelector(&given)
		if err != nil {
			return nil, fmt.Errorf("spec.selector: %w", err)
		}
		selector = parsed.String()
	}
	if selector != "" {
		status["selector"] = selector
	}
	return map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec,
		"status": status}, nil
}

// scalePaths are the paths of the members of a kind's Scale, such as ".spec.replicas". An empty selector means that
// there is none, or, for built-in kinds, that it is not a string.
type scalePaths struct{ spec, status, selector string }

func scalePathsOf(resource *schema.Resource) scalePaths {
	versions, _ := mapAt(resource.Definition, "spec")["versions"].([]any)
	for _, version := range versions {
		version, _ := version.(map[string]any)
		if version["name"] != resource.Version {
			continue
		}
		scale := mapAt(version, "subresources", "scale")
		text := func(member string) string {
			s, _ := scale[member].(string)
			return s
		}
		return scalePaths{text("specReplicasPath"), text("statusReplicasPath"), text("labelSelectorPath")}
	}
	return scalePaths{}
}

// walk returns the value at a path such as ".spec.replicas"; nil if there is none.
func walk(tree map[string]any, path string) any {
	var value any = tree
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		parent, _ := value.(map[string]any)
		value = parent[name]
	}
	return value
}

func integerAt(tree map[string]any, path string) (int64, bool, error) {
	switch value := walk(tree, path).(type) {
	case nil:
		return 0, false, nil
	case int64:
		return value, true, nil
	default:
		return 0, false, fmt.Errorf("%s: %v is not an integer", strings.TrimPrefix(path, "."), value)
	}
}

// scaleAfter returns the Scale for the validating phase: that of the parent after the request, which can only change
// the number of replicas.
func scaleAfter(object, old map[string]any) map[string]any {
	scale := maps.Clone(old)
	spec := map[string]any{}
	if replicas, ok := mapAt(object, "spec")["replicas"]; ok && replicas != int64(0) {
		spec["replicas"] = replicas
	}
	scale["spec"] = spec
	return scale
}
