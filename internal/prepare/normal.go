package prepare

import (
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// A Normal is an object between mutations, which may be known to be normal: [Normalise] does not change it. After a
// mutation only the changed parts need to be normalised, because the result shares the rest with the original object.
//
// This is exact, because the normal form of a value depends only on the value and its type. Defaults that depend on
// siblings or other levels are rules of the common enclosing object, and are applied if anything below that object
// differs.
type Normal struct {
	Object    map[string]any
	Truncated bool // the mutation that made Object set an integer too large for its field, which lost bits

	SharesLabels bool // see [Result]; for a mutated object

	typ  *shape.Type    // the type for which Object is known to be normal; nil if unknown
	from map[string]any // the input of the pass that made Object, if only that is known
}

// Settle returns an object that preparation has made from another, and determines whether it is normal.
func Settle(obj, from map[string]any, types *schema.Registry, kind schema.GroupVersionKind) Normal {
	n := Normal{Object: obj, from: from}
	if t := mutatedType(obj, types, kind); t != nil && n.is(t, kind) {
		n.typ = t
	}
	return n
}

// is reports whether the object is known or found to be normal. The parts that a pass left unchanged are; only the
// others may change again.
func (n Normal) is(t *shape.Type, kind schema.GroupVersionKind) bool {
	if n.typ != nil || n.from == nil {
		return n.typ == t
	}
	again, _, err := normalise(n.Object, n.from, t, kind)
	return err == nil && tree.IsSame(again, n.Object)
}

// IsAbout reports whether n is about obj itself.
func (n Normal) IsAbout(obj map[string]any) bool { return obj != nil && tree.IsSame(n.Object, obj) }

// Continue normalises obj, the result of a mutation of n.
func (n Normal) Continue(obj map[string]any, types *schema.Registry, kind schema.GroupVersionKind) (Normal, error) {
	t := mutatedType(obj, types, kind)
	var known map[string]any
	if t != nil && (!custom(t) || t == mutatedType(n.Object, types, kind)) && n.is(t, kind) {
		known = n.Object
	}
	out, truncated, err := normalise(obj, known, t, kind)
	switch {
	case err != nil:
		return Normal{}, err
	case tree.IsSame(out, obj):
		return Normal{Object: out, SharesLabels: sharesLabels(t, obj), typ: t}, nil
	}
	return Normal{Object: out, Truncated: truncated, SharesLabels: sharesLabels(t, obj), from: obj}, nil
}

// counterpart returns the known item to compare item i of a list with: the one at the same distance from the start or,
// if items were inserted before it, from the end. Any item is correct; a good one shares more.
func counterpart(known, list []any, i int) (any, bool) {
	if i < len(known) && (len(known) == len(list) || tree.IsShared(list[i], known[i])) {
		return known[i], true
	}
	if j := i - len(list) + len(known); j >= 0 && j < len(known) {
		return known[j], true
	}
	return nil, false
}
