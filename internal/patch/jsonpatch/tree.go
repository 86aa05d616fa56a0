package jsonpatch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/celgate/celgate/internal/tree"
)

// A document is the tree on which operations work.
//
// Containers from outside, map[string]any and []any, are only read. The first operation below one replaces it, and all
// containers above it, by an *object or *array that the document owns.
type document struct {
	root   any
	copied int // bytes of JSON added by copy operations

	Patcher
}

type object struct{ members map[string]any }

type array struct{ items []any }

// null is a null that an operation has set. The library keeps it as a node that reads as an object without a map.
type null struct{}

func isContainer(node any) bool {
	switch node.(type) {
	case map[string]any, []any, *object, *array, null:
		return true
	}
	return false
}

// ownContainer returns a container that may be written, and whether it is a new one.
func ownContainer(node any) (any, bool) {
	switch node := node.(type) {
	case map[string]any:
		members := maps.Clone(node)
		if members == nil {
			members = map[string]any{}
		}
		return &object{members}, true
	case []any:
		return &array{append([]any{}, node...)}, true
	}
	return node, false
}

// open returns the container of the last token of path, and that token. The document then owns every container on the
// path, even if it is only read.
func (d *document) open(path string) (parent any, key string, ok bool) {
	_, rest, ok := strings.Cut(path, "/")
	if !ok {
		return nil, "", false
	}
	d.root, _ = ownContainer(d.root)
	parent = d.root
	for {
		token, below, more := strings.Cut(rest, "/")
		key = tree.UnescapeToken(token)
		if !more {
			return parent, key, true
		}
		node, err := get(parent, key)
		if err != nil || !isContainer(node) {
			return nil, "", false
		}
		owned, fresh := ownContainer(node)
		if fresh {
			if err := set(parent, key, owned); err != nil {
				return nil, "", false
			}
		}
		parent, rest = owned, below
	}
}

// openNode returns a node all of whose containers the document owns.
func openNode(node any) any {
	node, _ = ownContainer(node)
	switch node := node.(type) {
	case *object:
		for key, member := range node.members {
			node.members[key] = openNode(member)
		}
	case *array:
		for i, item := range node.items {
			node.items[i] = openNode(item)
		}
	}
	return node
}

// get returns a member of a container; a missing member of an object is nil, of an array an error.
func get(parent any, key string) (any, error) {
	var items []any
	switch parent := parent.(type) {
	case map[string]any:
		return parent[key], nil
	case *object:
		return parent.members[key], nil
	case []any:
		items = parent
	case *array:
		items = parent.items
	default:
		return nil, nil
	}
	i, err := index(key, len(items))
	if err != nil {
		return nil, err
	}
	return items[i], nil
}

// index returns the index of an existing item.
func index(key string, length int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	return resolveIndex(i, length)
}

// resolveIndex counts a negative index from the end.
func resolveIndex(i, length int) (int, error) {
	if i >= length || i < -length {
		return 0, fmt.Errorf("Unable to access invalid index: %d: %w", i, errInvalidIndex)
	}
	if i < 0 {
		i += length
	}
	return i, nil
}

// set overwrites a member of an owned container.
func set(parent any, key string, node any) error {
	switch parent := parent.(type) {
	case *object:
		parent.members[key] = node
	case *array:
		i, err := index(key, len(parent.items))
		if err != nil {
			return err
		}
		parent.items[i] = node
	default:
		return &PanicError{Reason: nilMap}
	}
	return nil
}

// insert sets a member of an owned object, or makes room for one in an owned array.
func insert(parent any, key string, node any) error {
	list, ok := parent.(*array)
	if !ok {
		return set(parent, key, node)
	}
	if key == "-" {
		list.items = append(list.items, node)
		return nil
	}
	i, err := strconv.Atoi(key)
	if err != nil {
		return fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
	}
	if i, err = resolveIndex(i, len(list.items)+1); err != nil {
		return err
	}
	list.items = slices.Insert(list.items, i, node)
	return nil
}

// remove removes a member from an owned container.
func remove(parent any, key string) error {
	switch parent := parent.(type) {
	case *object:
		if _, ok := parent.members[key]; ok {
			delete(parent.members, key)
			return nil
		}
	case *array:
		i, err := index(key, len(parent.items))
		if err != nil {
			return err
		}
		parent.items = slices.Delete(parent.items, i, i+1)
		return nil
	}
	return fmt.Errorf("Unable to remove nonexistent key: %s: %w", key, errMissing)
}

// toPlain returns a node as a JSON tree. With reuse, the containers of owned nodes become part of it, and the nodes
// must not be used again; otherwise they are copied.
func toPlain(node any, reuse bool, depth int) (any, error) {
	if depth == 0 {
		return nil, errTooDeep
	}
	switch node := node.(type) {
	case null:
		return nil, nil
	case *object:
		members := node.members
		if !reuse {
			members = maps.Clone(members)
		}
		for key, member := range members {
			if !isOwned(member) {
				continue
			}
			tree, err := toPlain(member, reuse, depth-1)
			if err != nil {
				return nil, err
			}
			members[key] = tree
		}
		return members, nil
	case *array:
		items := node.items
		if !reuse {
			items = slices.Clone(items)
		}
		for i, item := range items {
			if !isOwned(item) {
				continue
			}
			tree, err := toPlain(item, reuse, depth-1)
			if err != nil {
				return nil, err
			}
			items[i] = tree
		}
		return items, nil
	}
	return node, nil
}

func isOwned(node any) bool {
	switch node.(type) {
	case *object, *array, null:
		return true
	}
	return false
}

// checkDepth returns an error if a tree nests deeper than depth.
func checkDepth(tree any, depth int) error {
	if depth == 0 {
		return errTooDeep
	}
	switch tree := tree.(type) {
	case map[string]any:
		for _, member := range tree {
			if err := checkDepth(member, depth-1); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range tree {
			if err := checkDepth(item, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}
