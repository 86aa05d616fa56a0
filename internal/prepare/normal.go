package prepare

import (
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/schema"
)

// A Normal is an object between mutations, with what is known about its being normal: that [Normalise] leaves it as it
// is. After a mutation only what the mutation changed needs a look then: the result of a mutation shares the rest with
// the object that it was made from.
//
// This is exact because a value's normal form depends on the value and its type alone. The defaults that reach across
// siblings and levels are rules of the object that all of them lie in, and run wherever something below that object
// differs.
type Normal struct {
	Object    map[string]any
	Truncated bool // the mutation that made Object set an integer that lost the bits which do not fit into its field

	SharesLabels bool // see [Result]; of an object that a mutation has made

	typ  *shape.Type    // of which Object is known to be normal; nil if that is not known
	from map[string]any // what a pass made Object of, if it did and nothing else is known
}

// Settle returns an object that preparation has made of another, and finds out whether it is normal.
func Settle(obj, from map[string]any, types *schema.Registry, kind schema.GroupVersionKind) Normal {
	n := Normal{Object: obj, from: from}
	if t := mutatedType(obj, types, kind); t != nil && n.is(t, kind) {
		n.typ = t
	}
	return n
}

// is reports whether the object is known to be normal, or is found to be. A pass left as it is what the object shares
// with what the pass made it of; only the rest may change once more.
func (n Normal) is(t *shape.Type, kind schema.GroupVersionKind) bool {
	if n.typ != nil || n.from == nil {
		return n.typ == t
	}
	again, _, err := normalise(n.Object, n.from, t, kind)
	return err == nil && tree.IsSame(again, n.Object)
}

// IsAbout reports that n is about obj itself.
func (n Normal) IsAbout(obj map[string]any) bool { return obj != nil && tree.IsSame(n.Object, obj) }

// Continue returns what [Normalise] makes of obj, the result of a mutation of n.
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

// counterpart returns the known item to compare item i of a list with: the one that lies as far from the start or,
// where items were put in before it, from the end. Any item would be right; a good one shares more.
func counterpart(known, list []any, i int) (any, bool) {
	if i < len(known) && (len(known) == len(list) || tree.IsShared(list[i], known[i])) {
		return known[i], true
	}
	if j := i - len(list) + len(known); j >= 0 && j < len(known) {
		return known[j], true
	}
	return nil, false
}
