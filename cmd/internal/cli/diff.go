package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/check"
	"github.com/celgate/celgate/cmd/internal/delta"
	"github.com/celgate/celgate/cmd/internal/proofs"
	"github.com/celgate/celgate/cmd/internal/prove"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/requests"
	"github.com/celgate/celgate/cmd/internal/suite"
	"github.com/celgate/celgate/manifest"
	"github.com/celgate/celgate/policy"
)

// A diffing is one run of the verb diff. Both sets answer requests that are made as those of apply.
type diffing struct {
	apply
	both      string // of --policy: the set that two versions of Kubernetes evaluate
	suites    []string
	log       string // of --audit-log
	structure bool
	proves    bool
	strict    bool
	worlds    map[string]sources // by version, without policies
}

// Names of sets that are not files.
const (
	noSet      = "none"    // the empty set
	clusterSet = "cluster" // the policies that a live cluster enforces
)

func newDiff(c *console) *cobra.Command {
	x := &diffing{apply: apply{console: c}}
	cmd := &cobra.Command{
		Use:   "diff [flags] OLD NEW [MANIFEST|REVIEW|DIR|-...]",
		Short: "Show which answers change when policies change",
		Long: `diff evaluates two sets of policies for the same requests and shows which answers
differ: what is newly denied, changed, warned about or audited, and what no longer
is. It names the policy and the validation or mutation, and shows both messages,
the values behind them and the resulting object. The names of bindings and params
make no difference.

OLD and NEW are files or directories of policies and bindings, as -p of apply. The
word none is the empty set, and the word cluster, with --context, is what a live
cluster enforces.

Requests are made of manifests, AdmissionReviews and workloads, as in apply; they
also come from the cases of --suite or from an audit log. Without any of them, but
with -c or a live cluster, diff asks about the objects that exist: the creation of
a copy, and an update without a change. It lists only the kinds of a live cluster
that a policy of either set can match. Without requests diff compares the text of
the sets: matched resources and operations, selectors, expressions, bindings, costs.

With --kube-version 1.33..1.37 there is one set, and two versions of Kubernetes
answer: diff shows what one of them refuses, and which answers differ, with the
cause in Kubernetes where it is known. Without requests it asks about objects that
it makes of what the policies match and read.

With --prove diff also answers for all requests, as celgate prove equivalent does: it
proves that each set denies what the other one denies, or shows a request for which it
does not. Only NEW denying such a request counts as newly denied.

The exit status is 0 when nothing is newly denied and no object newly changed, 1 when
something is, and 2 when something could not be evaluated or a policy is invalid.`,
		Example: `  # what do the policies of this branch deny or change, unlike those of main?
  git worktree add ../main main
  celgate diff ../main/policies policies manifests/

  # which existing objects would these policies deny if they were in force?
  celgate diff none policies -c dump/
  celgate diff --context prod cluster policies

  # for the cases of test suites
  celgate diff old/ new/ --suite tests/

  # for the requests of yesterday
  celgate diff --context prod cluster policies/ --audit-log audit.log

  # only the text of the policies
  celgate diff old/ new/

  # what changes in prod if these policies replace its own?
  celgate diff --context prod cluster policies/ manifests/

  # may the cluster be upgraded?
  celgate diff --kube-version 1.33..1.37 -p policies manifests/
  celgate diff --kube-version 1.33..1.37 -p policies`,
		RunE: func(cmd *cobra.Command, args []string) error { return x.run(cmd.Context(), args) },
	}
	x.addDiffFlags(cmd)
	return cmd
}

// addDiffFlags adds the flags of the verb.
func (x *diffing) addDiffFlags(cmd *cobra.Command) {
	group(cmd, "Policies and cluster", func(f *pflag.FlagSet) {
		f.StringArrayVarP(&x.state, "cluster-state", "c", nil,
			"`FILE|DIR|-` existing objects of the cluster; without manifests and\nsuites diff asks about these objects; may be repeated")
		f.StringVarP(&x.both, "policy", "p", "",
			"`FILE|DIR` with two versions in --kube-version: the policies,\nin place of OLD and NEW")
		x.live.flags(f)
		f.StringVar(&x.kubeVersion, "kube-version", "",
			"`MINOR` the Kubernetes whose CEL, kinds and defaults are used, or two\nversions for one set of policies, as 1.36..1.37 (default "+celgate.Newest+")")
		x.static.flags(f)
		x.unboundFlag(f)
		pluginsFlag(f, &x.plugins)
		x.limitFlag(f)
	})
	group(cmd, "Requests", func(f *pflag.FlagSet) {
		f.StringVar(&x.log, "audit-log", "", "`FILE|-` the requests in an audit log of kube-apiserver, as with\ncelgate audit; -c or a live cluster is the state")
		f.StringArrayVar(&x.suites, "suite", nil,
			"`SUITE|DIR` the requests of the cases of a suite, with its state\nbut without its expectations; may be repeated")
	})
	group(cmd, "Requests made of manifests", func(f *pflag.FlagSet) { x.asked.flags(f, &x.oldFile) })
	group(cmd, "Workloads", x.workloads.flags)
	group(cmd, "Output", func(f *pflag.FlagSet) {
		x.reporting.flags(f, report.DiffFormats(), "text (default), json or github: annotations of a workflow")
		f.BoolVar(&x.structure, "structure", false, "with requests: also compare the text of the sets")
		f.BoolVar(&x.proves, "prove", false, "also prove that each set denies what the other one denies, or show a\nrequest for which it does not; see celgate prove equivalent")
		f.BoolVar(&x.summary, "summary", false, "count the requests by policy instead of listing them")
		x.colorFlag(f)
	})
	group(cmd, "What fails", func(f *pflag.FlagSet) {
		f.BoolVar(&x.strict, "strict", false, "exit status 1 for any answer that differs")
		f.StringVar(&x.unknownKinds, "unknown-kinds", "",
			"`WHAT` what to do with objects of unknown kinds: skip, plain\n(take them as they are) or fail (default: skip them if no\npolicy is for them)")
	})
	completeWith(cmd, "unknown-kinds", "skip", "plain", "fail")
	x.complete(cmd)
}

// A side is one of the two sets, or of the two versions.
type side struct {
	name     string // for messages
	path     string
	version  string
	world    *world
	rejected []report.Rejection
	force    *policy.Set // that are in force
	decider  *decider
	options  report.Options
}

func (x *diffing) run(ctx context.Context, args []string) error {
	sides, args, err := x.sides(args)
	if err != nil {
		return err
	}
	if err := x.checkLine(args); err != nil {
		return err
	}
	if x.proves && sides[0].version != sides[1].version {
		return &usageError{errors.New("--prove compares two sets of policies, not two versions of Kubernetes")}
	}
	asked, err := x.loadSides(ctx, sides, args)
	if err != nil {
		return err
	}
	old, now := &sides[0], &sides[1]
	o := report.DiffOptions{
		Old: old.options, New: now.options, Names: [2]string{old.name, now.name},
		Requests: asked.hasRequests() || asked.upgrade, Summary: x.summary,
		Compared: !asked.hasRequests() || x.structure,
	}
	if asked.upgrade {
		x.sayRefused(old, now)
	}
	if o.Compared {
		if o.Structure, err = x.compareSets(ctx, old, now); err != nil {
			return err
		}
	}
	if x.proves {
		if o.Proofs, err = x.proveBoth(ctx, old, now); err != nil {
			return err
		}
	}
	if !asked.hasRequests() {
		x.sayNoRequests(asked.upgrade)
	}
	open, err := x.open(x.console)
	if err != nil {
		return err
	}
	writers, err := newDiffWriters(open, o)
	if err != nil {
		return err
	}
	if err := x.askAll(ctx, sides, asked, writers); err != nil {
		return err
	}
	for _, writer := range writers {
		if err := writer.Close(); err != nil {
			return err
		}
	}
	return closeAll(open)
}

// proveBoth proves both directions. A request that only the new set denies is newly denied.
func (x *diffing) proveBoth(ctx context.Context, old, now *side) (all []report.Proof, err error) {
	room, err := prove.NewRoom(now.world.types, minorOrNewest(now.version))
	if err != nil {
		return nil, err
	}
	var sets [2]proofs.Set
	for i, s := range []*side{old, now} {
		sets[i].Name = s.name
		if sets[i].Side, err = room.NewSide(s.force, proofs.ManifestsIn(s.world.written)); err != nil {
			return nil, err
		}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	for i := range sets {
		proof, err := proofs.Stricter(ctx, room, sets[i], sets[1-i])
		if err != nil {
			return nil, err
		}
		if proof.Answer == prove.Counterexample && (i == 1 || x.strict) {
			x.raise(exitDenied)
		}
		all = append(all, proof)
	}
	return all, nil
}

// questions are the requests that both sides answer.
type questions struct {
	batch    []*manifest.Document // requests, and objects for which requests are made
	inline   []*manifest.Document // documents of the cluster state
	existing bool                 // the objects of the state or of a live cluster are audited
	suites   bool
	log      bool
	upgrade  bool // two versions answer; without requests they answer about specimens
}

// hasRequests reports whether there are requests other than those about specimens.
func (q *questions) hasRequests() bool { return len(q.batch) > 0 || q.suites || q.existing || q.log }

// loadSides reads the named files, prepares both sides, and returns the questions.
func (x *diffing) loadSides(ctx context.Context, sides []side, args []string) (*questions, error) {
	x.worlds = map[string]sources{}
	x.once = map[string]bool{} // messages that concern both sides are printed once
	loader := &manifest.Loader{Stdin: x.stdin, MaxInput: x.maxInput}
	q := &questions{batch: x.read(loader, args), suites: len(x.suites) > 0, log: x.log != ""}
	if len(args) > 0 && len(q.batch) == 0 && x.status == exitClean {
		return nil, fmt.Errorf("no objects in %s", strings.Join(args, ", "))
	}
	q.inline = x.read(loader, x.state) // once: it may be standard input
	olds := x.read(loader, x.olds())
	x.state = nil
	for i := range sides {
		if err := x.prepare(ctx, loader, &sides[i], q.batch, q.inline, olds); err != nil {
			return nil, err
		}
	}
	for _, s := range sides { // one set may match kinds that the other does not know
		x.workloads.All = x.workloads.All || requests.MayMatchChildren(s.world.types, s.decider.engine)
	}
	// The objects of a live cluster are audited, unless the cluster is only the state.
	q.existing = len(q.batch) == 0 && !q.suites && !q.log && (len(q.inline) > 0 || x.live != (live{}))
	q.upgrade = sides[0].version != sides[1].version
	return q, nil
}

// sayNoRequests prints what is compared in place of answers to requests.
func (x *diffing) sayNoRequests(upgrade bool) {
	if upgrade {
		x.say("requests are not given: diff generates objects from the fields that the policies match and read",
			"for real objects name manifests, suites with --suite or objects of a cluster with -c")
		return
	}
	x.say("requests are not given: diff compares the text of the policies, not their answers",
		"name manifests, suites with --suite or objects of a cluster with -c")
}

// newDiffWriters returns writers of comparisons to the open outputs.
func newDiffWriters(open []*output, o report.DiffOptions) ([]report.DiffWriter, error) {
	var writers []report.DiffWriter
	for _, out := range open {
		o.New.Color, o.New.Width, o.Old.Color, o.Old.Width = out.color, out.width, out.color, out.width
		writer, err := report.NewDiff(out.format, out, o)
		if err != nil {
			return nil, err
		}
		writers = append(writers, writer)
	}
	return writers, nil
}

// askAll lets both sides answer, and writes the differences.
func (x *diffing) askAll(ctx context.Context, sides []side, q *questions, writers []report.DiffWriter) error {
	write := func(c report.Comparison) error {
		for _, change := range c.Changes {
			if change.Fails() || x.strict {
				x.raise(exitDenied)
			}
		}
		for _, writer := range writers {
			if err := writer.Write(c); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	old, now := &sides[0], &sides[1]
	if err := x.ask(ctx, old, now, q.batch, write); err != nil {
		return err
	}
	var err error
	switch {
	case q.log:
		err = x.askLog(ctx, old, now, write)
	case q.existing:
		err = x.askExisting(ctx, old, now, q.inline, write)
	case q.upgrade && !q.hasRequests():
		err = x.askSpecimens(ctx, old, now, write)
	}
	if err != nil {
		return err
	}
	if err := x.askSuites(ctx, old, now, write); err != nil {
		return err
	}
	if x.workloads.All && (len(q.batch) > 0 || q.existing) {
		x.workloads.conclude(x.console)
	}
	for _, s := range sides {
		if err := s.world.unreadError(); err != nil {
			x.raise(exitFailed)
			x.sayError(err)
			break
		}
	}
	return nil
}

// sides returns the two sets of the command line, and the remaining arguments.
func (x *diffing) sides(args []string) ([]side, []string, error) {
	if from, to, two := strings.Cut(x.kubeVersion, ".."); two {
		if x.both != "" {
			args = slices.Concat([]string{x.both}, args)
		}
		if len(args) == 0 {
			return nil, nil, withHint(&usageError{errors.New("no policies given")},
				"name the policies that two versions of Kubernetes evaluate")
		}
		var all []side
		for _, v := range []string{from, to} {
			minor, err := minorOf(v)
			if err != nil {
				return nil, nil, err
			}
			all = append(all, side{name: "Kubernetes " + minor, path: args[0], version: minor})
		}
		x.kubeVersion = ""
		return all, args[1:], nil
	}
	if x.both != "" {
		return nil, nil, withHint(&usageError{errors.New("--policy requires two versions of Kubernetes")},
			"the sets are the arguments: celgate diff OLD NEW")
	}
	if len(args) < 2 {
		return nil, nil, withHint(&usageError{errors.New("diff compares two sets of policies: OLD and NEW")},
			"%s is the empty set; --kube-version 1.33..1.37 compares two versions of Kubernetes with one set", noSet)
	}
	if x.kubeVersion != "" {
		minor, err := minorOf(x.kubeVersion)
		if err != nil {
			return nil, nil, err
		}
		x.kubeVersion = minor
	}
	return []side{{name: args[0], path: args[0], version: x.kubeVersion},
		{name: args[1], path: args[1], version: x.kubeVersion}}, args[2:], nil
}

// checkLine refuses invalid combinations of arguments and flags.
func (x *diffing) checkLine(args []string) error {
	stdin := 0
	for _, path := range slices.Concat(args, x.state, []string{x.oldFile, x.log}) {
		if path == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return &usageError{errors.New("standard input can be read only once")}
	}
	if len(args) > 0 && len(x.suites) > 0 {
		return &usageError{errors.New("manifests and --suite cannot be combined")}
	}
	if x.log != "" && (len(args) > 0 || len(x.suites) > 0 || x.asked.knowsUser()) {
		return &usageError{errors.New("an audit log has its own requests and users: manifests, --suite and --as cannot be combined with it")}
	}
	if len(x.suites) > 0 && (len(x.state) > 0 || x.live != (live{})) {
		return &usageError{errors.New("a suite has its own state: --suite cannot be combined with -c or a live cluster")}
	}
	if len(args) == 0 { // existing objects and suites have users of their own
		given := slices.DeleteFunc(x.asked.usedFlags(), func(flag string) bool {
			return len(x.state) > 0 && (strings.HasPrefix(flag, "--as") || flag == "--dry-run")
		})
		if x.oldFile != "" {
			given = append(given, "--old")
		}
		if len(given) > 0 {
			return &usageError{fmt.Errorf("%s without manifests", strings.Join(given, ", "))}
		}
	}
	if err := x.asked.check(); err != nil {
		return err
	}
	if x.unknownKinds != "" && !slices.Contains([]string{"skip", "plain", "fail"}, x.unknownKinds) {
		return &usageError{fmt.Errorf("%w, not %q", errUnknownKinds, x.unknownKinds)}
	}
	if _, err := x.targets(); err != nil {
		return err
	}
	return x.workloads.check()
}

// olds returns the files of --old.
func (x *diffing) olds() []string {
	if x.oldFile == "" {
		return nil
	}
	return []string{x.oldFile}
}

// prepare reads a set and makes its decider.
func (x *diffing) prepare(ctx context.Context, loader *manifest.Loader, s *side, batch, inline,
	olds []*manifest.Document) error {
	x.policies = []string{s.path}
	version := x.kubeVersion
	x.kubeVersion = s.version
	from, read := x.worlds[s.version]
	if !read { // a live cluster is read once, so that both sides see the same state
		var err error
		if from, err = x.sources(ctx); err != nil {
			return err
		}
		x.worlds[s.version] = from
	}
	x.kubeVersion = version
	from.policies = x.policies
	from.inlineState = inline
	if _, err := os.Stat(s.path); err != nil {
		switch {
		case s.path == noSet:
			from.policies, from.none, s.name = nil, true, "no policies"
		case s.path == clusterSet && from.live != nil:
			from.policies, from.any, s.name = nil, true, "the cluster"
		case s.path == clusterSet:
			return withHint(&usageError{errors.New("the file does not exist: " + clusterSet)},
				"to compare the policies of a live cluster, name it with --context")
		}
	}
	var err error
	if s.world, err = x.load(ctx, loader, from, batch); err != nil {
		return err
	}
	w := s.world
	if x.oldFile != "" {
		if x.asked.old, err = w.oldCluster(x.console, olds, x.asked.namespace); err != nil {
			return err
		}
	}
	asked := x.asked
	if err := w.identify(ctx, &asked); err != nil {
		return err
	}
	existing := batch
	if len(batch) == 0 {
		existing = inline
	}
	if err := w.assume(w.missingNamespaces(existing, &asked)); err != nil {
		return err
	}
	engine, err := s.engine(x.plugins)
	if err != nil {
		return err
	}
	s.rejected = w.rejections(engine)
	if len(s.rejected) > 0 {
		x.raise(exitFailed)
	}
	force := w.policiesInForce(x.console, s.rejected)
	s.force = force
	if len(force.Policies) == 0 && !from.none && len(s.rejected) == 0 {
		hint := ""
		if !from.any {
			x.raise(exitFailed)
			hint = noSet + " is the set without policies"
		}
		x.say(s.name+": none of the policies is in force", hint)
	}
	s.decider = &decider{
		world: w, engine: engine, asked: &asked, notes: newNotes(force, w, &asked), reasons: !x.summary,
		unknownKinds: x.unknownKinds, orders: true, workloads: &x.workloads.Workloads, templates: x.workloads.found,
	}
	s.options = report.Options{Set: &w.set, Rejected: s.rejected, Types: w.types}
	return nil
}

// engine returns an engine with the set.
func (s *side) engine(plugins []string) (*celgate.Engine, error) {
	return celgate.New(&s.world.set, s.world.wholeOptions(plugins))
}

// answers are the answers of two sides for one document.
type answers struct{ old, now answer }

// ask lets both sides answer for documents, and writes the differences.
func (x *diffing) ask(ctx context.Context, old, now *side, batch []*manifest.Document,
	write func(report.Comparison) error) error {
	// A document that one set cannot match may match the other.
	both := func(doc *manifest.Document) answers {
		return answers{old.decider.answer(ctx, doc), now.decider.answer(ctx, doc)}
	}
	x.progress = newProgress(x.console, len(batch))
	defer x.progress.clear()
	done := 0
	for a := range mapInOrder(slices.Values(batch), runtime.GOMAXPROCS(0), both) {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err := x.contrast(ctx, old, now, a.old.Item, a.now.Item, write); err != nil {
			return err
		}
		if err := x.contrastAll(ctx, old, now, a.old.followed, a.now.followed, write); err != nil {
			return err
		}
		done++
		x.progress.step(done)
	}
	return nil
}

// contrastAll compares the answers about objects that controllers create with each side. A policy may change a name,
// and a denial prevents the following objects: the first Pod of one side is compared with the first of the other.
func (x *diffing) contrastAll(ctx context.Context, old, now *side, was, is []report.Item,
	write func(report.Comparison) error) error {
	was = slices.Clone(was)
	for _, it := range is {
		i := slices.IndexFunc(was, func(o report.Item) bool { return o.Kind == it.Kind })
		var before report.Item
		if i >= 0 {
			before = was[i]
			was = slices.Delete(was, i, i+1)
		}
		if err := x.contrast(ctx, old, now, before, it, write); err != nil {
			return err
		}
	}
	return nil // the following objects are not created, and the denial was reported
}

// contrast compares two answers to one request. It prints the reason if there is none.
func (x *diffing) contrast(ctx context.Context, old, now *side, was, is report.Item,
	write func(report.Comparison) error) error {
	for _, one := range []struct {
		*side
		report.Item
	}{{old, was}, {now, is}} {
		switch f := one.Failure; {
		case f == nil:
		case f.Skipped:
			x.say(prefixPlace(one.Place, subject(one.Item)+f.Message), f.Hint)
		default:
			x.raise(exitFailed)
			x.say(prefixPlace(one.Place, subject(one.Item)+f.Message), f.Hint)
		}
	}
	if was.Failure != nil && is.Failure != nil {
		return nil
	}
	if was.Failure != nil || is.Failure != nil { // a skipped object cannot match a policy, so it counts as allowed
		if was.Failure != nil && !was.Failure.Skipped || is.Failure != nil && !is.Failure.Skipped {
			return nil
		}
		if was.Failure != nil {
			was = passItem(is)
		} else {
			is = passItem(was)
		}
	}
	if isRefused(was) && isRefused(is) {
		x.say(prefixPlace(is.Place, subject(is)+"refused before any policy is evaluated: "+is.Decision.Status.Message), "")
	}
	answerOf := func(it report.Item) *delta.Answer {
		if it.Decision == nil {
			return nil
		}
		return &delta.Answer{Request: it.Request, Decision: it.Decision}
	}
	d := delta.Compare(answerOf(was), answerOf(is), now.world.types)
	c := report.Comparison{Old: was, New: is, Difference: d}
	if old.version != now.version && len(d.Changes) > 0 {
		if c.Causes = causesOf(was.Decision, is.Decision); len(c.Causes) == 0 {
			c.Causes = readingsBehind(ctx, reading{old, was}, reading{now, is})
		}
	}
	return write(c)
}

// isRefused reports whether the API server refuses a request before any policy is evaluated.
func isRefused(it report.Item) bool {
	d := it.Decision
	return d != nil && !d.Allowed && d.Status != nil && len(d.Outcomes)+len(d.Violations) == 0
}

// passItem returns the answer of a set that does not have a policy for a request.
func passItem(it report.Item) report.Item {
	it.Decision = &celgate.Decision{Allowed: true, Object: it.Request.Object}
	it.Reasons, it.Changes = nil, nil
	return it
}

// sayUnasked prints the policies that do not match any request about an existing object.
func (x *diffing) sayUnasked(sides ...*side) {
	var names []string
	for _, s := range sides {
		for _, p := range s.world.set.Policies {
			if p.MatchConstraints == nil {
				continue
			}
			asked := false
			for _, r := range p.Rules() {
				asked = asked ||
					slices.ContainsFunc(r.Operations, func(op string) bool { return op != "DELETE" && op != "CONNECT" })
			}
			if !asked {
				names = append(names, p.Name)
			}
		}
	}
	if len(names) > 0 {
		x.say("policies for DELETE or CONNECT only, which diff does not evaluate for existing objects: "+listFew(names),
			"name the objects as manifests with --operation DELETE")
	}
}

// askSuites lets both sides answer the cases of suites.
func (x *diffing) askSuites(ctx context.Context, old, now *side, write func(report.Comparison) error) error {
	if len(x.suites) == 0 {
		return nil
	}
	suites, problems := suite.Load(x.suites...)
	for _, p := range problems {
		x.raise(exitFailed)
		x.say(p.Error(), p.Hint)
	}
	if len(problems) > 0 {
		return nil
	}
	var sides [2][]suite.Result
	for i, s := range []*side{old, now} {
		set := s.world.set
		for r := range suite.Run(ctx, suites,
			suite.Options{KubeVersion: s.version, Set: &set, FollowAll: x.workloads.All}) {
			for _, p := range r.Problems {
				x.raise(exitFailed)
				x.say(p.Error(), p.Hint)
			}
			sides[i] = append(sides[i], r)
		}
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if len(sides[0]) != len(sides[1]) { // a case could be run on one side only
		return errors.New("the suites have different cases with the two sets")
	}
	for i, r := range sides[0] {
		after := sides[1][i]
		if r.Status == suite.NotRun || after.Status == suite.NotRun {
			continue
		}
		if err := x.contrast(ctx, old, now, itemOfCase(r), itemOfCase(after), write); err != nil {
			return err
		}
		if err := x.contrastAll(ctx, old, now, createdItems(r), createdItems(after), write); err != nil {
			return err
		}
	}
	return nil
}

func itemOfCase(r suite.Result) report.Item {
	return report.Item{Place: r.Place, Request: r.Request, Decision: r.Decision, Kind: r.Request.Kind,
		Name: report.NameOf(r.Request)}
}

func createdItems(r suite.Result) []report.Item {
	var all []report.Item
	for _, c := range r.Created {
		all = append(all, report.Item{
			Place: r.Place, Request: c.Request, Decision: c.Decision, Kind: c.Request.Kind, Name: c.Name,
			CreatedBy: &report.Creator{Kind: r.Request.Kind.Kind, Name: report.NameOf(r.Request)},
		})
	}
	return all
}

// compareSets compares the texts of the sets and the costs of their expressions.
func (x *diffing) compareSets(ctx context.Context, old, now *side) ([]delta.Object, error) {
	var sources [2]delta.Source
	for i, s := range []*side{old, now} {
		sources[i] = delta.Source{Set: &s.world.set, Types: s.world.types, Facts: map[policy.Ref][]delta.Fact{}}
		measured, err := check.Measure(ctx, check.Input{Set: &s.world.set, Types: s.world.types,
			KubeVersion: minorOrNewest(s.world.version)})
		if err != nil {
			return nil, err
		}
		for _, m := range measured {
			key := m.Kind.Ref(m.Name)
			for _, c := range m.Costs {
				cost := fmt.Sprintf("%s: at most %d of %d by estimate", c.Of, c.Estimated, c.Limit)
				sources[i].Facts[key] = append(sources[i].Facts[key], delta.Fact{Part: "budgets", Says: cost})
			}
			if m.Oldest != "" && old.version == now.version { // otherwise it is limited by the version
				sources[i].Facts[key] = append(sources[i].Facts[key],
					delta.Fact{Part: "oldest Kubernetes", Says: m.Oldest})
			}
		}
	}
	return delta.Sets(sources[0], sources[1]), nil
}
