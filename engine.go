package celgate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/registry"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// Newest is the newest Kubernetes minor whose behaviour is known exactly.
const Newest = "1.37"

// Options say in what world an engine decides. The zero value is a cluster of the newest minor without custom
// kinds, with the namespaces that every cluster has.
type Options struct {
	KubeVersion string           // a minor such as "1.37"; empty is Newest
	Types       *schema.Registry // nil: the built-in kinds of KubeVersion
	Cluster     Cluster          // nil: one that holds Objects

	// Objects are what the cluster holds beside what every cluster has: namespaces, params, RBAC, stored objects, and
	// CustomResourceDefinitions, whose kinds are then known. They are not looked at if Cluster and Types say it.
	Objects []map[string]any

	// WithoutQuirks leaves out the defects of the server version that package quirks lists. A webhook that
	// stands in for the server sets it; what predicts the server's answer does not.
	WithoutQuirks bool

	// Before is an engine for the same minor; nil: none. What it has compiled is taken over for policies that are the
	// same values, so that a change of one policy costs the compilation of one.
	Before *Engine

	// Sizes are how large policies may be, and how many bindings they may have.
	Sizes policy.Limits

	// Limits bound every evaluation. The zero value has limits that only what stops an API server exceeds.
	Limits Limits

	// Timed makes decisions say how long each invocation took.
	Timed bool

	// Metered makes decisions say what of each budget was spent, and which variables were evaluated.
	Metered bool
}

// An Engine is a compiled set of policies. It is immutable and safe for concurrent use.
type Engine struct {
	types    *schema.Registry
	cluster  Cluster
	quirks   quirks.Set
	typed    eval.Form // how expressions see objects of built-in kinds
	timed    bool
	metered  bool
	limits   bound.Limits
	mostCost int64 // of one request; 0: any
	sizes    policy.Limits
	pool     *bound.Pool
	minor    string
	standsIn bool // WithoutQuirks
	compiled map[*policy.Policy]compiledPolicy
	shared   libraries
	index    *hookIndex
	merger   *merge.Merger
	envs     *celenv.Set
	policies map[policy.Ref]*policy.Policy // all that are valid, in force or not
	rejected []Rejection
	failing  []Rejection
	watched  *watchedPolicies
	arranged *arrangement // of the policies in force
	customs  *registry.Customs
	told     *telling // of one call, see [Engine.Explain]; nil: nobody listens
}

// knowsStatic reports that the server reads static policies from files, and keeps their names for them.
func (e *Engine) knowsStatic() bool { return e.standsIn || quirks.ReleaseOf(e.minor).Static }

// A Rejection is a policy, a binding or a library that the server would refuse to store. It takes no part in decisions.
type Rejection struct {
	APIVersion string
	policy.Ref
	Status   *metav1.Status // the server's answer
	Position policy.Position
}

// Rejections returns the policies, bindings and libraries that the server would refuse.
func (e *Engine) Rejections() []Rejection { return e.rejected }

// libraries are what an engine knows of those that policies import.
type libraries struct {
	linker policy.Linker
	all    []*policy.Library                   // linked
	errs   map[*policy.Library]field.ErrorList // of those that were checked, why they are none
}

// A compiledPolicy is what became of one policy.
type compiledPolicy struct {
	*compile.Program                 // nil without bindings
	refused          field.ErrorList // why the server would not store it
	fails            field.ErrorList // why every request fails: an import is missing or not valid
	mentions         quirks.Mention
	err              error
}

// MayMatch reports whether a policy in force may be for requests that do something to a resource or subresource: by its
// resource rules, whatever its selectors and conditions say.
func (e *Engine) MayMatch(resource schema.GroupVersionResource, subresource string, op Operation) bool {
	known := e.index.entry(&Request{Resource: resource, SubResource: subresource, Operation: op})
	return !known.exempt && len(known.mutating.hooks)+len(known.validating.hooks) > 0
}
