package prepare

import (
	"slices"

	"github.com/celgate/celgate/schema"
)

// Kept is a part of the stored object that an update cannot change: it replaces the part at Path of the new object,
// apart from the members of that part in Except. An empty Path means the whole object.
type Kept struct {
	Path   []string
	Except []string
}

// KeptBy returns the parts of the stored object that validating policies see unchanged in the object of an UPDATE.
// Parts that the server refuses to change are not among them.
func KeptBy(resource *schema.Resource, sub string) (all []Kept) {
	if kind := resource.Subresource(sub); kind != nil && kind.Kind.Kind == "Scale" {
		return []Kept{{Except: []string{"spec"}}} // see scaleAfter
	}
	s := strategyFor(resource)
	for _, k := range s.listKept(resource, sub) {
		switch {
		case slices.Equal(k.Path, pathOfGeneration) && sub != "status":
			continue // a change of other parts increases it
		case slices.Equal(k.Path, pathOfStatus):
			k.Except = append(slices.Clone(k.Except), s.sets...)
		}
		all = append(all, k)
	}
	return all
}

var (
	pathOfSpec       = []string{"spec"}
	pathOfStatus     = []string{"status"}
	pathOfGeneration = []string{"metadata", "generation"}
)

// strategyFor returns the strategy of a resource, without what depends on the objects of a request.
func strategyFor(resource *schema.Resource) strategy {
	if resource.Definition == nil {
		return strategies[resource.GroupResource()]
	}
	return strategy{generation: true, status: resource.Subresource("status") != nil}
}

// listKept returns the parts that the strategy takes from the stored object.
func (s strategy) listKept(resource *schema.Resource, sub string) (all []Kept) {
	switch {
	case sub == "" && s.status:
		all = []Kept{{Path: pathOfStatus}}
	case sub == "scale":
		all = []Kept{{Path: []string{"metadata"}}, {Path: pathOfStatus}}
	case sub == "status" && resource.Definition != nil:
		all = []Kept{{Except: []string{"metadata", "status"}}, keptMetadata}
	case sub == "status" && s.keeps == keepAll:
		all = []Kept{{Path: pathOfSpec}, keptMetadata}
	case sub == "status":
		all = append([]Kept{{Path: pathOfSpec}}, metadataOf(s.keeps)...)
	}
	return append(all, s.keptBy[sub]...)
}

// keptMetadata is the metadata of an object, except for what the server computes for each request.
var keptMetadata = Kept{Path: []string{"metadata"}, Except: []string{"managedFields"}}

func metadataOf(k keeping) (all []Kept) {
	for _, name := range keptMembers[k] {
		all = append(all, Kept{Path: []string{"metadata", name}})
	}
	return all
}

// keptByPods returns the parts of a Pod that cannot change by a subresource for some members of its spec.
func keptByPods(members ...string) []Kept {
	return append([]Kept{{Path: pathOfSpec, Except: members}, {Path: pathOfStatus}}, metadataOf(keepMost)...)
}

// keep replaces the part of an object by that of the stored one.
func (k Kept) keep(o *members, old map[string]any) { k.keepAt(o, old, k.Path) }

func (k Kept) keepAt(o *members, old map[string]any, path []string) {
	switch {
	case len(path) == 0:
		k.keepMembers(o, old)
	case len(path) > 1:
		inner, _ := old[path[0]].(map[string]any)
		o.edit(path[0], func(part *members) { k.keepAt(part, inner, path[1:]) })
	default:
		given := mapAt(o.m, path[0])
		o.take(path[0], old)
		o.edit(path[0], func(part *members) {
			for _, name := range k.Except {
				part.take(name, given)
			}
		})
	}
}

// keepMembers replaces all members but those of Except.
func (k Kept) keepMembers(o *members, old map[string]any) {
	for name := range o.m {
		if !slices.Contains(k.Except, name) {
			o.take(name, old)
		}
	}
	for name := range old {
		if !slices.Contains(k.Except, name) {
			o.take(name, old)
		}
	}
}
