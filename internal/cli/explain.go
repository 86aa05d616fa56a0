package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"reflect"
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
	only    []string
	named   bool // some of only were named by -p
	objects bool

	events    []report.Event    // of the request at hand
	deaf      bool              // what happens is not told
	variables map[string]string // names by policy and field
}

func newExplain(c *console) *cobra.Command {
	x := &explaining{apply: apply{console: c}}
	cmd := &cobra.Command{
		Use:   "explain -p POLICIES|--context NAME [flags] MANIFEST|REVIEW|DIR|-...",
		Short: "Tell why policies did or did not act",
		Long: `explain makes the same decision as apply and tells how it came about: for each
policy and binding whether it is for the request and what was compared, the values
of variables when they were used and of the parts of expressions that decided,
what each mutation changed and what the server made of that, what ran again in the
second pass, what it cost, and what failurePolicy and validationActions did. If the
order of mutating policies, which is random on a server, matters, it says so.

-o json has the same as a list of policies, and every event in its order with the
whole objects before and after each mutation. The exit status is that of apply.`,
		Example: `  celgate explain -p policies/ web.yaml
  celgate explain -p policies/ --only replicas.example.com --operation UPDATE --old old.yaml web.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error { return x.explain(cmd.Context(), args) },
	}
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&x.policies, "policy", "p", nil, "`FILE|DIR|-|NAME` policies, bindings and the cluster state that lies\nbeside them; a NAME that is no file narrows as --only does; may be repeated")
		f.StringArrayVar(&x.only, "only", nil, "`NAME` tell about this policy only; may be repeated")
		f.StringArrayVarP(&x.state, "cluster-state", "c", nil, "`FILE|DIR|-` what exists in the cluster; may be repeated")
		x.live.flags(f)
		f.StringVar(&x.kubeVersion, "kube-version", "", "`MINOR` the Kubernetes that decides (default "+celgate.Newest+",\nor that of the live cluster)")
		x.limitFlag(f)
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
		f.BoolVar(&x.objects, "objects", false, "show the whole object before each mutation")
		f.StringVar(&x.color, "color", "auto", "`WHEN` auto, always or never (default auto)")
	})
	completeWith(cmd, "operation", "CREATE", "UPDATE", "DELETE", "CONNECT")
	completeWith(cmd, "output", report.ExplanationFormats()...)
	completeWith(cmd, "color", "auto", "always", "never")
	return cmd
}

func (x *explaining) explain(ctx context.Context, args []string) error {
	x.narrow()
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
	}
	if len(batch) == 0 {
		return fmt.Errorf("no objects in %s", strings.Join(args, ", "))
	}
	if err := x.known(&w.set); err != nil {
		return err
	}
	d := &decider{world: w, engine: engine, asked: &x.asked, changes: true}
	force := w.inForce(x.console, rejected)
	d.notes = newNotes(force, w, &x.asked)
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
	return report.Explain(x.output, x.stdout, all, report.Options{
		Set: &w.set, Rejected: rejected, Types: w.types, Color: colored, Width: x.width(), Objects: x.objects,
	})
}

// narrow takes the names of policies out of what -p names.
func (x *explaining) narrow() {
	var files []string
	for _, p := range x.policies {
		if _, err := os.Stat(p); err == nil || p == "-" || strings.ContainsAny(p, `/\`) {
			files = append(files, p)
		} else {
			x.only, x.named = append(x.only, p), true
		}
	}
	if len(files) > 0 { // else all of them are files that do not exist
		x.policies = files
	} else {
		x.only, x.named = nil, false
	}
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
			if x.named {
				return &usageError{fmt.Errorf("there is neither a file nor a policy called %s", name)}
			}
			return &usageError{errors.New("--only: there is no policy " + name)}
		}
	}
	return nil
}

// story decides about one document and collects what happened.
func (x *explaining) story(ctx context.Context, d *decider, doc *manifest.Document) (report.Explanation, error) {
	x.events = nil
	it := d.answer(ctx, doc)
	e := report.Explanation{Item: it.Item}
	switch {
	case it.Failure != nil:
		x.raise(exitFailed)
		x.say(at(it.Place, subject(it.Item)+it.Failure.Message), it.Failure.Hint)
		return e, nil
	case !it.Decision.Allowed:
		x.raise(exitDenied)
	}
	if given, err := d.world.request(ctx, doc, d.asked); err == nil {
		e.Given = given.Object
	}
	for _, told := range x.events {
		if len(x.only) == 0 || told.Policy == "" || slices.Contains(x.only, told.Policy) {
			e.Events = append(e.Events, told)
		}
	}
	var err error
	e.Orders, err = x.otherOrders(ctx, d.engine, it.Request)
	return e, err
}

// mostOrdered is the number of mutating policies up to which all orders are tried.
const mostOrdered = 4

// otherOrders makes the decision in the other orders that a server may choose, and returns one whose result is another one.
func (x *explaining) otherOrders(ctx context.Context, engine *celgate.Engine, req *celgate.Request) ([]report.Order, error) {
	var names []string
	for _, e := range x.events {
		if e.Op == celgate.OpRun && e.Kind == policy.Mutating && !slices.Contains(names, e.Policy) {
			names = append(names, e.Policy)
		}
	}
	if len(names) < 2 {
		return nil, nil
	}
	x.deaf = true
	defer func() { x.deaf = false }()
	usual, err := engine.Mutate(ctx, req)
	if err != nil {
		return nil, err
	}
	for order := range orders(names) {
		other, err := engine.InOrder(order...).Mutate(ctx, req)
		if err != nil {
			return nil, err
		}
		if other.Allowed == usual.Allowed && reflect.DeepEqual(other.Object, usual.Object) {
			continue
		}
		found := report.Order{Policies: order, Decision: other}
		if other.Allowed {
			found.Changes = []celgate.Change{{Before: usual.Object, After: other.Object}}
		}
		return []report.Order{found}, nil
	}
	return nil, nil
}

// orders yields the other orders of a few names, and of many the reverse and those in which one name comes first.
func orders(names []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		if len(names) > mostOrdered {
			reversed := slices.Clone(names)
			slices.Reverse(reversed)
			if !yield(reversed) {
				return
			}
			for i := 1; i < len(names); i++ {
				if !yield(slices.Concat(names[i:i+1], names[:i], names[i+1:])) {
					return
				}
			}
			return
		}
		var permute func(done, rest []string) bool
		permute = func(done, rest []string) bool {
			if len(rest) == 0 {
				return slices.Equal(done, names) || yield(slices.Clone(done))
			}
			for i := range rest {
				if !permute(append(done, rest[i]), slices.Concat(rest[:i], rest[i+1:])) {
					return false
				}
			}
			return true
		}
		permute(nil, names)
	}
}

func (x *explaining) observe(told celgate.Event) {
	if x.deaf {
		return
	}
	e := report.Event{Event: told}
	if o := told.Evaluation; o != nil {
		e.Variable = x.variables[string(o.Policy.Kind)+o.Policy.Name+" "+o.Expr.Field]
		e.Steps = o.Steps()
		e.Value, e.Failed = o.Result()
		e.From, e.To = o.Decisive()
	}
	x.events = append(x.events, e)
}
