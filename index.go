package celgate

import (
	"slices"
	"sync/atomic"

	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/shape"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// A hookIndex finds the policies that may match a request without examining the others. Its entries for a resource and
// operation are made on demand.
type hookIndex struct {
	hooks []*hook // all, sorted by name, unless [Engine.Explain] requests another order
	types *schema.Registry
	known atomic.Pointer[map[indexKey]*indexEntry] // replaced, never changed
}

type indexKey struct {
	resource    schema.GroupVersionResource
	subresource string
	operation   Operation
}

// An indexEntry is common to all requests for one resource, subresource and operation.
type indexEntry struct {
	validating, mutating candidates
	exempt               bool
	onlyStatic           bool // other policies are not evaluated
	resource             *schema.Resource
	shown                map[string]any // the resource, in the form of the variable request
	kind                 schema.GroupVersionKind
	typ                  *shape.Type // of the kind, if built in
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
	certain  []bool  // by index: whether the hook matches every such request
	outcomes int     // an estimate of their number
	byObject bool    // whether the match of a native policy may depend on the object
}

// maxIndexed bounds the entries: requests may name resources that do not exist.
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
		shown: resourceTree(made.Resource), onlyStatic: policyResource(made.Resource.GroupResource()),
		kind: made.Kind, typ: x.types.Type(made.Kind)}
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
		of.certain = append(of.certain, h.criteria.IsCertain(&a))
		of.byObject = of.byObject || h.Kind != policy.Admission && h.readsObject()
		of.outcomes += len(h.bindings) * h.expressions()
	}
	next := map[indexKey]*indexEntry{key: e}
	if known != nil && len(*known) < maxIndexed {
		for k, v := range *known {
			next[k] = v
		}
	}
	x.known.CompareAndSwap(known, &next) // if another request was faster, the entry is made again
	return e
}

// reorder returns an index with exactly the named mutating policies, in the order of the names, and all validating
// policies.
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
