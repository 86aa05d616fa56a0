// Command wild compares celgate with a live server on handwritten policies, and on generated objects near the fields
// and values that these policies mention.
//
//	go -C conformance run ./cmd/wild [-time 10m] [-seed N] [-round R] [-rounds N] [-whole] [-verbose] FOLDER...
//
// It prints every difference as a case of the corpus and ends with a line of totals; the exit status is 1 if there were
// differences.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/celgate/celgate/conformance/differ"
)

func main() {
	run := differ.WildRun{}
	run.Share, run.Out = 1, os.Stdout
	flag.DurationVar(&run.Time, "time", time.Minute, "how long; 0: no limit")
	flag.Uint64Var(&run.Seed, "seed", uint64(time.Now().UnixNano()), "of everything random")
	flag.Uint64Var(&run.First, "round", 0, "index of the first round")
	flag.IntVar(&run.Rounds, "rounds", 0, "end after so many rounds; 0: no limit")
	flag.IntVar(&run.Slots, "slots", 180, "policies of a round")
	flag.IntVar(&run.Requests, "requests", 20, "requests for each policy of a round")
	flag.IntVar(&run.Limit, "limit", 20, "end after so many differences")
	flag.BoolVar(&run.Whole, "whole", false, "print differences as they are found, without making them smaller")
	verbose := flag.Bool("verbose", false, "say which policies and objects are left out, and why")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Printf("seed %d\n", run.Seed)
	totals, err := do(ctx, &run, *verbose, flag.Args())
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "wild:", err)
		os.Exit(2)
	case totals.Differences > 0:
		os.Exit(1)
	}
}

func do(ctx context.Context, run *differ.WildRun, verbose bool, folders []string) (*differ.LiveTotals, error) {
	if len(folders) == 0 {
		return nil, errors.New("no folders of policies")
	}
	start := time.Now()
	server, err := differ.StartWild(ctx, folders...)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	fmt.Printf("%d policies with a binding, %d files, policies and objects left out, ready after %.0f s\n",
		server.Policies(), len(server.Skipped), time.Since(start).Seconds())
	if verbose {
		for _, what := range server.Skipped {
			fmt.Println("left out:", what)
		}
	}
	totals, err := run.Do(ctx, server)
	if totals != nil {
		fmt.Printf("%d comparisons, %d differences, seed %d\n", totals.Comparisons, totals.Differences, totals.Seed)
		fmt.Printf("%d rounds, %d policies, %d more refused, %d requests denied, %d objects mutated, %d with warnings or annotations, "+
			"%d with an answer of several, %d requests that no policy saw, %d policies without an object that the server takes\n",
			totals.Rounds,
			totals.Policies,
			totals.Rejected,
			totals.Denied,
			totals.Mutated,
			totals.Annotated,
			totals.Unordered,
			totals.Refused,
			totals.Unmade,
		)
	}
	if err == nil && totals.Comparisons == 0 && ctx.Err() == nil {
		err = errors.New("the server was asked nothing")
	}
	return totals, err
}
