package celgate

import (
	"slices"
	"sync/atomic"

	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// An index finds the policies that a request can concern without looking at the others. What it knows about a
// resource and operation is made when a request first asks for it.
type index struct {
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
	resource             *schema.Resource
	shown                map[string]any // the resource, as the variable request has it
}

func (e *indexEntry) of(kind policy.Kind) *candidates {
	if kind == policy.Mutating {
		return &e.mutating
	}
	return &e.validating
}

// candidates are the policies of one kind that match some requests for a resource.
type candidates struct {
	hooks    []*hook // sorted by name
	outcomes int     // about how many there will be
	byObject bool    // whether one of them is for a request may depend on the object
}

// maxIndexed bounds what is remembered: requests may name resources that do not exist.
const maxIndexed = 4096

func (x *index) entry(req *Request) *indexEntry {
	made := req.made()
	key := indexKey{made.Resource, made.SubResource, req.Operation}
	known := x.known.Load()
	if known != nil {
		if e := (*known)[key]; e != nil {
			return e
		}
	}
	e := &indexEntry{exempt: Exempt(made.Resource.GroupResource()), resource: x.types.Resource(made.Resource), shown: resourceTree(made.Resource)}
	a := match.Attributes{Resource: made.Resource, SubResource: made.SubResource, Operation: string(req.Operation)}
	for _, h := range x.hooks {
		if !h.criteria.Resources(&a, x.types) {
			continue
		}
		of := e.of(h.Kind)
		of.hooks = append(of.hooks, h)
		of.byObject = of.byObject || h.byObject()
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

// MayMatch reports whether a policy in force may be for requests that do something to a resource or subresource: by its
// resource rules, whatever its selectors and conditions say.
func (e *Engine) MayMatch(resource schema.GroupVersionResource, subresource string, op Operation) bool {
	known := e.index.entry(&Request{Resource: resource, SubResource: subresource, Operation: op})
	return !known.exempt && len(known.mutating.hooks)+len(known.validating.hooks) > 0
}

// byObject reports that a selector of the policy or of a binding, or a match condition, looks at the object.
func (h *hook) byObject() bool {
	return len(h.MatchConditions) > 0 || h.criteria.ByLabels() ||
		slices.ContainsFunc(h.bindings, func(b *binding) bool { return b.criteria.ByLabels() })
}
