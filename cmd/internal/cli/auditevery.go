package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/celgate/celgate/cmd/internal/report"
	"github.com/spf13/pflag"
)

// repeating is the configuration and state of an audit that repeats itself.
type repeating struct {
	every  time.Duration
	listen string                               // address of the metrics; empty: not served
	last   atomic.Pointer[[]byte]               // metrics of the last finished audit; nil: none
	ended  func(of *report.Audit, at time.Time) // called after each audit; may be nil
}

func (r *repeating) flags(f *pflag.FlagSet) {
	f.DurationVar(&r.every, "every", 0, "`DURATION` keep running and audit at this interval, such as 1h")
	f.StringVar(&r.listen, "metrics-listen", "", "`ADDRESS` serve /metrics, with the counts of the last audit,\nand /healthz here")
}

// checkEvery refuses invalid flags.
func (a *audit) checkEvery() error {
	switch r := &a.repeating; {
	case r.every == 0 && r.listen == "":
	case r.every < 0 || r.every == 0:
		return &usageError{errors.New("--metrics-listen needs --every, a duration such as 1h")}
	case a.live == (live{}):
		return &usageError{errors.New("--every needs a live cluster")}
	case a.shard.Of > 0 || a.log != "":
		return &usageError{errors.New("--every cannot be combined with --shard or --audit-log")}
	}
	return nil
}

// repeat audits until it is interrupted. A failed audit is reported, and tried again at the next interval.
func (a *audit) repeat(ctx context.Context) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	a.repeating.ended = func(of *report.Audit, at time.Time) {
		metrics := of.Metrics(at)
		a.repeating.last.Store(&metrics)
	}
	if a.listen != "" {
		server := &http.Server{Handler: a.repeating.handler(), ReadHeaderTimeout: 5 * time.Second}
		listener, err := net.Listen("tcp", a.listen)
		if err != nil {
			return err
		}
		a.say("metrics at "+listener.Addr().String(), "")
		go func() { _ = server.Serve(listener) }() // ends with Close
		defer server.Close()
	}
	next := time.NewTicker(a.every)
	defer next.Stop()
	for {
		once := *a.console
		round := &audit{apply: a.apply, deletions: a.deletions, top: a.top, last: a.last, since: a.since,
			write: a.write,
			fails: a.fails}
		round.console = &once
		round.repeating.ended = a.repeating.ended
		if err := round.runOnce(ctx); err != nil && ctx.Err() == nil {
			a.sayError(err)
		}
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

func (r *repeating) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, request *http.Request) {
		last := r.last.Load()
		if last == nil { // missing counts are not zero counts
			http.Error(w, "the first audit has not finished yet", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(*last)
	})
	return mux
}
