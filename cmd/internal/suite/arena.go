package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/static"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

// An arena is the world of the cases of a suite: policies in force and the state of the cluster.
type arena struct {
	set     policy.Set
	engine  *celgate.Engine
	types   *schema.Registry
	cluster *state.Cluster
}

var words = requests.Words{
	State:       "under state",
	Old:         "under old or state",
	Subresource: "subresource: %s",
}

// newArena reads policies and state. A suite whose policies the server would not store cannot run.
func newArena(s *Suite, objects []Source, o Options) (*arena, []*Problem) {
	var problems []*Problem
	types, err := builtin.Registry(cmp.Or(o.KubeVersion, celgate.Newest))
	if err != nil {
		return nil, []*Problem{{policy.Position{File: s.File}, err.Error(),
			"celgate knows Kubernetes " + strings.Join(builtin.Minors(), ", ")}}
	}
	read := func(sources []Source) (docs []*manifest.Document) {
		for i := range sources {
			found, bad := sources[i].documents()
			docs, problems = append(docs, found...), append(problems, bad...)
		}
		return docs
	}
	given := read(s.Policies)
	existing := read(objects)
	if len(problems) > 0 {
		return nil, problems
	}

	a := &arena{}
	existing, problems = a.readSet(s, given, existing, o)
	problems = append(problems, a.readState(s, types, existing)...)
	if len(problems) > 0 {
		return nil, problems
	}
	opts := celgate.Options{KubeVersion: o.KubeVersion, Types: a.types,
		Cluster: &assuming{Cluster: a.cluster, types: a.types},
		Server:  &celgate.Server{Plugins: o.Plugins, PluginsAside: len(o.Plugins) == 0}}
	if a.engine, err = celgate.New(&a.set, opts); err != nil {
		return nil, problemsOf(s, err)
	}
	if o.Coverage != nil {
		branches, err := a.engine.Branches()
		if err != nil {
			return nil, problemsOf(s, err)
		}
		o.Coverage.Declare(&a.set, branches)
	}
	return a, a.judge(s, o)
}

// problemsOf returns an error as a problem of a suite.
func problemsOf(s *Suite, err error) []*Problem {
	return []*Problem{{policy.Position{File: s.File}, err.Error(), ""}}
}

// readSet reads the policies of a suite, and returns the objects: existing, and those beside the policies.
func (a *arena) readSet(s *Suite, given, existing []*manifest.Document, o Options) (all []*manifest.Document,
	problems []*Problem) {
	bundle := manifest.NewBundle(given...)
	a.set = bundle.Set
	if o.Set != nil {
		a.set = *o.Set
	}
	for _, p := range bundle.Problems {
		var decode *policy.DecodeError
		if !errors.As(p.Err, &decode) {
			problems = append(problems, &Problem{p.Position, p.Message, p.Hint})
			continue
		}
		for _, p := range decode.Problems {
			problems = append(problems, &Problem{p.Position, strings.TrimPrefix(p.Field+": "+p.Message, ": "), ""})
		}
	}
	problems = append(problems, a.readStatic(s, o)...)
	if len(a.set.Policies) == 0 && len(problems) == 0 && o.Set == nil {
		problems = append(problems, &Problem{policy.Position{File: s.File}, "the files under policies do not contain policies",
			""})
	}
	return slices.Concat(existing, bundle.Objects, bundle.Reviews), problems
}

// readStatic puts static policies before all others, as an API server that starts with them.
func (a *arena) readStatic(s *Suite, o Options) (problems []*Problem) {
	dirs := slices.Clone(o.Static)
	at := policy.Position{File: s.File}
	for _, source := range s.Static {
		dirs, at = append(dirs, static.Dir{Path: source.Path}), source.Place
	}
	if len(dirs) == 0 {
		return nil
	}
	set, err := static.Load(cmp.Or(o.KubeVersion, celgate.Newest), dirs...)
	if err != nil {
		for _, err := range flatten(err) {
			var placed manifest.Problem
			if errors.As(err, &placed) {
				problems = append(problems, &Problem{placed.Position, placed.Message, placed.Hint})
			} else {
				problems = append(problems, &Problem{at, err.Error(), ""})
			}
		}
		return problems
	}
	a.set.Policies = slices.Concat(set.Policies, a.set.Policies)
	a.set.Bindings = slices.Concat(set.Bindings, a.set.Bindings)
	return nil
}

// flatten returns the errors that are joined in one.
func flatten(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, err := range joined.Unwrap() {
		all = append(all, flatten(err)...)
	}
	return all
}

// readState makes the cluster with the existing objects.
func (a *arena) readState(s *Suite, types *schema.Registry, existing []*manifest.Document) (problems []*Problem) {
	for _, d := range manifest.Definitions(existing) {
		if more, err := types.WithCustomResources(d.Object); err != nil {
			problems = append(problems, &Problem{d.Position(), err.Error(), ""})
		} else {
			types = more
		}
	}
	cluster, err := state.New(types)
	if err != nil {
		return append(problems, problemsOf(s, err)...)
	}
	for _, d := range existing {
		if IsRecognised(d.Object) {
			continue
		}
		next, err := cluster.Add(store(d.Object, types))
		if err != nil {
			problems = append(problems, &Problem{d.Position(), err.Error(), ""})
			continue
		}
		cluster = next
	}
	a.cluster, a.types = cluster, types
	return problems
}

// judge returns the reasons why the policies of a suite cannot be tested.
func (a *arena) judge(s *Suite, o Options) (problems []*Problem) {
	if len(a.engine.Rejections()) == 0 && !hasActingBinding(&a.set) && o.Set == nil {
		problems = append(problems, &Problem{
			policy.Position{File: s.File}, "none of the policies of the suite is in force, because they do not have bindings",
			"add a binding under policies",
		})
	}
	wrong, err := a.engine.OrderProblems()
	if err != nil {
		return problemsOf(s, err)
	}
	for _, p := range wrong {
		if p.IsError {
			problems = append(problems, &Problem{p.Position, p.Ref.String() + ": " + p.Message, ""})
		}
	}
	if o.Set != nil {
		return problems // the caller reports the refusals of a given set
	}
	for _, r := range a.engine.Rejections() {
		problems = append(problems, &Problem{r.Position, "the server would refuse this policy: " + r.Status.Message,
			""})
	}
	return problems
}

// assumes returns a note if labels of a namespace outside of the state decide which policies match a request; else "".
func (a *arena) assumes(ctx context.Context, r *celgate.Request) string {
	if r.Namespace == "" || r.Kind == requests.Namespace {
		return ""
	}
	selects := func(m *policy.MatchResources) bool {
		return m != nil && m.NamespaceSelector != nil &&
			len(m.NamespaceSelector.MatchLabels)+len(m.NamespaceSelector.MatchExpressions) > 0
	}
	if !slices.ContainsFunc(a.set.Policies, func(p *policy.Policy) bool { return selects(p.MatchConstraints) }) &&
		!slices.ContainsFunc(a.set.Bindings, func(b *policy.Binding) bool { return selects(b.MatchResources) }) {
		return ""
	}
	if known, err := a.cluster.Get(ctx, requests.Namespace, "", r.Namespace); known != nil || err != nil {
		return ""
	}
	return fmt.Sprintf("namespace %q is not in the state: celgate assumes that it exists without labels of its own; add it under state", r.Namespace)
}

// madeUpNote returns a note if a policy that decided reads a made-up property of the user; else "".
func (a *arena) madeUpNote(id *requests.Identity, d *celgate.Decision) string {
	if d == nil {
		return ""
	}
	for _, o := range d.Outcomes {
		for _, p := range a.set.Policies {
			if said := id.NoteFor(p); said != "" && p.Kind == o.Kind && p.Name == o.Policy {
				return said
			}
		}
	}
	return ""
}

// hasActingBinding reports whether a binding enforces at least one policy.
func hasActingBinding(set *policy.Set) bool {
	return slices.ContainsFunc(set.Policies, func(p *policy.Policy) bool { return set.Binds(p.Ref()) })
}

// store returns the object as the server reads it; one that cannot be decoded is unchanged, and package state reports
// it.
func store(object map[string]any, types *schema.Registry) map[string]any {
	kind := tree.Object(object).Kind()
	if types.Type(kind) == nil {
		return object
	}
	if read, _, err := prepare.ReadStored(object, types, kind); err == nil {
		return read
	}
	return object
}

// documents reads the files of a source.
func (s *Source) documents() ([]*manifest.Document, []*Problem) {
	if s.Inline != nil {
		return []*manifest.Document{s.Inline}, nil
	}
	docs, found := manifest.Load(s.Path)
	var problems []*Problem
	for _, p := range found {
		if p.Warning {
			continue
		}
		if !p.Position.IsValid() { // a missing file: the place that names it is more helpful
			problems = append(problems, &Problem{s.Place, p.Error(), ""})
		} else {
			problems = append(problems, &Problem{p.Position, p.Message, ""})
		}
	}
	if s.Only != "" && len(problems) == 0 {
		docs = slices.DeleteFunc(docs, func(d *manifest.Document) bool { return !isNamed(d.Object, s.Only) })
		if len(docs) == 0 {
			problems = append(problems, &Problem{s.Place, fmt.Sprintf("%[2]s does not contain the object %[1]s", s.Only, s.Path), ""})
		}
	}
	return docs, problems
}

func isNamed(object map[string]any, name string) bool {
	kind := tree.Object(object).Kind().Kind
	own, namespace := tree.Object(object).Name(), tree.Object(object).Namespace()
	return slices.Contains([]string{own, namespace + "/" + own, kind + "/" + own, kind + "/" + namespace + "/" + own},
		name)
}

// assuming is a cluster in which the namespace of every request exists: without labels, unless the state contains it.
type assuming struct {
	*state.Cluster
	types   *schema.Registry
	assumed sync.Map // by name
}

func (c *assuming) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any,
	error) {
	object, err := c.Cluster.Get(ctx, kind, namespace, name)
	if object != nil || err != nil || kind != requests.Namespace || name == "" {
		return object, err
	}
	if known, ok := c.assumed.Load(name); ok {
		return known.(map[string]any), nil
	}
	alone, err := state.New(c.types, map[string]any{"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": name}})
	if err != nil {
		return nil, err
	}
	if object, err = alone.Get(ctx, kind, "", name); err == nil {
		c.assumed.Store(name, object)
	}
	return object, err
}
