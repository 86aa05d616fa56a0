package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/proofs"
	"github.com/celgate/celgate/cmd/internal/prove"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/smtlib"
	"github.com/celgate/celgate/manifest"
)

// A proving is one run of the verb prove.
type proving struct {
	*console
	reporting
	policies    []string
	state       []string
	kubeVersion string
	claim       string
	resources   []string
	solver      string // the name of a second one
	timeout     time.Duration
}

const proveStatus = `
The exit status is 0 if every claim is proved, 1 with a counterexample, 3 if an answer
is undecided or disputed, and 2 if a file cannot be read or a policy is invalid.`

func newProve(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prove",
		Short: "Prove properties of policies, or find a counterexample",
		Long: `prove answers questions about all requests, while tests cover only some. It evaluates
the expressions of validating policies for all objects at once and searches for an
object for which the claim is false. It then decides about this object with both sets,
as apply does: only confirmed objects are counterexamples. prove prints the smallest
counterexample that it finds, with both answers and the clause that differs.

prove cannot decide some expressions, such as split and times. If the answer depends
on one, the answer is undecided and names the part of the expression; prove never
guesses. docs/prove.md lists the supported expressions and the assumptions of a proof.
` + proveStatus,
		Example: `  celgate prove stricter old/ new/
  celgate prove equivalent policies/replicas.yaml refactored.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newProveSets(c, "stricter",
		"Prove that NEW denies every request that OLD denies",
		`stricter proves that a set of policies is as strict as another one: NEW denies every
request that OLD denies. A counterexample is a request that OLD denies and NEW admits.`),
		newProveSets(c, "equivalent", "Prove that OLD and NEW deny the same requests",
			`equivalent proves both directions: OLD and NEW deny the same requests. Each direction
has its own answer and counterexample. Messages, warnings and audit annotations are
not compared.`), newProveAccepts(c), newProveHolds(c), newProveVacuity(c), newProveMutations(c, "idempotent",
			"Prove that mutating policies do not change their own results",
			`idempotent proves for each mutating policy that it does not change an object again when
it runs once more on its own result. A counterexample is an object that the second run
changes or refuses.`), newProveMutations(c, "commutative",
			"Prove that the order of mutating policies makes no difference",
			`commutative proves for each pair of mutating policies that both orders have the same
result, because a server runs policies in random order. A counterexample is an object
for which the results differ.`), newProveErrorFree(c))
	return cmd
}

func newProveErrorFree(c *console) *cobra.Command {
	p := &proving{console: c}
	cmd := &cobra.Command{
		Use:   "error-free [flags] -p POLICIES",
		Short: "Prove that expressions are never an error",
		Long: `error-free proves for each expression of a set of policies that it is not an error for a
request that the policy matches. A counterexample is a request for which it is an error
with an effect: the error of a match condition has none if another match condition is
false, that of a messageExpression only counts if the validation is false, and that of a
variable if an expression that reads it is an error. Mutating policies are examined one
by one.
` + proveStatus,
		Example: "  celgate prove error-free -p policies/",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.findErrors(cmd.Context()) },
	}
	p.addPolicyFlag(cmd)
	p.addFlags(cmd)
	return cmd
}

func newProveAccepts(c *console) *cobra.Command {
	p := &proving{console: c}
	cmd := &cobra.Command{
		Use:   "accepts [flags] VALIDATIONS MUTATIONS",
		Short: "Prove that VALIDATIONS admit every object that MUTATIONS change",
		Long: `accepts proves that the validating policies of a set admit every object to which the
mutating policies of another set apply, in every order of the mutating policies. A
counterexample is a request whose object is denied after the mutations. VALIDATIONS and
MUTATIONS are files or directories, and may be the same.
` + proveStatus,
		Example: "  celgate prove accepts validations.yaml mutations.yaml\n  celgate prove accepts policies/ policies/",
		RunE:    func(cmd *cobra.Command, args []string) error { return p.accept(cmd.Context(), args) },
	}
	p.addFlags(cmd)
	return cmd
}

func newProveMutations(c *console, question, short, long string) *cobra.Command {
	p := &proving{console: c}
	ask := proofs.Idempotence
	if question == "commutative" {
		ask = proofs.Commutativity
	}
	cmd := &cobra.Command{
		Use:     question + " [flags] -p POLICIES",
		Short:   short,
		Long:    long + "\n" + proveStatus,
		Example: "  celgate prove " + question + " -p policies/",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.askMutations(cmd.Context(), ask) },
	}
	p.addPolicyFlag(cmd)
	p.addFlags(cmd)
	return cmd
}

func newProveHolds(c *console) *cobra.Command {
	p := &proving{console: c}
	cmd := &cobra.Command{
		Use:   "holds [flags] -p POLICIES --claim EXPRESSION",
		Short: "Prove that a claim is true of every object that policies admit",
		Long: `holds proves that a CEL expression is true of every object that a set of policies
admits when it is created or updated. A counterexample is a request that the policies
admit although the claim is false or an error. The claim may use the same variables and
functions as a validation.
` + proveStatus,
		Example: `  celgate prove holds -p policies/ --claim 'object.spec.replicas <= 10'
  celgate prove holds -p policies/ --resource pods \
    --claim '!object.spec.?hostNetwork.orValue(false)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.hold(cmd.Context()) },
	}
	p.addPolicyFlag(cmd)
	group(cmd, "Claim", func(f *pflag.FlagSet) {
		f.StringVar(&p.claim, "claim", "", "`EXPRESSION` the claim, in CEL")
		f.StringSliceVar(&p.resources, "resource", nil,
			"`RESOURCES` the resources of the claim, such as pods or deployments.apps;\ncomma-separated (default: all resources of the policies)")
	})
	p.addFlags(cmd)
	return cmd
}

func newProveVacuity(c *console) *cobra.Command {
	p := &proving{console: c}
	cmd := &cobra.Command{
		Use:   "vacuity [flags] -p POLICIES",
		Short: "Find the parts of policies without an effect",
		Long: `vacuity lists the validations that never deny or deny every request, the match
conditions that are never or always true, the bindings that do not match any request,
the messageExpressions that are never the message, and the operands of && and || and the
branches of ?: that make no difference. Every listed part is proved.

The exit status is 0 if there are none, 1 if there are some, 3 if an answer is
undecided or disputed, and 2 if a file cannot be read or a policy is invalid.`,
		Example: "  celgate prove vacuity -p policies/",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.findVacuous(cmd.Context()) },
	}
	p.addPolicyFlag(cmd)
	p.addFlags(cmd)
	return cmd
}

func (p *proving) addPolicyFlag(cmd *cobra.Command) {
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&p.policies, "policy", "p", nil, "`FILE|DIR|-` policies and bindings; may be repeated")
	})
}

func newProveSets(c *console, question, short, long string) *cobra.Command {
	p := &proving{console: c}
	cmd := &cobra.Command{
		Use:   question + " [flags] OLD NEW",
		Short: short,
		Long: long + `

OLD and NEW are files or directories of policies and bindings, as -p of apply. Only
bindings with the action Deny count. The question covers the requests that the rules
of the policies match; standard output lists them.
` + proveStatus,
		Example: "  celgate prove " + question + " old/ new/\n  celgate prove " + question +
			" --without-bindings old.yaml new.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.compare(cmd.Context(), args, question == "equivalent")
		},
	}
	p.addFlags(cmd)
	return cmd
}

func (p *proving) addFlags(cmd *cobra.Command) {
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&p.state, "cluster-state", "c", nil,
			"`FILE|DIR|-` CustomResourceDefinitions; may be repeated")
		minorFlag(f, &p.kubeVersion, "the Kubernetes that the policies are for (default "+celgate.Newest+")")
		p.unboundFlag(f)
	})
	group(cmd, "Second solver", func(f *pflag.FlagSet) {
		f.StringVar(&p.solver, "solver", "", "`z3|cvc5` also ask this installed program, which must not disagree and may\ndecide what is too large for celgate")
		f.DurationVar(&p.timeout, "solver-timeout", 30*time.Second, "`DURATION` the longest time for one question to that program")
	})
	group(cmd, "Output", func(f *pflag.FlagSet) {
		p.reporting.flags(f, report.ProofFormats(), "text (default), json or github")
		p.colorFlag(f)
	})
	p.complete(cmd)
}

// compare proves one direction, or both.
func (p *proving) compare(ctx context.Context, args []string, both bool) error {
	if len(args) != 2 {
		return &usageError{errors.New("prove compares two sets of policies: OLD and NEW")}
	}
	b, err := p.begin(ctx, args[:1], args[1:])
	if err != nil {
		return err
	}
	if len(b.options.Rejected) > 0 {
		return p.writeProofs(b, nil)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	var all []report.Proof
	for i := range b.sets {
		if i == 1 && !both {
			break
		}
		proof, err := proofs.Stricter(ctx, b.room, b.sets[i], b.sets[1-i])
		if err != nil {
			return err
		}
		all = append(all, proof)
	}
	return p.writeProofs(b, all)
}

// loadSets reads sets of policies, each from its paths.
func (p *proving) loadSets(ctx context.Context, sets ...[]string) (sides []proofs.Set, room *prove.Room,
	rejected []report.Rejection, err error) {
	p.once = map[string]bool{}
	loader := &manifest.Loader{Stdin: p.stdin, MaxInput: p.maxInput}
	state := p.read(loader, p.state)
	for _, paths := range sets {
		from := sources{policies: paths, inlineState: state, version: p.kubeVersion}
		w, err := p.load(ctx, loader, from, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		if room == nil {
			if room, err = prove.NewRoom(w.types, minorOrNewest(p.kubeVersion)); err != nil {
				return nil, nil, nil, err
			}
		}
		s, refused, err := p.newProven(room, strings.Join(paths, ", "), w)
		if err != nil {
			return nil, nil, nil, err
		}
		sides, rejected = append(sides, s), append(rejected, refused...)
	}
	return sides, room, rejected, nil
}

// A beginning is what questions about sets of policies need.
type beginning struct {
	open    []*output
	sets    []proofs.Set
	room    *prove.Room
	options report.Options // with the refused policies: then nothing is asked
}

// begin opens the outputs and reads sets of policies.
func (p *proving) begin(ctx context.Context, sets ...[]string) (*beginning, error) {
	open, err := p.open(p.console)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(sets, func(paths []string) bool { return len(paths) == 0 }) {
		return nil, withHint(&usageError{errors.New("no policies given")}, "name files or directories with -p")
	}
	second, err := p.findSolver()
	if err != nil {
		return nil, err
	}
	sides, room, rejected, err := p.loadSets(ctx, sets...)
	if err != nil {
		return nil, err
	}
	room.Second = second
	if len(rejected) > 0 {
		p.raise(exitFailed)
	}
	return &beginning{open, sides, room, report.Options{Rejected: rejected, Types: room.Types}}, nil
}

// findSolver returns the program of --solver; nil: none is asked.
func (p *proving) findSolver() (prove.Second, error) {
	switch {
	case p.solver == "":
		return nil, nil
	case p.timeout <= 0:
		return nil, &usageError{errors.New("--solver-timeout is a duration such as 30s")}
	}
	found, err := smtlib.Find(p.solver, p.timeout)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--solver: %w", err)}
	}
	return found, nil
}

// hold proves a claim about every object that policies admit.
func (p *proving) hold(ctx context.Context) error {
	if p.claim == "" {
		return &usageError{errors.New("no claim given: --claim EXPRESSION")}
	}
	b, err := p.begin(ctx, p.policies)
	if err != nil {
		return err
	}
	if len(b.options.Rejected) > 0 {
		return p.writeProofs(b, nil)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	proof, err := proofs.Holds(ctx, b.room, p.claim, b.sets[0], p.resources)
	if err != nil {
		return err
	}
	return p.writeProofs(b, []report.Proof{proof})
}

// findVacuous lists the parts of policies without an effect.
func (p *proving) findVacuous(ctx context.Context) error {
	b, err := p.begin(ctx, p.policies)
	if err != nil {
		return err
	}
	found := &prove.Vacuities{}
	if len(b.options.Rejected) == 0 {
		ctx, stop := interruptible(ctx)
		defer stop()
		if found, err = b.room.Vacuous(ctx, b.sets[0].Side); err != nil {
			return err
		}
		for _, r := range b.sets[0].Side.Outside() {
			p.raiseProof(exitUndecided)
			p.say(r.Message, "")
		}
		for _, d := range found.Disputes {
			p.raiseProof(exitUndecided)
			p.say(d, "")
		}
		if n := found.Undecided; n > 0 {
			p.raiseProof(exitUndecided)
			p.say(plural(n, "question is undecided", "questions are undecided"), "")
		}
		if len(found.Found) > 0 {
			p.raiseProof(exitDenied)
		}
	}
	return writeAll(b.open, b.options, func(out *output, o report.Options) error {
		return report.WriteVacuities(out.format, out, o, found)
	})
}

// findErrors proves that expressions are never an error.
func (p *proving) findErrors(ctx context.Context) error {
	b, err := p.begin(ctx, p.policies)
	if err != nil {
		return err
	}
	var all []report.Proof
	if len(b.options.Rejected) == 0 {
		ctx, stop := interruptible(ctx)
		defer stop()
		if all, err = proofs.ErrorFree(ctx, b.room, b.sets[0]); err != nil {
			return err
		}
	}
	return p.writeProofs(b, all)
}

// accept proves that validating policies admit the results of mutating ones.
func (p *proving) accept(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return &usageError{errors.New("prove accepts needs two sets of policies: VALIDATIONS and MUTATIONS")}
	}
	b, err := p.begin(ctx, args[:1], args[1:])
	if err != nil {
		return err
	}
	if len(b.options.Rejected) > 0 {
		return p.writeProofs(b, nil)
	}
	checks, changes := b.sets[0], b.sets[1]
	if !changes.Side.HasMutations() {
		return noMutations(changes.Name)
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	proof, err := proofs.Accepts(ctx, b.room, checks, changes)
	if err != nil {
		return err
	}
	return p.writeProofs(b, []report.Proof{proof})
}

func noMutations(name string) error {
	return &usageError{fmt.Errorf("%s: does not contain a MutatingAdmissionPolicy that is in force", name)}
}

// askMutations asks a question about the mutating policies of a set.
func (p *proving) askMutations(ctx context.Context,
	ask func(context.Context, *prove.Room, proofs.Set) ([]report.Proof, error)) error {
	b, err := p.begin(ctx, p.policies)
	if err != nil {
		return err
	}
	var all []report.Proof
	if len(b.options.Rejected) == 0 {
		if !b.sets[0].Side.HasMutations() {
			return noMutations(b.sets[0].Name)
		}
		ctx, stop := interruptible(ctx)
		defer stop()
		if all, err = ask(ctx, b.room, b.sets[0]); err != nil {
			return err
		}
		if len(all) == 0 {
			return &usageError{fmt.Errorf("%s: contains only one MutatingAdmissionPolicy that is in force", b.sets[0].Name)}
		}
	}
	return p.writeProofs(b, all)
}

// newProven compiles a set; it returns the policies that the server would refuse.
func (p *proving) newProven(room *prove.Room, name string, w *world) (s proofs.Set, refused []report.Rejection,
	err error) {
	engine, err := celgate.New(&w.set, w.options())
	if err != nil {
		return s, nil, err
	}
	refused = w.rejections(engine)
	side, err := room.NewSide(w.policiesInForce(p.console, refused), proofs.ManifestsIn(w.written))
	return proofs.Set{Name: name, Side: side}, refused, err
}

// raiseProof raises the exit status for a claim: a counterexample takes precedence over an undecided answer.
func (p *proving) raiseProof(status int) {
	if p.status == exitClean || p.status == exitUndecided {
		p.status = status
	}
}

// writeProofs writes answers, and raises the exit status.
func (p *proving) writeProofs(b *beginning, all []report.Proof) error {
	for _, proof := range all {
		switch proof.Answer {
		case prove.Counterexample:
			p.raiseProof(exitDenied)
		case prove.Undecided, prove.NotFound, prove.Disputed:
			p.raiseProof(exitUndecided)
		}
	}
	return writeAll(b.open, b.options, func(out *output, o report.Options) error {
		return report.WriteProofs(out.format, out, o, all)
	})
}

// writeAll writes a report to each output, with its width and colours, and closes them.
func writeAll(open []*output, o report.Options, write func(*output, report.Options) error) error {
	for _, out := range open {
		o.Color, o.Width = out.color, out.width
		if err := write(out, o); err != nil {
			return err
		}
	}
	return closeAll(open)
}
