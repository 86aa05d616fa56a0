package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/internal/report"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An explaining is one run of the verb explain. What it is asked is what apply is asked.
type explaining struct {
	apply
	only []string

	evaluations []report.Evaluation // of the request at hand
	variables   map[string]string   // names by policy and field
}

func newExplain(c *console) *cobra.Command {
	x := &explaining{apply: apply{console: c}}
	cmd := &cobra.Command{
		Use:   "explain -p POLICIES|--context NAME [flags] MANIFEST|REVIEW|DIR|-...",
		Short: "Tell why policies did or did not act",
		Long: `explain makes the same decision as apply and tells how it came about: for each
policy and binding whether it is for the request and what decided that, the values
of variables and of the parts of expressions that made them true, false or an
error, and what each mutation changed.

The exit status is that of apply.`,
		Example: `  celgate explain -p policies/ web.yaml
  celgate explain -p policies/ --only replicas.example.com --operation UPDATE --old old.yaml web.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return x.explain(cmd.Context(), args) },
	}
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&x.policies, "policy", "p", nil, "`FILE|DIR|-` policies, bindings and the cluster state that lies\nbeside them; may be repeated")
		f.StringArrayVar(&x.only, "only", nil, "`NAME` tell about this policy only; may be repeated")
		f.StringArrayVarP(&x.state, "cluster-state", "c", nil, "`FILE|DIR|-` what exists in the cluster; may be repeated")
		x.live.flags(f)
		f.StringVar(&x.kubeVersion, "kube-version", "", "`MINOR` the Kubernetes that decides (default "+celgate.Newest+",\nor that of the live cluster)")
	})
	group(cmd, "Requests made of manifests", func(f *pflag.FlagSet) {
		f.StringVarP(&x.asked.namespace, "namespace", "n", "", "`NAME` the namespace of manifests that name none\n(default \"default\", or the context's with a live cluster)")
		f.StringVar(&x.asked.operation, "operation", "", "`OPERATION` CREATE, UPDATE, DELETE or CONNECT")
		f.StringVar(&x.oldFile, "old", "", "`FILE|DIR|-` the objects as they are stored")
		f.StringVar(&x.asked.subresource, "subresource", "", "`NAME` a subresource, such as status or deployments/scale")
		f.StringVar(&x.asked.user, "as", "", "`USER` the user who makes the requests (default celgate,\nor the kubeconfig's with a live cluster)")
		f.StringArrayVar(&x.asked.groups, "as-group", nil, "`GROUP` a group of that user; may be repeated")
		f.BoolVar(&x.asked.dryRun, "dry-run", false, "requests are dry-run requests")
	})
	group(cmd, "Output", func(f *pflag.FlagSet) {
		f.StringVarP(&x.output, "output", "o", "text", "`FORMAT` text (default) or json")
		f.StringVar(&x.color, "color", "auto", "`WHEN` auto, always or never (default auto)")
	})
	completeWith(cmd, "operation", "CREATE", "UPDATE", "DELETE", "CONNECT")
	completeWith(cmd, "output", report.ExplanationFormats()...)
	completeWith(cmd, "color", "auto", "always", "never")
	return cmd
}

func (x *explaining) explain(ctx context.Context, args []string) error {
	if err := x.check(args); err != nil {
		return err
	}
	if !slices.Contains(report.ExplanationFormats(), x.output) {
		return &usageError{fmt.Errorf("--output is text or json, not %q", x.output)}
	}
	colored, err := x.colored(x.color)
	if err != nil {
		return err
	}
	loader := &manifest.Loader{Stdin: x.stdin}
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
		if x.asked.old, err = w.oldCluster(x.console, x.read(loader, []string{x.oldFile}), x.asked.namespace); err != nil {
			return err
		}
	}
	if err := w.assume(w.missingNamespaces(batch, &x.asked)); err != nil {
		return err
	}
	engine, err := celgate.NewTraced(&w.set, w.options(), x.observe)
	if err != nil {
		return err
	}
	rejected := w.rejections(engine)
	if len(rejected) > 0 {
		x.raise(exitFailed)
		x.say("policies that the server would not store take no part", "celgate check says what is wrong with them")
	}
	if len(batch) == 0 {
		return fmt.Errorf("no objects in %s", strings.Join(args, ", "))
	}
	if err := x.known(&w.set); err != nil {
		return err
	}
	d := &decider{world: w, engine: engine, asked: &x.asked, changes: true}
	d.notes = newNotes(w.inForce(x.console, rejected), w, &x.asked)
	var all []report.Explanation
	for _, doc := range batch {
		e, err := x.story(ctx, d, doc)
		if err != nil {
			return err
		}
		all = append(all, e)
	}
	if err := w.unread(); err != nil {
		x.raise(exitFailed)
		x.sayError(err)
	}
	return report.Explain(x.output, x.stdout, all, report.Options{Types: w.types, Color: colored, Width: x.width()})
}

// known looks up the names of variables, and refuses names of policies that are not given.
func (x *explaining) known(set *policy.Set) error {
	x.variables = map[string]string{}
	names := map[string]bool{}
	for _, p := range set.Policies {
		names[p.Name] = true
		for _, v := range p.Variables {
			x.variables[string(p.Kind)+p.Name+" "+v.Expr.Field] = v.Name
		}
	}
	for _, name := range x.only {
		if !names[name] {
			return &usageError{errors.New("--only: there is no policy " + name)}
		}
	}
	return nil
}

// story decides about one document and collects what happened.
func (x *explaining) story(ctx context.Context, d *decider, doc *manifest.Document) (report.Explanation, error) {
	x.evaluations = nil
	it := d.answer(ctx, doc)
	e := report.Explanation{Item: it.Item, Evaluations: x.evaluations}
	switch {
	case it.Failure != nil:
		x.raise(exitFailed)
		x.say(at(it.Place, subject(it.Item)+it.Failure.Message), it.Failure.Hint)
		return e, nil
	case !it.Decision.Allowed:
		x.raise(exitDenied)
	}
	matches, err := d.engine.Matches(ctx, it.Request)
	if err != nil {
		return e, err
	}
	for _, m := range matches {
		if len(x.only) == 0 || slices.Contains(x.only, m.Policy) {
			e.Matches = append(e.Matches, m)
		}
	}
	return e, nil
}

func (x *explaining) observe(o celgate.Evaluation) {
	e := report.Evaluation{
		Policy: o.Policy, Expr: o.Expr, Steps: o.Steps(), Variable: x.variables[string(o.Policy.Kind)+o.Policy.Name+" "+o.Expr.Field],
	}
	e.Value, e.Failed = o.Result()
	e.From, e.To = o.Decisive()
	x.evaluations = append(x.evaluations, e)
}
