package celgate

import (
	"slices"
	"sync/atomic"

	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A hookIndex finds the policies that a request can concern without looking at the others. What it knows about a
// resource and operation is made when a request first asks for it.
type hookIndex struct {
	hooks []*hook // all, sorted by name, unless [Engine.Explain] is asked otherwise
	types *schema.Registry
	known atomic.Pointer[map[indexKey]*indexEntry] // replaced, never changed
}

type indexKey struct {
	resource    schema.GroupVersionResource
	subresource string
	operation   Operation
}

// An indexEntry is what requests for one resource, subresource and operation have in common.
type indexEntry struct {
	validating, mutating candidates
	exempt               bool
	onlyStatic           bool // no others are asked
	resource             *schema.Resource
	shown                map[string]any // the resource, as the variable request has it
}

func (e *indexEntry) candidates(phase policy.Phase) *candidates {
	if phase == policy.PhaseMutation {
		return &e.mutating
	}
	return &e.validating
}

// candidates are the policies of one phase that match some requests for a resource.
type candidates struct {
	hooks    []*hook // sorted by name
	outcomes int     // about how many there will be
	byObject bool    // whether a released one of them is for a request may depend on the object
}

// maxIndexed bounds what is remembered: requests may name resources that do not exist.
const maxIndexed = 4096

func (x *hookIndex) entry(req *Request) *indexEntry {
	made := req.target()
	key := indexKey{made.Resource, made.SubResource, req.Operation}
	known := x.known.Load()
	if known != nil {
		if e := (*known)[key]; e != nil {
			return e
		}
	}
	e := &indexEntry{exempt: Exempt(made.Resource.GroupResource(), false), resource: x.types.Resource(made.Resource),
		shown: resourceTree(made.Resource), onlyStatic: policyResource(made.Resource.GroupResource())}
	a := match.Attributes{Resource: made.Resource, SubResource: made.SubResource, Operation: string(req.Operation)}
	for _, h := range x.hooks {
		if e.onlyStatic && !h.Static {
			continue
		}
		e.exempt = e.exempt && Exempt(made.Resource.GroupResource(), h.Static)
		if !h.criteria.Resources(&a, x.types) {
			continue
		}
		of := e.candidates(h.phase)
		of.hooks = append(of.hooks, h)
		of.byObject = of.byObject || h.Kind != policy.Admission && h.readsObject()
		of.outcomes += len(h.bindings) * h.expressions()
	}
	next := map[indexKey]*indexEntry{key: e}
	if known != nil && len(*known) < maxIndexed {
		for k, v := range *known {
			next[k] = v
		}
	}
	x.known.CompareAndSwap(known, &next) // if another request was faster, this entry is made again
	return e
}

// reorder returns an index of exactly the mutating policies that are named, in the order of the names, and of all
// validating policies.
func (x *hookIndex) reorder(names []string) *hookIndex {
	ordered := &hookIndex{types: x.types}
	for _, name := range names {
		for _, h := range x.hooks {
			if h.phase == policy.PhaseMutation && h.Name == name {
				ordered.hooks = append(ordered.hooks, h)
			}
		}
	}
	slices.SortStableFunc(ordered.hooks, func(a, b *hook) int { return policy.StaticFirst(a.Static, b.Static) })
	for _, h := range x.hooks {
		if h.phase == policy.PhaseValidation {
			ordered.hooks = append(ordered.hooks, h)
		}
	}
	return ordered
}
