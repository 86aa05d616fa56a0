package registry

import (
	"fmt"
	"iter"
	"slices"
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
			at := fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i)
			for _, name := range rootMembers {
				if isEmpty(schema[name]) {
					paths = append(paths, at+"."+name)
				}
			}
			for below, part := range parts(schema) {
				paths = append(paths, emptyDependencies(at+below, part)...)
			}
		}
		slices.Sort(paths)
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

// emptyDependencies returns the paths of empty dependencies, which no schema may have.
func emptyDependencies(path string, schema tree.Object) (paths []string) {
	if isEmpty(schema["dependencies"]) {
		paths = append(paths, path+".dependencies")
	}
	for below, part := range parts(schema) {
		paths = append(paths, emptyDependencies(path+below, part)...)
	}
	return paths
}

// parts yields the schemas directly in a schema, with their paths.
func parts(schema tree.Object) iter.Seq2[string, tree.Object] {
	return func(yield func(string, tree.Object) bool) {
		for _, name := range []string{"properties", "patternProperties", "definitions"} {
			for key, part := range schema.At(name) {
				if part, ok := part.(map[string]any); ok && !yield("."+name+"["+key+"]", part) {
					return
				}
			}
		}
		for _, name := range []string{"items", "additionalProperties", "additionalItems", "not"} {
			if part, ok := schema[name].(map[string]any); ok && !yield("."+name, part) {
				return
			}
		}
		for _, name := range []string{"allOf", "anyOf", "oneOf"} {
			for i, part := range schema.List(name) {
				if part, ok := part.(map[string]any); ok && !yield(fmt.Sprintf(".%s[%d]", name, i), part) {
					return
				}
			}
		}
	}
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
