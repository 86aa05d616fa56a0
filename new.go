package celgate

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/celgate/celgate/internal/celenv"
	"github.com/celgate/celgate/internal/compile"
	"github.com/celgate/celgate/internal/eval"
	"github.com/celgate/celgate/internal/match"
	"github.com/celgate/celgate/internal/parallel"
	"github.com/celgate/celgate/internal/patch/merge"
	"github.com/celgate/celgate/internal/plugins"
	"github.com/celgate/celgate/internal/quirks"
	"github.com/celgate/celgate/internal/registry"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
)

// New compiles the policies of set. Policies and bindings that the server would refuse to store are in
// [Engine.Rejections]. It returns an error if the options are not valid, or if a cluster cannot contain the set, for
// example two policies of one name. A nil set is empty.
func New(set *policy.Set, opts Options) (*Engine, error) {
	if set == nil {
		set = &policy.Set{}
	}
	if _, twice := set.Deduplicate(); len(twice) > 0 {
		return nil, twice[0]
	}
	e, err := newEmpty(opts)
	if err != nil {
		return nil, err
	}
	set = e.link(set, opts.Before)
	if err := e.staticKnown(set); err != nil {
		return nil, err
	}
	bindings, err := e.bind(set)
	if err != nil {
		return nil, err
	}
	policies := sortedByName(set.Policies, func(p *policy.Policy) string { return p.Name })
	e.compile(policies, bindings, opts.Before)
	valid := e.validPolicies(policies)
	e.dropUnfit(set.Bindings, valid, bindings)
	for _, p := range policies {
		if err := e.enforce(p, bindings[p.Ref()]); err != nil {
			return nil, err
		}
	}
	e.arranged, err = arrange(e.envs, e.index.hooks)
	return e, err
}

// newEmpty returns an engine without policies for the given options.
func newEmpty(opts Options) (*Engine, error) {
	e := &Engine{
		types: opts.Types, cluster: opts.Cluster, timed: opts.Timed, metered: opts.Metered,
		limits: opts.Limits.bounds(), mostCost: opts.Limits.Cost, pool: opts.Limits.pool, sizes: opts.Sizes,
		minor: cmp.Or(opts.KubeVersion, Newest), standsIn: opts.WithoutQuirks,
		index: &hookIndex{}, merger: &merge.Merger{}, watched: &watchedPolicies{}, customs: &registry.Customs{},
		policies: map[policy.Ref]*policy.Policy{},
	}
	known := quirks.SetOf(e.minor)
	if known.Has(quirks.PatchReflectedValue) {
		e.typed = eval.Reflected
	}
	if !opts.WithoutQuirks {
		e.quirks = known
	}
	e.merger.Unique, e.merger.EveryKey = e.quirks.Has(quirks.LiveDuplicates), e.quirks.Has(quirks.PartialKey)
	var err error
	if e.envs, err = celenv.New(e.minor, e.quirks); err != nil {
		return nil, err
	}
	objects, err := toTrees(opts.Objects)
	if err != nil {
		return nil, err
	}
	if e.types == nil {
		if e.types, err = builtin.Registry(e.minor); err != nil {
			return nil, err
		}
		if e.types, err = withDefinitions(objects, e.types); err != nil {
			return nil, err
		}
	}
	if e.cluster == nil {
		if e.cluster, err = clusterOf(objects, e.types); err != nil {
			return nil, err
		}
	}
	e.index.types = e.types
	return e, e.serve(opts.Server)
}

// serve makes the engine predict the whole answer of a server; nil: not.
func (e *Engine) serve(s *Server) (err error) {
	if s == nil {
		return nil
	}
	e.server = s
	cluster := s.Cluster
	if cluster == nil {
		cluster = e.cluster
	}
	e.webhooks = e.readWebhooks(context.Background(), cluster)
	chain, err := plugins.New(plugins.Options{Choice: s.Plugins, Minor: e.minor, Types: e.types,
		Cluster: cluster, Complete: s.Complete})
	if s.PluginsAside {
		e.aside = chain
	} else {
		e.plugins = chain
	}
	return err
}

// bind returns the valid bindings of each policy, by name. The others are rejected.
func (e *Engine) bind(set *policy.Set) (map[policy.Ref][]*compiledBinding, error) {
	bindings := map[policy.Ref][]*compiledBinding{}
	singletons := map[policy.Ref]*policy.Policy{}
	for _, p := range set.Policies {
		if p.Singleton != nil {
			singletons[p.Ref()] = p
			bindings[p.Ref()] = append(bindings[p.Ref()],
				&compiledBinding{Binding: p.Singleton, criteria: match.Compile(nil)})
		}
	}
	for _, b := range sortedByName(set.Bindings, func(b *policy.Binding) string { return b.Name }) {
		if errs := b.BindsSingletons(singletons); len(errs) > 0 {
			e.reject(b.APIVersion, b.Ref(), b.Position, e.invalidStatus(b.Ref(), errs))
			continue
		}
		if !b.Stored && !b.Static && e.rejectUnserved(b.APIVersion, b.Ref(), b.Position) {
			continue
		}
		written := compile.Written{Binding: b, Others: func(ref policy.Ref) int { return len(bindings[ref]) }}
		if b.Stored {
			written.OldBinding = b
		}
		if errs := e.WriteErrors(written); len(errs) > 0 {
			e.reject(b.APIVersion, b.Ref(), b.Position, e.invalidStatus(b.Ref(), errs))
			continue
		}
		bound := &compiledBinding{Binding: b, criteria: match.Compile(b.Scope())}
		if ref := b.ParamRef; ref != nil && ref.Selector != nil {
			var err error
			if bound.selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
				return nil, fmt.Errorf("binding %s: %w", b.Name, err) // ValidateBinding refuses these
			}
		}
		for _, ref := range b.PolicyRefs() {
			bindings[ref] = append(bindings[ref], bound)
		}
	}
	return bindings, nil
}

// compile checks policies by the rules for new or stored ones, and compiles those with a binding. Results of before are
// reused.
func (e *Engine) compile(policies []*policy.Policy, bindings map[policy.Ref][]*compiledBinding, before *Engine) {
	compiled := parallel.Map(policies, func(p *policy.Policy) compiledPolicy {
		c, checked := before.compiledOf(p, e.minor)
		if !checked {
			if p.Stored {
				c.refused, c.fails = e.storedErrors(p)
			} else {
				c.refused = e.WriteErrors(compile.Written{Policy: p})
			}
			c.mentions = quirks.Mentions(textOf(p))
		}
		if c.Program == nil && len(c.refused) == 0 && len(bindings[p.Ref()]) > 0 {
			c.Program, c.err = compile.Policy(e.envs, p)
		}
		return c
	})
	e.compiled = make(map[*policy.Policy]compiledPolicy, len(policies))
	for i, p := range policies {
		e.compiled[p] = compiled[i]
	}
}

// validPolicies returns the policies that satisfy the write-time rules.
func (e *Engine) validPolicies(policies []*policy.Policy) map[policy.Ref]*policy.Policy {
	valid := map[policy.Ref]*policy.Policy{}
	for _, p := range policies {
		if len(e.compiled[p].refused) == 0 {
			valid[p.Ref()] = p
		}
	}
	return valid
}

// enforce puts a policy in force with its bindings, once for each of its phases, or rejects it.
func (e *Engine) enforce(p *policy.Policy, bindings []*compiledBinding) error {
	c := e.compiled[p]
	if !p.Stored && !p.Static && e.rejectUnserved(p.APIVersion, p.Ref(), p.Position) {
		return nil
	}
	if len(c.refused) > 0 {
		e.reject(p.APIVersion, p.Ref(), p.Position, e.invalidStatus(p.Ref(), c.refused))
		return nil
	}
	e.policies[p.Ref()] = p
	if len(c.fails) > 0 {
		e.failing = append(e.failing, Rejection{p.APIVersion, p.Ref(), e.invalidStatus(p.Ref(), c.fails), p.Position})
	}
	if len(bindings) == 0 {
		return nil
	}
	if c.err != nil {
		return fmt.Errorf("policy %s: %w", p.Name, c.err)
	}
	if p.Abstract {
		bindings = boundAs(p, bindings)
	}
	h := hook{Program: c.Program, criteria: match.Compile(p.MatchConstraints), bindings: bindings, mentions: c.mentions,
		err: c.fails.ToAggregate()}
	if p.ParamKind != nil {
		gv, err := parseGroupVersion(p.ParamKind.APIVersion)
		if err != nil {
			return nil // as on the server, whose write-time rules refuse such a policy
		}
		kind := gv.WithKind(p.ParamKind.Kind)
		if h.param = e.types.ResourceFor(kind); h.param == nil {
			h.err = textError{fmt.Sprintf("%s: '%s'", ErrNoParamKind, kind), ErrNoParamKind}
		} else if p.DefaultParams != nil {
			var errs field.ErrorList
			if h.defaults, errs = e.defaultParams(p, h.param); len(errs) > 0 {
				h.err = errs.ToAggregate()
			}
		}
	}
	for _, phase := range []policy.Phase{policy.PhaseMutation, policy.PhaseValidation} {
		if p.ActsIn(phase) {
			in := h
			in.phase = phase
			e.index.hooks = append(e.index.hooks, &in)
		}
	}
	if p.JudgesTemplates() {
		if of := h.templateHook(); of != nil {
			e.index.hooks = append(e.index.hooks, of)
		}
	}
	return nil
}

// boundAs returns the bindings of an abstract policy, each with the resulting match criteria.
func boundAs(p *policy.Policy, bindings []*compiledBinding) (all []*compiledBinding) {
	for _, b := range bindings {
		of := *b
		m := p.With(b.Binding).MatchConstraints
		of.as = match.Compile(&policy.MatchResources{ResourceRules: m.ResourceRules, MatchPolicy: m.MatchPolicy})
		all = append(all, &of)
	}
	return all
}

func (e *Engine) reject(apiVersion string, ref policy.Ref, pos policy.Position, status *metav1.Status) {
	e.rejected = append(e.rejected, Rejection{apiVersion, ref, status, pos})
}

// rejectUnserved rejects an object in a version that the server does not serve, and reports whether it did. A webhook
// that replaces the server accepts every version.
func (e *Engine) rejectUnserved(apiVersion string, ref policy.Ref, pos policy.Position) bool {
	if e.standsIn {
		return false
	}
	message := policy.UnservedReason(apiVersion, ref.Kind, e.minor, e.types.Versions)
	if message == "" {
		return false
	}
	e.reject(apiVersion, ref, pos, &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: message,
	})
	return true
}

// dropUnfit drops bindings that do not fit their policies: those of several policies of which one is missing or
// invalid, or whose kinds of params differ; those without rules for an abstract policy; and those that mention a
// validation that none of their policies has. A stored binding of the last sort stays: the policy has changed since,
// and without the override it is stricter.
func (e *Engine) dropUnfit(all []*policy.Binding, valid map[policy.Ref]*policy.Policy,
	bindings map[policy.Ref][]*compiledBinding) {
	for _, b := range all {
		var policies []*policy.Policy
		for _, ref := range b.PolicyRefs() {
			if p := valid[ref]; p != nil {
				policies = append(policies, p)
			}
		}
		errs := slices.Concat(b.CheckTogether(valid), b.CheckAbstract(valid), e.clusterParams(b, policies))
		if !b.Stored {
			errs = slices.Concat(errs, b.CheckNames(valid), e.unfitRules(b, policies))
		}
		e.drop(b, errs, bindings)
	}
}

// drop rejects a binding in force if there are errors.
func (e *Engine) drop(b *policy.Binding, errs field.ErrorList, bindings map[policy.Ref][]*compiledBinding) {
	bound := func(in *compiledBinding) bool { return in.Binding == b }
	if len(errs) == 0 || !slices.ContainsFunc(bindings[b.PolicyRef()], bound) {
		return
	}
	for _, ref := range b.PolicyRefs() {
		bindings[ref] = slices.DeleteFunc(bindings[ref], bound)
	}
	e.reject(b.APIVersion, b.Ref(), b.Position, e.invalidStatus(b.Ref(), errs))
}

// staticKnown returns an error if a set has static policies and servers of the minor do not read any.
func (e *Engine) staticKnown(set *policy.Set) error {
	i := slices.IndexFunc(set.Policies, func(p *policy.Policy) bool { return p.Static })
	if i < 0 || e.knowsStatic() {
		return nil
	}
	return fmt.Errorf("%s: %w", set.Policies[i].Ref(), quirks.CheckStatic(e.minor))
}

// compiledOf returns the result of compiling a policy, and whether the engine has it.
func (e *Engine) compiledOf(p *policy.Policy, minor string) (compiledPolicy, bool) {
	if e == nil || e.minor != minor {
		return compiledPolicy{}, false
	}
	c, ok := e.compiled[p]
	return c, ok
}

func sortedByName[T any](items []T, name func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(items), func(a, b T) int { return cmp.Compare(name(a), name(b)) })
}

// textOf returns the text of all expressions of a policy.
func textOf(p *policy.Policy) string {
	var text strings.Builder
	for x := range p.Expressions() {
		text.WriteString(x.Code() + "\n")
	}
	return text.String()
}
