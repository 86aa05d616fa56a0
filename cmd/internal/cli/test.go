package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/celgate/celgate/cmd/internal/suite"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A test is one run of the verb.
type test struct {
	*console
	only     string
	versions []string
	plugins  []string // of --admission-plugins
	update   bool
	coverage bool
	least    float64
	reporting
	verbose      bool
	watch        bool
	convert      bool
	leastIsGiven bool
}

func newTest(c *console) *cobra.Command {
	t := &test{console: c}
	cmd := &cobra.Command{
		Use:   "test [flags] SUITE|DIR...",
		Short: "Run test suites of policies",
		Long: `test evaluates the requests of test suites as the API server would, and reports every
difference from what the cases expect: a request that is allowed, another message, an
object that is changed in another way, a policy that did not match.

A suite is a file of kind: Suite, or a directory with policy.yaml, perhaps state.yaml,
and a directory cases with files of kind: Case. test searches directories for suites.
docs/test.md describes both kinds.

The exit status is 0 when every case passes, 1 when one fails or the coverage is too
low, and 2 when a case could not run.`,
		Example: `  # all suites below a directory
  celgate test policies/

  # the cases whose suite/name matches
  celgate test --run 'replica-limit/.*scale' policies/

  # with the outcomes that no case shows
  celgate test --coverage --coverage-min 90 policies/

  # write the mutated objects into golden files
  celgate test --update policies/

  # convert tests of the Kyverno command line
  celgate test --convert policies/

  # for a CI system
  celgate test -o junit policies/ > report.xml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.leastIsGiven = cmd.Flags().Changed("coverage-min")
			return t.run(cmd.Context(), args)
		},
	}
	group(cmd, "Cases", func(f *pflag.FlagSet) {
		f.StringVar(&t.only, "run", "", "`REGEXP` run only cases whose suite/name matches")
		f.StringSliceVar(&t.versions, "kube-version", nil,
			"`MINORS` run on each of these versions of Kubernetes and show\nthe differences (default "+celgate.Newest+")")
		t.static.flags(f)
		pluginsFlagAside(f, &t.plugins)
		f.BoolVar(&t.update, "update", false, "write the golden files instead of comparing with them")
	})
	group(cmd, "Watching", func(f *pflag.FlagSet) {
		f.BoolVar(&t.watch, "watch", false, "run again whenever a file of the suites changes, until interrupted")
	})
	group(cmd, "Coverage", func(f *pflag.FlagSet) {
		f.BoolVar(&t.coverage, "coverage", false, "show which outcomes of each expression the cases reach")
		f.Float64Var(&t.least, "coverage-min", 0, "`PERCENT` fail if the coverage is lower")
	})
	group(cmd, "Converting", func(f *pflag.FlagSet) {
		f.BoolVar(&t.convert, "convert", false,
			"write a suite.yaml beside each test of the Kyverno command line:\nthe arguments are such tests, or directories with kyverno-test.yaml")
	})
	group(cmd, "Output", func(f *pflag.FlagSet) {
		t.reporting.flags(f, report.SuiteFormats(),
			"text (default), json, junit, sarif, github: annotations of a\nworkflow, or html: a page, best with --coverage")
		f.BoolVarP(&t.verbose, "verbose", "v", false, "also show the cases that pass")
		t.colorFlag(f)
	})
	t.complete(cmd)
	return cmd
}

func (t *test) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return withHint(&usageError{errors.New("no suites given")}, "name suites or directories with suites")
	}
	if t.convert {
		return t.convertSuites(args)
	}
	if t.least < 0 || t.least > 100 {
		return &usageError{errors.New("--coverage-min is a percentage from 0 to 100")}
	}
	opts := suite.Options{Update: t.update, Plugins: t.plugins}
	if t.only != "" {
		var err error
		if opts.Only, err = regexp.Compile(t.only); err != nil {
			return &usageError{fmt.Errorf("--run: %s", suite.PatternProblem(err))}
		}
	}
	for i, v := range t.versions {
		minor, err := minorOf(v)
		if err != nil {
			return err
		}
		t.versions[i] = minor
	}
	if len(t.versions) == 0 {
		t.versions = []string{celgate.Newest}
	}
	if _, err := t.targets(); err != nil {
		return err
	}
	var err error
	if opts.Static, err = t.staticDirs(); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	if !t.watch {
		return t.runOnce(ctx, args, opts)
	}
	for {
		suites, _ := suite.Load(args...) // runOnce reports the problems
		files := append(suite.Files(suites), args...)
		before := snapshot(files) // before the run: a change during it counts
		if err := t.runOnce(ctx, args, opts); err != nil && ctx.Err() == nil {
			t.sayError(err)
		}
		if !waitForChange(ctx, files, before) {
			t.status = exitClean // interrupting a watch is not a failure
			return nil
		}
		if isTerminal(t.stdout) {
			fmt.Fprint(t.stdout, "\x1b[2J\x1b[H")
		} else {
			fmt.Fprintln(t.stdout)
		}
	}
}

// convertSuites writes suites for tests of the Kyverno command line, and prints the parts that it cannot convert.
func (t *test) convertSuites(args []string) error {
	files, problems := suite.KyvernoTests(args...)
	for _, p := range problems {
		t.raise(exitFailed)
		t.say(p.Error(), p.Hint)
	}
	for _, file := range files {
		c := suite.FromKyverno(file)
		for _, p := range c.Left {
			t.raise(exitDenied)
			t.say(p.Error(), p.Hint)
		}
		if len(c.Suites) == 0 {
			t.raise(exitFailed)
			t.say(file+": nothing to convert", "")
			continue
		}
		path, err := c.WriteSuites()
		switch {
		case errors.Is(err, fs.ErrExist):
			t.raise(exitFailed)
			t.say(path+" exists, and is not overwritten", "remove it, or move it away")
		case err != nil:
			return err
		default:
			fmt.Fprintf(t.stdout, "wrote %s with %s\n", path, casesOf(c.Cases))
		}
	}
	return nil
}

func casesOf(n int) string {
	if n == 1 {
		return "1 case"
	}
	return fmt.Sprintf("%d cases", n)
}

// waitForChange waits until one of the files, or a file below one of the directories, changes; false when ctx ends
// first.
func waitForChange(ctx context.Context, paths []string, before map[string]stamp) bool {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
			if !maps.Equal(before, snapshot(paths)) {
				return true
			}
		}
	}
}

type stamp struct {
	size int64
	time time.Time
}

func snapshot(paths []string) map[string]stamp {
	all := map[string]stamp{}
	for _, root := range paths {
		// An unreadable file counts as missing.
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return nil
			}
			if stat, err := entry.Info(); err == nil {
				all[path] = stamp{stat.Size(), stat.ModTime()}
			}
			return nil
		})
	}
	return all
}

// runOnce runs the cases.
func (t *test) runOnce(ctx context.Context, args []string, opts suite.Options) error {
	suites, problems := suite.Load(args...)
	for _, p := range problems {
		t.raise(exitFailed)
		t.say(p.Error(), p.Hint)
	}
	if len(problems) > 0 {
		return nil
	}
	open, err := t.open(t.console)
	if err != nil {
		return err
	}
	var writers []report.SuiteWriter
	for _, o := range open {
		writer, err := report.NewSuite(o.format, o,
			report.SuiteOptions{Color: o.color, Width: o.width, Verbose: t.verbose})
		if err != nil {
			return err
		}
		writers = append(writers, writer)
	}
	ran := 0
	if t.coverage || t.leastIsGiven {
		opts.Coverage = &suite.Coverage{}
	}
	var versions suite.Comparison
	for _, version := range t.versions {
		opts.KubeVersion = version
		t.sayRelease(&world{version: version})
		for r := range suite.Run(ctx, suites, opts) {
			ran++
			switch r.Status {
			case suite.Failed:
				t.raise(exitDenied)
			case suite.NotRun:
				t.raise(exitFailed)
			}
			versions.Add(version, r)
			if len(t.versions) > 1 {
				r.Suite = version + "/" + r.Suite
			}
			for _, writer := range writers {
				if err := writer.Write(r); err != nil {
					return err
				}
			}
		}
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if ran == 0 {
		return fmt.Errorf("--run %s does not match any case", t.only)
	}
	shown := opts.Coverage
	if !t.coverage {
		shown = nil
	}
	for _, writer := range writers {
		if err := writer.Close(report.SuiteSummary{Coverage: shown, Differences: versions.Differences()}); err != nil {
			return err
		}
	}
	if err := closeAll(open); err != nil {
		return err
	}
	if !t.leastIsGiven {
		return nil
	}
	if percent := opts.Coverage.Percent(); percent < t.least {
		t.raise(exitDenied)
		t.say(fmt.Sprintf("coverage is %.1f%%, less than %g%%", percent, t.least),
			"--coverage shows the outcomes that no case reaches")
	}
	return nil
}
