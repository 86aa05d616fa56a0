package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/proofs"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
	"github.com/celgate/celgate/schema/builtin"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A checking is one run of the verb check.
type checking struct {
	*console
	state       []string
	kubeVersion string
	reporting
	notes, list  bool
	explain      string
	fix, measure bool
	order        bool
	prove        bool
	sizes        policy.Limits
}

func newCheck(c *console) *cobra.Command {
	k := &checking{console: c}
	cmd := &cobra.Command{
		Use:   "check [flags] POLICIES...",
		Short: "Find mistakes in policies without a request",
		Long: `check finds mistakes in policies and bindings without a request: policies that the
API server would refuse to store, expressions that its type checker would warn
about, and mistakes that it stores silently. Arguments are files and directories
with policies, and with objects of the cluster beside them: a
CustomResourceDefinition tells which fields its custom resources have.

Some checks run the policies on objects that celgate makes from the schemas of the
matched kinds: for mutations that change their own result, policies whose result
depends on their order, and the costs of expressions. They show the object.

--prove answers for all objects: it leaves out a read that is never an error, adds the
object to one that is, and reports validations, conditions, messages, bindings and parts
of expressions without an effect (CG801 to CG803). docs/prove.md has the assumptions.

--fix edits the files where the fix is certain: it removes the diagnostic and
changes nothing else. Comments and layout stay. Each change is printed.

An annotation of a policy or binding turns a check off for it:

  celgate.dev/ignore: "CG302: the mutating policy before this one sets it"

The exit status is 0 when there are no errors and warnings, 1 when there are, and 2
when the policies could not be read.`,
		Example: `  celgate check policies/
  celgate check -c crds/ policies/ -o json
  celgate check --fix policies/
  celgate check --prove policies/
  celgate check --measure policies/
  celgate check --order policies/
  celgate check --explain CG101`,
		RunE: func(cmd *cobra.Command, args []string) error { return k.run(cmd.Context(), args) },
	}
	group(cmd, "Cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&k.state, "cluster-state", "c", nil,
			"`FILE|DIR|-` existing objects of the cluster, such as\nCustomResourceDefinitions; may be repeated")
		minorFlag(f, &k.kubeVersion, "the Kubernetes that the policies are for (default "+celgate.Newest+")")
		k.static.flags(f)
		k.inputFlag(f)
	})
	group(cmd, "Checks", func(f *pflag.FlagSet) {
		f.BoolVar(&k.fix, "fix", false, "fix the files where the fix is certain, and print each change")
		f.BoolVar(&k.measure, "measure", false,
			"show costs beside budgets, estimated and observed, and the oldest\nKubernetes that each policy works on")
		f.Var(&sizes{of: &k.sizes}, "limits",
			"`NAME=NUMBER,...` report policies beyond limits of celgate serve: the most\nof bindings-per-policy, rules, validations and mutations")
		f.BoolVar(&k.order, "order", false,
			"show in which order the mutating policies run, what each reads and writes,\nand why; as text or json")
		f.BoolVar(&k.prove, "prove", false,
			"prove or refute what the checks suspect, and find parts without an effect,\n"+
				"as celgate prove does; takes some seconds")
		f.StringVar(&k.explain, "explain", "", "`CODE` describe a check, with an example")
		f.BoolVar(&k.list, "list", false, "list all checks")
	})
	group(cmd, "Output", func(f *pflag.FlagSet) {
		k.reporting.flags(f, report.DiagnosticFormats(), "text (default), json, junit, sarif or github")
		f.BoolVar(&k.notes, "notes", false, "show notes too")
		k.colorFlag(f)
	})
	k.complete(cmd)
	var codes []string
	for _, a := range check.Analyzers() {
		codes = append(codes, a.Code)
	}
	completeWith(cmd, "explain", codes...)
	return cmd
}

// describe lists the checks, or explains one.
func (k *checking) describe() error {
	for _, a := range check.Analyzers() {
		switch {
		case k.list:
			fmt.Fprintf(k.stdout, "%s %-8s %-26s %s\n", a.Code, a.Severity, a.Name, a.Title)
		case strings.EqualFold(a.Code, k.explain) || a.Name == k.explain:
			return a.Explain(k.stdout)
		}
	}
	if k.list {
		return nil
	}
	return withHint(&usageError{fmt.Errorf("%s is not the code of a check", k.explain)}, "run celgate check --list for the codes")
}

func (k *checking) run(ctx context.Context, args []string) error {
	switch {
	case k.list || k.explain != "":
		return k.describe()
	case len(args) == 0 && k.static.isEmpty():
		return &usageError{errors.New("no policies given")}
	case k.fix && slices.Contains(args, "-"):
		return &usageError{errors.New("--fix changes files, and standard input is not one")}
	}
	targets, err := k.targets()
	if err != nil {
		return err
	}
	for _, t := range targets {
		if k.order && t.format != "text" && t.format != "json" {
			return &usageError{fmt.Errorf("--order requires -o text or -o json, not %s", t.format)}
		}
	}
	if k.fix {
		if err := k.fixFiles(ctx, args); err != nil {
			return err
		}
	}
	w, state, err := k.world(args)
	if err != nil {
		return err
	}
	input := check.Input{Set: &w.set, Types: w.types, KubeVersion: minorOrNewest(k.kubeVersion), State: state,
		Sizes: k.sizes}
	if k.order {
		return k.writeOrder(w)
	}
	if k.measure {
		all, err := check.Measure(ctx, input)
		if err != nil {
			return err
		}
		return report.Measurements(k.stdout, all)
	}
	if k.prove {
		var stop func()
		ctx, stop = interruptible(ctx)
		defer stop()
		input.Prove = func(ctx context.Context, found []check.Diagnostic) ([]check.Diagnostic, error) {
			all, undecided, err := proofs.Check(ctx, input, proofs.ManifestsIn(w.written), found)
			if undecided > 0 {
				k.say(plural(undecided, "question is undecided", "questions are undecided")+": see celgate prove", "")
			}
			return all, err
		}
	}
	found, err := check.Run(ctx, input, check.Analyzers()...)
	if err != nil {
		return err
	}
	found = append(undecodedDiagnostics(w.rejected), found...)
	for _, d := range found {
		if d.Ignored == "" && d.Severity != check.Note {
			k.raise(exitDenied)
		}
	}
	open, err := k.open(k.console)
	if err != nil {
		return err
	}
	for _, o := range open {
		if err := report.Diagnostics(o.format, o, found,
			report.Options{Set: &w.set, Color: o.color, Width: o.width, Quiet: !k.notes}); err != nil {
			return err
		}
	}
	return closeAll(open)
}

// writeOrder writes the order of the mutating policies in force.
func (k *checking) writeOrder(w *world) error {
	open, err := k.open(k.console)
	if err != nil {
		return err
	}
	options := w.options()
	options.KubeVersion = minorOrNewest(k.kubeVersion)
	engine, err := celgate.New(&w.set, options)
	if err != nil {
		return err
	}
	for _, r := range w.rejections(engine) {
		k.raise(exitDenied)
		k.say(prefixPlace(r.Place, r.Ref.String()+" is not in the order, because it is invalid: see celgate check"), "")
	}
	turns, err := engine.Turns()
	if err != nil {
		return err
	}
	problems, err := engine.OrderProblems()
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		k.raise(exitDenied)
	}
	for _, o := range open {
		if err := report.Turns(o.format, o, turns, problems, o.width); err != nil {
			return err
		}
	}
	return closeAll(open)
}

// sayOrder prints the policies that ask for an impossible order.
func (c *console) sayOrder(engine *celgate.Engine) error {
	problems, err := engine.OrderProblems()
	if err != nil {
		return err
	}
	for i := range problems {
		if problems[i].IsError {
			c.raise(exitFailed)
			c.say(problems[i].Error(), "")
		}
	}
	return nil
}

// world reads the policies among files, and the kinds and objects beside them. Other files in the same directories are
// ignored.
func (k *checking) world(paths []string) (*world, []map[string]any, error) {
	w := &world{version: k.kubeVersion}
	var err error
	if w.types, err = builtin.Registry(minorOrNewest(k.kubeVersion)); err != nil {
		return nil, nil, withHint(err, "celgate knows Kubernetes %s", strings.Join(builtin.Minors(), ", "))
	}
	loader := &manifest.Loader{Stdin: k.stdin, MaxInput: k.maxInput}
	read := func(paths []string) []*manifest.Document {
		if len(paths) == 0 {
			return nil
		}
		docs, problems := loader.Load(paths...)
		for _, p := range problems {
			if errors.Is(p, manifest.ErrNoObject) {
				continue
			}
			if !p.Warning {
				k.raise(exitFailed)
			}
			k.say(p.Error(), "")
		}
		return slices.DeleteFunc(docs, func(d *manifest.Document) bool { return isReview(d.Object) })
	}
	beside := w.addPolicies(k.console, read(paths))
	if err := w.addStatic(k.console, k.kubeVersion); err != nil {
		return nil, nil, err
	}
	if len(w.set.Policies)+len(w.set.Bindings)+len(w.set.Libraries)+len(w.rejected) == 0 {
		return nil, nil, fmt.Errorf("no policies in %s", strings.Join(paths, ", "))
	}
	existing := slices.Concat(beside, read(k.state))
	w.addTypes(k.console, existing)
	k.sayRelease(w)
	return w, manifest.Trees(existing), nil
}

// undecodedDiagnostics are the diagnostics of documents that cannot be decoded as policies.
func undecodedDiagnostics(rejected []report.Rejection) []check.Diagnostic {
	var all []check.Diagnostic
	for _, r := range rejected {
		for _, p := range r.Problems {
			at := p.Position
			if !at.IsValid() {
				at = r.Place
			}
			all = append(all, check.Diagnostic{
				Code: "CG001", Severity: check.Error, Message: p.Message,
				Ref: policy.Ref{Kind: r.Kind, Name: cmp.Or(r.Name, "without a name")}, Field: p.Field, Position: at,
				Suggestion: p.Hint,
			})
		}
	}
	return all
}
