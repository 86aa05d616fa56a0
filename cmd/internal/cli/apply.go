package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/order"
	"github.com/celgate/celgate/cmd/internal/replay"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/internal/prepare"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An apply is one run of the verb.
type apply struct {
	*console
	policies, state []string
	live            live
	oldFile         string
	asked           asked
	kubeVersion     string
	reporting
	compact, summary bool
	quiet            bool
	strictness       strictness
	workloads        workloads
	unknownKinds     string // skip, plain or fail; empty: skip what no policy can match, else fail
	serverView       bool
	replay           bool
}

func newApply(c *console) *cobra.Command {
	a := &apply{console: c}
	cmd := &cobra.Command{
		Use:   "apply -p POLICIES|--context NAME [flags] MANIFEST|REVIEW|DIR|-...",
		Short: "Evaluate policies for manifests and admission requests",
		Long: `apply evaluates admission policies for manifests, as the API server would if you
applied them: what the policies deny, warn about and change.

A manifest is a CREATE, or an UPDATE if the cluster state holds the object. The
objects of one run see each other, in any order: a Namespace, a
CustomResourceDefinition or a param counts for the objects beside it. Arguments
may also be AdmissionReviews (admission.k8s.io), which are evaluated as they are.

With --kubeconfig or --context a live cluster is the state: apply reads kinds,
namespaces, params and stored objects when it needs them, and checks permissions
as the kubeconfig's user unless --as names another. Without -p it evaluates the
policies of the cluster. It writes nothing to the cluster.

With -o yaml apply is a filter: the manifests come out as they went in (comments,
order and quotes kept, no defaults added) with the changes of the policies. If
something is denied, standard output stays empty; messages go to standard error.
If standard input is a ResourceList, apply is a KRM function for kustomize and kpt.

celgate validates metadata and custom resources as the server does, but not the
other fields of built-in kinds, such as selectors: the server may still refuse an
object as invalid.

The exit status is 0 when nothing is denied, 1 when something is or --fail-on or
--replay says so, and 2 when something could not be evaluated, a policy or binding
is invalid, or no policy of -p is in force. docs/apply.md explains the status of
each object.`,
		Example: `  # may these manifests be applied?
  celgate apply -p policies/ manifests/

  # the same for a rendered chart
  helm template shop ./chart | celgate apply -p policies/ -

  # apply a kustomization with the changes of mutating policies
  kustomize build overlays/prod | celgate apply -p policies/ -o yaml - | kubectl apply -f -

  # in a cluster that has these namespaces, params and stored objects
  celgate apply -p policies/ -c cluster.yaml manifests/

  # in a live cluster, with its namespaces, params, kinds, permissions and objects
  celgate apply -p policies/ --context prod manifests/

  # with the policies of the cluster
  celgate apply --context prod manifests/

  # may dev delete the deployment? may it be scaled?
  celgate apply -p policies/ --operation DELETE --as dev web.yaml
  celgate apply -p policies/ --subresource deployments/scale --old scale.yaml new-scale.yaml

  # for a program
  celgate apply -p policies/ -o json review.yaml | jq '.items[].response'`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args) },
	}
	a.addFlags(cmd)
	return cmd
}

// addFlags adds the flags of the verb.
func (a *apply) addFlags(cmd *cobra.Command) {
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&a.policies, "policy", "p", nil,
			"`FILE|DIR|-` policies, bindings and the cluster state beside them;\nmay be repeated")
		f.StringArrayVarP(&a.state, "cluster-state", "c", nil,
			"`FILE|DIR|-` what exists in the cluster: namespaces, params,\nCustomResourceDefinitions, RBAC, stored objects;\nmay be repeated")
		a.live.flags(f)
		minorFlag(f, &a.kubeVersion, kubeVersionUsage)
		a.static.flags(f)
		a.unboundFlag(f)
		a.limitFlag(f)
	})
	group(cmd, "Requests made of manifests", func(f *pflag.FlagSet) { a.asked.flags(f, &a.oldFile) })
	group(cmd, "Workloads", a.workloads.flags)
	group(cmd, "Output", func(f *pflag.FlagSet) {
		a.reporting.flags(f, append(report.Formats(), "yaml"),
			"text (default), json, junit, sarif or github,\nor yaml: the given manifests with what policies change,\nfor kubectl apply -f -")
		f.BoolVar(&a.serverView, "server-view", false,
			"with -o yaml or json: print only the objects, as the server\nwould store them, with its defaults")
		f.BoolVarP(&a.quiet, "quiet", "q", false,
			"leave out objects with no result, or only changes")
		f.BoolVar(&a.compact, "compact", false, "with -o text: one line for each object")
		f.BoolVar(&a.summary, "summary", false,
			"a table instead of objects: how many were denied, warned about\nand changed, by policy and namespace")
		a.colorFlag(f)
	})
	group(cmd, "What fails", func(f *pflag.FlagSet) {
		f.StringSliceVar(&a.strictness.names, "fail-on", nil,
			"`FINDINGS` exit status 1 also for warn, unbound, unmatched,\nunknown-namespace or note; comma-separated, may be repeated")
		f.BoolVar(&a.strictness.strict, "strict", false, "--fail-on with all of them")
		f.StringVar(&a.unknownKinds, "unknown-kinds", "",
			"`WHAT` what to do with objects of unknown kinds: skip, plain\n(take them as they are) or fail (default: skip them if no\npolicy is for them)")
	})
	group(cmd, "Safety of mutations", func(f *pflag.FlagSet) {
		f.BoolVar(&a.replay, "replay", false,
			"run the mutating policies again on their results: exit status 1\nif that changes an object again, or if a policy undoes what\nanother one set")
	})
	completeWith(cmd, "fail-on", failOn...)
	completeWith(cmd, "unknown-kinds", "skip", "plain", "fail")
	a.complete(cmd)
}

func (a *apply) run(ctx context.Context, args []string) error {
	if text, ok, err := a.functionRequest(args); err != nil {
		return err
	} else if ok {
		if err := a.check([]string{"-"}); err != nil {
			return err
		}
		return a.runFunction(ctx, text)
	}
	if err := a.check(args); err != nil {
		return err
	}
	loader := &manifest.Loader{Stdin: a.stdin, MaxInput: a.maxInput}
	a.unbuilt(args)
	batch := a.readBatch(loader, args)
	w, err := a.prepareWorld(ctx, loader, batch)
	if err != nil {
		return err
	}
	engine, err := celgate.New(&w.set, w.options())
	if err != nil {
		return err
	}
	if err := a.sayOrder(engine); err != nil {
		return err
	}
	rejected := w.rejections(engine)
	if len(rejected) > 0 {
		a.raise(exitFailed)
	}
	if len(batch) == 0 && a.status == exitClean {
		return fmt.Errorf("no objects in %s", strings.Join(args, ", "))
	}

	force := w.policiesInForce(a.console, rejected)
	a.strictness.found["unbound"] += w.unbound
	a.strictness.found["note"] += w.foreign
	a.requirePolicies(a.policies, force)
	open, err := a.open(a.console)
	if err != nil {
		return err
	}
	d := &decider{world: w, engine: engine, asked: &a.asked, notes: newNotes(force, w, &a.asked), reasons: true,
		unknownKinds: a.unknownKinds, orders: true, workloads: &a.workloads.Workloads, templates: a.workloads.found,
		replay: a.replay}
	if a.summary && !slices.ContainsFunc(open, func(o *output) bool { return o.format != "text" }) {
		d.reasons = false // a table has no reasons
	}
	to, err := a.writers(d, open, report.Options{Set: force, Rejected: rejected, Types: w.types})
	if err != nil {
		return err
	}
	if err := a.decide(ctx, d, batch, to); err != nil {
		return err
	}
	d.concludeWorkloads(a.console, &a.workloads)
	a.strictness.judge(a.console, force)
	if err := to.report.Close(); err != nil {
		return err
	}
	return closeAll(open)
}

// prepareWorld returns the policies and the cluster in which the documents of batch are requests.
func (a *apply) prepareWorld(ctx context.Context, loader *manifest.Loader, batch []*manifest.Document) (*world, error) {
	from, err := a.sources(ctx)
	if err != nil {
		return nil, err
	}
	w, err := a.load(ctx, loader, from, batch)
	if err != nil {
		return nil, err
	}
	if a.oldFile != "" {
		if a.asked.old, err = w.oldCluster(a.console, a.read(loader, []string{a.oldFile}),
			a.asked.namespace); err != nil {
			return nil, err
		}
	}
	if err := w.identify(ctx, &a.asked); err != nil {
		return nil, err
	}
	if err := w.assume(w.missingNamespaces(batch, &a.asked)); err != nil {
		return nil, err
	}
	return w, nil
}

// writers returns what writes the answers of d to the open outputs. about has what all of them know.
func (a *apply) writers(d *decider, open []*output, about report.Options) (outputs, error) {
	to := outputs{all: open}
	var writers []report.Writer
	for _, o := range open {
		var writer report.Writer
		var err error
		switch {
		case a.serverView && (o.format == "json" || o.format == "yaml"):
			to.manifests, to.out = &serverView{types: about.Types, json: o.format == "json"}, o
			writer, err = a.newAsides(a.color, about.Set, about.Rejected)
		case o.format == "yaml":
			to.manifests, to.out, d.edits = &manifests{}, o, true
			writer, err = a.newAsides(a.color, about.Set, about.Rejected)
		default:
			d.changes = d.changes || o.format == "text"
			options := about
			options.Color, options.Width = o.color, o.width
			options.Quiet, options.Compact, options.Summary = a.quiet, a.compact, a.summary
			writer, err = report.New(o.format, o, options)
		}
		if err != nil {
			return outputs{}, err
		}
		writers = append(writers, writer)
	}
	to.report = report.Join(writers...)
	return to, nil
}

// check refuses a command line that cannot be meant.
func (a *apply) check(args []string) error {
	if len(args) == 0 {
		return withHint(&usageError{errors.New("no manifests given")},
			"name files or directories, or - for standard input")
	}
	if err := a.strictness.check(); err != nil {
		return err
	}
	if err := a.workloads.check(); err != nil {
		return err
	}
	if a.unknownKinds != "" && !slices.Contains([]string{"skip", "plain", "fail"}, a.unknownKinds) {
		return &usageError{fmt.Errorf("%w, not %q", errUnknownKinds, a.unknownKinds)}
	}
	stdin := 0
	for _, path := range slices.Concat(args, a.policies, a.state, []string{a.oldFile}) {
		if path == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return &usageError{errors.New("standard input can be read only once")}
	}
	if a.compact && a.summary {
		return &usageError{errors.New("--compact and --summary do not go together")}
	}
	if err := a.asked.check(); err != nil {
		return err
	}
	if err := a.strictness.check(); err != nil {
		return err
	}
	if a.unknownKinds != "" && !slices.Contains([]string{"skip", "plain", "fail"}, a.unknownKinds) {
		return &usageError{fmt.Errorf("%w, not %q", errUnknownKinds, a.unknownKinds)}
	}
	targets, err := a.targets()
	if err != nil {
		return err
	}
	objects := 0
	for _, t := range targets {
		if t.format == "yaml" || t.format == "json" && a.serverView {
			objects++
		}
	}
	switch {
	case a.serverView && objects == 0:
		return &usageError{errors.New("--server-view goes with -o yaml or -o json")}
	case objects > 1:
		return &usageError{errors.New("manifests can be written to only one output")}
	}
	return nil
}

// noteUnsafe raises the exit status for an object whose mutations are not safe to run again.
func noteUnsafe(c *console, it report.Item) {
	if it.Replay != nil && (!it.Replay.IsIdempotent() || !it.Replay.Survives()) {
		c.raise(exitDenied)
	}
}

// decide writes the answer for each document, in their order.
func (a *apply) decide(ctx context.Context, d *decider, batch []*manifest.Document, to outputs) error {
	// Only here does an interrupt end things in order; while files are read it ends the program at once.
	ctx, stop := interruptible(ctx)
	defer stop()
	a.progress = newProgress(a.console, len(batch))
	defer a.progress.clear()
	immediately := isTerminal(a.stdout)
	done, denied := 0, 0
	for it := range mapInOrder(consume(batch), runtime.GOMAXPROCS(0),
		func(doc *manifest.Document) answer { return d.answer(ctx, doc) }) {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if it.Decision != nil {
			a.strictness.count(it.Decision)
		}
		switch {
		case it.Failure != nil && it.Failure.Skipped:
			a.strictness.found["note"]++
		case it.Failure != nil:
			a.raise(exitFailed)
			if err := flushAll(to.all); err != nil {
				return err
			}
			a.say(prefixPlace(it.Place, subject(it.Item)+it.Failure.Message), it.Failure.Hint)
		case d.world.unreadError() != nil:
			a.raise(exitFailed)
		case !it.Decision.Allowed:
			a.raise(exitDenied)
			denied++
		}
		if immediately || to.manifests != nil {
			a.progress.clear()
		}
		if err := to.report.Write(it.Item); err != nil {
			return err
		}
		noteUnsafe(a.console, it.Item)
		refused, err := a.writeFollowed(it.followed, to.report)
		if err != nil {
			return err
		}
		denied += refused
		if immediately {
			if err := flushAll(to.all); err != nil {
				return err
			}
		}
		if to.manifests != nil && a.status == exitClean {
			if err := to.manifests.add(it); err != nil {
				return err
			}
		}
		done++
		a.progress.step(done)
	}
	if err := d.world.unreadError(); err != nil {
		a.say("the answers are not reliable: celgate could not read everything in the cluster", "")
		a.sayError(err)
	}
	switch {
	case to.manifests == nil:
	case a.status == exitClean:
		return to.manifests.flush(to.out)
	default:
		a.withhold(denied, done)
	}
	return nil
}

// writeFollowed writes the answers about what controllers make of an object, and returns how many are denied.
func (a *apply) writeFollowed(children []report.Item, to report.Writer) (denied int, err error) {
	for _, child := range children {
		noteUnsafe(a.console, child)
		switch {
		case child.Failure != nil:
			a.raise(exitFailed)
			a.say(prefixPlace(child.Place, subject(child)+child.Failure.Message), child.Failure.Hint)
		case !child.Decision.Allowed:
			a.raise(exitDenied)
			denied++
		}
		if child.Decision != nil {
			a.strictness.count(child.Decision)
		}
		if err := to.Write(child); err != nil {
			return denied, err
		}
	}
	return denied, nil
}

// outputs are where answers go. The manifests, if they are asked for, are the result; a report is then written beside
// it.
type outputs struct {
	all       []*output
	report    report.Writer
	manifests writing // nil: none
	out       *output // of the manifests
}

func subject(it report.Item) string {
	if it.Kind.Kind == "" {
		return ""
	}
	return strings.TrimSpace(it.Kind.Kind+" "+it.Name) + ": "
}

// consume yields documents and lets go of them, so that a large input is not held twice.
func consume(docs []*manifest.Document) func(func(*manifest.Document) bool) {
	return func(yield func(*manifest.Document) bool) {
		for i, d := range docs {
			docs[i] = nil
			if !yield(d) {
				return
			}
		}
	}
}

// A decider answers for one document after another, on several goroutines.
type decider struct {
	edits   bool // say what mutations make of the documents
	changes bool // say what each policy changed
	orders  bool // note where the order of policies matters
	bare    bool // nobody looks at the objects of decisions
	world   *world
	engine  *celgate.Engine
	asked   *asked
	notes   *notes
	reasons bool            // find those for what is not as it should be
	how     explain.Options // of the decisions

	replay       bool                // run mutations once more
	unknownKinds string              // as --unknown-kinds
	workloads    *requests.Workloads // nil: none is followed
	templates    *templates          // nil: nobody asks
	// is called after each answer, those about what controllers make too; nil: nobody asks
	answered func()
}

func (d *decider) answer(ctx context.Context, doc *manifest.Document) (it answer) {
	it.doc = doc
	it.Item = report.Item{Place: doc.Position(), Kind: tree.Object(doc.Object).Kind(), Name: nameOf(doc.Object),
		Misread: doc.Misreadings}
	if isReview(doc.Object) {
		it.Kind, it.Name = schema.GroupVersionKind{Version: it.Kind.GroupVersion().String(), Kind: "AdmissionReview"},
			""
	}
	defer func() {
		if p := recover(); p != nil { // one object that breaks something must not take the others with it
			it.Decision, it.edit = nil, nil
			it.Failure = &report.Failure{Message: fmt.Sprintf("internal error: %v", p),
				Hint: "please report it, with this:\n" + string(debug.Stack())}
		}
	}()
	fail := func(err error) answer {
		it.Failure = &report.Failure{Message: err.Error(), Hint: hintOf(err)}
		return it
	}
	d.templates.noteKind(it.Kind.GroupKind())
	if d.edits && isReview(doc.Object) {
		return fail(withHint(errors.New("-o yaml prints manifests, and an AdmissionReview is not one"),
			"use -o json, or -o yaml with --server-view"))
	}
	if kind := tree.Object(doc.Object).Kind(); !isReview(doc.Object) && d.skips(kind) {
		it.Failure = skippedFailure(kind)
		return it
	}
	doc.Restore()
	request, err := d.world.request(ctx, doc, d.asked)
	if err != nil {
		if m, ok := doc.Misreading("metadata.name"); ok {
			err = withHint(err, "%s", m.Hint)
		}
		return fail(err)
	}
	place := doc.Place
	if isReview(doc.Object) {
		place = nil
	}
	stored := d.decideAbout(ctx, &it, request, place)
	if d.edits && it.Decision != nil && it.Decision.Allowed && it.Decision.Mutated {
		if err = d.edit(ctx, &it); err != nil {
			it.Decision, it.edit = nil, nil
			return fail(err)
		}
	}
	if stored != nil {
		var err error
		if it.followed, err = d.follow(ctx, doc, it.Request, stored); err != nil {
			it.Decision.Notes = append(it.Decision.Notes, celgate.Note{Message: unfollowedNote(err)})
		}
	}
	return it
}

// decideAbout answers a request. It returns the object as it would be stored, nil if it would not be. Place finds
// fields of the object; nil: nobody can.
func (d *decider) decideAbout(ctx context.Context, it *answer, request *celgate.Request,
	place func(field string) policy.Locator) (stored map[string]any) {
	if d.answered != nil {
		defer d.answered()
	}
	fail := func(err error) map[string]any {
		it.Decision, it.edit = nil, nil
		it.Failure = &report.Failure{Message: err.Error(), Hint: hintOf(err)}
		return nil
	}
	it.Request = request
	prepared, err := d.engine.Prepare(ctx, request)
	if err != nil {
		status, ok := refusal(err)
		if !ok {
			return fail(err)
		}
		it.Decision = &celgate.Decision{Status: status}
		return nil
	}
	it.Request, it.Prepared = prepared.Request(), prepared
	if it.Decision, err = d.engine.Explain(ctx, prepared, d.how); err != nil {
		it.Decision = nil
		return fail(err)
	}
	if d.reasons && (len(it.Decision.Violations) > 0 ||
		slices.ContainsFunc(it.Decision.Outcomes, func(o celgate.Outcome) bool { return o.Verdict == celgate.Error })) {
		it.Reasons = blame.Reasons(ctx, d.engine, prepared, it.Decision.Outcomes)
	}
	it.Locate = locate(place, it.Decision)
	if d.changes {
		it.Changes = d.shownChanges(it.Decision.Changes)
	}
	if d.orders {
		note, err := order.Note(ctx, d.engine, prepared, it.Decision)
		if err != nil {
			it.Decision = nil
			return fail(err)
		}
		if note != nil {
			it.Decision.Notes = append(it.Decision.Notes, *note)
		}
	}
	if d.replay {
		if it.Replay, err = replay.Run(ctx, d.engine, prepared, it.Decision, d.world.types); err != nil {
			it.Decision = nil
			return fail(err)
		}
		for _, text := range it.Replay.Messages() {
			it.Decision.Notes = append(it.Decision.Notes, celgate.Note{Message: text})
		}
	}
	if note := requests.NoteSize(request); note != nil {
		it.Decision.Notes = append(it.Decision.Notes, *note)
	}
	d.notes.add(it.Decision, it.Request, isReview(it.doc.Object))
	if it.Decision.Allowed {
		stored = it.Decision.Object
	}
	if !d.bare {
		it.Decision.Object = d.returnedObject(it.Decision.Object, it.Request)
	}
	return stored
}

// locate finds fields of the object that was decided about; nil if nobody can. What mutations may have moved is placed
// at the list that it is in.
func locate(place func(field string) policy.Locator, d *celgate.Decision) func(string) policy.Position {
	if place == nil {
		return nil
	}
	return func(field string) policy.Position {
		if list, _, ok := strings.Cut(field, "["); ok && d.Mutated {
			field = list
		}
		return place(field).Locate(0)
	}
}

// returnedObject is the object of a decision as the server returns it: read again from what was written. Custom objects
// are written as the JSON that they are.
func (d *decider) returnedObject(object map[string]any, r *celgate.Request) map[string]any {
	resource := d.world.types.Resource(r.Resource)
	if object == nil || resource == nil || resource.Definition != nil || r.SubResource != "" && r.SubResource != "status" {
		return object
	}
	if again, _, err := prepare.Canonical(object, d.world.types, r.Kind); err == nil {
		return again
	}
	return object
}

// skips reports that an object is of a kind without a resource that is left out: those of celgate, which are for no
// cluster, and unknown ones that no policy can be for. A mistake for a kind of the server does not count.
func (d *decider) skips(kind schema.GroupVersionKind) bool {
	if kind.Group == "celgate.dev" {
		return true
	}
	if d.unknownKinds == "fail" || kind.Kind == "" || kind.Version == "" || kind.Group == "kustomize.config.k8s.io" {
		return false
	}
	if len(d.world.types.ServedVersions(kind.GroupKind())) > 0 || d.world.types.ResourceFor(kind) != nil ||
		d.world.types.Type(kind) != nil {
		return false
	}
	if d.unknownKinds == "skip" {
		return true
	}
	_, _, err := (&celgate.Requester{Types: d.world.types}).Target(kind, "")
	var unknown *celgate.ResourceError
	if errors.As(err, &unknown) && unknown.Mistaken {
		return false
	}
	return d.unknownKinds == "" && !mayMatch(&d.world.set, kind)
}

// refusal returns the status of an error that is the server's answer.
func refusal(err error) (*metav1.Status, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil, false
	}
	s := status.Status()
	return &s, true
}

// notes are said about decisions that rest on what was not given.
type notes struct {
	types      *schema.Registry
	assumed    map[string]bool       // namespaces
	namespaces bool                  // a policy looks at namespaces
	user       string                // who is assumed to make requests; empty: it was said
	users      map[policy.Ref]bool   // policies that look at the user
	madeUp     map[policy.Ref]string // what policies look at of the user and nothing says
}

func newNotes(set *policy.Set, w *world, a *asked) *notes {
	n := &notes{types: w.types, assumed: w.assumed, users: map[policy.Ref]bool{},
		madeUp: map[policy.Ref]string{}}
	if a.user == "" && a.pod == "" && a.self == nil {
		n.user = defaultUser
	}
	selects := func(m *policy.MatchResources) bool {
		return m != nil && m.NamespaceSelector != nil &&
			len(m.NamespaceSelector.MatchLabels)+len(m.NamespaceSelector.MatchExpressions) > 0
	}
	for _, b := range set.Bindings {
		n.namespaces = n.namespaces || selects(b.MatchResources)
	}
	for _, p := range set.Policies {
		n.namespaces = n.namespaces || selects(p.MatchConstraints)
		n.madeUp[p.Ref()] = a.identity.NoteFor(p)
		for e := range p.Expressions() {
			n.namespaces = n.namespaces || strings.Contains(e.Src, "namespaceObject")
			if strings.Contains(e.Src, "request.userInfo") || strings.Contains(e.Src, "authorizer") {
				n.users[p.Ref()] = true
			}
		}
	}
	return n
}

func (n *notes) add(d *celgate.Decision, r *celgate.Request, reviewed bool) {
	resource := n.types.Resource(r.Resource)
	switch written := r.Operation == celgate.Create || r.Operation == celgate.Update; {
	case !d.Allowed || resource != nil && resource.Definition != nil: // a custom object is validated
	case d.Mutated:
		d.Notes = append(d.Notes, report.NotValidatedNote(report.NotValidated))
	case written && resource != nil:
		d.Notes = append(d.Notes, report.NotValidatedNote(report.ObjectNotValidated))
	}
	if reviewed {
		return
	}
	if n.namespaces && n.assumed[r.Namespace] && r.Kind != namespaceKind {
		d.Notes = append(d.Notes, celgate.Note{Topic: unknownNamespace, Message: fmt.Sprintf(
			"namespace %q is not in the cluster state and assumed to have no labels of its own; give it with -c or among the manifests", r.Namespace)})
	}
	for _, o := range d.Outcomes {
		if said := n.madeUp[o.Kind.Ref(o.Policy)]; said != "" {
			d.Notes = append(d.Notes, celgate.Note{Message: said})
			break
		}
	}
	if n.user != "" && r.UserAssumed &&
		slices.ContainsFunc(d.Outcomes, func(o celgate.Outcome) bool { return n.users[o.Kind.Ref(o.Policy)] }) {
		d.Notes = append(d.Notes, celgate.Note{Message: fmt.Sprintf(
			"policies look at the user, who is %q here, without permissions or groups; name another with --as and --as-group", n.user)})
	}
}

// missingNamespaces returns the namespaces that manifests name and that exist nowhere. On a server such a request
// fails; a reader of rendered manifests wants to know what would be said in a cluster that has the namespace. An
// AdmissionReview is decided about exactly.
func (w *world) missingNamespaces(batch []*manifest.Document, a *asked) map[string]bool {
	missing := map[string]bool{}
	if w.live != nil { // what does not exist there is known not to
		return missing
	}
	for _, d := range batch {
		if isReview(d.Object) {
			continue
		}
		to, err := w.target(tree.Object(d.Object).Kind(), a.subresource)
		if err != nil || !to.Namespaced {
			continue
		}
		name := w.namespaceOf(d.Object, to, a)
		if missing[name] {
			continue
		}
		if known, err := w.cluster.Get(context.Background(), namespaceKind, "", name); known == nil && err == nil {
			missing[name] = true
		}
	}
	return missing
}
