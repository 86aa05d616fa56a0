package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/report"
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
	output, color   string
	quiet           bool
	serverView      bool
}

func newApply(c *console) *cobra.Command {
	a := &apply{console: c}
	cmd := &cobra.Command{
		Use:   "apply -p POLICIES|--context NAME [flags] MANIFEST|REVIEW|DIR|-...",
		Short: "Decide about manifests and admission requests",
		Long: `apply tells what the API server's admission policies would say if the given
manifests were applied: what is denied, what is warned about, what is changed.

Each manifest is a CREATE, or an UPDATE when the cluster state holds that object.
The objects of one run see each other: a Namespace, a CustomResourceDefinition or
a param counts for the objects beside it, whatever their order. Arguments may also
be AdmissionReviews (admission.k8s.io), which are decided about as they stand.

With --kubeconfig or --context a live cluster is the state: its kinds, namespaces,
params and stored objects are read when they are needed, and rights are asked of it,
as those of the kubeconfig's user unless --as names another. Nothing is written to
it. Without -p the policies are those in force there.

With -o yaml apply is a filter: the manifests come out as they went in (comments,
order and quotes kept, no defaults added) but for what policies change. A denial
leaves standard output empty; what there is to say goes to standard error. When
standard input is a ResourceList, apply is a KRM function for kustomize and kpt.

The exit status is 0 when nothing is denied, 1 when something is, and 2 when
something could not be decided about or a policy is none that the server would store.`,
		Example: `  # may these manifests be applied?
  celgate apply -p policies/ manifests/

  # the same for a rendered chart
  helm template shop ./chart | celgate apply -p policies/ -

  # what mutating policies make of a kustomization, into the cluster
  kustomize build overlays/prod | celgate apply -p policies/ -o yaml - | kubectl apply -f -

  # in a cluster that has these namespaces, params and stored objects
  celgate apply -p policies/ -c cluster.yaml manifests/

  # in a live cluster: its namespaces, params, kinds, rights and stored objects
  celgate apply -p policies/ --context prod manifests/

  # what would its own policies say?
  celgate apply --context prod manifests/

  # may dev delete the deployment? may it be scaled?
  celgate apply -p policies/ --operation DELETE --as dev web.yaml
  celgate apply -p policies/ --subresource deployments/scale --old scale.yaml new-scale.yaml

  # for a program
  celgate apply -p policies/ -o json review.yaml | jq '.items[].response'`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args) },
	}
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&a.policies, "policy", "p", nil, "`FILE|DIR|-` policies, bindings and the cluster state that lies\nbeside them; may be repeated")
		f.StringArrayVarP(&a.state, "cluster-state", "c", nil, "`FILE|DIR|-` what exists in the cluster: namespaces, params,\nCustomResourceDefinitions, RBAC, stored objects;\nmay be repeated")
		a.live.flags(f)
		f.StringVar(&a.kubeVersion, "kube-version", "", "`MINOR` the Kubernetes that decides (default "+celgate.Newest+",\nor that of the live cluster)")
		a.limitFlag(f)
	})
	group(cmd, "Requests made of manifests", func(f *pflag.FlagSet) {
		f.StringVarP(&a.asked.namespace, "namespace", "n", "", "`NAME` the namespace of manifests that name none\n(default \"default\", or the context's with a live cluster)")
		f.StringVar(&a.asked.operation, "operation", "", "`OPERATION` CREATE, UPDATE, DELETE or CONNECT, whatever the\ncluster state holds")
		f.StringVar(&a.oldFile, "old", "", "`FILE|DIR|-` the objects as they are stored before an update\nor a deletion")
		f.StringVar(&a.asked.subresource, "subresource", "", "`NAME` a subresource, such as status or deployments/scale")
		f.StringVar(&a.asked.user, "as", "", "`USER` the user who makes the requests (default celgate,\nor the kubeconfig's with a live cluster)")
		f.StringArrayVar(&a.asked.groups, "as-group", nil, "`GROUP` a group of that user; may be repeated")
		f.BoolVar(&a.asked.dryRun, "dry-run", false, "requests are dry-run requests")
	})
	group(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVarP(&a.output, "output", "o", "text", "`FORMAT` text (default), json, junit, sarif or github,\nor yaml: the given manifests with what policies change,\nfor kubectl apply -f -")
		f.BoolVar(&a.serverView, "server-view", false, "with -o yaml or json: the objects as the server would\nhold them, with its defaults, and nothing else")
		f.BoolVarP(&a.quiet, "quiet", "q", false, "leave out objects about which there is nothing to say")
		f.StringVar(&a.color, "color", "auto", "`WHEN` auto, always or never (default auto)")
	})
	completeWith(cmd, "operation", "CREATE", "UPDATE", "DELETE", "CONNECT")
	completeWith(cmd, "output", formats()...)
	completeWith(cmd, "color", "auto", "always", "never")
	return cmd
}

// formats are the names that --output takes.
func formats() []string { return append(report.Formats(), "yaml") }

// completeWith makes shells complete a flag with fixed values. The only error is a flag that does not exist.
func completeWith(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
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
	colored, err := a.colored(a.color)
	if err != nil {
		return err
	}

	loader := &manifest.Loader{Stdin: a.stdin, MaxInput: a.maxInput}
	batch := a.read(loader, args)
	from, err := a.sources(ctx)
	if err != nil {
		return err
	}
	w, err := a.load(ctx, loader, from, batch)
	if err != nil {
		return err
	}
	if a.oldFile != "" {
		if a.asked.old, err = w.oldCluster(a.console, a.read(loader, []string{a.oldFile}), a.asked.namespace); err != nil {
			return err
		}
	}
	if err := w.assume(w.missingNamespaces(batch, &a.asked)); err != nil {
		return err
	}
	engine, err := celgate.New(&w.set, w.options())
	if err != nil {
		return err
	}
	rejected := w.rejections(engine)
	if len(rejected) > 0 {
		a.raise(exitFailed)
	}
	if len(batch) == 0 && a.status == exitClean {
		return fmt.Errorf("no objects in %s", strings.Join(args, ", "))
	}

	force := w.inForce(a.console, rejected)
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	d := &decider{world: w, engine: engine, asked: &a.asked, notes: newNotes(force, w, &a.asked)}
	d.changes = a.output == "text"
	var texts writing
	var writer report.Writer
	switch {
	case a.serverView:
		texts = &serverView{types: w.types, json: a.output == "json"}
	case a.output == "yaml":
		texts, d.edits = &manifests{}, true
	}
	if texts != nil {
		writer, err = a.newAsides(a.color, force, rejected)
	} else {
		writer, err = report.New(a.output, out, report.Options{
			Set: force, Rejected: rejected, Types: w.types, Color: colored, Width: a.width(), Quiet: a.quiet,
		})
	}
	if err != nil {
		return &usageError{err}
	}
	if err := a.decide(ctx, d, batch, outputs{writer, texts, out}); err != nil {
		return err
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// check refuses a command line that cannot be meant.
func (a *apply) check(args []string) error {
	if len(args) == 0 {
		return withHint(&usageError{errors.New("no manifests given")}, "name files or directories, or - for standard input")
	}
	stdin := 0
	for _, path := range slices.Concat(args, a.policies, a.state, []string{a.oldFile}) {
		if path == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return &usageError{errors.New("standard input can be read once only")}
	}
	a.asked.operation = strings.ToUpper(a.asked.operation)
	if op := a.asked.operation; op != "" && !slices.Contains([]string{"CREATE", "UPDATE", "DELETE", "CONNECT"}, op) {
		return &usageError{fmt.Errorf("--operation is CREATE, UPDATE, DELETE or CONNECT, not %q", op)}
	}
	if len(a.asked.groups) > 0 && a.asked.user == "" {
		return &usageError{errors.New("--as-group without --as")}
	}
	if !slices.Contains(formats(), a.output) {
		return &usageError{fmt.Errorf("unknown output format %q: one of %s", a.output, strings.Join(formats(), ", "))}
	}
	if a.serverView && a.output != "yaml" && a.output != "json" {
		return &usageError{errors.New("--server-view goes with -o yaml or -o json")}
	}
	return nil
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
	for it := range ordered(consumed(batch), runtime.GOMAXPROCS(0), func(doc *manifest.Document) answer { return d.answer(ctx, doc) }) {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		switch {
		case it.Failure != nil:
			a.raise(exitFailed)
			if err := to.out.Flush(); err != nil {
				return err
			}
			a.say(at(it.Place, subject(it.Item)+it.Failure.Message), it.Failure.Hint)
		case d.world.unread() != nil:
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
		if immediately {
			if err := to.out.Flush(); err != nil {
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
	if err := d.world.unread(); err != nil {
		a.say("the answers cannot be trusted, because not everything in the cluster could be read", "")
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

// outputs are where answers go. The manifests, if they are asked for, are the result; a report is then written beside it.
type outputs struct {
	report    report.Writer
	manifests writing // nil: none
	out       *bufio.Writer
}

func subject(it report.Item) string {
	if it.Kind.Kind == "" {
		return ""
	}
	return strings.TrimSpace(it.Kind.Kind+" "+it.Name) + ": "
}

// consumed yields documents and lets go of them, so that a large input is not held twice.
func consumed(docs []*manifest.Document) func(func(*manifest.Document) bool) {
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
	world   *world
	engine  *celgate.Engine
	asked   *asked
	notes   *notes
}

func (d *decider) answer(ctx context.Context, doc *manifest.Document) (it answer) {
	it.doc = doc
	it.Item = report.Item{Place: doc.Position(), Kind: kindOf(doc.Object), Name: nameOf(doc.Object)}
	if isReview(doc.Object) {
		it.Kind, it.Name = schema.GroupVersionKind{Version: it.Kind.GroupVersion().String(), Kind: "AdmissionReview"}, ""
	}
	defer func() {
		if p := recover(); p != nil { // one object that breaks something must not take the others with it
			it.Decision, it.edit = nil, nil
			it.Failure = &report.Failure{Message: fmt.Sprintf("internal error: %v", p), Hint: "please report it, with this:\n" + string(debug.Stack())}
		}
	}()
	fail := func(err error) answer {
		it.Failure = &report.Failure{Message: err.Error(), Hint: hintOf(err)}
		return it
	}
	if d.edits && isReview(doc.Object) {
		return fail(withHint(errors.New("-o yaml prints manifests, and an AdmissionReview is none"), "use -o json, or -o yaml with --server-view"))
	}
	request, err := d.world.request(ctx, doc, d.asked)
	if err != nil {
		return fail(err)
	}
	it.Request = request
	prepared, warnings, err := d.engine.Prepare(request)
	if err != nil {
		status, ok := refusal(err)
		if !ok {
			return fail(err)
		}
		it.Decision = &celgate.Decision{Status: status}
		return it
	}
	it.Request = prepared
	if status := d.world.noNamespace(ctx, prepared); status != nil {
		it.Decision = &celgate.Decision{Status: status}
		return it
	}
	if it.Decision, err = d.engine.Admit(ctx, prepared); err != nil {
		it.Decision = nil
		return fail(err)
	}
	if d.changes {
		it.Changes = d.shown(it.Decision.Changes)
	}
	if d.edits && it.Decision.Allowed && it.Decision.Mutated {
		if err = d.edit(ctx, &it, prepared); err != nil {
			it.Decision, it.edit = nil, nil
			return fail(err)
		}
	}
	if len(warnings) > 0 { // the server sends them before those of policies
		it.Decision.Warnings = append(warnings, it.Decision.Warnings...)
	}
	d.notes.add(it.Decision, prepared, isReview(doc.Object))
	return it
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

// noNamespace returns the server's answer to a request in a namespace that does not exist, which comes before any
// policy is asked (as pkg/admission/plugin/namespace/lifecycle/admission.go v0.37.2).
func (w *world) noNamespace(ctx context.Context, r *celgate.Request) *metav1.Status {
	if r.Namespace == "" || r.Operation == celgate.Delete || r.Kind == namespaceKind || r.Resource.Group == "authorization.k8s.io" {
		return nil
	}
	if known, err := w.exist(w.cluster).Get(ctx, namespaceKind, "", r.Namespace); known != nil || err != nil {
		return nil
	}
	status := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, r.Namespace).Status()
	return &status
}

// notes are said about decisions that rest on what was not given.
type notes struct {
	assumed    map[string]bool // namespaces
	namespaces bool            // a policy looks at namespaces
	user       string          // who is assumed to make requests; empty: it was said
	users      map[string]bool // policies that look at the user, by kind and name
}

func newNotes(set *policy.Set, w *world, a *asked) *notes {
	n := &notes{assumed: w.assumed, users: map[string]bool{}}
	if a.user == "" && a.self == nil {
		n.user = defaultUser
	}
	selects := func(m *policy.MatchResources) bool {
		return m != nil && m.NamespaceSelector != nil && len(m.NamespaceSelector.MatchLabels)+len(m.NamespaceSelector.MatchExpressions) > 0
	}
	for _, b := range set.Bindings {
		n.namespaces = n.namespaces || selects(b.MatchResources)
	}
	for _, p := range set.Policies {
		n.namespaces = n.namespaces || selects(p.MatchConstraints)
		for e := range expressions(p) {
			n.namespaces = n.namespaces || strings.Contains(e.Src, "namespaceObject")
			if strings.Contains(e.Src, "request.userInfo") || strings.Contains(e.Src, "authorizer") {
				n.users[string(p.Kind)+" "+p.Name] = true
			}
		}
	}
	return n
}

func (n *notes) add(d *celgate.Decision, r *celgate.Request, reviewed bool) {
	if reviewed {
		return
	}
	if n.namespaces && n.assumed[r.Namespace] && r.Kind != namespaceKind {
		d.Notes = append(d.Notes, celgate.Note{Message: fmt.Sprintf(
			"namespace %q is not in the cluster state and taken as one without labels of its own; give it with -c or among the manifests", r.Namespace)})
	}
	if n.user != "" && slices.ContainsFunc(d.Outcomes, func(o celgate.Outcome) bool { return n.users[string(o.Kind)+" "+o.Policy] }) {
		d.Notes = append(d.Notes, celgate.Note{Message: fmt.Sprintf(
			"policies look at the user, who is taken as %q without rights or groups; say who it is with --as and --as-group", n.user)})
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
		to, err := w.target(kindOf(d.Object), a.subresource)
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
