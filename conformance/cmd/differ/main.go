// Command differ compares celgate with the API server's own admission plugins on random policies and objects.
//
//	go -C conformance run ./cmd/differ [-time 10m] [-seed N] [-first N] [-policies N] [-only KIND] \
//	  [-live SHARE] [-rounds N] [-whole] [-record FILE]
//
// With -live it also compares celgate with a live server, side by side with the rest, for this share of the time. With
// -minor it compares only with a live server of an older minor. It prints every difference as a case of the corpus and
// ends with a line of totals; the exit status is 1 if there were differences.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/celgate/celgate"
	"github.com/celgate/celgate/conformance/differ"
)

func main() {
	var run differ.Run
	live := differ.LiveRun{}
	flag.DurationVar(&run.Time, "time", time.Minute, "how long")
	flag.Uint64Var(&run.Seed, "seed", uint64(time.Now().UnixNano()), "of everything random")
	flag.IntVar(&run.Policies, "policies", 0,
		"end the comparisons in one process after so many policies; 0: no limit")
	flag.IntVar(&run.Requests, "requests", 50, "requests for each policy in one process")
	flag.Uint64Var(&run.First, "first", 0, "index of the first policy in one process")
	flag.StringVar(&run.Only, "only", "", "only this kind, such as Pod")
	flag.IntVar(&run.Limit, "limit", 20, "end after so many differences")
	flag.Float64Var(&live.Share, "live", 0, "share of the time in which a live server is asked; 1 leaves none to one process")
	minor := flag.String("minor", celgate.Newest, "of the live server; there is no other than the newest in one process")
	flag.IntVar(&live.Rounds, "rounds", 0, "end the live comparisons after so many rounds; 0: no limit")
	flag.Uint64Var(&live.First, "round", 0, "index of the first live round")
	flag.BoolVar(&live.Whole, "whole", false, "print live differences as they are found, without time for smaller cases")
	flag.IntVar(&live.Slots, "slots", 180, "policies of a live round")
	flag.IntVar(&live.Requests, "live-requests", 10, "requests for each live policy")
	record := flag.String("record", "", "write the totals to this `file`; those of a live server of an older minor into it")
	flag.Parse()
	if *minor != celgate.Newest {
		live.Share = 1
	}
	run.Out = &out{}
	live.Seed, live.Time, live.Only, live.Limit, live.Out = run.Seed, run.Time, run.Only, run.Limit, run.Out
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Printf("seed %d\n", run.Seed)
	totals, err := do(ctx, *minor, &run, &live)
	if *record != "" && err == nil {
		err = totals.Record(*record, *minor)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "differ:", err)
		os.Exit(2)
	case totals.Differences > 0 || totals.Live != nil && totals.Live.Differences > 0:
		os.Exit(1)
	}
}

// out is standard output for several goroutines.
type out struct{ mu sync.Mutex }

func (o *out) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return os.Stdout.Write(text)
}

// do runs both comparisons side by side.
func do(ctx context.Context, minor string, run *differ.Run, live *differ.LiveRun) (*differ.Totals, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	totals := &differ.Totals{Seed: run.Seed}
	var answers *differ.LiveTotals
	var err, liveErr error
	var wait sync.WaitGroup
	if live.Share > 0 {
		wait.Go(func() {
			if answers, liveErr = askLive(ctx, minor, live); liveErr != nil {
				cancel()
			}
		})
	}
	if live.Share < 1 {
		var world *differ.World
		if world, err = differ.NewWorld(ctx); err == nil {
			totals, err = run.Do(ctx, world)
			fmt.Printf("%d comparisons, %d differences, seed %d\n", totals.Comparisons, totals.Differences, totals.Seed)
			fmt.Printf("%d policies (%d more may not be written), %d requests denied, %d objects mutated, %d with warnings or annotations, %d with an answer of several\n",
				totals.Policies,
				totals.Rejected,
				totals.Denied,
				totals.Mutated,
				totals.Annotated,
				totals.Unordered,
			)
		}
		if err != nil {
			cancel()
		}
	}
	wait.Wait()
	if answers != nil {
		fmt.Printf("live: %d comparisons, %d differences, seed %d\n", answers.Comparisons, answers.Differences,
			answers.Seed)
		fmt.Printf("live: %d rounds, %d policies, %d more refused, %d requests denied, %d objects mutated, %d with warnings or annotations, %d with an answer of several, %d requests that no policy saw\n",
			answers.Rounds, answers.Policies, answers.Rejected, answers.Denied, answers.Mutated, answers.Annotated,
			answers.Unordered, answers.Refused)
	}
	totals.Live = answers
	return totals, errors.Join(err, liveErr)
}

func askLive(ctx context.Context, minor string, run *differ.LiveRun) (*differ.LiveTotals, error) {
	start := time.Now()
	server, err := differ.StartLive(ctx, minor)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	run.Time = max(run.Time-time.Since(start), time.Second)
	totals, err := run.Do(ctx, server)
	if err == nil && totals.Comparisons == 0 && ctx.Err() == nil {
		err = errors.New("the live server was asked nothing")
	}
	return totals, err
}
