package registry

import (
	"fmt"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/celgate/celgate/internal/tree"
)

// podResources are the paths of the resources of Pods in the kinds that contain one.
var podResources = [][]string{
	{"spec", "resources"}, {"template", "spec", "resources"}, {"spec", "template", "spec", "resources"},
	{"spec", "jobTemplate", "spec", "template", "spec", "resources"},
}

// rootMembers are the lists and maps that the root of a schema may not have if the status is a subresource.
var rootMembers = []string{
	"allOf", "oneOf", "anyOf", "enum", "definitions", "dependencies", "patternProperties", "x-kubernetes-list-map-keys",
}

// EmptyLists returns the paths of the empty lists and maps in an object for which a server may refuse it: a server
// judges the decoded object, which still has them, and this package the encoded one, which does not.
func EmptyLists(kind apischema.GroupKind, object map[string]any) (paths []string) {
	root := tree.Object(object)
	if kind == definitionKind {
		for i, item := range root.At("spec").List("versions") {
			version, _ := item.(map[string]any)
			schema := tree.Object(version).At("schema", "openAPIV3Schema")
			for _, name := range rootMembers {
				if isEmpty(schema[name]) {
					paths = append(paths, fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema.%s", i, name))
				}
			}
		}
		return paths
	}
	if Judges(kind) {
		for _, path := range podResources {
			if isEmpty(root.At(path...)["claims"]) {
				paths = append(paths, strings.Join(path, ".")+".claims")
			}
			above := path[:len(path)-1]
			spec := root.At(above...)
			if spec.At("os").Text("name") == "windows" && isEmpty(spec.At("securityContext")["supplementalGroups"]) {
				paths = append(paths, strings.Join(above, ".")+".securityContext.supplementalGroups")
			}
		}
	}
	return paths
}

// isEmpty reports whether a value is an empty list or map.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}
