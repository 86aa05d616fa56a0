package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/explain"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An explaining is one run of the verb explain. Its requests are made as those of apply.
type explaining struct {
	apply
	only    []string
	named   bool // some of only come from -p
	objects bool

	recorder *report.Recorder // of the current request
}

func newExplain(c *console) *cobra.Command {
	x := &explaining{apply: apply{console: c}}
	cmd := &cobra.Command{
		Use:   "explain -p POLICIES|--context NAME [flags] MANIFEST|REVIEW|DIR|-...",
		Short: "Show why policies acted or did not act",
		Long: `explain evaluates what apply evaluates and shows the reasons of the answer. For each
policy and binding it shows whether they match the request and why, the values of
variables and of the parts of expressions that decided, the changes of each mutation
and what the server made of them, the second pass, the costs, and the effects of
failurePolicy and validationActions. It also says whether the order of mutating
policies matters, which is random on a server.

-o json lists the policies, and all events in their order, with the whole object
before and after each mutation. The exit status is that of apply.`,
		Example: `  celgate explain -p policies/ web.yaml
  celgate explain -p policies/ --only replicas.example.com --operation UPDATE --old old.yaml web.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return x.explain(cmd.Context(), args) },
	}
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&x.policies, "policy", "p", nil,
			"`FILE|DIR|-|NAME` policies, bindings and the cluster state beside them;\na NAME that is not a file works like --only; may be repeated")
		f.StringArrayVar(&x.only, "only", nil, "`NAME` explain only this policy; may be repeated")
		f.StringArrayVarP(&x.state, "cluster-state", "c", nil,
			"`FILE|DIR|-` existing objects of the cluster; may be repeated")
		x.live.flags(f)
		minorFlag(f, &x.kubeVersion, kubeVersionUsage)
		x.static.flags(f)
		pluginsFlag(f, &x.plugins)
		x.unboundFlag(f)
		x.limitFlag(f)
	})
	group(cmd, "Requests made of manifests", func(f *pflag.FlagSet) { x.asked.flags(f, &x.oldFile) })
	group(cmd, "Workloads", x.workloads.flags)
	group(cmd, "Output", func(f *pflag.FlagSet) {
		x.reporting.flags(f, report.ExplanationFormats(), "text (default) or json")
		f.BoolVar(&x.objects, "objects", false, "show the whole object before each mutation")
		x.colorFlag(f)
	})
	x.complete(cmd)
	return cmd
}

func (x *explaining) explain(ctx context.Context, args []string) error {
	x.narrow()
	if err := x.check(args); err != nil {
		return err
	}
	loader := &manifest.Loader{Stdin: x.stdin, MaxInput: x.maxInput}
	batch := x.read(loader, args)
	from, err := x.sources(ctx)
	if err != nil {
		return err
	}
	w, err := x.load(ctx, loader, from, batch)
	if err != nil {
		return err
	}
	if x.oldFile != "" {
		if x.asked.old, err = w.oldCluster(x.console, x.read(loader, []string{x.oldFile}),
			x.asked.namespace); err != nil {
			return err
		}
	}
	if err := w.identify(ctx, &x.asked); err != nil {
		return err
	}
	if err := w.surround(batch, &x.asked); err != nil {
		return err
	}
	engine, err := celgate.New(&w.set, w.wholeOptions(x.plugins))
	if err != nil {
		return err
	}
	if err := x.sayOrder(engine); err != nil {
		return err
	}
	rejected := w.rejections(engine)
	if len(rejected) > 0 {
		x.raise(exitFailed)
	}
	if len(batch) == 0 {
		return fmt.Errorf("no objects in %s", strings.Join(args, ", "))
	}
	if err := x.checkNames(&w.set); err != nil {
		return err
	}
	x.recorder = report.NewRecorder(&w.set)
	d := &decider{
		world: w, engine: engine, asked: &x.asked, changes: true,
		workloads: &x.workloads.Workloads, templates: x.workloads.found,
		how: explain.Options{Trace: x.recorder.Trace},
	}
	force := w.policiesInForce(x.console, rejected)
	x.requirePolicies(x.policies, force)
	d.notes = newNotes(force, w, &x.asked)
	var all []report.Explanation
	for _, doc := range batch {
		stories, err := x.stories(ctx, d, doc)
		if err != nil {
			return err
		}
		all = append(all, stories...)
	}
	d.concludeWorkloads(x.console, &x.workloads)
	if err := w.unreadError(); err != nil {
		x.raise(exitFailed)
		x.sayError(err)
	}
	open, err := x.open(x.console)
	if err != nil {
		return err
	}
	for _, o := range open {
		if err := report.Explain(o.format, o, all, report.Options{
			Set: &w.set, Rejected: rejected, Types: w.types, Color: o.color, Width: o.width, Objects: x.objects,
		}); err != nil {
			return err
		}
	}
	return closeAll(open)
}

// narrow moves names of policies from -p to --only.
func (x *explaining) narrow() {
	var files []string
	for _, p := range x.policies {
		if _, err := os.Stat(p); err == nil || p == "-" || strings.ContainsAny(p, `/\`) {
			files = append(files, p)
		} else {
			x.only, x.named = append(x.only, p), true
		}
	}
	if len(files) > 0 { // otherwise all of them are missing files
		x.policies = files
	} else {
		x.only, x.named = nil, false
	}
}

// checkNames refuses names of missing policies.
func (x *explaining) checkNames(set *policy.Set) error {
	names := map[string]bool{}
	for _, p := range set.Policies {
		names[p.Name] = true
	}
	for _, name := range x.only {
		if !names[name] {
			if x.named {
				return &usageError{fmt.Errorf("there is neither a file nor a policy named %s", name)}
			}
			return &usageError{errors.New("--only: unknown policy " + name)}
		}
	}
	return nil
}

// stories answer for one document, and for the objects that controllers create from it, and collect the events.
func (x *explaining) stories(ctx context.Context, d *decider, doc *manifest.Document) ([]report.Explanation, error) {
	var told [][]report.Event // by answer
	x.recorder.Take()
	d.answered = func() { told = append(told, x.recorder.Take()) }
	it := d.answer(ctx, doc)
	d.answered = nil
	told = append(told, nil) // without an answer
	e, err := x.story(ctx, d, it.Item, told[0])
	if err != nil {
		return nil, err
	}
	if given, err := d.world.request(ctx, doc, d.asked); err == nil {
		e.Given = given.Object
	}
	all := []report.Explanation{e}
	for i, child := range it.followed {
		events := told[min(i+1, len(told)-1)]
		if child.Failure == nil &&
			!slices.ContainsFunc(events, func(e report.Event) bool { return e.Op == explain.OpRun }) {
			continue
		}
		e, err := x.story(ctx, d, child, events)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// story returns the explanation of one answer.
func (x *explaining) story(ctx context.Context, d *decider, it report.Item, events []report.Event) (report.Explanation,
	error) {
	e := report.Explanation{Item: it}
	switch {
	case it.Failure != nil:
		if !it.Failure.Skipped {
			x.raise(exitFailed)
		}
		x.say(prefixPlace(it.Place, subject(it)+it.Failure.Message), it.Failure.Hint)
		return e, nil
	case !it.Decision.Allowed:
		x.raise(exitDenied)
	}
	report.Resolve(events, it.Decision)
	for _, told := range events {
		if len(x.only) == 0 || told.Policy == "" || slices.Contains(x.only, told.Policy) {
			e.Events = append(e.Events, told)
		}
	}
	var err error
	e.Orders, err = report.OtherOrders(ctx, d.engine, it.Prepared, events)
	return e, err
}
