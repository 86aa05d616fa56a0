package registry

import apischema "k8s.io/apimachinery/pkg/runtime/schema"

// podSpecs are the paths of Pods in the kinds that contain one.
var podSpecs = [][]string{
	{"spec"}, {"template", "spec"}, {"spec", "template", "spec"}, {"spec", "jobTemplate", "spec", "template", "spec"},
}

// rootMembers are the lists and maps that the root of a schema may not have if the status is a subresource.
var rootMembers = []string{
	"allOf", "oneOf", "anyOf", "enum", "definitions", "dependencies", "patternProperties", "x-kubernetes-list-map-keys",
}

// EmptyLists returns the paths of the empty lists and maps in an object for which a server may refuse it: a server
// judges the decoded object, which still has them, and this package the encoded one, which does not.
func EmptyLists(kind apischema.GroupKind, object map[string]any) (paths []string) {
	collect := func(at *place, names ...string) {
		for _, name := range names {
			v := at.member(name)
			switch v.value.(type) {
			case []any, map[string]any:
				if v.size() == 0 {
					paths = append(paths, v.path().String())
				}
			}
		}
	}
	root := &place{value: object}
	if kind == definitionKind {
		versions := root.descend("spec", "versions")
		items, _ := versions.value.([]any)
		for i := range items {
			version := versions.item(i)
			collect(version.descend("schema", "openAPIV3Schema"), rootMembers...)
		}
		return paths
	}
	if Judges(kind) {
		for _, path := range podSpecs {
			collect(root.descend(path...).descend("resources"), "claims")
		}
	}
	return paths
}

// descend returns the member at a path of members.
func (p *place) descend(path ...string) *place {
	for _, name := range path {
		member := p.member(name)
		p = &member
	}
	return p
}
