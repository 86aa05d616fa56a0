// Command bench compares celgate with the API server's own, unmodified admission plugins: same policies, same objects,
// one process, in turns. It prints a table and then one line per workload: ratio NAME NUMBER, the processor time of the
// plugin divided by that of celgate. Some workloads are followed by rows of their expressions alone, on evaluated
// variables: the difference is the overhead over pure CEL.
//
//	go -C bench run . [-run REGEXP] [-rounds N] [-all]
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

func main() {
	var b bench
	flag.StringVar(&b.match, "run", "", "only workloads whose name matches this `regexp`")
	flag.IntVar(&b.rounds, "rounds", 11, "how many turns each side has")
	flag.DurationVar(&b.turn, "turn", 30*time.Millisecond, "about how long one turn takes")
	flag.BoolVar(&b.all, "all", false, "with the workloads whose upstream side takes minutes to load")
	flag.Parse()
	klog.LogToStderr(false) // the plugins' informers are talkative
	klog.SetOutput(io.Discard)
	if err := b.run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	match  string
	rounds int
	turn   time.Duration
	all    bool
}

// A side is one of the two compared sides: prepare prepares n requests, outside of the measurement, and returns the
// function that answers them.
type side interface {
	prepare(n int) (func() error, error)
}

// A measurement is the time and memory of one side for one request, over its turns.
type measurement struct {
	cpu    []time.Duration
	allocs float64
	bytes  float64
}

func (m *measurement) median() time.Duration {
	sorted := slices.Sorted(slices.Values(m.cpu))
	return sorted[len(sorted)/2]
}

// spread is half the distance between the quartiles, relative to the median.
func (m *measurement) spread() float64 {
	sorted := slices.Sorted(slices.Values(m.cpu))
	quartiles := sorted[len(sorted)*3/4] - sorted[len(sorted)/4]
	return float64(quartiles) / 2 / float64(max(m.median(), 1))
}

type row struct {
	name         string
	upstream     measurement
	withUpstream bool
	ours         measurement
	floors       []floorRow
}

type floorRow struct {
	name string
	measurement
}

// ratio is how many times the plugin's time is that of m.
func (r *row) ratio(m *measurement) string {
	if !r.withUpstream {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(r.upstream.median())/float64(max(m.median(), 1)))
}

// cells are the columns of one side in the table.
func (m *measurement) cells() string {
	return fmt.Sprintf("%v\t%.0f%%\t%.0f\t%.0f", round(m.median()), 100*m.spread(), m.allocs, m.bytes)
}

func (b *bench) run(ctx context.Context, out io.Writer) error {
	selected, err := regexp.Compile(b.match)
	if err != nil {
		return err
	}
	var rows []*row
	for _, w := range workloads() {
		if !selected.MatchString(w.name) || w.slow && !b.all {
			continue
		}
		r, err := b.measure(ctx, &w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		rows = append(rows, r)
		fmt.Fprintf(os.Stderr, "%s done\n", w.name)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "workload\tplugin\t±\tallocs\tbytes\tcelgate\t±\tallocs\tbytes\tratio\t")
	const none = "-\t\t\t"
	for _, r := range rows {
		upstream := none
		if r.withUpstream {
			upstream = r.upstream.cells()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", r.name, upstream, r.ours.cells(), r.ratio(&r.ours))
		for _, f := range r.floors {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", f.name, none, f.cells(), r.ratio(&f.measurement))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if err := b.loads(out, selected); err != nil {
		return err
	}
	for _, r := range rows {
		if r.withUpstream {
			fmt.Fprintf(out, "ratio %s %s\n", r.name, r.ratio(&r.ours))
		}
	}
	return nil
}

func round(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Millisecond, 10 * time.Microsecond, time.Microsecond / 100} {
		if d > 100*unit {
			return d.Round(unit)
		}
	}
	return d
}

// measure gives both sides turns of about the same length, one after the other.
func (b *bench) measure(ctx context.Context, w *workload) (*row, error) {
	r := &row{name: w.name, withUpstream: !w.oursOnly}
	ours, err := newEngine(w)
	if err != nil {
		return nil, err
	}
	sides := []side{ours}
	results := []*measurement{&r.ours}
	if r.withUpstream {
		upstream, err := newPlugin(ctx, w)
		if err != nil {
			return nil, err
		}
		defer upstream.stop()
		sides, results = append(sides, upstream), append(results, &r.upstream)
	}
	floors, err := floors(w, ours.request.Request())
	if err != nil {
		return nil, err
	}
	r.floors = make([]floorRow, len(floors))
	for i, f := range floors {
		r.floors[i].name = f.name
		sides, results = append(sides, f), append(results, &r.floors[i].measurement)
	}
	counts := make([]int, len(sides))
	for i, s := range sides {
		if counts[i], err = b.calibrate(s); err != nil {
			return nil, err
		}
	}
	for range b.rounds {
		for i, s := range sides {
			do, err := s.prepare(counts[i])
			if err != nil {
				return nil, err
			}
			cpu, allocs, bytes, err := measureCall(do)
			if err != nil {
				return nil, err
			}
			n := counts[i]
			results[i].cpu = append(results[i].cpu, cpu/time.Duration(n))
			results[i].allocs = float64(allocs) / float64(n)
			results[i].bytes = float64(bytes) / float64(n)
		}
	}
	return r, nil
}

// calibrate finds how many requests a side answers in one turn.
func (b *bench) calibrate(s side) (int, error) {
	for n := 10; ; n *= 4 {
		do, err := s.prepare(n)
		if err != nil {
			return 0, err
		}
		cpu, _, _, err := measureCall(do)
		if err != nil {
			return 0, err
		}
		if cpu > b.turn/4 || n > 1<<14 {
			return max(1, min(1<<16, int(float64(n)*float64(b.turn)/float64(cmp.Or(cpu, 1))))), nil
		}
	}
}

// measureCall runs do and returns the processor time of the whole process, including the garbage collector, and the
// allocations.
func measureCall(do func() error) (cpu time.Duration, allocs, bytes uint64, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := processorTime()
	err = do()
	cpu = processorTime() - start
	runtime.ReadMemStats(&after)
	return cpu, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc, err
}

func processorTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return math.MinInt64
	}
	return time.Duration(t.Nano())
}
