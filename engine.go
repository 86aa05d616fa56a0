package celgate

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
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

	// Limits bound every evaluation. The zero value has limits that only what stops an API server exceeds.
	Limits Limits

	// Timed makes decisions say how long each invocation took.
	Timed bool
}

// An Engine is a compiled set of policies. It is immutable and safe for concurrent use.
type Engine struct {
	types    *schema.Registry
	cluster  Cluster
	quirks   quirks.Set
	typed    eval.Form // how expressions see objects of built-in kinds
	timed    bool
	limits   Limits
	minor    string
	standsIn bool // WithoutQuirks
	compiled map[*policy.Policy]compiledPolicy
	index    *index
	merger   *merge.Merger
	envs     *celenv.Set
	policies map[policyKey]*policy.Policy // all that are valid, in force or not
	rejected []Rejection
	mentions map[string]mention // by the names of policies with any
	trace    Tracer
}

// A Rejection is a policy or binding that the server would refuse to store. It takes no part in decisions.
type Rejection struct {
	APIVersion string
	Kind       string
	Name       string
	Status     *metav1.Status // the server's answer
	Position   policy.Position
}

// A hook is one policy that is in force: it has bindings.
type hook struct {
	*compile.Program
	criteria *match.Criteria
	param    *schema.Resource // nil without paramKind
	err      error            // a paramKind that does not exist
	bindings []*binding       // sorted by name
}

type binding struct {
	*policy.Binding
	criteria *match.Criteria
	selector labels.Selector // of the params; nil without
}

// New compiles the policies of set. Policies and bindings that the server would not store are in Rejected;
// an error means that the options cannot be met, or that the set is one that no cluster has.
func New(set *policy.Set, opts Options) (*Engine, error) {
	if _, twice := set.Unique(); len(twice) > 0 {
		return nil, twice[0]
	}
	minor := cmp.Or(opts.KubeVersion, Newest)
	e := &Engine{types: opts.Types, cluster: opts.Cluster, timed: opts.Timed, limits: opts.Limits, minor: minor, standsIn: opts.WithoutQuirks, index: &index{}, merger: &merge.Merger{}, mentions: map[string]mention{}, policies: map[policyKey]*policy.Policy{}}
	known := quirks.Of(minor)
	if known.Has(quirks.PatchReflectedValue) {
		e.typed = eval.Reflected
	}
	if !opts.WithoutQuirks {
		e.quirks = known
	}
	envs, err := celenv.New(minor, e.quirks)
	if err != nil {
		return nil, err
	}
	e.envs = envs
	if e.types == nil {
		if e.types, err = builtin.Registry(minor); err != nil {
			return nil, err
		}
		if e.types, err = definedBy(opts.Objects, e.types); err != nil {
			return nil, err
		}
	}
	if e.cluster == nil {
		if e.cluster, err = clusterOf(opts.Objects, e.types); err != nil {
			return nil, err
		}
	}

	e.index.types = e.types
	bindings := map[policy.Kind]map[string][]*binding{policy.Validating: {}, policy.Mutating: {}}
	for _, b := range sortedByName(set.Bindings, func(b *policy.Binding) string { return b.Name }) {
		if !b.Stored && e.rejectUnserved(b.APIVersion, string(b.Kind)+"Binding", b.Name, b.Position) {
			continue
		}
		written := Written{Binding: b}
		if b.Stored {
			written.OldBinding = b
		}
		if errs := e.WriteErrors(written); len(errs) > 0 {
			e.reject(b.APIVersion, string(b.Kind)+"Binding", b.Name, b.Position, policy.Invalid(string(b.Kind)+"Binding", b.Name, errs))
			continue
		}
		bound := &binding{Binding: b, criteria: match.Compile(b.MatchResources)}
		if ref := b.ParamRef; ref != nil && ref.Selector != nil {
			if bound.selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
				return nil, fmt.Errorf("binding %s: %w", b.Name, err) // ValidateBinding refuses these
			}
		}
		bindings[b.Kind][b.PolicyName] = append(bindings[b.Kind][b.PolicyName], bound)
	}
	policies := sortedByName(set.Policies, func(p *policy.Policy) string { return p.Name })
	slices.SortStableFunc(policies, func(a, b *policy.Policy) int { return cmp.Compare(turn(a), turn(b)) })
	compiled := inParallel(policies, func(p *policy.Policy) compiledPolicy {
		c, checked := opts.Before.of(p, minor)
		if !checked {
			if p.Stored {
				c.refused = e.storedErrors(p)
			} else {
				c.refused = e.WriteErrors(Written{Policy: p})
			}
			c.mentions = mentioned(p)
		}
		if c.Program == nil && len(c.refused) == 0 && len(bindings[p.Kind][p.Name]) > 0 {
			c.Program, c.err = compile.Policy(envs, p)
		}
		return c
	})
	e.compiled = make(map[*policy.Policy]compiledPolicy, len(policies))
	for i, p := range policies {
		e.compiled[p] = compiled[i]
		if !p.Stored && e.rejectUnserved(p.APIVersion, string(p.Kind), p.Name, p.Position) {
			continue
		}
		if errs := compiled[i].refused; len(errs) > 0 {
			e.reject(p.APIVersion, string(p.Kind), p.Name, p.Position, policy.Invalid(string(p.Kind), p.Name, errs))
			continue
		}
		e.policies[policyKey{p.Kind, p.Name}] = p
		if len(bindings[p.Kind][p.Name]) == 0 {
			continue
		}
		prog, err := compiled[i].Program, compiled[i].err
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", p.Name, err)
		}
		h := &hook{Program: prog, criteria: match.Compile(p.MatchConstraints), bindings: bindings[p.Kind][p.Name]}
		if p.ParamKind != nil {
			gv, err := parseGroupVersion(p.ParamKind.APIVersion)
			if err != nil {
				continue // as on the server, whose write-time rules let no such policy in
			}
			kind := gv.WithKind(p.ParamKind.Kind)
			if h.param = e.types.ResourceFor(kind); h.param == nil {
				h.err = &ParamKindError{kind}
			}
		}
		e.index.hooks = append(e.index.hooks, h)
		if found := compiled[i].mentions; len(found.plugins)+len(found.madeUp) > 0 {
			all := e.mentions[p.Name] // a policy of the other kind may have the name
			e.mentions[p.Name] = mention{append(all.plugins, found.plugins...), append(all.madeUp, found.madeUp...)}
		}
	}
	return e, nil
}

// InOrder returns an engine that asks exactly the mutating policies that are named, in the order of the names, and all
// validating policies. The order in which a server asks them is random.
func (e *Engine) InOrder(names ...string) *Engine {
	ordered := *e // with all of its options
	ordered.index = &index{types: e.types}
	for _, name := range names {
		for _, h := range e.index.hooks {
			if h.Kind == policy.Mutating && h.Name == name {
				ordered.index.hooks = append(ordered.index.hooks, h)
			}
		}
	}
	for _, h := range e.index.hooks {
		if h.Kind == policy.Validating {
			ordered.index.hooks = append(ordered.index.hooks, h)
		}
	}
	return &ordered
}

// Rejected returns the policies and bindings that the server would refuse.
func (e *Engine) Rejected() []Rejection { return e.rejected }

func (e *Engine) reject(apiVersion, kind, name string, pos policy.Position, status *metav1.Status) {
	e.rejected = append(e.rejected, Rejection{apiVersion, kind, name, status, pos})
}

// rejectUnserved rejects an object in a version that the server does not serve, and reports whether it did. A webhook
// that stands in for the server takes every version.
func (e *Engine) rejectUnserved(apiVersion, kind, name string, pos policy.Position) bool {
	if e.standsIn {
		return false
	}
	served := e.types.Served(schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: kind})
	message := policy.Unserved(apiVersion, kind, e.minor, served)
	if message == "" {
		return false
	}
	e.reject(apiVersion, kind, name, pos, &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: message,
	})
	return true
}

// A compiledPolicy is what became of one policy.
type compiledPolicy struct {
	*compile.Program                 // nil without bindings
	refused          field.ErrorList // why the server would not store it
	mentions         mention
	err              error
}

// of returns what the engine has compiled of a policy, and whether it has checked it.
func (e *Engine) of(p *policy.Policy, minor string) (compiledPolicy, bool) {
	if e == nil || e.minor != minor {
		return compiledPolicy{}, false
	}
	c, ok := e.compiled[p]
	return c, ok
}

// inParallel calls do for every item, on all processors, and returns the results in the order of the items.
func inParallel[A, B any](items []A, do func(A) B) []B {
	results := make([]B, len(items))
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(items)) {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(items)); i = next.Add(1) - 1 {
				results[i] = do(items[i])
			}
		})
	}
	running.Wait()
	return results
}

// turn is when a policy runs among those of its kind: webhooks are asked in an order, so mutating policies of
// failurePolicy Fail run before those of Ignore, in every engine (docs/design/0002-order.md).
func turn(p *policy.Policy) int {
	if p.Kind == policy.Mutating && p.FailurePolicy == policy.Ignore {
		return 1
	}
	return 0
}

func sortedByName[T any](items []T, name func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(items), func(a, b T) int { return cmp.Compare(name(a), name(b)) })
}
