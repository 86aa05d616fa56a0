package playground

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
)

// policies are the policies of one text.
type policies struct {
	text     string
	set      *policy.Set // nil: not read yet
	docs     []*manifest.Document
	beside   []*manifest.Document
	problems []Problem
}

// around is the cluster of one text of state, with the objects that manifests and policies add.
type around struct {
	minor, state, added string
	known               bool

	types    *schema.Registry
	docs     []*manifest.Document
	stored   *state.Cluster // before the requests
	cluster  *state.Cluster // including objects from the manifests: the view of policies
	problems []Problem

	assumed map[string]*state.Cluster // the cluster with assumed namespaces, by their names
}

// engineKey identifies the inputs of an engine.
type engineKey struct {
	set     *policy.Set
	cluster *state.Cluster
}

// A world is the whole context of a question.
type world struct {
	minor    string
	set      *policy.Set
	types    *schema.Registry
	stored   *state.Cluster
	state    []*manifest.Document
	batch    []*manifest.Document
	old      *state.Cluster // nil: the stored objects
	assumed  map[string]bool
	engine   *celgate.Engine
	problems []Problem
}

// world reads the input of a question, and compiles the changed parts.
func (s *Session) world(ask *Ask) (*world, error) {
	if s.policies.set == nil || s.policies.text != ask.Policies {
		s.policies = readPolicies(ask, PolicyFile)
	}
	batch, wrong := ask.read(ask.Objects, ObjectFile)
	minor := cmp.Or(ask.Minor, celgate.Newest)
	brought := s.policies.brought(batch)
	added := textOf(slices.Concat(s.policies.beside, brought))
	if a := &s.around; !a.known || a.minor != minor || a.state != ask.State || a.added != added {
		next, err := readAround(ask, minor, s.policies.beside, brought)
		if err != nil {
			return nil, err
		}
		next.added = added
		s.around = next
	}
	w := &world{minor: minor, set: s.policies.set, types: s.around.types, stored: s.around.stored, state: s.around.docs,
		batch: batch, problems: slices.Concat(s.policies.problems, s.around.problems, wrong)}
	cluster, err := w.assume(&s.around, ask)
	if err != nil {
		return nil, err
	}
	if key := (engineKey{w.set, cluster}); s.engine == nil || s.made != key {
		options := celgate.Options{KubeVersion: minor, Types: w.types, Cluster: cluster,
			Server: &celgate.Server{}}
		if s.made.set == w.set {
			options.Before = s.engine
		}
		engine, err := celgate.New(w.set, options)
		if err != nil {
			return nil, err
		}
		s.engine, s.made = engine, key
	}
	w.engine = s.engine
	if strings.TrimSpace(ask.Old) != "" {
		docs, problems := ask.read(ask.Old, OldFile)
		none, err := state.New(w.types)
		if err != nil {
			return nil, err
		}
		more := &around{types: w.types, problems: problems}
		w.old = more.add(ask, none, docs)
		w.problems = append(w.problems, more.problems...)
	}
	return w, nil
}

// read returns the documents of a text.
func (a *Ask) read(text, file string) (docs []*manifest.Document, wrong []Problem) {
	docs, problems := manifest.Read(strings.NewReader(text), file)
	for _, p := range problems {
		if p.Message == manifest.NoDocument {
			continue
		}
		wrong = append(wrong, a.problem(p.Position, p.Message, p.Hint))
	}
	return docs, wrong
}

func readPolicies(ask *Ask, file string) policies {
	docs, problems := ask.read(ask.Policies, file)
	bundle := manifest.NewBundle(docs...)
	p := policies{text: ask.Policies, set: &bundle.Set, docs: docs, beside: bundle.Objects, problems: problems}
	for _, wrong := range bundle.Problems {
		var decode *policy.DecodeError
		if !errors.As(wrong.Err, &decode) {
			p.problems = append(p.problems, ask.problem(wrong.Position, wrong.Message, wrong.Hint))
			continue
		}
		for _, one := range decode.Problems {
			at := one.Position
			if !at.IsValid() {
				at = wrong.Position
			}
			p.problems = append(p.problems, ask.problem(at, one.Message, one.Hint))
		}
	}
	return p
}

// brought returns the objects of a batch that other requests of the batch see: kinds, namespaces, RBAC and params.
func (p *policies) brought(batch []*manifest.Document) []*manifest.Document {
	params := map[string]bool{}
	for _, one := range p.set.Policies {
		if one.ParamKind != nil {
			params[one.ParamKind.APIVersion+" "+one.ParamKind.Kind] = true
		}
	}
	var all []*manifest.Document
	for _, d := range batch {
		kind := tree.Object(d.Object).Kind()
		if kind.Group == "rbac.authorization.k8s.io" || kind.GroupKind() == requests.Namespace.GroupKind() ||
			kind.Group == "apiextensions.k8s.io" || params[kind.GroupVersion().String()+" "+kind.Kind] {
			all = append(all, d)
		}
	}
	return all
}

// textOf returns a text that identifies the added objects and their places.
func textOf(docs []*manifest.Document) string {
	var text strings.Builder
	for _, d := range docs {
		text.WriteString(d.Source.Text)
		text.WriteString(d.Position().String())
		text.WriteByte(0)
	}
	return text.String()
}

func readAround(ask *Ask, minor string, beside, brought []*manifest.Document) (around, error) {
	a := around{minor: minor, state: ask.State, known: true}
	var err error
	if a.types, err = builtin.Registry(minor); err != nil {
		return a, err
	}
	given, problems := ask.read(ask.State, StateFile)
	a.problems = problems
	a.docs = slices.Concat(given, beside)
	for _, d := range manifest.Definitions(slices.Concat(a.docs, brought)) {
		types, err := a.types.WithCustomResources(d.Object)
		if err != nil {
			a.problems = append(a.problems, ask.problem(d.Position(), err.Error(), ""))
			continue
		}
		a.types = types
	}
	empty, err := state.New(a.types)
	if err != nil {
		return a, err
	}
	a.stored = a.add(ask, empty, a.docs)
	a.cluster = a.add(ask, a.stored, brought)
	return a, nil
}

// add returns a cluster that also contains documents, in the form that a server stores.
func (a *around) add(ask *Ask, cluster *state.Cluster, docs []*manifest.Document) *state.Cluster {
	var objects []map[string]any
	var from []*manifest.Document
	report := func(d *manifest.Document, message, hint string) {
		a.problems = append(a.problems, ask.problem(d.Position(), message, hint))
	}
	for _, d := range docs {
		object := d.Object
		kind := tree.Object(object).Kind()
		if manifest.IsReview(object) || manifest.IsSuite(object) {
			continue
		}
		if policy.IsRecognised(object) {
			report(d, "policies are not in force here", "move it to the policies")
			continue
		}
		if to := a.types.ResourceFor(kind); to != nil {
			object = to.WithNamespace(object, "")
		}
		if a.types.Type(kind) != nil {
			stored, _, err := prepare.ReadStored(object, a.types, kind)
			if err != nil {
				report(d, err.Error(), "")
				continue
			}
			object = stored
		}
		objects, from = append(objects, object), append(from, d)
	}
	for {
		next, err := cluster.With(objects...)
		wrong := objectErrors(err)
		switch {
		case err == nil:
			return next
		case len(wrong) == 0:
			a.problems = append(a.problems, Problem{Mark: Mark{Severity: "error", Message: err.Error()}})
			return cluster
		}
		for _, e := range slices.Backward(wrong) { // in the order of their indexes
			report(from[e.Index], e.Err.Error(), "")
			objects, from = slices.Delete(objects, e.Index, e.Index+1), slices.Delete(from, e.Index, e.Index+1)
		}
	}
}

// objectErrors returns the errors about objects that an error joins, by their indexes, one for each object.
func objectErrors(err error) (all []*state.ObjectError) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			all = append(all, objectErrors(one)...)
		}
	} else if one, ok := errors.AsType[*state.ObjectError](err); ok {
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b *state.ObjectError) int { return cmp.Compare(a.Index, b.Index) })
	return slices.CompactFunc(all, func(a, b *state.ObjectError) bool { return a.Index == b.Index })
}

// assume returns the cluster with the missing namespaces of the batch. On a server such a request fails, but the user
// wants the answer of a cluster that has the namespace.
func (w *world) assume(a *around, ask *Ask) (*state.Cluster, error) {
	w.assumed = map[string]bool{}
	var missing []map[string]any
	for _, d := range w.batch {
		if manifest.IsReview(d.Object) {
			continue
		}
		to, _, err := w.types.Target(tree.Object(d.Object).Kind(), ask.Subresource)
		if err != nil || !to.Namespaced {
			continue
		}
		name := to.NamespaceOf(d.Object, "")
		if w.assumed[name] {
			continue
		}
		known, err := a.cluster.Get(context.Background(), requests.Namespace, "", name)
		if err == nil && known == nil {
			w.assumed[name] = true
			missing = append(missing, map[string]any{"apiVersion": "v1", "kind": "Namespace",
				"metadata": map[string]any{"name": name}})
		}
	}
	if len(missing) == 0 {
		return a.cluster, nil
	}
	key := strings.Join(slices.Sorted(maps.Keys(w.assumed)), "\n")
	if cluster := a.assumed[key]; cluster != nil {
		return cluster, nil
	}
	cluster, err := a.cluster.With(missing...)
	if err == nil {
		a.assumed = map[string]*state.Cluster{key: cluster}
	}
	return cluster, err
}
