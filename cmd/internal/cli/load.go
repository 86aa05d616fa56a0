package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/plugins"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/wording"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/celgate/celgate/state"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A world is everything that a command decides with: policies in force and the state of the cluster.
type world struct {
	set      policy.Set
	rejected []report.Rejection   // policies and bindings that cannot be decoded
	written  []*manifest.Document // among them the policies and bindings

	version string // of Kubernetes; empty: the newest
	types   *schema.Registry
	stored  *state.Cluster // the objects before the requests
	cluster *state.Cluster // also the objects of the batch; policies see this
	live    *kube.Snapshot // overlaid by the two; nil: they are the whole state
	assumed map[string]bool

	anyNamespace bool     // every namespace exists; those that are not given do not have labels of their own
	imagined     sync.Map // the names of namespaces that were read and not given

	unbound int // policies and bindings without their other half, which are not in force
	foreign int // policies of other engines
	limits  celgate.Limits

	bare func() (*celgate.Engine, error) // that prepares objects and knows neither policies nor admission plugins
}

// sources are the files of a world.
type sources struct {
	policies, state     []string
	live                *kube.Snapshot // nil: not given
	version             string
	inline, inlineState []*manifest.Document // documents that were read already
	inlined             bool                 // the policies are exactly those of inline
	none                bool                 // the set is empty on purpose
	any                 bool                 // a live cluster may lack policies
	plain               bool                 // objects of unknown kinds are used as written
	workloads           *requests.Workloads  // objects of the kinds that it names are, too
	samples             []*manifest.Document // of objects outside of the batch
}

// load reads policies and cluster state. The batch, which is the objects of the requests, contributes to the state: its
// CustomResourceDefinitions, Namespaces, RBAC objects and params exist for every object in it. Policies in the batch
// are not in force. Problems of single documents are printed; an error means that requests cannot be answered at all.
func (c *console) load(ctx context.Context, loader *manifest.Loader, from sources, batch []*manifest.Document) (*world,
	error) {
	w := &world{version: from.version, live: from.live, assumed: map[string]bool{}, limits: c.limits}
	w.bare = sync.OnceValues(func() (*celgate.Engine, error) { return celgate.New(&policy.Set{}, w.options()) })
	var err error
	if w.live != nil {
		err = w.addKinds(c)
	} else if w.types, err = builtin.Registry(minorOrNewest(from.version)); err != nil {
		err = withHint(err, "celgate knows Kubernetes %s", strings.Join(builtin.Minors(), ", "))
	}
	if err != nil {
		return nil, err
	}
	given := slices.Concat(from.inline, c.read(loader, from.policies))
	theirs := w.live != nil && len(from.policies) == 0 && !from.inlined && !from.none
	if theirs {
		if given, err = w.livePolicies(ctx); err != nil {
			return nil, err
		}
	}
	existing := slices.Concat(from.inlineState, c.read(loader, from.state))
	w.addTypes(c, slices.Concat(existing, given, batch))
	beside := w.addPolicies(c, given)
	if theirs {
		w.set.MarkStored()
	}
	if err := w.addStatic(c, from.version); err != nil {
		return nil, err
	}
	if c.unboundToo {
		w.bindUnbound(c)
	}
	switch {
	case from.none || theirs && from.any || len(w.set.Policies) > 0 || len(w.rejected) > 0:
	case slices.ContainsFunc(existing, func(d *manifest.Document) bool { return policy.IsRecognised(d.Object) }):
		return nil, withHint(errors.New("no policies"),
			"policies among the cluster state are not in force: name their files with -p")
	case theirs:
		return nil, withHint(errors.New("no policies in the cluster"),
			"name files or directories with policies with -p")
	case len(from.policies) == 0:
		return nil, withHint(&usageError{errors.New("no policies given")},
			"name files or directories with -p, or a cluster with policies with --context")
	default:
		return nil, noPoliciesError(from.policies, batch)
	}
	w.addPlain(c, slices.Concat(batch, from.samples), &from)
	c.sayRelease(w)
	if w.stored, err = w.begin(ctx, existing, beside, batch); err != nil {
		return nil, err
	}
	w.stored = w.withDocuments(c, w.stored, existing)
	w.stored = w.withDocuments(c, w.stored, beside)
	shared := w.findShared()
	seen := slices.DeleteFunc(slices.Clone(batch), func(d *manifest.Document) bool { return !shared(d.Object) })
	for _, d := range seen {
		d.Restore()
	}
	w.cluster = w.withDocuments(c, w.stored, seen)
	return w, nil
}

func minorOrNewest(version string) string {
	if version == "" {
		return celgate.Newest
	}
	return version
}

// read returns the documents of files and prints the problems of invalid ones.
func (c *console) read(loader *manifest.Loader, paths []string) []*manifest.Document {
	if len(paths) == 0 {
		return nil
	}
	docs, problems := loader.Load(paths...)
	for _, p := range problems {
		c.sayProblem(p)
	}
	return docs
}

func (c *console) sayProblem(p manifest.Problem) {
	if !p.Warning {
		c.raise(exitFailed)
	}
	c.say(p.Error(), "")
}

// readBatch reads the subjects of requests. An object that only its own request reads is released until that request,
// because a batch may be large.
func (c *console) readBatch(loader *manifest.Loader, paths []string) []*manifest.Document {
	var docs []*manifest.Document
	for doc, problem := range loader.Documents(paths...) {
		if problem != nil {
			c.sayProblem(*problem)
			continue
		}
		kind := tree.Object(doc.Object).Kind()
		if _, alone := builtinGroups[kind.Group]; alone && kind.GroupKind() != namespaceKind.GroupKind() {
			doc.Release()
		}
		docs = append(docs, doc)
	}
	return docs
}

// builtinGroups have kinds that never affect other kinds, policies or permissions.
var builtinGroups = map[string]struct{}{"": {}, "apps": {}, "batch": {}, "networking.k8s.io": {}, "policy": {},
	"autoscaling": {}, "discovery.k8s.io": {}, "events.k8s.io": {}, "coordination.k8s.io": {}, "storage.k8s.io": {}}

// addPolicies puts policies and bindings into the set and returns the other documents.
func (w *world) addPolicies(c *console, docs []*manifest.Document) []*manifest.Document {
	bundle := manifest.NewBundle(docs...) // suites may lie beside the policies
	w.set, w.written = bundle.Set, docs
	for _, d := range bundle.Reviews {
		c.raise(exitFailed)
		c.say(prefixPlace(d.Position(), "an AdmissionReview is not a policy"), "give it as an argument, without -p")
	}
	for _, p := range bundle.Problems {
		if p.Document != nil {
			w.rejected = append(w.rejected, undecodableRejection(p.Document, p.Err))
			continue
		}
		c.raise(exitFailed)
		c.say(p.Error(), p.Hint)
	}
	var others []*manifest.Document
	for _, d := range bundle.Objects {
		if meant := w.guessKind(tree.Object(d.Object).Kind()); meant != "" {
			c.raise(exitFailed)
			c.say(prefixPlace(d.Position(), fmt.Sprintf("%v %v is not a kind of policy", d.Object["apiVersion"],
				describe(d.Object))), "did you mean "+meant+"?")
			continue
		}
		others = append(others, d)
	}
	w.foreign = c.sayForeign(others)
	return others
}

// undecodableRejection returns the rejection of a document that has the kind of a policy and cannot be decoded.
func undecodableRejection(d *manifest.Document, err error) report.Rejection {
	r := rejectionOf(d.Object, d.Position())
	var decode *policy.DecodeError
	if errors.As(err, &decode) {
		r.Status = decode.Status()
		for _, p := range decode.Problems {
			misread, _ := d.Misreading(p.Field)
			r.Problems = append(r.Problems, report.Problem{Field: p.Field, Message: p.Message, Position: p.Position,
				Hint: cmp.Or(misread.Message, p.Hint)})
		}
	} else {
		r.Problems = []report.Problem{{Message: err.Error(), Position: d.Position()}}
	}
	return r
}

func rejectionOf(object map[string]any, place policy.Position) report.Rejection {
	r := report.Rejection{Ref: policy.RefOf(object), Place: place}
	r.APIVersion, _ = object["apiVersion"].(string)
	return r
}

// rejections returns the policies and bindings that the server would not store: those that cannot be decoded, and those
// that break a rule, which the engine reports.
func (w *world) rejections(e *celgate.Engine) []report.Rejection {
	all := slices.Clone(w.rejected)
	for _, r := range e.Rejections() {
		out := report.Rejection{APIVersion: r.APIVersion, Ref: r.Ref, Place: r.Position, Status: r.Status}
		locate := func(*field.Error) policy.Position { return r.Position }
		expr := (&policy.Policy{}).ExpressionAt
		if p := w.set.Policy(r.Ref); p != nil {
			locate, expr = p.Locate, p.ExpressionAt
		}
		if b := w.set.Binding(r.Ref); b != nil {
			locate = b.Locate
		}
		if l := w.set.Library(r.Ref); l != nil {
			locate, expr = l.Locate, l.At
		}
		if r.Status != nil && r.Status.Details != nil {
			for _, cause := range r.Status.Details.Causes {
				out.Problems = append(out.Problems,
					problemsOf(cause.Field, cause.Message, expr(cause.Field), locate)...)
			}
			w.hintImports(r.Ref, out.Problems)
		}
		all = append(all, out)
	}
	return all
}

// hintImports adds the library that would have to be imported to problems with undeclared names.
func (w *world) hintImports(ref policy.Ref, problems []report.Problem) {
	p := w.set.Policy(ref)
	if p == nil || p.Kind != policy.Admission {
		return
	}
	for i := range problems {
		if said := wording.Read(problems[i].Message); said.Kind == wording.Undeclared {
			problems[i].Hint = p.MeantImport(said.Name, w.set.Libraries)
		}
	}
}

// takesPlain reports whether objects of an unknown kind are used as written.
func (s *sources) takesPlain(kind schema.GroupVersionKind) bool {
	if s.plain || s.workloads == nil {
		return s.plain
	}
	paths, _ := s.workloads.PathsOf(kind)
	return len(paths) > 0 && !s.workloads.Off
}

// addPlain defines the unknown kinds of documents whose objects are to be used as written.
func (w *world) addPlain(c *console, docs []*manifest.Document, from *sources) {
	for _, d := range docs {
		kind := tree.Object(d.Object).Kind()
		if !from.takesPlain(kind) || kind.Group == "" || kind.Group == "celgate.dev" || w.types.Type(kind) != nil ||
			len(w.types.ServedVersions(kind.GroupKind())) > 0 {
			continue
		}
		types, err := w.types.WithCustomResources(crdOf(kind))
		if err != nil {
			continue // its request reports an unknown kind
		}
		w.types = types
		c.say(prefixPlace(d.Position(), "unknown kind "+kind.GroupVersion().String()+" "+kind.Kind+": its objects are used as written"), "")
	}
}

// addTypes adds the kinds of the CustomResourceDefinitions among docs. Of two with the same name the last wins.
func (w *world) addTypes(c *console, docs []*manifest.Document) {
	given := manifest.Definitions(docs)
	if len(given) == 0 {
		return
	}
	types, err := w.types.WithCustomResources(manifest.Trees(given)...)
	if err == nil {
		w.types = types
		return
	}
	for _, d := range given { // all valid ones, and each invalid one with its position
		types, err := w.types.WithCustomResources(d.Object)
		if err != nil {
			c.raise(exitFailed)
			c.say(prefixPlace(d.Position(), err.Error()), "")
			continue
		}
		w.types = types
	}
}

// withDocuments returns the cluster with the documents added as the server stores them. Documents that cannot be
// objects of a cluster are reported and left out.
func (w *world) withDocuments(c *console, cluster *state.Cluster, docs []*manifest.Document) *state.Cluster {
	var objects []map[string]any
	var given []*manifest.Document
	for _, d := range docs {
		if isReview(d.Object) {
			c.raise(exitFailed)
			c.say(prefixPlace(d.Position(), "an AdmissionReview is not an object of a cluster"),
				"give it as an argument, without -c")
			continue
		}
		object := d.Object
		if kind := tree.Object(object).Kind(); w.types.Type(kind) != nil {
			stored, _, err := prepare.ReadStored(object, w.types, kind)
			if err != nil {
				c.raise(exitFailed)
				c.say(prefixPlace(d.Position(), describe(object)+": "+err.Error()), "")
				continue
			}
			object = stored
		}
		objects, given = append(objects, object), append(given, d)
	}
	if next, err := cluster.With(objects...); err == nil {
		return next
	}
	seen := map[string]policy.Position{}
	for i, object := range objects { // one at a time, for the positions of errors
		o := tree.Object(object)
		id := fmt.Sprint(o.Kind().GroupKind(), o.Namespace(), "/", o.Name())
		if first, ok := seen[id]; ok {
			c.raise(exitFailed)
			c.say(prefixPlace(given[i].Position(), describe(object)+" is given twice"), "the first is at "+first.String())
			continue
		}
		seen[id] = given[i].Position()
		next, err := cluster.Add(object)
		if err != nil {
			c.raise(exitFailed)
			c.say(prefixPlace(given[i].Position(), err.Error()), "")
			continue
		}
		cluster = next
	}
	return cluster
}

// findShared returns a function that reports whether policies can read an object of a batch in requests about other
// objects.
func (w *world) findShared() func(map[string]any) bool {
	params := map[apischema.GroupKind]bool{}
	for _, p := range w.set.Policies {
		if p.ParamKind != nil {
			gv, err := apischema.ParseGroupVersion(p.ParamKind.APIVersion)
			if err == nil {
				params[gv.WithKind(p.ParamKind.Kind).GroupKind()] = true
			}
		}
	}
	return func(object map[string]any) bool {
		kind := tree.Object(object).Kind().GroupKind()
		return params[kind] || kind.Group == "rbac.authorization.k8s.io" || kind == namespaceKind.GroupKind()
	}
}

// policiesInForce returns the policies and bindings that take part in decisions, and prints the given ones that lack
// their other half.
func (w *world) policiesInForce(c *console, rejected []report.Rejection) *policy.Set {
	refused, bound, known := map[policy.Ref]bool{}, map[policy.Ref]bool{}, map[policy.Ref]bool{}
	force := &policy.Set{}
	for _, p := range w.set.Policies {
		known[p.Ref()] = true
	}
	for _, r := range rejected { // the name of an undecodable policy does exist
		refused[r.Ref], known[r.Ref] = true, true
	}
	var missing, unbound, hints []string
	for _, b := range w.set.Bindings {
		ref := b.PolicyRef()
		for _, named := range b.PolicyRefs() {
			bound[named] = true
			if !known[named] {
				ref = named
			}
		}
		switch {
		case refused[b.Ref()]:
		case known[ref]:
			force.Bindings = append(force.Bindings, b)
		default:
			missing = append(missing, fmt.Sprintf("%s (of %s)", ref.Name, b.Name))
			if hint := w.binds(b); hint != "" {
				hints = append(hints, hint)
			}
		}
	}
	for _, r := range w.rejected {
		if kind, binds := policy.KindOf(r.Kind); binds {
			// Its policy may have lost its only binding: one message is enough.
			bound[kind.Ref(r.Name)] = true
		}
	}
	for _, p := range w.set.Policies {
		switch {
		case refused[p.Ref()]:
		case bound[p.Ref()], p.Singleton != nil:
			force.Policies = append(force.Policies, p)
		default:
			unbound = append(unbound, p.Name)
		}
	}
	w.unbound = len(unbound) + len(missing)
	if len(unbound) > 0 {
		c.say("not in force without a binding: "+listFew(unbound), "")
	}
	if len(missing) > 0 {
		c.say("bindings whose policies are not given: "+listFew(missing), strings.Join(hints, "; "))
	}
	return force
}

// listFew lists a few names and counts the rest.
func listFew(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	const most = 5
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// surround adds to the cluster the missing namespaces of a batch, and its objects that admission plugins read.
func (w *world) surround(batch []*manifest.Document, a *asked) error {
	if err := w.share(batch, a.namespace); err != nil {
		return err
	}
	return w.assume(w.missingNamespaces(batch, a))
}

// share adds to the cluster the objects of a batch that admission plugins read. Of two with the same name the last one
// counts. An object that cannot be decoded is left out: the answer to its own request gives the reason.
func (w *world) share(batch []*manifest.Document, namespace string) error {
	type identity struct {
		kind            apischema.GroupKind
		namespace, name string
	}
	objects := map[identity]map[string]any{}
	first, err := w.defaultPriority()
	if err != nil {
		return err
	}
	for _, d := range batch {
		kind := tree.Object(d.Object).Kind()
		of := w.types.ResourceFor(kind)
		if of == nil || !plugins.LooksAt(kind.GroupKind()) || tree.Object(d.Object).Name() == "" {
			continue
		}
		d.Restore()
		object, _, err := prepare.ReadStored(of.WithNamespace(d.Object, namespace), w.types, kind)
		if err != nil {
			continue
		}
		o := tree.Object(object)
		if kind.GroupKind() == priorityKind.GroupKind() && o["globalDefault"] == true {
			if first = cmp.Or(first, o.Name()); first != o.Name() {
				continue // the server refuses a second default class
			}
		}
		if _, err := w.cluster.With(object); err == nil {
			objects[identity{kind.GroupKind(), o.Namespace(), o.Name()}] = object
		}
	}
	next, err := w.cluster.With(slices.Collect(maps.Values(objects))...)
	if err == nil {
		w.cluster = next
	}
	return err
}

var priorityKind = schedulingv1.SchemeGroupVersion.WithKind("PriorityClass")

// defaultPriority returns the name of the default PriorityClass of the given state; empty: there is none.
func (w *world) defaultPriority() (string, error) {
	classes, err := w.cluster.List(context.Background(), priorityKind, "")
	i := slices.IndexFunc(classes, func(class map[string]any) bool { return class["globalDefault"] == true })
	if i < 0 || err != nil {
		return "", err
	}
	return tree.Object(classes[i]).Name(), nil
}

// assume adds namespaces that requests name and that do not exist.
func (w *world) assume(namespaces map[string]bool) error {
	var objects []map[string]any
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		objects = append(objects, map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": name}})
	}
	cluster, err := w.cluster.With(objects...)
	if err == nil {
		w.cluster, w.assumed = cluster, namespaces
	}
	return err
}
