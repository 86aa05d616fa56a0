// Package merge applies the patches of ApplyConfiguration mutations: it merges a partial object into a live one by the
// merge rules of the type, and refuses patches in the server's words.
//
// The server does this with sigs.k8s.io/structured-merge-diff v6.4.2 under the schema of the kind's OpenAPI document,
// as k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd.go v0.37.2 shows. Here the same rules work on JSON
// trees under a [schema.Type]. Parts that the patch does not mention are not copied.
//
// # Values
//
// Live objects and patches are JSON trees. In a patch, nil is the explicit null of an optional.none(): it clears
// scalars and atomic values, and leaves other non-empty maps and lists unchanged.
//
// A patch may also hold values that are not JSON, because CEL has such values: the null of CEL (structpb.NullValue),
// uint64, []byte, time.Time, time.Duration, a map[ref.Val]ref.Val that was not converted, an error. They never fit, and
// the errors print them with their Go type, like the server's. So a caller leaves in the patch exactly the value that
// the server would have there.
package merge

import (
	"fmt"
	"maps"
	"strings"

	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/internal/tree"
)

// Apply returns live with patch merged into it. t is the type of both; nil stands for a kind without a schema. The
// apiVersion and kind of the patch are ignored.
//
// Neither live nor patch is modified. The result shares its unchanged parts with them, so it must not be modified
// either; if the patch changes nothing it is live itself.
//
// The texts of errors are those that the server prints after "error applying patch: ". Where the server's text depends
// on the order of its maps, members are sorted by name here; as on the server, an undeclared member ends the validation
// of its map. The error wraps [Problems], or an [*AtomicError] for a patch that fits but has atomic values.
func Apply(live, patch map[string]any, t *shape.Type) (map[string]any, error) {
	return apply(live, patch, t, validator{duplicates: true})
}

// apply is Apply with a validator for the live object.
func apply(live, patch map[string]any, t *shape.Type, ofLive validator) (map[string]any, error) {
	const unfit = "failed to convert patch object to typed object: %w"
	if t == nil {
		apiVersion, _ := live["apiVersion"].(string)
		kind, _ := live["kind"].(string)
		if !strings.Contains(apiVersion, "/") {
			apiVersion = "/" + apiVersion // like GroupVersionKind.String for the core group
		}
		return nil, fmt.Errorf(unfit, fmt.Errorf("no corresponding type for %s, Kind=%s", apiVersion, kind))
	}
	root := ref{typ: t}
	patch = withoutIdentity(patch)
	var atomic bool
	if problems := (validator{atomic: &atomic, everyKey: ofLive.everyKey}).validate(root, patch); len(problems) > 0 {
		return nil, fmt.Errorf(unfit, problems)
	}
	if atomic {
		if paths := atomics(root, patch); len(paths) > 0 {
			return nil, fmt.Errorf("invalid ApplyConfiguration: %w", &AtomicError{Paths: paths})
		}
	}
	if problems := ofLive.validate(root, live); len(problems) > 0 {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", problems)
	}
	merged, _ := merge(root, live, patch)
	result, ok := merged.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("failed to convert typed object to object: failed to convert value to unstructured for type %T", merged)
	}
	return result, nil
}

// withoutIdentity returns the patch without the members that the server overwrites with those of the live object.
func withoutIdentity(patch map[string]any) map[string]any {
	_, hasVersion := patch["apiVersion"]
	_, hasKind := patch["kind"]
	if !hasVersion && !hasKind {
		return patch
	}
	patch = maps.Clone(patch)
	delete(patch, "apiVersion")
	delete(patch, "kind")
	return patch
}

// merge returns the live value l with p merged into it, and whether it differs from l. Both are present and valid. (As
// mergingWalker of typed/merge.go v6.4.2; a value on one side only needs no merging.)
func merge(r ref, l, p any) (merged any, changed bool) {
	switch p := p.(type) {
	case nil:
		return mergeNull(r, l)
	case map[string]any:
		return mergeMap(r, l, p)
	case []any:
		return mergeList(r, l, p)
	}
	return p, !tree.IsShared(l, p)
}

// mergeNull merges an explicit null. It counts as an empty map if the type accepts maps, else as an empty list.
func mergeNull(r ref, l any) (any, bool) {
	switch l := l.(type) {
	case map[string]any:
		if r.isMap() && !r.atomicMap() && len(l) > 0 {
			return l, false
		}
	case []any:
		if !r.atomicList() && len(l) > 0 {
			return l, false
		}
	}
	return nil, l != nil
}

// mergeMember is merge for the member name of a value of type r. The result for a scalar does not matter.
func mergeMember(r ref, name string, l, p any) (any, bool) {
	switch p.(type) {
	case nil, map[string]any, []any:
		r, _ = r.member(name)
	}
	return merge(r, l, p)
}

func mergeMap(r ref, l any, p map[string]any) (any, bool) {
	live, ok := l.(map[string]any)
	switch {
	case ok && len(live) == 0 && len(p) == 0:
		return p, (live == nil) != (p == nil) // a leaf on the server: the patch's value
	case len(live) == 0 || r.atomicMap():
		return p, true
	}
	out, copied := live, false
	for name, member := range p {
		if old, ok := live[name]; ok {
			var changed bool
			if member, changed = mergeMember(r, name, old, member); !changed {
				continue
			}
		}
		if !copied {
			out, copied = maps.Clone(live), true
		}
		out[name] = member
	}
	return out, copied
}

func mergeList(r ref, l any, p []any) (any, bool) {
	live, ok := l.([]any)
	switch {
	case ok && len(live) == 0 && len(p) == 0:
		return p, (live == nil) != (p == nil) // a leaf on the server, where an empty literal is a nil list: JSON null
	case len(live) == 0 || r.atomicList():
		return p, true
	case len(p) == 0:
		return live, false
	}
	return mergeItems(r, live, p)
}

// mergeItems merges two associative lists that are not empty.
//
// New items keep the order of the patch, shared items follow it, and items only in live keep their place before the
// next item of the patch. Items whose key is not unique in live do not change unless the patch has the key: then the
// patch's item replaces them, without merging.
func mergeItems(r ref, live, patch []any) (any, bool) {
	var few struct { // avoids allocations for ordinary short lists
		liveKeys, patchKeys [maxScan]key
		inLive, inPatch     [maxScan]int
		done                [maxScan]bool
	}
	liveKeys, patchKeys := r.keys(few.liveKeys[:0], live), r.keys(few.patchKeys[:0], patch)
	inLive := locate(few.inLive[:0], patchKeys, liveKeys)
	inPatch := locate(few.inPatch[:0], liveKeys, patchKeys)

	out := make([]any, 0, max(len(live), len(patch)))
	done := few.done[:]
	if len(patch) > len(done) {
		done = make([]bool, len(patch))
	}
	same := true // out equals live up to here
	i, j := 0, 0
	emit := func(item any, at int) {
		same = same && at == len(out)
		out = append(out, item)
	}
	take := func() {
		item, at := patch[j], inLive[j]
		if at >= 0 {
			var changed bool
			if item, changed = merge(r.item(), live[at], item); changed {
				at = none
			}
		}
		emit(item, at)
		done[j] = true
		j++
	}
	next := nextShared(inLive, 0) // the next shared item in the patch's order
	for i < len(live) || j < len(patch) {
		if i < len(live) && j < len(patch) {
			if inPatch[i] == j {
				i++
				next = nextShared(inLive, j+1)
				take()
				continue
			}
			if inPatch[i] >= 0 && next < len(patch) && inPatch[i] != next {
				i++ // it comes in the patch's order
				continue
			}
		}
		if i < len(live) {
			if inPatch[i] < 0 {
				emit(live[i], i)
				i++
				continue
			}
			if done[inPatch[i]] {
				i++
			}
		}
		if j < len(patch) {
			take()
		}
	}
	if same && len(out) == len(live) {
		return live, false
	}
	return out, true
}

// nextShared returns the index of the first item of the patch, from j on, that live has, too.
func nextShared(inLive []int, j int) int {
	for j < len(inLive) && inLive[j] == none {
		j++
	}
	return j
}
