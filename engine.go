package celgate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/bound"
	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/plugins"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/registry"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
)

// Newest is the newest Kubernetes minor whose behaviour is known exactly.
const Newest = "1.37"

// Options configure an engine. The zero value is a cluster of the newest minor without custom kinds, with the
// namespaces that every cluster has.
type Options struct {
	KubeVersion string           // a minor such as "1.37"; empty is Newest
	Types       *schema.Registry // nil: the built-in kinds of KubeVersion
	Cluster     Cluster          // nil: one that holds Objects

	// Objects are the objects of the cluster, in addition to those of every cluster: namespaces, params, RBAC, stored
	// objects, and CustomResourceDefinitions, which define kinds. They are ignored if Cluster and Types are set.
	Objects []map[string]any

	// WithoutQuirks disables the defects of the server version that [Quirks] lists. A webhook that replaces the
	// server's policies sets it; a program that predicts the server's answer does not.
	WithoutQuirks bool

	// Before is an engine for the same minor; nil: none. Its compiled policies are reused for policies that are the
	// same values, so that a change of one policy compiles only that one.
	Before *Engine

	// Sizes limit the size of policies and the number of their bindings.
	Sizes policy.Limits

	// Limits bound every evaluation. Only policies that would stop an API server exceed the limits of the zero value.
	Limits Limits

	// Timed adds the duration of each invocation to decisions.
	Timed bool

	// Server is an API server whose whole answer is predicted; nil: only the part of its policies and of its registry.
	Server *Server

	// Metered adds the use of each budget and the evaluated variables to decisions.
	Metered bool
}

// A Server describes the parts of an API server other than policies, for an engine that predicts its whole answer.
// [Decision.UncheckedParts] lists the parts that could not be simulated.
type Server struct {
	// Cluster has the objects that these parts read: webhook configurations, and inputs of admission plugins. An object
	// that it cannot read is unknown, without an error. nil: the cluster of the engine.
	Cluster Cluster

	// Complete means that an object missing in Cluster does not exist. Otherwise it is unknown.
	Complete bool

	// Plugins names admission plugins to enable in addition to the defaults of the minor, or to disable if a dash
	// precedes the name, like --enable-admission-plugins and --disable-admission-plugins of kube-apiserver. The name
	// "-*" disables all plugins enabled before it.
	Plugins []string

	// PluginsAside means that the plugins do not take part in decisions: objects are as the plugins leave them.
	// [Decision.UncheckedParts] lists those that would still change or refuse an object, or warn about it.
	PluginsAside bool
}

// An Engine is a compiled set of policies. It is immutable and safe for concurrent use.
type Engine struct {
	types    *schema.Registry
	cluster  Cluster
	quirks   quirks.Set
	typed    eval.Form // the form of objects of built-in kinds in expressions
	timed    bool
	metered  bool
	limits   bound.Limits
	mostCost int64 // of one request; 0: unlimited
	sizes    policy.Limits
	pool     *bound.Pool
	minor    string
	standsIn bool // WithoutQuirks
	server   *Server
	webhooks foreignWebhooks
	plugins  *plugins.Chain // that take part in decisions; nil: none
	aside    *plugins.Chain // that only say what they would do; nil: none
	compiled map[*policy.Policy]compiledPolicy
	shared   libraries
	index    *hookIndex
	merger   *merge.Merger
	envs     *celenv.Set
	policies map[policy.Ref]*policy.Policy // all valid ones, in force or not
	rejected []Rejection
	failing  []Rejection
	watched  *watchedPolicies
	arranged *arrangement // of the policies in force
	customs  *registry.Customs
	told     *telling // of one call, see [Engine.Explain]; nil: none
}

// knowsStatic reports whether the server reads static policies from files, and reserves their names.
func (e *Engine) knowsStatic() bool { return e.standsIn || quirks.ReleaseOf(e.minor).Static }

// A Rejection is a policy, a binding or a library that the server would refuse to store. It does not take part in
// decisions.
type Rejection struct {
	APIVersion string
	policy.Ref
	Status   *metav1.Status // the server's answer
	Position policy.Position
}

// Rejections returns the policies, bindings and libraries that the server would refuse.
func (e *Engine) Rejections() []Rejection { return e.rejected }

// libraries is an engine's knowledge about imported libraries.
type libraries struct {
	linked *policy.Set                         // the set of the engine, with libraries linked
	errs   map[*policy.Library]field.ErrorList // errors of checked libraries
}

// A compiledPolicy is the result of compiling one policy.
type compiledPolicy struct {
	*compile.Program                 // nil without bindings
	refused          field.ErrorList // the errors with which the server would refuse to store it
	fails            field.ErrorList // the errors that make every request fail: an import is missing or not valid
	mentions         quirks.Mention
	err              error
}

// MayMatch reports whether the resource rules of a policy in force match an operation on a resource or subresource,
// regardless of its selectors and conditions.
func (e *Engine) MayMatch(resource schema.GroupVersionResource, subresource string, op Operation) bool {
	known := e.index.entry(&Request{Resource: resource, SubResource: subresource, Operation: op})
	return !known.exempt && len(known.mutating.hooks)+len(known.validating.hooks) > 0
}
