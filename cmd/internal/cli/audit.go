package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/blame"
	"github.com/celgate/celgate/cmd/internal/kube"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/internal/needs"
	"github.com/celgate/celgate/internal/spell"
	"github.com/celgate/celgate/internal/tree"
	"github.com/celgate/celgate/internal/workload"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// An audit is one run of the verb.
type audit struct {
	apply     // what both verbs have in common
	deletions bool
	top       int
	log       string // of --audit-log
	last      string // of --last
	since     string // of --changed-since
	shard     report.Shard
	dealt     map[string]bool // namespaces that all shards have divided among them
	parts     string          // the place of the shards' common files
	write     string          // of --write-reports; empty: none
	fails     []string        // of --fail-on
	repeating
}

func newAudit(c *console) *cobra.Command {
	a := &audit{apply: apply{console: c}}
	merging := false
	cmd := &cobra.Command{
		Use:   "audit -p POLICIES -c DUMP|--context NAME",
		Short: "Evaluate policies for objects that exist",
		Long: `audit evaluates policies for the objects that exist: which could not be created
again, which nobody can update in their present state (stuck), and which the
mutating policies would change (drift). audit writes nothing to the cluster.

For every object that a rule can match audit makes two requests: the CREATE of a
copy, and an UPDATE that changes nothing; with --deletions a DELETE too. For a
workload that no other workload owns, audit also asks about the objects that its
controllers would create, down to Pods.

The objects come from a live cluster, or from -c: files, or directories such as
a dump or a repository. With both, the report is about the findings that only
one of the two has. Namespaces, params and everything else that policies look at
come from there too, and without -p the policies. audit lists only the kinds of
a cluster that a policy in force can match, 500 objects at a time. If it may not
list a kind, it names the kind and exits with status 2.

A stored object does not tell who makes a request, what the request changes, or
what is sent to subresources. Policies that depend on it are listed under "not
audited", with a remedy; they never count as passed. --as names a user.

Memory does not grow with the cluster: audit forgets an object once it has an
answer. Only the items of one List in a file are read together.

The exit status is 0 when nothing is denied, 1 when something is or --fail-on says
so, and 2 when something could not be read or evaluated, or no policy could be
audited.`,
		Example: `  # which objects of this dump would be refused if these policies were in force?
  celgate audit -p policies/ -c dump/

  # what would they refuse in this cluster, and what would its own policies refuse?
  celgate audit -p policies/ --context prod
  celgate audit --context prod

  # a page to show, with the changes since yesterday
  celgate audit --context prod -o html=today.html -o json=today.json --last yesterday.json

  # what would these policies have answered yesterday?
  celgate audit -p policies/ --context prod --audit-log audit.log

  # which findings would this repository add to those of the cluster?
  celgate audit -p policies/ -c manifests/ --context prod

  # may dev also delete the objects?
  celgate audit -p policies/ -c dump/ --deletions --as dev`,
		Args: func(cmd *cobra.Command, args []string) error {
			if merging {
				return nil
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if merging {
				return a.runMerge(cmd.Context(), args)
			}
			return a.run(cmd.Context())
		},
	}
	a.addAuditFlags(cmd, &merging)
	return cmd
}

// addAuditFlags adds the flags of the verb.
func (a *audit) addAuditFlags(cmd *cobra.Command, merging *bool) {
	group(cmd, "Policies and objects", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&a.policies, "policy", "p", nil,
			"`FILE|DIR|-` policies, bindings and the cluster state beside them;\nmay be repeated")
		f.StringArrayVarP(&a.state, "cluster-state", "c", nil, "`FILE|DIR|-` the objects that exist; may be repeated")
		f.StringVar(&a.log, "audit-log", "", "`FILE|-` instead of objects, ask about the requests in an audit log\nof kube-apiserver; -c or a live cluster is the state")
		a.live.flags(f)
		f.BoolVar(&a.live.inCluster, "in-cluster", false, "the live cluster is the one of the Pod")
		minorFlag(f, &a.kubeVersion, kubeVersionUsage)
		a.static.flags(f)
		pluginsFlagAside(f, &a.plugins)
		a.unboundFlag(f)
		a.limitFlag(f)
	})
	group(cmd, "Requests", func(f *pflag.FlagSet) {
		f.BoolVar(&a.deletions, "deletions", false, "also ask about the deletion of each object")
		a.asked.identityFlags(f, "(default: none is known,\nand policies that look at the user are not audited)")
	})
	group(cmd, "Workloads", a.workloads.flags)
	group(cmd, "Parts", func(f *pflag.FlagSet) {
		f.Var(shardValue{&a.shard}, "shard",
			"`I/N` audit one shard of N, from 0; namespaces are dealt to the\nshards by the number of their objects")
		f.StringVar(&a.parts, "parts", "", "`DIR|configmaps:JOB[/UID]` where the shards of one run share their\n"+
			"results; the last shard writes the report on all")
		f.BoolVar(merging, "merge", false, "write one report from those of all shards: the arguments are\n"+
			"reports (-o json), or directories as of --parts")
	})
	group(cmd, "Again and again", a.repeating.flags)
	group(cmd, "Output", func(f *pflag.FlagSet) {
		a.reporting.flags(f, report.AuditFormats(),
			"text (default), json, html, junit, sarif or csv;\nopenreports or policyreport: a List of reports for kubectl;\nmetrics: the text format of Prometheus")
		f.IntVar(&a.top, "top", 10, "`N` how many of the objects with the most denials to name\n(default 10)")
		f.StringVar(&a.since, "changed-since", "", "`FILE` the report (-o json) of an earlier audit of this cluster:\nask only about objects that have changed since, and take over the rest")
		f.StringVar(&a.last, "last", "", "`FILE` the report (-o json) of an earlier audit; text and html\nshow the changes since then")
		f.StringVar(&a.write, "write-reports", "",
			"`KIND` openreports or policyreport: write one report to each\nnamespace with findings, and one for the cluster; celgate's\nother reports are removed")
		a.colorFlag(f)
	})
	completeWith(cmd, "write-reports", slices.Sorted(maps.Keys(reportKinds))...)
	group(cmd, "What fails", func(f *pflag.FlagSet) {
		f.StringSliceVar(&a.fails, "fail-on", nil,
			"`FINDINGS` exit status 1 also for warn, audit, change, ignored or\nunaudited; comma-separated, may be repeated; nothing: not even\nfor denials")
	})
	completeWith(cmd, "fail-on", auditFailOn...)
	a.complete(cmd)
}

// reportKinds are the kinds of reports, by their name in flags.
var reportKinds = map[string]report.ClusterReportKind{"openreports": report.OpenReports,
	"policyreport": report.PolicyReports}

// auditFailOn are the findings that --fail-on accepts: they make an otherwise clean audit fail.
var auditFailOn = []string{"warn", "audit", "change", "ignored", "unaudited", failOnNothing}

// failOnNothing makes an audit succeed whatever its findings.
const failOnNothing = "nothing"

// checkOutputs refuses invalid flags about the report.
func (a *audit) checkOutputs() error {
	for _, name := range a.fails {
		if !slices.Contains(auditFailOn, name) {
			err := &usageError{fmt.Errorf("--fail-on accepts %s, not %q", strings.Join(auditFailOn, ", "), name)}
			if similar := spell.Nearest(name, auditFailOn, 2); similar != "" {
				return withHint(err, "did you mean %s?", similar)
			}
			return err
		}
	}
	if _, known := reportKinds[a.write]; a.write != "" && !known {
		return &usageError{fmt.Errorf("--write-reports accepts openreports or policyreport, not %q", a.write)}
	}
	if a.write != "" && a.live == (live{}) {
		return withHint(&usageError{errors.New("--write-reports without a live cluster")},
			"name one with --context, or write -o %s and pipe the output to kubectl apply -f -", a.write)
	}
	if len(a.fails) > 1 && slices.Contains(a.fails, failOnNothing) {
		return &usageError{errors.New("--fail-on nothing cannot be combined with other findings")}
	}
	if a.top < 0 {
		return &usageError{fmt.Errorf("--top is a number of objects, not %d", a.top)}
	}
	_, err := a.targets()
	return err
}

// checkAudit refuses invalid combinations of arguments and flags.
func (a *audit) checkAudit() error {
	if err := a.checkOutputs(); err != nil {
		return err
	}
	switch lives := a.live != (live{}); {
	case a.log != "" && (a.deletions || a.asked.usedFlags() != nil):
		return &usageError{errors.New("an audit log has its own operations and users: --deletions and --as cannot be combined with it")}
	case a.log != "" && a.write != "":
		return &usageError{errors.New("--write-reports cannot be combined with an audit log: reports are about objects that exist")}
	case a.log != "":
	case len(a.state) == 0 && !lives:
		return withHint(&usageError{errors.New("no objects given")},
			"name a live cluster with --context, or files with objects with -c")
	case len(a.state) > 0 && lives && len(a.policies) == 0:
		return withHint(&usageError{errors.New("files and a cluster are compared by the same policies")},
			"name them with -p")
	case len(a.state) > 0 && lives && (a.write != "" || a.wants("openreports", "policyreport", "metrics") ||
		a.last != "" || a.since != "" || a.shard.Of > 0 || a.every > 0):
		return &usageError{errors.New("a comparison of files with a cluster has no reports for a cluster, no metrics, " +
			"no parts and no earlier report")}
	}
	stdin := 0
	for _, path := range slices.Concat(a.policies, a.state, []string{a.log}) {
		if path == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return &usageError{errors.New("standard input can be read only once")}
	}
	if err := a.checkShard(); err != nil {
		return err
	}
	if err := a.workloads.check(); err != nil {
		return err
	}
	if err := a.checkEvery(); err != nil {
		return err
	}
	if err := a.checkSince(); err != nil {
		return err
	}
	return a.asked.check()
}

// A stock is a source of objects for an audit.
type stock interface {
	// prepare reads everything that policies read besides the objects, and reports what it cannot read.
	prepare(ctx context.Context, loader *manifest.Loader) (sources, error)

	// subjects yields the subjects of the audit one by one. It does not keep them.
	subjects(ctx context.Context, of *auditor) iter.Seq[subjectOf]

	// total returns the number of objects, as far as it is known.
	total() int

	// assumeNamespaces adds the namespaces of objects to the world, unless they are known to be absent.
	assumeNamespaces(ctx context.Context, w *world) error

	// sizes returns the number of subjects in each namespace, "" for cluster-scoped ones.
	sizes(ctx context.Context, of *auditor) (map[string]int, error)

	// close releases resources.
	close()
}

func (a *audit) run(ctx context.Context) error {
	if err := a.checkAudit(); err != nil {
		return err
	}
	if a.every > 0 {
		return a.repeat(ctx)
	}
	if len(a.state) > 0 && a.live != (live{}) && a.log == "" {
		return a.runBeside(ctx)
	}
	return a.runOnce(ctx)
}

// runOnce runs one audit.
func (a *audit) runOnce(ctx context.Context) error {
	began := time.Now()
	var from stock = &dump{audit: a}
	switch {
	case a.log != "":
		from = &replaying{audit: a}
	case a.live != (live{}):
		from = &stocktaking{audit: a}
	}
	loader := &manifest.Loader{Stdin: a.stdin, MaxInput: cmp.Or(a.maxInput, maxDump)}
	defer from.close()
	given, err := from.prepare(ctx, loader)
	if err != nil {
		return err
	}
	w, err := a.load(ctx, loader, given, nil)
	if err != nil {
		return err
	}
	if err := from.assumeNamespaces(ctx, w); err != nil {
		return err
	}
	if err := w.identify(ctx, &a.asked); err != nil {
		return err
	}
	of, err := a.auditor(w)
	if err != nil {
		return err
	}
	of.audit.PolicySet, of.audit.Began, of.audit.About = digestOf(of.force), began, a.describe()
	if w.live != nil && a.log == "" {
		if err := a.rest(ctx, of); err != nil {
			return err
		}
		defer of.earlier.close()
	}
	if a.shard.Of > 0 {
		return a.runShard(ctx, of, from)
	}
	if err := a.writeReport(ctx, of, from); err != nil {
		return err
	}
	if a.ended != nil {
		a.ended(of.audit, began)
	}
	return nil
}

// describe names the source of the subjects for a reader.
func (a *audit) describe() string {
	switch {
	case a.log == "-":
		return "an audit log"
	case a.log != "":
		return "the audit log " + a.log
	case a.live.context != "":
		return "the cluster of the context " + a.live.context
	case a.live != (live{}):
		return "a cluster"
	}
	return strings.Join(a.state, ", ")
}

// writeReport audits all objects and writes the outputs.
func (a *audit) writeReport(ctx context.Context, of *auditor, from stock) error {
	if a.last != "" { // an output of the same name may replace it
		if err := a.compare(of.audit); err != nil {
			return err
		}
	}
	out, err := a.openReport(of.audit, report.Options{Set: of.force, Rejected: of.rejected, Types: of.world.types})
	if err != nil {
		return err
	}
	if err := a.judge(ctx, of, from, out.writers); err != nil {
		return err
	}
	if out.kept != nil {
		a.keepReports(ctx, out.kept, nil)
	}
	return out.close()
}

// An auditOutput is all destinations of a report.
type auditOutput struct {
	open    []*output
	writers []report.AuditWriter
	kept    *report.ClusterReports // for the cluster; nil: none
}

// openReport opens the outputs of a report.
func (a *audit) openReport(of *report.Audit, o report.Options) (*auditOutput, error) {
	open, err := a.open(a.console)
	if err != nil {
		return nil, err
	}
	out := &auditOutput{open: open}
	for _, to := range open {
		o.Color, o.Width = to.color, to.width
		writer, err := report.NewAuditWriter(to.format, to, of, o)
		if err != nil {
			return nil, err
		}
		out.writers = append(out.writers, writer)
	}
	if a.write != "" {
		out.kept = report.NewClusterReports(of, reportKinds[a.write], report.ReportName, time.Now())
		out.writers = append(out.writers, unclosed{out.kept})
	}
	return out, nil
}

// write writes the findings about an object.
func (o *auditOutput) write(of *report.Audited, findings []report.AuditFinding) error {
	for _, writer := range o.writers {
		if err := writer.Write(of, findings); err != nil {
			return err
		}
	}
	return nil
}

// close writes the end of each output.
func (o *auditOutput) close() error {
	for _, writer := range o.writers {
		if err := writer.Close(); err != nil {
			return err
		}
	}
	return closeAll(o.open)
}

// unclosed are reports that are written to the cluster, not to a file.
type unclosed struct{ *report.ClusterReports }

// Close does nothing.
func (unclosed) Close() error { return nil }

// keepReports makes the reports in the cluster equal to the given ones, in all namespaces or those that in selects. It
// prints errors.
func (a *audit) keepReports(ctx context.Context, reports *report.ClusterReports, in func(namespace string) bool) {
	if err := a.writeReports(ctx, reports, in); err != nil {
		a.raise(exitFailed)
		a.sayError(err)
	}
}

func (a *audit) writeReports(ctx context.Context, reports *report.ClusterReports,
	in func(namespace string) bool) error {
	client, err := connect(a.live.kubeconfig, a.live.context)
	if err != nil {
		return err
	}
	kind := reportKinds[a.write]
	of, err := apischema.ParseGroupVersion(kind.APIVersion)
	if err != nil {
		return err
	}
	to := &kube.Reports{
		Client: client, Namespaced: of.WithResource(kind.Plural), Cluster: of.WithResource(kind.Plurals),
		Labels: report.ReportLabels, Name: report.ReportName, In: in,
	}
	written, removed, err := to.Write(ctx, reports.Objects())
	if err != nil {
		return fmt.Errorf("write reports: %w", err)
	}
	a.say(fmt.Sprintf("%s written, %d removed", plural(written, "report", "reports"), removed), "")
	return nil
}

// compare reads the report of --last into the report of an audit.
func (a *audit) compare(of *report.Audit) error {
	last, err := readReport(a.last)
	if err != nil {
		return err
	}
	if err := of.Compare(last); err != nil {
		return withHint(fmt.Errorf("--last: %w", err), "give a report of the same")
	}
	return nil
}

// keeps refuses outputs that would overwrite reports while they are read.
func (a *audit) keeps(read ...string) error {
	targets, err := a.targets()
	if err != nil {
		return err
	}
	for _, path := range read {
		info, err := os.Stat(path)
		if err != nil {
			continue // its reader prints the error
		}
		for _, t := range targets {
			if other, err := os.Stat(t.file); t.file != "" && err == nil && os.SameFile(info, other) {
				return &usageError{fmt.Errorf("the output %s is also a report to read", t.file)}
			}
		}
	}
	return nil
}

// readReport reads an earlier report without its findings.
func readReport(path string) (*report.StoredAudit, error) {
	return report.ReadAudit(path, func() (io.ReadCloser, error) { return os.Open(path) })
}

// maxDump is the default limit of an audit's input, which is not kept in memory.
const maxDump = 64 << 30

// A subjectOf an audit is an existing object, or a request of a log.
type subjectOf struct {
	doc  *manifest.Document
	past *pastRequest // nil: an object
}

// An auditor evaluates policies for objects, on several goroutines.
type auditor struct {
	*decider
	force    *policy.Set
	rejected []report.Rejection
	audit    *report.Audit
	asks     []celgate.Operation
	plans    sync.Map // of kinds: *auditPlan

	comparing []needs.Limit // policies that read the object before a request of a log

	earlier *earlier // an earlier report, for unchanged objects; nil: none

	mine map[string]bool // the namespaces to audit, "" for cluster-scoped objects; nil: all

	beside *auditor // another auditor for the same objects; nil: none

	unreadMu sync.Mutex
	unreads  []report.Unread
	left     map[string]int
}

// auditor returns an auditor with the policies of a world that can be audited.
func (a *audit) auditor(w *world) (*auditor, error) {
	engine, err := celgate.New(&w.set, w.optionsAside(a.plugins))
	if err != nil {
		return nil, err
	}
	if err := a.sayOrder(engine); err != nil {
		return nil, err
	}
	of := &auditor{rejected: w.rejections(engine)}
	if len(of.rejected) > 0 {
		a.raise(exitFailed)
	}
	of.force = w.policiesInForce(a.console, of.rejected)
	a.requirePolicies(a.policies, of.force)
	limits, err := needs.Find(of.force, needs.Given{Minor: minorOrNewest(w.version), User: a.asked.knowsUser() || a.log != "",
		Deletions: a.deletions || a.log != ""})
	if err != nil {
		return nil, err
	}
	if a.log != "" { // a log has requests of all kinds
		of.comparing, limits = oldObjectLimits(limits), nil
	}
	// Policies that cannot be audited are left out: their mutations would make other policies answer about objects that
	// do not exist.
	asked := *of.force
	asked.Policies = slices.DeleteFunc(slices.Clone(asked.Policies), func(p *policy.Policy) bool {
		return slices.ContainsFunc(limits, func(l needs.Limit) bool {
			return l.Whole && l.Kind == p.Kind &&
				l.Policy == p.Name
		})
	})
	if len(asked.Policies) < len(w.set.Policies) {
		if engine, err = celgate.New(&asked, w.optionsAside(a.plugins)); err != nil {
			return nil, err
		}
	}
	of.audit = report.NewAudit(report.Options{Set: of.force, Rejected: of.rejected, Types: w.types}, limits, a.top)
	of.audit.Log = a.log != ""
	of.asks = []celgate.Operation{celgate.Create, celgate.Update}
	if a.deletions {
		of.asks = append(of.asks, celgate.Delete)
	}
	of.decider = &decider{world: w, engine: engine, asked: &a.asked, notes: newNotes(of.force, w, &a.asked),
		workloads: &a.workloads.Workloads, templates: a.workloads.found, bare: true, orders: true}
	of.audit.Reasons = func(it report.Item) map[int]blame.Reason {
		if it.Prepared == nil {
			return nil
		}
		return blame.Reasons(context.Background(), engine, it.Prepared, it.Decision.Outcomes)
	}
	return of, nil
}

// oldObjectLimits returns the limits about the object before a request.
func oldObjectLimits(limits []needs.Limit) []needs.Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l needs.Limit) bool { return l.Need != needs.OldObject })
}

// An auditPlan is the questions about the objects of a kind.
type auditPlan struct {
	resource *schema.Resource
	asks     []celgate.Operation
	follow   bool // also audit the objects that controllers create from them
	err      error
}

// unwritten are resources whose objects are never written.
var unwritten = map[apischema.GroupResource]bool{{Resource: "componentstatuses"}: true, {Resource: "bindings"}: true}

// plan returns the plan for the objects of a kind. Without asks and without follow they are not audited.
func (of *auditor) plan(kind schema.GroupVersionKind) *auditPlan {
	if known, ok := of.plans.Load(kind); ok {
		return known.(*auditPlan)
	}
	p := &auditPlan{}
	to, err := of.world.target(kind, "")
	switch {
	case of.skips(kind):
	case err != nil:
		p.err = err
	default:
		p.resource = to
		for _, op := range of.asks {
			if !unwritten[to.GroupResource()] && of.engine.MayMatch(to.GroupVersionResource, "", op) {
				p.asks = append(p.asks, op)
			}
		}
		p.follow = of.follows(kind)
	}
	known, _ := of.plans.LoadOrStore(kind, p)
	return known.(*auditPlan)
}

// wants reports whether the objects of a kind are audited.
func (of *auditor) wants(kind schema.GroupVersionKind) bool {
	plan := of.plan(kind)
	return plan.resource != nil && (len(plan.asks) > 0 || plan.follow) || of.beside != nil && of.beside.wants(kind)
}

// follows reports whether controllers create objects from those of a kind, and a policy may match these.
func (of *auditor) follows(kind schema.GroupVersionKind) bool {
	if of.workloads.Off || !of.workloads.All && !requests.MayMatchChildren(of.world.types, of.engine) {
		return false
	}
	paths, _ := of.workloads.PathsOf(kind)
	return len(paths) > 0 || workload.IsWorkload(kind.GroupKind())
}

var asksOf = map[celgate.Operation]report.Ask{celgate.Create: report.AskCreate, celgate.Update: report.AskUpdate,
	celgate.Delete: report.AskDelete}

// ask audits a subject. It returns nil if no policy can match it.
func (of *auditor) ask(ctx context.Context, s subjectOf) *report.Audited {
	if s.past != nil {
		return of.replay(ctx, s)
	}
	return of.auditObject(ctx, s.doc)
}

// auditObject audits an object. It returns nil if no policy can match it.
func (of *auditor) auditObject(ctx context.Context, doc *manifest.Document) (result *report.Audited) {
	given := tree.Object(doc.Object)
	kind, metadata := given.Kind(), given.Metadata()
	of.templates.noteKind(kind.GroupKind())
	plan := of.plan(kind)
	owner := metav1.GetControllerOf(&unstructured.Unstructured{Object: doc.Object})
	follow := plan.follow && (owner == nil || !isWorkload(owner))
	if plan.err == nil && len(plan.asks) == 0 && !follow {
		return nil
	}
	result = &report.Audited{Object: report.AuditObject{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: given.Name(),
		Namespace: given.Namespace(),
		UID:       metadata.Text("uid"), ResourceVersion: metadata.Text("resourceVersion"),
		Place: doc.Position(),
	}}
	fail := func(err error) { result.Failure = &report.Failure{Message: err.Error(), Hint: hintOf(err)} }
	defer func() {
		if p := recover(); p != nil { // a panic about one object must not lose the results of the others
			result.Failure = &report.Failure{Message: fmt.Sprintf("internal error: %v", p),
				Hint: "please report it, with this:\n" + string(debug.Stack())}
		}
	}()
	if plan.err != nil {
		fail(plan.err)
		return result
	}
	result.Object.Namespace = of.namespaceOf(doc.Object)
	found, known, err := of.earlier.takesOver(doc, plan.resource, result.Object)
	if err != nil {
		fail(err)
		return result
	}
	if known {
		result.TakenOver, result.Found = true, found
		return result
	}
	// An object without a name cannot have been updated or deleted: only its creation is audited.
	asks, as := of.asks, celgate.Update
	if given.Name() == "" && metadata.Text("generateName") != "" {
		asks, as = []celgate.Operation{celgate.Create}, celgate.Create
		result.Object.Name = metadata.Text("generateName") + "*"
	}
	var stored *celgate.Request // the object as it is stored
	for _, op := range asks {
		request, err := of.askAs(ctx, op, doc, slices.Contains(plan.asks, op), follow && op == as, result)
		if err != nil {
			fail(err)
		}
		if result.Failure != nil {
			return result
		}
		if op == as && request != nil {
			stored = request
		}
	}
	if follow && stored != nil {
		of.addFollowed(ctx, doc, stored, result)
	}
	return result
}

// askAs adds the answer to one request about an object to its result, if wanted, that is, if policies match it. It
// returns the prepared request for follow; nil if it does not have an object.
func (of *auditor) askAs(ctx context.Context, op celgate.Operation, doc *manifest.Document, wanted, follow bool,
	result *report.Audited) (*celgate.Request, error) {
	if !wanted && !follow {
		return nil, nil
	}
	request, err := requests.NewExisting(ctx, of.world.types, doc.Object, op, of.asked.toAs())
	if err != nil {
		return nil, err
	}
	if !wanted {
		prepared, err := of.engine.Prepare(ctx, request)
		if err != nil {
			return nil, err
		}
		return prepared.Request(), nil
	}
	it := answer{doc: doc, Item: report.Item{Place: result.Object.Place, Kind: tree.Object(doc.Object).Kind(),
		Name: nameOf(doc.Object)}}
	of.decideAbout(ctx, &it, request, doc.Place)
	asked := report.Asked{Ask: asksOf[op], Item: it.Item}
	if it.Failure != nil {
		result.Failure = it.Failure
		return nil, nil
	}
	if len(it.Decision.Changes) > 0 {
		asked.Item.Changes = it.Decision.Changes
		if asked.Again, err = of.askAgain(ctx, request, it.Decision); err != nil {
			return nil, err
		}
	}
	result.Answers = append(result.Answers, asked)
	if it.Request.Object == nil {
		return nil, nil
	}
	return it.Request, nil
}

// addFollowed adds the answers for the objects that controllers create from an object to its result.
func (of *auditor) addFollowed(ctx context.Context, doc *manifest.Document, stored *celgate.Request,
	result *report.Audited) {
	children, err := of.follow(ctx, doc, stored, stored.Object)
	if err != nil {
		result.Notes = append(result.Notes, unfollowedNote(err))
	}
	for _, child := range children {
		if child.Failure != nil {
			result.Failure = child.Failure
			return
		}
		result.Answers = append(result.Answers, report.Asked{Ask: report.AskMake, Item: child})
	}
}

// namespaceOf returns the namespace of an object; "" if it is cluster-scoped.
func (of *auditor) namespaceOf(object map[string]any) string {
	named := tree.Object(object).Namespace()
	switch resource := of.plan(tree.Object(object).Kind()).resource; {
	case resource == nil:
		return named
	case resource.Namespaced:
		return cmp.Or(named, of.asked.namespace, "default")
	}
	return ""
}

// isWorkload reports whether an owner is a workload itself: its objects are audited with it.
func isWorkload(owner *metav1.OwnerReference) bool {
	return workload.IsWorkload(apischema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind())
}

// askAgain evaluates the mutating policies for their own result.
func (of *auditor) askAgain(ctx context.Context, request *celgate.Request, d *celgate.Decision) ([]celgate.Change,
	error) {
	next := *request
	next.Object = d.Changes[len(d.Changes)-1].After
	prepared, err := of.engine.Prepare(ctx, &next)
	if err != nil {
		return nil, nil // an invalid result is not an object of its kind: the first answer already reports it
	}
	second, err := of.engine.Mutate(ctx, prepared)
	if err != nil {
		return nil, err
	}
	return second.Changes, nil
}

// judge audits all subjects and writes the findings.
func (a *audit) judge(ctx context.Context, of *auditor, from stock, writers []report.AuditWriter) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	a.progress = newProgress(a.console, 0)
	if a.log != "" {
		a.progress.counts("requests")
	}
	defer a.progress.clear()
	done := 0
	for it := range mapInOrder(from.subjects(ctx, of), runtime.GOMAXPROCS(0),
		func(s subjectOf) *report.Audited { return of.ask(ctx, s) }) {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		done++
		a.progress.setTotal(from.total())
		a.progress.step(done)
		if it == nil {
			of.audit.Skip()
			continue
		}
		findings := of.audit.Record(it)
		if it.Failure != nil {
			a.raise(exitFailed)
			a.say(prefixPlace(it.Object.Place, it.Object.String()+": "+it.Failure.Message), it.Failure.Hint)
		}
		for _, writer := range writers {
			if err := writer.Write(it, findings); err != nil {
				return err
			}
		}
	}
	if a.shard.Of == 0 { // another shard may have objects of a kind
		of.concludeWorkloads(a.console, &a.workloads)
	}
	a.sayUnlisted(of)
	if err := of.world.unreadError(); err != nil {
		a.raise(exitFailed)
		a.say("the answers are not reliable: celgate could not read everything in the cluster", "")
		a.sayError(err)
	}
	t := of.audit.Totals()
	a.conclude(t)
	a.concludePolicies(of.audit)
	if a.log != "" {
		if left := of.audit.CountLeft(); t.Objects == 0 && (t.Skipped == 0 || left > 0) {
			a.raise(exitFailed)
			a.sayUnchanged(a.log, left)
		}
		return nil
	}
	if t.Objects+t.Skipped == 0 && len(a.state) > 0 && a.shard.Of == 0 {
		a.raise(exitFailed)
		a.say("no objects in "+strings.Join(a.state, ", "), "")
	}
	return nil
}

// conclude raises the exit status for findings.
func (a *audit) conclude(t report.AuditTotals) {
	if t.Denied+t.Refused > 0 && !slices.Contains(a.fails, failOnNothing) {
		a.raise(exitDenied)
	}
	for name, n := range map[string]int{"warn": t.Warned, "audit": t.Audited, "change": t.Changed,
		"ignored": t.Ignored} {
		if n > 0 && slices.Contains(a.fails, name) {
			a.raise(exitDenied)
		}
	}
}

// concludePolicies raises the exit status for policies that cannot be evaluated.
func (a *audit) concludePolicies(of *report.Audit) {
	n := of.CountUnasked()
	if n > 0 && slices.Contains(a.fails, "unaudited") {
		a.raise(exitDenied)
	}
	if n > 0 && n == len(of.Options().Set.Policies) {
		a.raise(exitFailed)
		a.say("nothing is audited: none of the policies in force can be evaluated for stored objects", "")
	}
}
