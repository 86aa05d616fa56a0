// Command corpus records the cases of internal/conformance from live servers, or checks that the servers still answer
// as recorded:
//
//	go -C conformance run ./cmd/corpus -check
//	go -C conformance run ./cmd/corpus -record -run 'params/'
//	go -C conformance run ./cmd/corpus -record -missing
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/celgate/celgate/conformance/corpus"
	"github.com/celgate/celgate/internal/conformance"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r run
	flag.BoolVar(&r.record, "record", false, "write the answers into the cases")
	flag.BoolVar(&r.check, "check", false, "compare the answers with what is recorded")
	flag.BoolVar(&r.missing, "missing", false, "only cases without an answer")
	flag.StringVar(&r.dir, "dir", "../internal/conformance/testdata", "the `folder` of the corpus")
	flag.StringVar(&r.match, "run", "", "only cases whose area/name matches this `regexp`")
	flag.IntVar(&r.servers, "servers", 2, "how many servers answer side by side")
	flag.Parse()
	if err := r.do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

// A run is one call of the command.
type run struct {
	record, check, missing bool
	dir, match             string
	servers                int

	mu     sync.Mutex
	failed int
	differ int
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	errs := make([]error, max(1, min(r.servers, (len(cases)+19)/20)))
	for i := range errs {
		// Neighbours often share their policies, so each server gets a run of them.
		part := cases[len(cases)*i/len(errs) : len(cases)*(i+1)/len(errs)]
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
	fmt.Printf("%d cases, %d differences, %d without an answer, %.0f s\n", len(cases), r.differ, r.failed,
		time.Since(began).Seconds())
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
		if match.MatchString(c.Name) && (!r.missing || c.Want == nil) {
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// serve runs cases on one server.
func (r *run) serve(ctx context.Context, cases []*conformance.Case) error {
	recorder, err := corpus.Start(ctx)
	if err != nil {
		return err
	}
	defer recorder.Stop()
	if err := recorder.Install(ctx, cases); err != nil {
		return err
	}
	for _, c := range cases {
		want, err := recorder.Record(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.judge(c, want, err); err != nil {
			return err
		}
	}
	return nil
}

// judge compares or writes an answer. The error is about the corpus, not about the case.
func (r *run) judge(c *conformance.Case, want *conformance.Want, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed++
		fmt.Printf("%s: %v\n", c.Name, err)
		return nil
	}
	if c.Want != nil {
		if diff := conformance.Compare(c.Want, want); diff != "" {
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
	content, err := c.Format(want)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, filepath.FromSlash(c.Name)+".txtar"), content, 0o644)
}
