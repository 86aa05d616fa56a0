// Command differ compares celgate with the API server's own admission plugins on random policies and objects.
//
//	go -C conformance run ./cmd/differ [-time 10m] [-seed N] [-first N] [-policies N] [-only KIND] [-record FILE]
//
// It prints every difference as a case of the corpus and ends with a line of totals; the exit status is 1 if there were
// differences.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"k8s.io/klog/v2"

	"github.com/celgate/celgate/conformance/differ"
)

func main() {
	run := differ.Run{Out: os.Stdout}
	flag.DurationVar(&run.Time, "time", time.Minute, "how long")
	flag.Uint64Var(&run.Seed, "seed", uint64(time.Now().UnixNano()), "of everything random")
	flag.IntVar(&run.Policies, "policies", 0, "end after so many policies; 0 is no limit")
	flag.IntVar(&run.Requests, "requests", 50, "requests for each policy")
	flag.Uint64Var(&run.First, "first", 0, "index of the first policy")
	flag.StringVar(&run.Only, "only", "", "only this kind, such as Pod")
	flag.IntVar(&run.Limit, "limit", 20, "end after so many differences")
	record := flag.String("record", "", "write the totals to this `file`")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Printf("seed %d\n", run.Seed)
	world, err := differ.NewWorld(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "differ:", err)
		os.Exit(2)
	}
	totals, err := run.Do(ctx, world)
	fmt.Printf("%d comparisons, %d differences, seed %d\n", totals.Comparisons, totals.Differences, totals.Seed)
	fmt.Printf("%d policies (%d more may not be written), %d requests denied, %d objects mutated, %d with warnings or annotations, %d with an answer of several\n",
		totals.Policies, totals.Rejected, totals.Denied, totals.Mutated, totals.Annotated, totals.Unordered)
	if *record != "" && err == nil {
		text, _ := json.MarshalIndent(totals, "", "  ")
		err = os.WriteFile(*record, append(text, '\n'), 0o666)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "differ:", err)
		os.Exit(2)
	case totals.Differences > 0:
		os.Exit(1)
	}
}
