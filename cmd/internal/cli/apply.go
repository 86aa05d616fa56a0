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
)

// An apply is one run of the verb.
type apply struct {
	*console
	policies, state []string
	live            live
	oldFile         string
	asked           asked
	kubeVersion     string
	plugins         []string // of --admission-plugins
	reporting
	compact, summary bool
	quiet            bool
	strictness       strictness
	workloads        workloads
	unknownKinds     string // skip, plain or fail; empty: skip if no policy can match, else fail
	serverView       bool
	replay           bool
	confirm          bool
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

Objects are filled in, validated and refused as the server does it beside policies: by
the admission plugins that are on by default, with what the cluster state has for them,
and by its validation. What would still have a say and was not asked is named below each
object. --confirm asks the live cluster itself by dry runs.

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
			"`FILE|DIR|-` existing objects of the cluster: namespaces, params,\nCustomResourceDefinitions, RBAC, stored objects;\nmay be repeated")
		a.live.flags(f)
		f.BoolVar(&a.confirm, "confirm", false,
			"also send each request to the live cluster as a dry run, and\nshow where its answer differs: exit status 1 if it refuses\nwhat celgate allows")
		minorFlag(f, &a.kubeVersion, kubeVersionUsage)
		a.static.flags(f)
		pluginsFlag(f, &a.plugins)
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
	engine, err := celgate.New(&w.set, w.wholeOptions(a.plugins))
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
	if a.confirm {
		d.confirming = &confirming{server: w.live, otherPolicies: len(a.policies) > 0}
	}
	if a.summary && !slices.ContainsFunc(open, func(o *output) bool { return o.format != "text" }) {
		d.reasons = false // a table does not show reasons
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

func pluginsFlag(f *pflag.FlagSet, plugins *[]string) {
	f.StringSliceVar(plugins, "admission-plugins", nil,
		"`NAMES` admission plugins of kube-apiserver to simulate beside those\nthat are on by default or, with a dash before them, not to\nsimulate; -* for none; comma-separated, may be repeated")
}

// pluginsFlagAside adds the flag to a command in which plugins do not take part unless it is given.
func pluginsFlagAside(f *pflag.FlagSet, plugins *[]string) {
	f.StringSliceVar(plugins, "admission-plugins", nil,
		"`NAMES` let admission plugins of kube-apiserver take part: default\nfor those that are on by default, and names beside them or, with\na dash before them, left out (default: none takes part, and those\nthat would have an effect are named); comma-separated, may be repeated")
}

// prepareWorld returns the policies and the cluster for requests made of the documents of batch.
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
	if err := w.surround(batch, &a.asked); err != nil {
		return nil, err
	}
	return w, nil
}

// writers returns writers of the answers of d to the open outputs; about is common to all of them.
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

// check refuses invalid combinations of arguments and flags.
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
		return &usageError{errors.New("--compact and --summary cannot be combined")}
	}
	if a.confirm && (a.live == (live{}) || a.oldFile != "" || a.asked.names()) {
		return &usageError{errors.New("--confirm asks a live cluster as the user of the kubeconfig: it requires --kubeconfig or --context, without --as, --as-pod or --old")}
	}
	if err := a.asked.check(); err != nil {
		return err
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
		return &usageError{errors.New("--server-view requires -o yaml or -o json")}
	case objects > 1:
		return &usageError{errors.New("manifests can be written to only one output")}
	}
	return nil
}

// noteUnsafe raises the exit status for an object whose mutations are not safe to repeat.
func noteUnsafe(c *console, it report.Item) {
	if it.Replay != nil && (!it.Replay.IsIdempotent() || !it.Replay.Survives()) {
		c.raise(exitDenied)
	}
}

// decide writes the answer for each document, in their order.
func (a *apply) decide(ctx context.Context, d *decider, batch []*manifest.Document, to outputs) error {
	// From here on an interrupt ends the run in order; while files are read it ends the program at once.
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
		case !it.Decision.Allowed || it.Confirmation != nil && it.Confirmation.Refused:
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

// writeFollowed writes the answers for the objects that controllers create from an object, and returns the number of
// denials.
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

// outputs are the destinations of answers. If manifests are requested, they are the result, and a report is written
// beside them.
type outputs struct {
	all       []*output
	report    report.Writer
	manifests writing // nil: not requested
	out       *output // of the manifests
}

func subject(it report.Item) string {
	if it.Kind.Kind == "" {
		return ""
	}
	return strings.TrimSpace(it.Kind.Kind+" "+it.Name) + ": "
}

// consume yields documents and releases them, so that a large input is not kept twice.
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

// A decider answers for documents, on several goroutines.
type decider struct {
	edits   bool // find the effects of mutations on the text of the documents
	changes bool // list the changes of each policy
	orders  bool // note where the order of policies matters
	bare    bool // the objects of decisions are not used
	world   *world
	engine  *celgate.Engine
	asked   *asked
	notes   *notes
	reasons bool            // find the reasons of denials, warnings and failures
	how     explain.Options // of the decisions

	replay       bool                // run mutations a second time
	unknownKinds string              // of --unknown-kinds
	workloads    *requests.Workloads // nil: workloads are not followed
	templates    *templates          // nil: not recorded
	// answered is called after each answer, including those for objects that controllers create; may be nil
	answered func()

	confirming *confirming // nil: the live cluster is not asked what it answers
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
		if p := recover(); p != nil { // a panic about one object must not lose the answers for the others
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
			err = withHint(err, "%s", m.Message)
		}
		return fail(err)
	}
	place := doc.Place
	if isReview(doc.Object) {
		place = nil
	}
	stored := d.decideAbout(ctx, &it, request, place)
	if it.Decision != nil {
		it.Confirmation = d.confirm(ctx, &it, request)
	}
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

// decideAbout answers a request. It returns the object as it would be stored, or nil if it would not be stored. place
// locates fields of the object; it may be nil.
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
		status, ok := requests.Refusal(err)
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

// locate returns a function that locates fields of the object of a decision; nil without place. A field that mutations
// may have moved has the position of the list that contains it.
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

// returnedObject returns the object of a decision as the server's response has it: decoded again from its stored form.
// Custom objects are stored as the JSON that they are.
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

// skips reports whether an object is left out because its kind does not have a resource: celgate's own file formats,
// and unknown kinds that no policy can match. A misspelt kind of the server is not skipped.
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
	_, _, err := d.world.types.Target(kind, "")
	var unknown *schema.ResourceError
	if errors.As(err, &unknown) && unknown.Mistaken {
		return false
	}
	return d.unknownKinds == "" && !mayMatch(&d.world.set, kind)
}

// notes collect the assumptions behind decisions, for values that were not given.
type notes struct {
	assumed    map[string]bool       // names of namespaces
	namespaces bool                  // a policy reads namespaces
	user       string                // the assumed user of requests; empty: the user was given
	users      map[policy.Ref]bool   // policies that read the user
	madeUp     map[policy.Ref]string // properties of the user that policies read and that were not given
}

func newNotes(set *policy.Set, w *world, a *asked) *notes {
	n := &notes{assumed: w.assumed, users: map[policy.Ref]bool{},
		madeUp: map[policy.Ref]string{}}
	if a.user == "" && a.pod == "" && a.self == nil {
		n.user = defaultUser
	}
	n.namespaces = requests.ReadNamespaces(set)
	for _, p := range set.Policies {
		n.madeUp[p.Ref()] = a.identity.NoteFor(p)
		n.users[p.Ref()] = requests.ReadsUser(p)
	}
	return n
}

func (n *notes) add(d *celgate.Decision, r *celgate.Request, reviewed bool) {
	if reviewed {
		return
	}
	if n.namespaces && n.assumed[r.Namespace] && r.Kind != namespaceKind {
		d.Notes = append(d.Notes, celgate.Note{Topic: unknownNamespace, Message: fmt.Sprintf(
			"namespace %q is not in the cluster state: celgate assumes that it exists without labels of its own; add it with -c or to the manifests", r.Namespace)})
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
			"policies depend on the user, which is %q without permissions and groups; set another with --as and --as-group", n.user)})
	}
}

// missingNamespaces returns the namespaces that manifests name and that do not exist. On a server such a request fails;
// here the answer is the one in a cluster that has the namespace, because rendered manifests often lack it. An
// AdmissionReview is answered exactly.
func (w *world) missingNamespaces(batch []*manifest.Document, a *asked) map[string]bool {
	missing := map[string]bool{}
	if w.live != nil { // anything else does not exist
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
		name := to.NamespaceOf(d.Object, a.namespace)
		if missing[name] {
			continue
		}
		if known, err := w.cluster.Get(context.Background(), namespaceKind, "", name); known == nil && err == nil {
			missing[name] = true
		}
	}
	return missing
}
