// Command corpus records the cases of internal/conformance from live servers, or checks that the servers still answer
// as recorded:
//
//	go -C conformance run ./cmd/corpus -check
//	go -C conformance run ./cmd/corpus -record -run 'params/'
//	go -C conformance run ./cmd/corpus -record -missing
//	go -C conformance run ./cmd/corpus -record -minor 1.36
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/corpus"
	"github.com/celgate/celgate/conformance/server"
	"github.com/celgate/celgate/internal/conformance"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r run
	flag.BoolVar(&r.record, "record", false, "write the answers into the cases")
	flag.BoolVar(&r.check, "check", false, "compare the answers with what is recorded")
	flag.BoolVar(&r.missing, "missing", false, "only cases without an answer")
	flag.StringVar(&r.minor, "minor", celgate.Newest, "the Kubernetes `minor` of the servers; all: each in turn")
	flag.StringVar(&r.dir, "dir", "../internal/conformance/testdata", "the `folder` of the corpus")
	flag.StringVar(&r.match, "run", "", "only cases whose area/name matches this `regexp`")
	flag.IntVar(&r.servers, "servers", 6, "how many servers answer side by side; each mostly waits for policies to be in force")
	flag.Parse()
	minors := []string{r.minor}
	if r.minor == "all" {
		minors = append(server.Minors(), celgate.Newest)
	}
	var errs []error
	for _, r.minor = range minors {
		if err := r.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.minor, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

// A run is one call of the command.
type run struct {
	record, check, missing bool
	dir, match, minor      string
	servers                int

	mu     sync.Mutex
	failed int
	differ int
	once   int // answers that the server gave once, and not again
}

func (r *run) do(ctx context.Context) error {
	if r.record == r.check {
		return fmt.Errorf("one of -record and -check is needed")
	}
	cases, err := r.cases()
	if err != nil {
		return err
	}
	began := time.Now()
	r.differ, r.failed, r.once = 0, 0, 0
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	var parts [][]*conformance.Case
	var with, added, without []*conformance.Case
	for _, c := range cases {
		switch {
		case len(c.AddedPlugins()) > 0:
			added = append(added, c)
		case c.HasPlugins():
			with = append(with, c)
		default:
			without = append(without, c)
		}
	}
	for _, of := range [][]*conformance.Case{with, added, without} {
		servers := min(r.servers, (len(of)+19)/20)
		for i := range servers {
			// Neighbours often share their policies, so each server gets a run of them.
			parts = append(parts, of[len(of)*i/servers:len(of)*(i+1)/servers])
		}
	}
	errs := make([]error, len(parts))
	for i, part := range parts {
		wait.Go(func() {
			if errs[i] = r.serve(ctx, part); errs[i] != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d cases, %d differences, %d without an answer, %d answered otherwise at first, %.0f s\n", r.minor,
		len(cases), r.differ, r.failed, r.once, time.Since(began).Seconds())
	if r.failed > 0 || r.check && r.differ > 0 {
		return fmt.Errorf("the corpus is not as recorded")
	}
	return nil
}

func (r *run) cases() ([]*conformance.Case, error) {
	all, err := conformance.Load(os.DirFS(r.dir))
	if err != nil {
		return nil, err
	}
	match, err := regexp.Compile(r.match)
	if err != nil {
		return nil, err
	}
	var cases []*conformance.Case
	for _, c := range all {
		known := c.WantOf(r.minor) != nil
		if !match.MatchString(c.Name) || r.missing && known {
			continue
		}
		if r.check && !known && r.minor != celgate.Newest { // an older minor does not answer every case
			continue
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// serve runs cases on one server.
func (r *run) serve(ctx context.Context, cases []*conformance.Case) error {
	var options server.Options
	if cases[0].HasPlugins() {
		options.Plugins = server.Disturbing
	}
	if added := cases[0].AddedPlugins(); added != nil {
		options.Args = []string{"--enable-admission-plugins=" + strings.Join(added, ",")}
	}
	recorder, err := corpus.Start(ctx, r.minor, options)
	if err != nil {
		return err
	}
	defer recorder.Stop()
	if err := recorder.Install(ctx, cases); err != nil {
		return err
	}
	for _, c := range cases {
		on, err := c.AsOf(r.minor)
		if err != nil {
			return err
		}
		want, err := recorder.Record(ctx, on)
		// Servers of older minors do not always find the variables of a policy that they have just taken up.
		if recorded := c.WantOf(r.minor); err == nil && r.check && recorded != nil && r.minor != celgate.Newest {
			if diff := conformance.Compare(recorded, want); diff != "" {
				if want, err = recorder.RecordAnew(ctx, on); err == nil && conformance.Compare(recorded, want) == "" {
					r.tell(c, diff)
				}
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.judge(c, want, err); err != nil {
			return err
		}
	}
	return nil
}

// tell prints an answer that the server gave once, and not again.
func (r *run) tell(c *conformance.Case, diff string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.once++
	fmt.Printf("%s: answered as recorded when asked again: - recorded + first answer\n%s\n", c.Name, diff)
}

// judge compares or writes an answer. The error is an error in the corpus, not in the case.
func (r *run) judge(c *conformance.Case, want *conformance.Want, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed++
		fmt.Printf("%s: %v\n", c.Name, err)
		return nil
	}
	if recorded := cmp.Or(c.WantOf(r.minor), c.Want); recorded != nil && (r.record || c.WantOf(r.minor) != nil) {
		if diff := conformance.Compare(recorded, want); diff != "" {
			r.differ++
			fmt.Printf("%s: - recorded + answer\n%s\n", c.Name, diff)
		}
	} else if r.check {
		r.failed++
		fmt.Printf("%s: not recorded\n", c.Name)
	}
	if !r.record {
		return nil
	}
	c.Put(r.minor, want)
	content, err := c.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, filepath.FromSlash(c.Name)+".txtar"), content, 0o644)
}
