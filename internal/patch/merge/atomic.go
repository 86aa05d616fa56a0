package merge

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// An AtomicError lists the atomic lists, maps and structs of a patch. ApplyConfiguration refuses them because it could
// not set one member without dropping the others; JSONPatch can.
type AtomicError struct {
	Paths []string // such as .spec.template.spec.containers[0].args; parents first, members by name
}

func (e *AtomicError) Error() string {
	return "may not mutate atomic arrays, maps or structs: " + strings.Join(e.Paths, ", ")
}

// atomics returns the paths of atomic values in a valid patch. Like findAtomics of smd.go v0.37.2 it only follows
// declared members and list items: it does not look below the values of free-form maps, and null is never atomic.
func atomics(r ref, value any) []string {
	paths := atomicsBelow(r, value, false)
	if len(paths) > 1 {
		paths = atomicsBelow(r, value, true)
	}
	return paths
}

func atomicsBelow(r ref, value any, sorted bool) (paths []string) {
	switch value := value.(type) {
	case map[string]any:
		if !r.isMap() {
			return nil
		}
		if r.atomicMap() {
			paths = append(paths, "")
		}
		if sorted {
			for _, name := range slices.Sorted(maps.Keys(value)) {
				if child, ok := r.declaredMember(name); ok {
					paths = appendBelow(paths, "."+name, atomicsBelow(child, value[name], sorted))
				}
			}
			return paths
		}
		for name, member := range value {
			if child, ok := r.declaredMember(name); ok {
				if found := atomicsBelow(child, member, sorted); len(found) > 0 {
					paths = appendBelow(paths, "."+name, found)
				}
			}
		}
	case []any:
		if !r.isList() {
			return nil
		}
		if r.atomicList() {
			paths = append(paths, "")
		}
		elem := r.item()
		for i, item := range value {
			if found := atomicsBelow(elem, item, sorted); len(found) > 0 {
				paths = appendBelow(paths, "["+strconv.Itoa(i)+"]", found)
			}
		}
	}
	return paths
}

func appendBelow(paths []string, element string, found []string) []string {
	for _, path := range found {
		paths = append(paths, element+path)
	}
	return paths
}
